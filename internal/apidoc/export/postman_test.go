package export_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// The collection format once more, from its schema alone: what it requires is
// checked by hand, what it doesn't know fails to decode.
type (
	collection struct {
		Info struct {
			PostmanID                          string `json:"_postman_id"`
			Name, Description, Version, Schema string
		}
		Item     []item
		Auth     *auth
		Variable []variable
	}
	item struct {
		ID, Name, Description   string
		Item                    []item
		Event                   []event
		Request                 *request
		Response                []response
		ProtocolProfileBehavior struct{ FollowRedirects *bool }
	}
	event struct {
		Listen string
		Script struct {
			ID, Type string
			Exec     []string
		}
	}
	request struct {
		Method, Description string
		URL                 struct {
			Raw        string
			Host, Path []string
			Query      []variable
			Variable   []variable
		}
		Auth   *auth
		Header []variable
		Body   *struct {
			Mode       string
			Raw        string
			FormData   []variable
			URLEncoded []variable
			Options    struct{ Raw struct{ Language string } }
		}
	}
	variable struct {
		Key, Value, Type, Description, FileName string
		Disabled                                bool
	}
	auth struct {
		Type                  string
		Bearer, APIKey, Basic []variable
	}
	response struct {
		ID, Name, Status, Body string
		OriginalRequest        *request
		Code                   int
		PreviewLanguage        string `json:"_postman_previewlanguage"`
		Header                 []variable
		Cookie                 []any
	}
)

func requestsOf(items []item) []item {
	var out []item
	for _, i := range items {
		if i.Request != nil {
			out = append(out, i)
		}
		out = append(out, requestsOf(i.Item)...)
	}
	return out
}

func bookshopRequests(t *testing.T) map[string]item {
	t.Helper()
	out := map[string]item{}
	for _, i := range requestsOf(decoded[collection](t, postman, bookshop(t), strictJSON).Item) {
		out[i.Name] = i
	}
	return out
}

func TestACollectionHasTheShapeThatPostmanReads(t *testing.T) {
	t.Parallel()
	c := decoded[collection](t, postman, bookshop(t), strictJSON)
	if c.Info.Name != "Bookshop API" || c.Info.Version != "2.3.0" || c.Info.Description != "Sells **books** & more." ||
		c.Info.Schema != "https://schema.getpostman.com/json/collection/v2.1.0/collection.json" {
		t.Errorf("info %+v", c.Info)
	}
	ids := []string{c.Info.PostmanID}
	var walk func(items []item)
	walk = func(items []item) {
		for _, i := range items {
			ids = append(ids, i.ID)
			if (i.Request == nil) == (len(i.Item) == 0) || i.Name == "" {
				t.Errorf("%q is neither a folder nor a request", i.Name)
			}
			walk(i.Item)
			for _, e := range i.Event {
				ids = append(ids, e.Script.ID)
				if e.Listen != "test" && e.Listen != "prerequest" || e.Script.Type != "text/javascript" || len(e.Script.Exec) == 0 {
					t.Errorf("%s: event %+v", i.Name, e)
				}
			}
			for _, r := range i.Response {
				ids = append(ids, r.ID)
				if r.OriginalRequest == nil || r.Code == 0 || r.Status == "" || r.Name == "" {
					t.Errorf("%s: response %+v", i.Name, r)
				}
			}
		}
	}
	walk(c.Item)
	noDuplicates(t, ids)
	for _, id := range ids {
		if parsed, err := uuid.Parse(id); err != nil || parsed.Version() != 5 {
			t.Errorf("id %q: %v", id, err)
		}
	}
}

func TestFoldersAreTagsWithTheirDescriptionsAndWhatDestroysComesLast(t *testing.T) {
	t.Parallel()
	c := decoded[collection](t, postman, bookshop(t), strictJSON)
	got := map[string]string{}
	var order []string
	for _, f := range c.Item {
		order = append(order, f.Name)
		got[f.Name] = f.Description
	}
	if diff := cmp.Diff([]string{"Sessions", "Deliveries", "Books", "Files", "Extra", "Other", "Removal and sign-out"}, order); diff != "" {
		t.Error(diff)
	}
	if got["Books"] != "What is for sale." || got["Extra"] != "" {
		t.Errorf("descriptions %v", got)
	}
	last := c.Item[len(c.Item)-1].Item
	if len(last) != 2 || last[0].Name != "Remove a book" || last[1].Name != "Sign out" {
		t.Errorf("last folder %+v", last)
	}
}

