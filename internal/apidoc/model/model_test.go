package model

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/humatest"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/waypost/waypost/internal/apidoc/model/modeltest"
)

type state string

// Sample uses every kind of field and every rule.
type Sample struct {
	ID        uint       `json:"id" model:"primary" example:"7"`
	Name      string     `json:"name" model:"required,min=2,max=8" doc:"A name." example:"Ada"`
	Email     string     `json:"email" model:"required,email,unique" example:"ada@example.com"`
	State     state      `json:"state" model:"oneof=DRAFT LIVE,default=DRAFT" example:"LIVE"`
	Active    bool       `json:"active" model:"default=true" example:"true"`
	Rank      int        `json:"rank" model:"min=-3,max=9" example:"1"`
	Small     uint8      `json:"small,omitempty" example:"200"`
	Score     float64    `json:"score" model:"min=0" example:"1.5"`
	Tags      []string   `json:"tags" model:"max=2,dive,min=1,max=3" example:"go,web"`
	Note      *string    `json:"note" model:"max=5" example:"hm"`
	Label     string     `json:"label" model:"nonblank,max=4,default=new" example:"new"`
	Title     string     `json:"title" model:"line,max=4" example:"Hi"`
	Nick      string     `json:"nick" model:"line,nonblank,max=4,default=ada" example:"ada"`
	Ref       string     `json:"ref" model:"uuid,default=01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10" example:"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10"`
	Host      string     `json:"host" model:"host,max=80,default=a.example" example:"a.example"`
	LiveAt    *time.Time `json:"live_at" example:"2026-01-02T15:04:05Z"`
	Secret    string     `json:"-"`
	CreatedAt time.Time  `json:"created_at" model:"auto" example:"2026-01-02T15:04:05Z"`
}

type login struct {
	Email string `json:"email" model:"required,email" example:"ada@example.com"`
	Code  string `json:"code" model:"min=4" example:"1234"`
}

type seen struct {
	created *Sample
	has     []string
}

var stored = Sample{ID: 7, Name: "Before", Email: "b@example.com", State: "LIVE", Secret: "s", Tags: []string{"a"}, Label: "x", Nick: "x", Ref: "01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10", Host: "x", CreatedAt: time.Unix(1e9, 0).UTC()}

// serve registers one operation for each typed body. The channel-free last is
// what the handlers saw; each test has its own API.
func serve(t testing.TB) (humatest.TestAPI, *seen) {
	t.Helper()
	config := huma.DefaultConfig("Test", "1")
	config.CreateHooks = nil
	config.Formats = map[string]huma.Format{"application/json": Format(), "json": Format()}
	_, api := humatest.New(t, config)
	var last seen
	type createInput struct{ Body Create[Sample] }
	type updateInput struct{ Body Update[Sample] }
	type requestInput struct{ Body Request[login] }
	type output struct{ Body Sample }
	type plainInput struct {
		Body struct {
			Text string `json:"text"`
		}
	}
	huma.Register(api, huma.Operation{OperationID: "plain", Method: http.MethodPost, Path: "/plain", DefaultStatus: 204},
		func(context.Context, *plainInput) (*struct{}, error) { return nil, nil })
	huma.Register(api, huma.Operation{OperationID: "create", Method: http.MethodPost, Path: "/samples", DefaultStatus: 200},
		func(_ context.Context, in *createInput) (*output, error) {
			v := in.Body.Value()
			last.created = &v
			return &output{Body: v}, nil
		})
	huma.Register(api, huma.Operation{OperationID: "update", Method: http.MethodPut, Path: "/samples", DefaultStatus: 200},
		func(_ context.Context, in *updateInput) (*output, error) {
			v := stored
			in.Body.Apply(&v)
			last.has = nil
			for _, name := range []string{"id", "name", "tags"} {
				if in.Body.Has(name) {
					last.has = append(last.has, name)
				}
			}
			return &output{Body: v}, nil
		})
	huma.Register(api, huma.Operation{OperationID: "login", Method: http.MethodPost, Path: "/login", DefaultStatus: 204},
		func(_ context.Context, in *requestInput) (*struct{}, error) {
			_ = in.Body.Value().Email
			return nil, nil
		})
	return api, &last
}

func send(api humatest.TestAPI, method, path, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	api.Adapter().ServeHTTP(w, req)
	return w
}

// problems reads Huma's own error body into location and message.
func problems(t testing.TB, w *httptest.ResponseRecorder) map[string]string {
	t.Helper()
	var body struct{ Errors []huma.ErrorDetail }
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("answer %s: %v", w.Body, err)
	}
	out := map[string]string{}
	for _, e := range body.Errors {
		out[e.Location] = e.Message
	}
	return out
}

