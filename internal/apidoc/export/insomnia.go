package export

import (
	"net/url"
	"strings"
)

// exportDate is fixed, so that equal descriptions give equal exports.
const exportDate = "1970-01-01T00:00:00.000Z"

func newInsomniaExport(p *plan) insomniaExport {
	workspace := insomniaID("wrk", p.name)
	out := insomniaExport{
		Type: "export", Format: 4, Date: exportDate,
		Source: strings.ToLower(strings.Join(strings.Fields(p.name), "-")) + ":v" + p.version,
	}
	out.Resources = append(out.Resources,
		insomniaResource{ID: workspace, Type: "workspace", Name: p.name, Description: p.description, Scope: "collection"},
		insomniaResource{ID: insomniaID("env", p.name), Type: "environment", Parent: &workspace, Name: "Base Environment", Data: insomniaData(p)},
	)
	out.addFolders(p.folders, workspace)
	return out
}

func insomniaData(p *plan) map[string]string {
	data := map[string]string{}
	for _, v := range p.variables {
		data[v.name] = v.value
	}
	return data
}

func (e *insomniaExport) addFolders(folders []folder, parent string) {
	for i, f := range folders {
		id := insomniaID("fld", f.key)
		e.Resources = append(e.Resources, insomniaResource{
			ID: id, Type: "request_group", Parent: &parent, Name: f.name, Description: f.description,
			Environment: map[string]string{}, SortKey: sortKey(i),
		})
		for j := range f.requests {
			e.Resources = append(e.Resources, newInsomniaResource(&f.requests[j], id, sortKey(j)))
		}
	}
}

// sortKey keeps the order of requests; the application sorts by it, ascending.
func sortKey(i int) *int {
	key := (i + 1) * 100
	return &key
}

func newInsomniaResource(r *request, parent string, key *int) insomniaResource {
	yes, no := true, false
	out := insomniaResource{
		ID: insomniaID("req", r.key), Type: "request", Parent: &parent, Name: r.name, Description: describeWithPath(r), SortKey: key,
		Method: r.method, URL: insomniaURL(r, inlinePath),
		Parameters: insomniaPairs(r.query), Headers: insomniaPairs(r.header),
		Body: newInsomniaBody(r.body), Authentication: newInsomniaAuth(r.auth),
		StoreCookies: &yes, SendCookies: &yes, RawBody: &no, EncodeURL: &yes, RebuildPath: &yes, FollowRedirects: "global",
		PreRequestScript:    strings.Join(r.prepareScript(insomnia), "\n"),
		AfterResponseScript: strings.Join(r.testScript(insomnia), "\n"),
	}
	if !r.follows() {
		out.FollowRedirects = "off"
	}
	return out
}

// insomniaURL is the address with each path parameter as part says.
func insomniaURL(r *request, part func(*field) string) string {
	out := "{{ _." + baseURLVariable + " }}"
	for _, s := range r.path {
		if s.param != nil {
			out += "/" + part(s.param)
		} else {
			out += "/" + s.literal
		}
	}
	return out
}

// inlinePath puts a path parameter's value itself into the address: versions of
// the application before 9 have nothing else.
func inlinePath(p *field) string {
	if placeholder.MatchString(p.value) {
		return forInsomnia(p.value)
	}
	return url.PathEscape(p.value)
}

func namedPath(p *field) string { return ":" + p.name }

// describeWithPath adds what the address alone doesn't say of its parts.
func describeWithPath(r *request) string {
	text := r.description
	separator := "\n\n"
	for _, s := range r.path {
		if s.param != nil {
			text += separator + "- Path: `" + s.param.name + "`: " + s.param.description
			separator = "\n"
		}
	}
	return strings.TrimSpace(text)
}

func insomniaPairs(fields []field) []insomniaPair {
	out := make([]insomniaPair, len(fields))
	for i, f := range fields {
		out[i] = insomniaPair{Name: f.name, Value: forInsomnia(f.value), Description: f.description, Disabled: f.disabled}
	}
	return out
}

func newInsomniaBody(b *body) *insomniaBody {
	if b == nil {
		return &insomniaBody{}
	}
	if b.form == nil {
		text := forInsomnia(b.text)
		return &insomniaBody{MIMEType: b.mediaType, Text: &text}
	}
	out := &insomniaBody{MIMEType: b.mediaType}
	for _, f := range b.form {
		part := insomniaPair{Name: f.name, Value: forInsomnia(f.value), Disabled: f.disabled}
		if f.file && f.value == "" {
			part.Type = "file"
		} else if f.file {
			part.Type, part.FileName = "text", f.name
		}
		out.Params = append(out.Params, part)
	}
	return out
}

func newInsomniaAuth(a auth) *insomniaAuth {
	switch a.kind {
	case authBearer:
		return &insomniaAuth{Type: "bearer", Token: forInsomnia(a.value)}
	case authAPIKey:
		where := "header"
		if a.in == "query" {
			where = "queryParams"
		}
		return &insomniaAuth{Type: "apikey", Key: a.name, Value: forInsomnia(a.value), AddTo: where}
	case authBasic:
		return &insomniaAuth{Type: "basic", Username: forInsomnia(a.name), Password: forInsomnia(a.value)}
	}
	return &insomniaAuth{Type: "none"}
}
