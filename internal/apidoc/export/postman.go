package export

import (
	"net/http"
	"slices"
	"strings"
)

const postmanSchema = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"

func newPostmanCollection(p *plan) postmanCollection {
	c := postmanCollection{
		Info: postmanInfo{
			PostmanID: postmanID("collection", p.name), Name: p.name, Description: p.description,
			Schema: postmanSchema, Version: p.version,
		},
		Item: postmanFolders(p.folders),
		Auth: &postmanAuth{Type: "noauth"},
	}
	if p.bearer != "" {
		c.Auth = &postmanAuth{Type: "bearer", Bearer: []postmanAttribute{{"token", "{{" + p.bearer + "}}", "string"}}}
	}
	for _, v := range p.variables {
		c.Variable = append(c.Variable, postmanVariable{Key: v.name, Value: v.value, Type: "string", Description: v.description})
	}
	return c
}

func postmanFolders(folders []folder) []postmanItem {
	out := make([]postmanItem, len(folders))
	for i, f := range folders {
		items := make([]postmanItem, 0, len(f.requests))
		for j := range f.requests {
			items = append(items, newPostmanItem(&f.requests[j]))
		}
		out[i] = postmanItem{ID: postmanID("folder", f.key), Name: f.name, Description: f.description, Item: items}
	}
	return out
}

func newPostmanItem(r *request) postmanItem {
	item := postmanItem{
		ID: postmanID("request", r.key), Name: r.name,
		Event:    postmanEvents(r),
		Request:  newPostmanRequest(r),
		Response: []postmanResponse{},
	}
	if !r.follows() {
		item.Behavior = &postmanBehavior{}
	}
	for _, a := range r.answers {
		item.Response = append(item.Response, newPostmanResponse(r, a))
	}
	return item
}

func postmanEvents(r *request) []postmanEvent {
	var events []postmanEvent
	if prepare := r.prepareScript(postman); prepare != nil {
		events = append(events, postmanEvent{"prerequest", postmanScript{postmanID("prerequest", r.key), "text/javascript", prepare}})
	}
	return append(events, postmanEvent{"test", postmanScript{postmanID("test", r.key), "text/javascript", r.testScript(postman)}})
}

func newPostmanRequest(r *request) *postmanRequest {
	out := &postmanRequest{
		Method: r.method, URL: newPostmanURL(r), Description: r.description, Auth: newPostmanAuth(r.auth),
		Header: []postmanHeader{},
	}
	for _, h := range r.header {
		out.Header = append(out.Header, postmanHeader{Key: h.name, Value: h.value, Description: h.description, Disabled: h.disabled})
	}
	if r.body != nil {
		out.Body = newPostmanBody(r.body)
	}
	return out
}

// newPostmanAuth is nil for what is inherited from the collection.
func newPostmanAuth(a auth) *postmanAuth {
	if a.inherited {
		return nil
	}
	switch a.kind {
	case authBearer:
		return &postmanAuth{Type: "bearer", Bearer: []postmanAttribute{{"token", a.value, "string"}}}
	case authAPIKey:
		return &postmanAuth{Type: "apikey", APIKey: []postmanAttribute{{"key", a.name, "string"}, {"value", a.value, "string"}, {"in", a.in, "string"}}}
	case authBasic:
		return &postmanAuth{Type: "basic", Basic: []postmanAttribute{{"username", a.name, "string"}, {"password", a.value, "string"}}}
	}
	return &postmanAuth{Type: "noauth"}
}

func newPostmanURL(r *request) postmanURL {
	u := postmanURL{Host: []string{"{{" + baseURLVariable + "}}"}, Path: []string{}}
	for _, s := range r.path {
		if s.param == nil {
			u.Path = append(u.Path, s.literal)
			continue
		}
		u.Path = append(u.Path, ":"+s.param.name)
		u.Variable = append(u.Variable, postmanVariable{Key: s.param.name, Value: s.param.value, Description: s.param.description})
	}
	u.Raw = u.Host[0] + "/" + strings.Join(u.Path, "/")
	separator := "?"
	for _, q := range r.query {
		u.Query = append(u.Query, postmanQuery{q.name, q.value, q.description, q.disabled})
		if !q.disabled {
			u.Raw += separator + q.name + "=" + q.value
			separator = "&"
		}
	}
	return u
}

func newPostmanBody(b *body) *postmanBody {
	var parts []postmanPart
	for _, f := range b.form {
		p := postmanPart{Key: f.name, Value: f.value, Type: "text", Disabled: f.disabled}
		switch {
		case b.mediaType != "multipart/form-data":
			p.Type = ""
		case f.file && f.value == "":
			p.Type = "file" // to be chosen
		case f.file:
			p.FileName = f.name
		}
		parts = append(parts, p)
	}
	switch b.mediaType {
	case "multipart/form-data":
		return &postmanBody{Mode: "formdata", FormData: parts}
	case "application/x-www-form-urlencoded":
		return &postmanBody{Mode: "urlencoded", URLEncoded: parts}
	}
	out := &postmanBody{Mode: "raw", Raw: &b.text}
	if isJSON(b.mediaType) {
		out.Options = &postmanOptions{Raw: postmanRawOptions{Language: "json"}}
	}
	return out
}

func newPostmanResponse(r *request, a answer) postmanResponse {
	out := postmanResponse{
		ID: postmanID("response", r.key+" "+a.key), Name: a.name, OriginalRequest: newPostmanOriginal(r),
		Status: http.StatusText(a.status), Code: a.status, Body: a.text, Header: []postmanHeader{}, Cookie: []struct{}{},
	}
	if isJSON(a.mediaType) {
		out.PreviewLanguage = "json"
	}
	for _, h := range a.header {
		out.Header = append(out.Header, postmanHeader{Key: h.name, Value: h.value})
	}
	return out
}

// newPostmanOriginal is the request as it was sent: what only explains it, or was
// not sent, is left out.
func newPostmanOriginal(r *request) *postmanRequest {
	out := newPostmanRequest(r)
	out.Description = ""
	out.Header = slices.DeleteFunc(out.Header, func(h postmanHeader) bool { return h.Disabled })
	out.URL.Query = slices.DeleteFunc(out.URL.Query, func(q postmanQuery) bool { return q.Disabled })
	for i := range out.Header {
		out.Header[i].Description = ""
	}
	for i := range out.URL.Query {
		out.URL.Query[i].Description = ""
	}
	for i := range out.URL.Variable {
		out.URL.Variable[i].Description = ""
	}
	return out
}