const minimal = `"name":"Ada","email":"ada@example.com"`

func TestCreateGivesTheDecodedValueWithDefaults(t *testing.T) {
	t.Parallel()
	api, last := serve(t)
	body := `{` + minimal + `,"rank":2.0,"score":1e-2,"tags":["go"],"note":null,"live_at":"2026-01-02t15:04:05+01:00"}`
	if w := send(api, "POST", "/samples", body); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	at := time.Date(2026, 1, 2, 14, 4, 5, 0, time.UTC)
	want := Sample{Name: "Ada", Email: "ada@example.com", State: "DRAFT", Active: true, Rank: 2, Score: 0.01, Tags: []string{"go"}, Label: "new", Nick: "ada",
		Ref: "01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10", Host: "a.example", LiveAt: &at}
	if diff := cmp.Diff(want, *last.created); diff != "" {
		t.Error(diff)
	}
	if w := send(api, "POST", "/samples", `{`+minimal+`,"active":false}`); w.Code != 200 || last.created.Active {
		t.Errorf("a false that was sent became the default: %d %s", w.Code, w.Body)
	}
	if last.created.Tags == nil {
		t.Error("an absent array must be empty, not null")
	}
}

func TestEveryProblemIsReportedAtItsField(t *testing.T) {
	t.Parallel()
	api, _ := serve(t)
	for name, c := range map[string]struct {
		path, body string
		want       map[string]string
	}{
		"missing and unknown":    {"/samples", `{"Name":"Ada","email":"a@b"}`, map[string]string{"body.name": "Is required.", "body.Name": "Is not a field of this request; names are case-sensitive."}},
		"generated":              {"/samples", `{` + minimal + `,"id":1}`, map[string]string{"body.id": "Is set by the server; leave it out."}},
		"hidden":                 {"/samples", `{` + minimal + `,"Secret":"x"}`, map[string]string{"body.Secret": "Is not a field of this request; names are case-sensitive."}},
		"null":                   {"/samples", `{` + minimal + `,"state":null}`, map[string]string{"body.state": "Must not be null."}},
		"not one of":             {"/samples", `{` + minimal + `,"state":"live"}`, map[string]string{"body.state": "Must be one of DRAFT, LIVE."}},
		"types":                  {"/samples", `{"name":1,"email":[],"active":"true","rank":"1","tags":{},"live_at":"soon"}`, map[string]string{"body.name": "Must be a string.", "body.email": "Must be a string.", "body.active": "Must be true or false.", "body.rank": "Must be a whole number.", "body.tags": "Must be an array.", "body.live_at": "Must be an RFC 3339 time of the years 1000 to 8999, like 2026-01-02T15:04:05Z."}},
		"limits":                 {"/samples", `{"name":"A","email":"no","rank":10,"small":256,"score":-1,"tags":["a","b","c"],"note":"123456"}`, map[string]string{"body.name": "Must have at least 2 characters.", "body.email": "Must be an e-mail address.", "body.rank": "Must be a whole number from -3 to 9.", "body.small": "Must be a whole number from 0 to 255.", "body.score": "Must be a number from 0 to 1.7976931348623157e+308.", "body.tags": "Must have at most 2 items.", "body.note": "Must have at most 5 characters."}},
		"fraction":               {"/samples", `{` + minimal + `,"rank":1.5}`, map[string]string{"body.rank": "Must be a whole number."}},
		"items":                  {"/samples", `{` + minimal + `,"tags":["",null]}`, map[string]string{"body.tags[0]": "Must have at least 1 character.", "body.tags[1]": "Must not be null."}},
		"twice":                  {"/samples", `{` + minimal + `,"name":"Bob"}`, map[string]string{"body.name": "Appears more than once."}},
		"lone surrogate":         {"/samples", `{"name":"\ud800x","email":"a@b"}`, map[string]string{"body.name": "Must be valid Unicode: it has a lone surrogate or bytes that are not UTF-8."}},
		"low surrogate first":    {"/samples", `{"name":"\udc00\ud800","email":"a@b"}`, map[string]string{"body.name": "Must be valid Unicode: it has a lone surrogate or bytes that are not UTF-8."}},
		"bad UTF-8":              {"/samples", "{\"name\":\"a\xff\",\"email\":\"a@b\"}", map[string]string{"body.name": "Must be valid Unicode: it has a lone surrogate or bytes that are not UTF-8."}},
		"NUL":                    {"/samples", `{"name":"a\u0000b","email":"a@b"}`, map[string]string{"body.name": "Must not contain the character U+0000."}},
		"no object":              {"/samples", `[1]`, map[string]string{"body": "Must be a JSON object."}},
		"null body":              {"/samples", `null`, map[string]string{"body": "Must be a JSON object."}},
		"request that is no row": {"/login", `{"code":"1"}`, map[string]string{"body.email": "Is required.", "body.code": "Must have at least 4 characters."}},
	} {
		t.Run(name, func(t *testing.T) {
			w := send(api, "POST", c.path, c.body)
			if w.Code != 422 {
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
			if diff := cmp.Diff(c.want, problems(t, w)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBrokenJSONIsMalformedNotInvalid(t *testing.T) {
	t.Parallel()
	api, _ := serve(t)
	for _, body := range []string{`{"name":`, `{} {}`, `{"name":"\u00"}`, `{"name":"\`, ``} {
		if w := send(api, "POST", "/samples", body); w.Code != 400 {
			t.Errorf("%q: status %d: %s", body, w.Code, w.Body)
		}
	}
}

func TestHostileBodyGetsABoundedAnswer(t *testing.T) {
	t.Parallel()
	api, _ := serve(t)
	var b strings.Builder
	b.WriteString(`{"` + strings.Repeat("ü", 10_000) + `":1`)
	for range 10_000 {
		b.WriteString(`,"x":1`)
	}
	b.WriteString(`,"rank":1e999999999,"score":` + strings.Repeat("9", 5000) + `}`)
	w := send(api, "POST", "/samples", b.String())
	if w.Code != 422 || w.Body.Len() > 10_000 {
		t.Errorf("status %d, %d bytes", w.Code, w.Body.Len())
	}
}

func TestPlainBodiesAreRefusedTextThatNoReaderKeeps(t *testing.T) {
	t.Parallel()
	api, _ := serve(t)
	for body, want := range map[string]int{
		`{"text":"fine \\u0000 \ud83d\ude00"}`: 204,
		`{"text":"\u0000"}`:                    422,
		`{"text":"\\\u0000"}`:                  422,
		`{"text":"\ud83d"}`:                    422,
		"{\"text\":\"\xff\"}":                  422,
		`{"text":"\u00zz"}`:                    400,
		`{"text":1e999}`:                       422,
	} {
		if w := send(api, "POST", "/plain", body); w.Code != want {
			t.Errorf("%s: status %d, want %d: %s", body, w.Code, want, w.Body)
		}
	}
}

func TestUpdateChangesOnlyWhatItCarries(t *testing.T) {
	t.Parallel()
	api, last := serve(t)
	w := send(api, "PUT", "/samples", `{"name":"After","id":99,"created_at":"2001-01-01T00:00:00Z"}`)
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	want := stored
	want.Name = "After"
	want.Secret = ""
	var got Sample
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"id", "name"}, last.has); diff != "" {
		t.Error(diff)
	}
	if w := send(api, "PUT", "/samples", `{"id":"x"}`); w.Code != 422 {
		t.Errorf("a read-only field of the wrong type: %d", w.Code)
	}
}

func TestWhatAClientReadItCanWriteBack(t *testing.T) {
	t.Parallel()
	api, _ := serve(t)
	read := send(api, "PUT", "/samples", `{}`).Body.String()
	w := send(api, "PUT", "/samples", read)
	if w.Code != 200 || w.Body.String() != read {
		t.Errorf("%d\n%s\n%s", w.Code, w.Body, read)
	}
}

func TestBadModelsAreRefused(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]any{
		"unknown rule": struct {
			A string `json:"a" model:"requird" example:"x"`
		}{},
		"rule of other type": struct {
			A bool `json:"a" model:"min=1" example:"true"`
		}{},
		"no example": struct {
			A string `json:"a" model:"required"`
		}{},
		"example breaks": struct {
			A string `json:"a" model:"max=2" example:"xxx"`
		}{},
		"default breaks": struct {
			A string `json:"a" model:"oneof=A B,default=C" example:"A"`
		}{},
		"default, required": struct {
			A string `json:"a" model:"required,default=C" example:"A"`
		}{},
		"limit over type": struct {
			A uint8 `json:"a" model:"max=300" example:"1"`
		}{},
		"odd type": struct {
			A map[string]int `json:"a"`
		}{},
		"same name": struct {
			A string `json:"B" example:"x"`
			B string `example:"x"`
		}{},
		"no struct": 1,
	} {
		if s, err := readShape(reflect.TypeOf(m)); err == nil {
			t.Errorf("%s: accepted as %v", name, s)
		}
	}
}

func TestDescribeRefusesAnotherTypesName(t *testing.T) {
	t.Parallel()
	type CreateSample struct{ A string }
	r := huma.NewMapRegistry(schemaPrefix, huma.DefaultSchemaNamer)
	r.Schema(reflect.TypeFor[CreateSample](), true, "")
	if _, err := Describe(r, reflect.TypeFor[Sample]()); err == nil {
		t.Error("a foreign CreateSample was overwritten")
	}
}

// compile makes an independent validator of a schema as it is published.
func compile(t testing.TB, r huma.Registry, name string) *jsonschema.Schema {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"components": map[string]any{"schemas": r.Map()}})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseRegexpEngine(func(p string) (jsonschema.Regexp, error) { return modeltest.CompilePattern(p) })
	if err := c.AddResource("doc.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("doc.json" + schemaPrefix + name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheThreeSchemasSayWhatTheTagsSay(t *testing.T) {
	t.Parallel()
	api, _ := serve(t)
	schemas := api.OpenAPI().Components.Schemas.Map()
	if diff := cmp.Diff([]string{"id", "name", "email", "state", "active", "rank", "score", "tags", "note", "label", "title", "nick", "ref", "host", "live_at", "created_at"}, schemas["Sample"].Required); diff != "" {
		t.Error("Sample requires", diff)
	}
	if diff := cmp.Diff([]string{"name", "email"}, schemas["CreateSample"].Required); diff != "" {
		t.Error("CreateSample requires", diff)
	}
	if got := schemas["UpdateSample"].Required; len(got) > 0 {
		t.Error("UpdateSample requires", got)
	}
	for name, wantID := range map[string]bool{"Sample": true, "CreateSample": false, "UpdateSample": true} {
		id := schemas[name].Properties["id"]
		if (id != nil) != wantID || (id != nil && !id.ReadOnly) {
			t.Errorf("%s.id: %+v", name, id)
		}
		if raw, _ := json.Marshal(schemas[name]); strings.Contains(strings.ToLower(string(raw)), "secret") {
			t.Errorf("%s shows a hidden field", name)
		}
		validator := compile(t, api.OpenAPI().Components.Schemas, name)
		if err := validator.Validate(schemas[name].Examples[0]); err != nil {
			t.Errorf("the example of %s breaks its schema: %v", name, err)
		}
	}
	if got := schemas["CreateSample"].Properties["state"].Default; got != "DRAFT" {
		t.Errorf("default %v", got)
	}
	if schemas["LoginRequest"] == nil {
		t.Error("LoginRequest is missing")
	}
	body := api.OpenAPI().Paths["/samples"].Post.RequestBody.Content["application/json"].Schema
	if raw, _ := json.Marshal(body); string(raw) != `{"$ref":"#/components/schemas/CreateSample"}` {
		t.Errorf("body schema %s", raw)
	}
}

// Patterns are printed into the source code of clients, where a raw line separator
// ends a line.
func TestPatternsArePrintable(t *testing.T) {
	t.Parallel()
	api, _ := serve(t)
	found := 0
	for name, schema := range api.OpenAPI().Components.Schemas.Map() {
		for field, property := range schema.Properties {
			if property.Pattern == "" {
				continue
			}
			found++
			if i := strings.IndexFunc(property.Pattern, func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 {
				t.Errorf("%s.%s has a raw character at %d: %+q", name, field, i, property.Pattern)
			}
			if _, err := modeltest.CompilePattern(property.Pattern); err != nil {
				t.Errorf("%s.%s: %v", name, field, err)
			}
		}
	}
	if found == 0 {
		t.Error("there is no pattern")
	}
}

// What was stored before there was the rule is still read, and read by clients that
// check answers.
func TestAResponseMayHoldWhatNoRequestMay(t *testing.T) {
	t.Parallel()
	api, _ := serve(t)
	schemas := api.OpenAPI().Components.Schemas.Map()
	for _, field := range []string{"title", "nick"} {
		for name, want := range map[string]bool{"Sample": true, "CreateSample": false, "UpdateSample": false} {
			pattern, err := modeltest.CompilePattern(schemas[name].Properties[field].Pattern)
			if err != nil {
				t.Fatal(err)
			}
			if got := pattern.MatchString("a\nb"); got != want {
				t.Errorf("%s.%s takes two lines: %v, want %v", name, field, got, want)
			}
		}
	}
}
