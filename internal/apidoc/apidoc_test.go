package apidoc

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/waypost/waypost/internal/apidoc/model"
)

type Article struct {
	ID        uint      `json:"id" model:"primary" example:"7"`
	Title     string    `json:"title" model:"required,min=2" doc:"Headline: yes, \"quoted\" & <b>bold</b>." example:"Hello"`
	CreatedAt time.Time `json:"created_at" model:"auto" example:"2026-01-02T15:04:05Z"`
}

type Picture struct {
	ID  uint   `json:"id" model:"primary" example:"1"`
	URL string `json:"url" model:"required" example:"https://example.com/a.png"`
}

type orphan struct {
	Lost string `json:"lost"`
}

type articleOutput struct{ Body Article }

// live registers a small API on a mux. It has operations that the tests exclude.
func live(t testing.TB) (*http.ServeMux, huma.API) {
	t.Helper()
	mux := http.NewServeMux()
	config := huma.DefaultConfig("ignored", "0")
	config.CreateHooks, config.OpenAPIPath, config.DocsPath = nil, "", ""
	config.Formats = map[string]huma.Format{"application/json": model.Format(), "json": model.Format()}
	config.Servers = []*huma.Server{{URL: "https://api.example.com/v1"}}
	config.Tags = []*huma.Tag{{Name: "Articles", Description: "Texts."}, {Name: "Unused", Description: "None."}}
	api := humago.New(mux, config)
	get := func(id, path, tag string) {
		huma.Register(api, huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Tags: []string{tag}, Summary: id},
			func(context.Context, *struct{}) (*articleOutput, error) { return &articleOutput{}, nil })
	}
	get("get-article", "/api/articles/{id}", "Articles")
	get("admin-users", "/api/admin/users", "Admin")
	get("admin-deep", "/api/admin/users/deep/down", "Admin")
	get("admin", "/api/admin", "Admin")
	huma.Register(api, huma.Operation{OperationID: "create-article", Method: http.MethodPost, Path: "/api/articles", Tags: []string{"Articles"}, Summary: "Create"},
		func(_ context.Context, in *struct{ Body model.Create[Article] }) (*articleOutput, error) {
			return &articleOutput{Body: in.Body.Value()}, nil
		})
	huma.Register(api, huma.Operation{OperationID: "hidden", Method: http.MethodGet, Path: "/hidden", Hidden: true},
		func(context.Context, *struct{}) (*struct{ Body orphan }, error) { return nil, nil })
	return mux, api
}

