package export

import "strings"

func newInsomniaFile(p *plan) insomniaFile {
	return insomniaFile{
		Type: "collection.insomnia.rest/5.0", SchemaVersion: "5.1", Name: p.name,
		Meta:       insomniaMeta{ID: insomniaID("wrk", p.name), Description: p.description},
		Collection: insomniaItems(p.folders),
		Environments: insomniaEnvironment{
			Name: "Base Environment", Meta: insomniaMeta{ID: insomniaID("env", p.name)}, Data: insomniaData(p),
		},
	}
}

func insomniaItems(folders []folder) []insomniaItem {
	out := make([]insomniaItem, len(folders))
	for i, f := range folders {
		children := make([]insomniaItem, 0, len(f.requests))
		for j := range f.requests {
			children = append(children, newInsomniaItem(&f.requests[j], *sortKey(j)))
		}
		out[i] = insomniaItem{
			Name: f.name, Meta: insomniaMeta{ID: insomniaID("fld", f.key), Description: f.description, SortKey: *sortKey(i)},
			Children: children,
		}
	}
	return out
}

func newInsomniaItem(r *request, key int) insomniaItem {
	item := insomniaItem{
		Name: r.name, Meta: insomniaMeta{ID: insomniaID("req", r.key), Description: r.description, SortKey: key},
		Method: r.method, URL: insomniaURL(r, namedPath),
		Parameters: insomniaPairs(r.query), Headers: insomniaPairs(r.header),
		Authentication: newInsomniaAuth(r.auth),
		Scripts: &insomniaScripts{
			PreRequest:    strings.Join(r.prepareScript(insomnia), "\n"),
			AfterResponse: strings.Join(r.testScript(insomnia), "\n"),
		},
	}
	for _, s := range r.path {
		if s.param != nil {
			item.PathParameters = append(item.PathParameters, insomniaPathValue{s.param.name, forInsomnia(s.param.value)})
		}
	}
	if r.body != nil {
		item.Body = newInsomniaBody(r.body)
	}
	if !r.follows() {
		item.Settings = &insomniaSettings{
			RenderRequestBody: true, EncodeURL: true, FollowRedirects: "off", RebuildPath: true,
			Cookies: insomniaCookies{Send: true, Store: true},
		}
	}
	return item
}