func TestWhatIsInsideIsRemovedBeforeWhatHoldsIt(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{
		"/a":{"post":{},"get":{}},"/a/{id}":{"delete":{},"get":{}},"/a/{id}/b/{bid}":{"delete":{},"get":{}},"/z":{"get":{"x-waypost-export":{"order":200}}}}}`)
	var got []string
	for _, i := range requestsOf(decoded[collection](t, postman, raw, strictJSON).Item) {
		got = append(got, i.Name)
	}
	want := []string{"get /a", "post /a", "get /a/{id}", "get /a/{id}/b/{bid}", "delete /a/{id}/b/{bid}", "delete /a/{id}", "get /z"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAuthIsSetOnceAndInherited(t *testing.T) {
	t.Parallel()
	c := decoded[collection](t, postman, bookshop(t), strictJSON)
	if diff := cmp.Diff(&auth{Type: "bearer", Bearer: []variable{{Key: "token", Value: "{{accessToken}}", Type: "string"}}}, c.Auth); diff != "" {
		t.Error(diff)
	}
	attribute := func(pairs ...string) []variable {
		var out []variable
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, variable{Key: pairs[i], Value: pairs[i+1], Type: "string"})
		}
		return out
	}
	requests := bookshopRequests(t)
	for name, want := range map[string]*auth{
		"List books":                nil, // the description's default
		"set-motd":                  nil,
		"Sign in":                   {Type: "noauth"},
		"Receive a delivery (post)": {Type: "noauth"}, // it signs itself
		"One book":                  {Type: "apikey", APIKey: attribute("key", "X-Shop-Key", "value", "{{shopApiKey}}", "in", "header")},
		"Search":                    {Type: "basic", Basic: attribute("username", "{{staffUser}}", "password", "{{staffPassword}}")},
	} {
		if diff := cmp.Diff(want, requests[name].Request.Auth); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestVariablesStartWithTheAddressAndSecretsAreEmpty(t *testing.T) {
	t.Parallel()
	c := decoded[collection](t, postman, bookshop(t), strictJSON)
	var names []string
	for _, v := range c.Variable {
		names = append(names, v.Key)
		if v.Type != "string" || v.Key != "baseUrl" && v.Value != "" {
			t.Errorf("%+v", v)
		}
	}
	if diff := cmp.Diff([]string{"baseUrl", "accessToken", "email", "password", "postSecret", "bookId", "signature", "shopApiKey", "staffPassword", "staffUser"}, names); diff != "" {
		t.Error(diff)
	}
	if c.Variable[0].Value != "https://books.example/v1" || c.Variable[4].Description != "Signs deliveries." {
		t.Errorf("%+v", c.Variable[:5])
	}
	used := map[string]bool{}
	for _, i := range requestsOf(c.Item) {
		for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(textOf(i.Request), -1) {
			used[m[1]] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if !slices.Contains(names, name) {
			t.Errorf("%s is used and not declared", name)
		}
	}
}

func textOf(r *request) string {
	text := r.URL.Raw
	for _, v := range slices.Concat(r.URL.Variable, r.URL.Query, r.Header) {
		text += " " + v.Value
	}
	if r.Auth != nil {
		for _, v := range slices.Concat(r.Auth.APIKey, r.Auth.Basic) {
			text += " " + v.Value
		}
	}
	if r.Body != nil {
		text += r.Body.Raw
	}
	return text
}

func TestParametersAreVariablesWithDescriptions(t *testing.T) {
	t.Parallel()
	requests := bookshopRequests(t)
	list := requests["List books"].Request
	wantQuery := []variable{
		{Key: "limit", Value: "20", Description: "Rows.", Disabled: true},
		{Key: "shelf", Value: "new", Description: "Where it stands."},
		{Key: "tags", Value: "go,sql & more", Description: "All of these.", Disabled: true},
	}
	if diff := cmp.Diff(wantQuery, list.URL.Query); diff != "" {
		t.Error(diff)
	}
	if list.URL.Raw != "{{baseUrl}}/books?shelf=new" {
		t.Errorf("raw %s", list.URL.Raw)
	}
	wantHeader := []variable{{Key: "X-Trace", Value: "t1", Description: "For logs.", Disabled: true}, {Key: "Accept", Value: "application/json"}}
	if diff := cmp.Diff(wantHeader, list.Header); diff != "" {
		t.Error(diff)
	}
	one := requests["One book"].Request.URL
	if diff := cmp.Diff([]variable{{Key: "id", Value: "{{bookId}}", Description: "The book's id."}}, one.Variable); diff != "" {
		t.Error(diff)
	}
	if one.Raw != "{{baseUrl}}/books/:id" || !slices.Equal(one.Path, []string{"books", ":id"}) {
		t.Errorf("%+v", one)
	}
	if cover := requests["Upload a cover"].Request.URL; cover.Raw != "{{baseUrl}}/books/:id/cover.png" || cover.Variable[0].Value != "7" {
		t.Errorf("%+v", cover)
	}
}

func TestBodiesAreTheExamplesChangedAsHintsSay(t *testing.T) {
	t.Parallel()
	requests := bookshopRequests(t)
	for name, want := range map[string]string{
		"Sign in":                   "{\n  \"email\": \"{{email}}\",\n  \"password\": \"{{password}}\"\n}",
		"Add a book":                "{\n  \"isbn\": \"978-{{$timestamp}}\",\n  \"price\": 12.50,\n  \"title\": \"Maps <of> & more\"\n}",
		"Receive a delivery (post)": "{\n  \"id\": \"{{$guid}}\",\n  \"weight\": 2.50\n}",
		"Receive from the courier":  "{\n  \"parcel\": 1\n}",
		"set-motd":                  "Hello",
	} {
		if b := requests[name].Request.Body; b == nil || b.Mode != "raw" || b.Raw != want {
			t.Errorf("%s: %+v", name, b)
		}
	}
	wantParts := []variable{
		{Key: "caption", Value: "Front", Type: "text"},
		{Key: "image", Value: "not really a picture", Type: "text", FileName: "image"},
		{Key: "note", Type: "text", Disabled: true},
	}
	if diff := cmp.Diff(wantParts, requests["Upload a cover"].Request.Body.FormData); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]variable{{Key: "page", Value: "2"}, {Key: "q", Value: "maps & more"}}, requests["Search"].Request.Body.URLEncoded); diff != "" {
		t.Error(diff)
	}
	if requests["List books"].Request.Body != nil {
		t.Error("a GET has a body")
	}
}

func TestEveryDocumentedAnswerIsSaved(t *testing.T) {
	t.Parallel()
	requests := bookshopRequests(t)
	got := map[string]string{}
	for _, r := range requests["One book"].Response {
		got[r.Name] = r.Body
	}
	want := map[string]string{
		"200 OK: plain":    "{\n  \"id\": 7\n}",
		"200 OK: With all": "{\n  \"id\": 8,\n  \"title\": \"Maps\"\n}",
		"404 Not Found":    "{\n  \"error\": \"not_found\"\n}",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	signedIn := requests["Sign in"].Response[0]
	if diff := cmp.Diff([]variable{{Key: "Content-Type", Value: "application/json"}, {Key: "Cache-Control", Value: "no-store"}}, signedIn.Header); diff != "" {
		t.Error(diff)
	}
	if original := requests["List books"].Response[0].OriginalRequest; len(original.URL.Query) != 1 || len(original.Header) != 1 || original.Description != "" {
		t.Errorf("the original request has what was not sent: %+v", original)
	}
	if gone := requests["Remove a book"].Response[0]; gone.Code != 204 || gone.Body != "" || gone.Status != "No Content" {
		t.Errorf("%+v", gone)
	}
}

func script(i item, listen string) string {
	for _, e := range i.Event {
		if e.Listen == listen {
			return strings.Join(e.Script.Exec, "\n")
		}
	}
	return ""
}

func TestScriptsCheckTheStatusStoreVariablesAndSign(t *testing.T) {
	t.Parallel()
	requests := bookshopRequests(t)
	for name, want := range map[string]string{
		"Sign in":            `pm.test("gives accessToken", () => {`,
		"Add a book":         `const value = pm.response.json()?.data?.id;`,
		"Remove a book":      `to.be.oneOf([204])`,
		"Search":             `to.be.oneOf([303])`,
		"Message of the day": `to.be.below(400)`,
	} {
		if got := script(requests[name], "test"); !strings.Contains(got, want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	for name, i := range requests {
		if script(i, "test") == "" {
			t.Errorf("%s is not checked", name)
		}
		if signs := script(i, "prerequest") != ""; signs != (name == "Receive a delivery (post)") {
			t.Errorf("%s: signs %t", name, signs)
		}
		stays := i.ProtocolProfileBehavior.FollowRedirects != nil && !*i.ProtocolProfileBehavior.FollowRedirects
		if stays != (name == "Search") {
			t.Errorf("%s follows redirects: %t", name, !stays)
		}
	}
	sign := script(requests["Receive a delivery (post)"], "prerequest")
	for _, want := range []string{
		`pm.variables.replaceIn("{{postSecret}}")`, "HmacSHA256(`${timestamp}.${body}`, secret)",
		"{ key: \"X-Post-Signature\", value: `t=${timestamp},v1=${hmac}` }",
	} {
		if !strings.Contains(sign, want) {
			t.Errorf("%s lacks %s", sign, want)
		}
	}
	for _, h := range requests["Receive a delivery (post)"].Request.Header {
		if h.Key == "X-Post-Signature" {
			t.Error("the signature is there before the script made it")
		}
	}
}

// TestAFilterIsWrittenMemberByMember, as servers read it.
func TestAFilterIsWrittenMemberByMember(t *testing.T) {
	t.Parallel()
	const described = `{"openapi": "3.1.0", "info": {"title": "Rooms", "version": "1"}, "paths": {"/rooms": {"get": {"operationId": "rooms", "tags": ["Rooms"], "responses": {"200": {}},
		"parameters": [{"in": "query", "name": "filter", "style": "deepObject", "explode": true, "schema": {"type": "object"}, "example": {"floor": 2, "city": "Porto"}}]}}}}`
	c := decoded[collection](t, postman, []byte(described), strictJSON)
	var got []string
	for _, i := range requestsOf(c.Item) {
		for _, q := range i.Request.URL.Query {
			got = append(got, q.Key+"="+q.Value)
		}
	}
	if diff := cmp.Diff([]string{"filter[city]=Porto", "filter[floor]=2"}, got); diff != "" {
		t.Error(diff)
	}
}