func newDocs(t testing.TB, o Options) *Docs {
	t.Helper()
	if o.API == nil {
		_, api := live(t)
		o.API = api.OpenAPI()
	}
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

type parsed struct {
	OpenAPI string
	Info    struct{ Title, Version, Description string }
	Tags    []struct{ Name, Description string }
	Paths   map[string]map[string]struct {
		OperationID string
		Summary     string
		Tags        []string
		Parameters  []struct{ Name, In string }
		Responses   map[string]any
	}
	Components struct {
		Schemas         map[string]any
		SecuritySchemes map[string]map[string]any
	}
}

func parse(t testing.TB, d *Docs) parsed {
	t.Helper()
	raw, err := d.Bytes(JSON)
	if err != nil {
		t.Fatal(err)
	}
	var p parsed
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func TestDefaultsAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	p := parse(t, newDocs(t, Options{}))
	if p.Info.Title != "API Documentation" || p.Info.Version != "1.0.0" || p.Info.Description != "" || p.OpenAPI != "3.1.0" {
		t.Errorf("%+v", p.Info)
	}
	if len(p.Components.SecuritySchemes) > 0 {
		t.Errorf("security schemes nobody asked for: %v", p.Components.SecuritySchemes)
	}
	got := newDocs(t, Options{}).o
	if got.Prefix != "/docs" || got.Theme != "kepler" || got.UI != Alternate {
		t.Errorf("%+v", got)
	}
}

func TestOptionsReachTheDescription(t *testing.T) {
	t.Parallel()
	p := parse(t, newDocs(t, Options{Title: "T", Version: "3", Description: "# D", Auth: BearerJWT()}))
	if diff := cmp.Diff(map[string]map[string]any{"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}}, p.Components.SecuritySchemes); diff != "" {
		t.Error(diff)
	}
	if p.Info.Title != "T" || p.Info.Version != "3" || p.Info.Description != "# D" {
		t.Errorf("%+v", p.Info)
	}
}

func TestContradictoryOptionsAreRefused(t *testing.T) {
	t.Parallel()
	_, api := live(t)
	for name, o := range map[string]Options{
		"no api":      {},
		"prefix":      {API: api.OpenAPI(), Prefix: "docs"},
		"root":        {API: api.OpenAPI(), Prefix: "/"},
		"theme":       {API: api.OpenAPI(), Theme: "keppler"},
		"ui":          {API: api.OpenAPI(), UI: 7},
		"auth":        {API: api.OpenAPI(), Auth: Auth{Name: "x"}},
		"model":       {API: api.OpenAPI(), Models: []any{1}},
		"nil model":   {API: api.OpenAPI(), Models: []any{nil}},
		"odd model":   {API: api.OpenAPI(), Models: []any{struct{ C chan int }{}}},
		"exclusion":   {API: api.OpenAPI(), ExcludeRoutes: []string{"api/*"}},
		"empty route": {API: api.OpenAPI(), ExcludePrefixes: []string{""}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestExcludedRoutesAndWhatOnlyTheyUsedAreGone(t *testing.T) {
	t.Parallel()
	all := []string{"/api/admin", "/api/admin/users", "/api/admin/users/deep/down", "/api/articles", "/api/articles/{id}"}
	for name, c := range map[string]struct {
		o    Options
		want []string
	}{
		"nothing":           {Options{}, all},
		"star, one segment": {Options{ExcludeRoutes: []string{"/api/admin/*"}}, []string{all[0], all[2], all[3], all[4]}},
		"star in a word":    {Options{ExcludeRoutes: []string{"/api/a*n"}}, all[1:]},
		"two stars":         {Options{ExcludeRoutes: []string{"/api/admin/**"}}, all[3:]},
		"two stars inside":  {Options{ExcludeRoutes: []string{"/api/**/down"}}, []string{all[0], all[1], all[3], all[4]}},
		"parameter":         {Options{ExcludeRoutes: []string{"/api/articles/*"}}, all[:4]},
		"literal dot":       {Options{ExcludeRoutes: []string{"/api.admin"}}, all},
		"prefix":            {Options{ExcludePrefixes: []string{"/api/ad"}}, all[3:]},
		"everything":        {Options{ExcludeRoutes: []string{"**"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := parse(t, newDocs(t, c.o))
			if diff := cmp.Diff(c.want, keys(p.Paths)); diff != "" {
				t.Error(diff)
			}
			_, hasSchema := p.Components.Schemas["CreateArticle"]
			if hasSchema != slices.Contains(c.want, "/api/articles") {
				t.Error("CreateArticle is there:", hasSchema)
			}
			for _, tag := range p.Tags {
				if tag.Name == "Unused" || (name == "everything") {
					t.Errorf("tag %s has no operation", tag.Name)
				}
			}
		})
	}
}

func TestASchemaIsThereWhenARouteOrModelsHasIt(t *testing.T) {
	t.Parallel()
	if got := keys(parse(t, newDocs(t, Options{})).Components.Schemas); !slices.Contains(got, "Article") || slices.Contains(got, "Picture") || slices.Contains(got, "Orphan") || slices.Contains(got, "UpdateArticle") {
		t.Errorf("without Models: %v", got)
	}
	got := keys(parse(t, newDocs(t, Options{Models: []any{Picture{}}})).Components.Schemas)
	for _, want := range []string{"Picture", "CreatePicture", "UpdatePicture", "Article"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing: %v", want, got)
		}
	}
}

func TestPlainRoutesAppearWithWhatTheirPathSays(t *testing.T) {
	t.Parallel()
	p := parse(t, newDocs(t, Options{ExcludeRoutes: []string{"/internal/**"}, Routes: []Route{
		{Method: "POST", Path: "/hooks/{provider}"}, {Method: "GET", Path: "/files/{id:[0-9]{1,3}}/*"}, {Method: "GET", Path: "/"}, {Method: "HEAD", Path: "/"}, {Method: "GET", Path: "/internal/x"},
		{Method: "GET", Path: "/docs"}, {Method: "GET", Path: "/docs/openapi.json"}, {Method: "GET", Path: "/api/articles/{number}"}, {Method: "DELETE", Path: "/api/articles/{number}"}, {Method: "GET", Path: "/get-article"}, {Method: "GET", Path: "/get/article"},
	}}))
	want := []string{"/", "/api/admin", "/api/admin/users", "/api/admin/users/deep/down", "/api/articles", "/api/articles/{id}", "/files/{id}/{path}", "/get-article", "/get/article", "/hooks/{provider}"}
	if diff := cmp.Diff(want, keys(p.Paths)); diff != "" {
		t.Fatal(diff)
	}
	if got := p.Paths["/api/articles/{id}"]["get"].OperationID; got != "get-article" {
		t.Errorf("a declared operation was replaced by %s", got)
	}
	hook := p.Paths["/hooks/{provider}"]["post"]
	if hook.Summary != "Post hooks by provider" || hook.Tags[0] != "hooks" || len(hook.Parameters) != 1 || hook.Parameters[0].Name != "provider" || len(hook.Responses) == 0 {
		t.Errorf("%+v", hook)
	}
	if got := p.Paths["/api/articles/{id}"]["delete"]; got.Tags[0] != "Articles" {
		t.Errorf("the tag's own spelling is lost: %+v", got)
	}
	ids := map[string]bool{}
	for path, item := range p.Paths {
		for method, op := range item {
			if ids[op.OperationID] || op.OperationID == "" {
				t.Errorf("%s %s: operationId %q again", method, path, op.OperationID)
			}
			ids[op.OperationID] = true
			for _, name := range op.Tags {
				if name != "Admin" && !slices.ContainsFunc(p.Tags, func(tag struct{ Name, Description string }) bool { return tag.Name == name && tag.Description != "" }) {
					t.Errorf("tag %s is not described", name)
				}
			}
		}
	}
}

func TestBothFormsAreOneDocumentAndStable(t *testing.T) {
	t.Parallel()
	o := Options{Description: "A: b\n- c # d\n\n  e", Models: []any{Picture{}}, Routes: []Route{{Method: "GET", Path: "/x"}}}
	first := newDocs(t, o)
	a, _ := first.Bytes(JSON)
	y, _ := first.Bytes(YAML)
	for range 9 {
		again := newDocs(t, o)
		if b, _ := again.Bytes(JSON); !bytes.Equal(a, b) {
			t.Fatal("JSON differs between two runs")
		}
		if b, _ := again.Bytes(YAML); !bytes.Equal(y, b) {
			t.Fatal("YAML differs between two runs")
		}
	}
	var fromJSON, fromYAML any
	if err := json.Unmarshal(a, &fromJSON); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(y, &fromYAML); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(normal(fromJSON), normal(fromYAML)); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(string(a), "{\n \"openapi\"") || !strings.HasPrefix(string(y), "openapi: ") {
		t.Errorf("%.40s %.40s", a, y)
	}
}

func TestDescribingLeavesTheLiveOperationsAlone(t *testing.T) {
	t.Parallel()
	_, api := live(t)
	before, _ := json.Marshal(api.OpenAPI().Paths)
	newDocs(t, Options{API: api.OpenAPI(), ExcludeRoutes: []string{"/api/**"}, Routes: []Route{{Method: "GET", Path: "/api/articles"}}})
	after, _ := json.Marshal(api.OpenAPI().Paths)
	if !bytes.Equal(before, after) {
		t.Error("the live description changed")
	}
}

func TestDevModeShowsWhatWasRegisteredSince(t *testing.T) {
	t.Parallel()
	for _, dev := range []bool{true, false} {
		_, api := live(t)
		d := newDocs(t, Options{API: api.OpenAPI(), DevMode: dev})
		huma.Register(api, huma.Operation{OperationID: "late", Method: http.MethodGet, Path: "/late"},
			func(context.Context, *struct{}) (*struct{}, error) { return nil, nil })
		w := httptest.NewRecorder()
		serveMux(d).ServeHTTP(w, httptest.NewRequest("GET", "/docs/openapi.json", nil))
		if got := strings.Contains(w.Body.String(), `"/late"`); got != dev {
			t.Errorf("DevMode %v: shown is %v", dev, got)
		}
	}
}

func TestParallelReadersGetTheSameBytes(t *testing.T) {
	t.Parallel()
	for _, dev := range []bool{true, false} {
		d := newDocs(t, Options{DevMode: dev})
		want, _ := d.Bytes(JSON)
		mux := serveMux(d)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				w := httptest.NewRecorder()
				mux.ServeHTTP(w, httptest.NewRequest("GET", "/docs/openapi.json", nil))
				if !bytes.Equal(w.Body.Bytes(), want) {
					t.Error("another document")
				}
			})
		}
		group.Wait()
	}
}
