package export_test

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// Insomnia's v4 form once more, from the application's models.
type (
	v4Export struct {
		Type      string       `json:"_type"`
		Format    int          `json:"__export_format"`
		Date      string       `json:"__export_date"`
		Source    string       `json:"__export_source"`
		Resources []v4Resource `json:"resources"`
	}
	v4Resource struct {
		ID             string            `json:"_id"`
		Type           string            `json:"_type"`
		ParentID       *string           `json:"parentId"`
		Name           string            `json:"name"`
		Description    string            `json:"description"`
		Scope          string            `json:"scope"`
		Data           map[string]string `json:"data"`
		Environment    map[string]any    `json:"environment"`
		MetaSortKey    float64           `json:"metaSortKey"`
		Method         string            `json:"method"`
		URL            string            `json:"url"`
		Parameters     []pair            `json:"parameters"`
		Headers        []pair            `json:"headers"`
		Body           *insomniaBody     `json:"body"`
		Authentication map[string]string `json:"authentication"`

		PreRequestScript    string `json:"preRequestScript"`
		AfterResponseScript string `json:"afterResponseScript"`

		SettingStoreCookies             *bool  `json:"settingStoreCookies"`
		SettingSendCookies              *bool  `json:"settingSendCookies"`
		SettingDisableRenderRequestBody *bool  `json:"settingDisableRenderRequestBody"`
		SettingEncodeURL                *bool  `json:"settingEncodeUrl"`
		SettingRebuildPath              *bool  `json:"settingRebuildPath"`
		SettingFollowRedirects          string `json:"settingFollowRedirects"`
	}
	pair struct {
		Name, Value, Description, Type string
		FileName                       string `json:"fileName" yaml:"fileName"`
		Disabled                       bool
	}
	insomniaBody struct {
		MimeType string `json:"mimeType" yaml:"mimeType"`
		Text     *string
		Params   []pair
	}
)

// inOrder are the requests as the application shows them: folders and requests
// by metaSortKey, from the workspace down.
func (e v4Export) inOrder() []v4Resource {
	var out []v4Resource
	var walk func(parent string)
	walk = func(parent string) {
		var children []v4Resource
		for _, r := range e.Resources {
			if r.ParentID != nil && *r.ParentID == parent && r.Type != "environment" {
				children = append(children, r)
			}
		}
		slices.SortStableFunc(children, func(a, b v4Resource) int { return cmp.Compare(a.MetaSortKey, b.MetaSortKey) })
		for _, c := range children {
			if c.Type == "request" {
				out = append(out, c)
			}
			walk(c.ID)
		}
	}
	walk(e.Resources[0].ID)
	return out
}

func TestAnInsomniaExportHasTheShapeThatTheApplicationReads(t *testing.T) {
	t.Parallel()
	e := decoded[v4Export](t, insomnia, bookshop(t), strictJSON)
	if e.Type != "export" || e.Format != 4 || e.Source != "bookshop-api:v2.3.0" || !strings.HasSuffix(e.Date, "Z") {
		t.Errorf("%s %d %s %s", e.Type, e.Format, e.Source, e.Date)
	}
	prefixes := map[string]string{"workspace": "wrk", "environment": "env", "request_group": "fld", "request": "req"}
	parents := map[string]string{"environment": "workspace", "request_group": "workspace request_group", "request": "request_group"}
	types := map[string]string{}
	var ids []string
	for i, r := range e.Resources {
		ids = append(ids, r.ID)
		types[r.ID] = r.Type
		if !regexp.MustCompile("^"+prefixes[r.Type]+"_[0-9a-f]{32}$").MatchString(r.ID) || r.Name == "" {
			t.Errorf("%s: id %q, name %q", r.Type, r.ID, r.Name)
		}
		if first := i == 0; (r.Type == "workspace") != first || (r.ParentID == nil) != first || (r.Scope == "collection") != first {
			t.Errorf("resource %d: %s in %v", i, r.Type, r.ParentID)
		}
		// A parent comes before its children.
		if r.ParentID != nil && !strings.Contains(parents[r.Type], types[*r.ParentID]) {
			t.Errorf("%s %s has a %q as parent", r.Type, r.Name, types[*r.ParentID])
		}
		if r.Type == "request" {
			checkV4Request(t, r)
		}
	}
	noDuplicates(t, ids)
	if data := e.Resources[1].Data; data["baseUrl"] != "https://books.example/v1" || data["accessToken"] != "" || len(data) != 10 {
		t.Errorf("environment %v", data)
	}
}

// authMembers are those of each type of authentication that may be there.
var authMembers = map[string][]string{
	"none": {"type"}, "bearer": {"token", "type"}, "apikey": {"addTo", "key", "type", "value"}, "basic": {"password", "type", "username"},
}

func checkV4Request(t *testing.T, r v4Resource) {
	t.Helper()
	if !strings.HasPrefix(r.URL, "{{ _.baseUrl }}/") || r.Method == "" || r.Body == nil || r.Headers == nil || r.Parameters == nil || r.MetaSortKey == 0 {
		t.Errorf("request %s: %+v", r.Name, r)
	}
	if r.SettingStoreCookies == nil || r.SettingEncodeURL == nil || !slices.Contains([]string{"global", "on", "off"}, r.SettingFollowRedirects) {
		t.Errorf("request %s: settings", r.Name)
	}
	checkInsomniaAuth(t, r.Name, r.Authentication)
	if len(r.Body.Params) > 0 && r.Body.Text != nil {
		t.Errorf("request %s has two bodies", r.Name)
	}
}

func checkInsomniaAuth(t *testing.T, name string, auth map[string]string) {
	t.Helper()
	want := authMembers[auth["type"]]
	if diff := gocmp.Diff(want, slices.Sorted(maps.Keys(auth))); diff != "" {
		t.Errorf("%s: authentication\n%s", name, diff)
	}
}

// The v5 form once more, from the application's parser.
type (
	v5File struct {
		Type          string
		SchemaVersion string `yaml:"schema_version"`
		Name          string
		Meta          v5Meta
		Collection    []v5Item
		Environments  struct {
			Name string
			Meta v5Meta
			Data map[string]string
		}
	}
	v5Meta struct {
		ID, Description string
		SortKey         int `yaml:"sortKey"`
	}
	v5Item struct {
		Name           string
		Meta           v5Meta
		Children       []v5Item
		Method, URL    string
		PathParameters []pair `yaml:"pathParameters"`
		Parameters     []pair
		Headers        []pair
		Body           *insomniaBody
		Authentication map[string]string
		Scripts        *struct {
			PreRequest    string `yaml:"preRequest"`
			AfterResponse string `yaml:"afterResponse"`
		}
		Settings *struct {
			RenderRequestBody *bool  `yaml:"renderRequestBody"`
			EncodeURL         *bool  `yaml:"encodeUrl"`
			FollowRedirects   string `yaml:"followRedirects"`
			RebuildPath       *bool  `yaml:"rebuildPath"`
			Cookies           *struct{ Send, Store bool }
		}
	}
)

func v5Requests(items []v5Item) []v5Item {
	var out []v5Item
	for _, i := range items {
		if i.Method != "" {
			out = append(out, i)
		}
		out = append(out, v5Requests(i.Children)...)
	}
	return out
}

func TestAV5ExportHasTheShapeThatTheApplicationParses(t *testing.T) {
	t.Parallel()
	f := decoded[v5File](t, insomniaV5, bookshop(t), strictYAML)
	if f.Type != "collection.insomnia.rest/5.0" || f.SchemaVersion != "5.1" || f.Name != "Bookshop API" || !strings.HasPrefix(f.Meta.ID, "wrk_") {
		t.Errorf("%s %s %s %s", f.Type, f.SchemaVersion, f.Name, f.Meta.ID)
	}
	if !strings.HasPrefix(f.Environments.Meta.ID, "env_") || f.Environments.Data["baseUrl"] == "" {
		t.Errorf("%+v", f.Environments)
	}
	var ids []string
	var walk func(items []v5Item)
	walk = func(items []v5Item) {
		for _, i := range items {
			ids = append(ids, i.Meta.ID)
			folder := i.Method == "" && i.URL == "" && i.Parameters == nil && i.PathParameters == nil && len(i.Children) > 0
			request := i.Method != "" && i.URL != "" && i.Children == nil && i.Scripts != nil
			if folder == request || folder != strings.HasPrefix(i.Meta.ID, "fld_") || request != strings.HasPrefix(i.Meta.ID, "req_") {
				t.Errorf("%+v is neither a folder nor a request", i)
			}
			if request {
				checkInsomniaAuth(t, i.Name, i.Authentication)
				if named := strings.Count(i.URL, "/:"); named != len(i.PathParameters) {
					t.Errorf("%s: %d parameters in %s", i.Name, len(i.PathParameters), i.URL)
				}
			}
			if s := i.Settings; s != nil && (s.Cookies == nil || s.FollowRedirects != "off" || s.RenderRequestBody == nil || s.EncodeURL == nil || s.RebuildPath == nil) {
				t.Errorf("%s: %+v", i.Name, s)
			}
			walk(i.Children)
		}
	}
	walk(f.Collection)
	noDuplicates(t, ids)
}

func TestV4AndV5SayTheSame(t *testing.T) {
	t.Parallel()
	four := decoded[v4Export](t, insomnia, bookshop(t), strictJSON).inOrder()
	five := v5Requests(decoded[v5File](t, insomniaV5, bookshop(t), strictYAML).Collection)
	for i, r := range four {
		other := five[i]
		if other.Body == nil {
			other.Body = &insomniaBody{}
		}
		if r.ID != other.Meta.ID || r.PreRequestScript != other.Scripts.PreRequest || r.AfterResponseScript != other.Scripts.AfterResponse {
			t.Errorf("%s and %s differ", r.Name, other.Name)
		}
		if diff := gocmp.Diff([]any{r.Body, r.Authentication, len(r.Headers), len(r.Parameters)},
			[]any{other.Body, other.Authentication, len(other.Headers), len(other.Parameters)}); diff != "" {
			t.Errorf("%s:\n%s", r.Name, diff)
		}
	}
}

// sender replays v4 requests as the application would, scripts excepted.
type sender struct{ environment map[string]string }

var tag = regexp.MustCompile(`\{\{ _\.(\w+) \}\}|\{% (uuid|now) [^%]*%\}`)

func (s sender) render(t *testing.T, text string) string {
	t.Helper()
	return tag.ReplaceAllStringFunc(text, func(m string) string {
		name := tag.FindStringSubmatch(m)[1]
		value, ok := s.environment[name]
		if name == "" {
			return "generated"
		} else if !ok {
			t.Errorf("%s is not in the environment", name)
		}
		return value
	})
}

func (s sender) request(t *testing.T, r v4Resource) *http.Request {
	t.Helper()
	query := url.Values{}
	for _, p := range r.Parameters {
		if !p.Disabled {
			query.Add(p.Name, s.render(t, p.Value))
		}
	}
	body := ""
	if r.Body.Text != nil {
		body = s.render(t, *r.Body.Text)
	}
	req, err := http.NewRequestWithContext(t.Context(), r.Method, s.render(t, r.URL)+"?"+query.Encode(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range r.Headers {
		if !h.Disabled {
			req.Header.Add(h.Name, s.render(t, h.Value))
		}
	}
	switch a := r.Authentication; a["type"] {
	case "bearer":
		req.Header.Set("Authorization", "Bearer "+s.render(t, a["token"]))
	case "basic":
		req.SetBasicAuth(s.render(t, a["username"]), s.render(t, a["password"]))
	case "apikey":
		req.Header.Set(a["key"], s.render(t, a["value"]))
	}
	return req
}

func TestInsomniaRequestsReachTheOperationsThatTheyAreOf(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf("%s %s auth=%s key=%s body=%s", r.Method, r.URL, r.Header.Get("Authorization"), r.Header.Get("X-Shop-Key"), strings.Join(strings.Fields(string(body)), "")))
	}))
	defer server.Close()
	e := decoded[v4Export](t, insomnia, bookshop(t), strictJSON)
	s := sender{environment: map[string]string{}}
	for name := range e.Resources[1].Data {
		s.environment[name] = "the-" + name
	}
	s.environment["baseUrl"] = server.URL
	for _, r := range e.inOrder() {
		answer, err := server.Client().Do(s.request(t, r))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	want := []string{
		`POST /sessions? auth= key= body={"email":"the-email","password":"the-password"}`,
		`POST /deliveries/post? auth= key= body={"id":"generated","weight":2.50}`,
		`POST /deliveries/courier? auth= key= body={"parcel":1}`,
		`GET /books?shelf=new auth=Bearer the-accessToken key= body=`,
		`POST /books? auth=Bearer the-accessToken key= body={"isbn":"978-generated","price":12.50,"title":"Maps<of>&more"}`,
		`GET /books/the-bookId? auth= key=the-shopApiKey body=`,
		`POST /search? auth=Basic dGhlLXN0YWZmVXNlcjp0aGUtc3RhZmZQYXNzd29yZA== key= body=`,
		`PUT /books/7/cover.png? auth=Bearer the-accessToken key= body=`,
		`GET /motd? auth= key= body=`,
		`POST /motd? auth=Bearer the-accessToken key= body=Hello`,
		`DELETE /books/the-bookId? auth=Bearer the-accessToken key= body=`,
		`DELETE /sessions? auth=Bearer the-accessToken key= body=`,
	}
	if diff := gocmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

func TestInsomniaScriptsResolveTheBodyThatTheySign(t *testing.T) {
	t.Parallel()
	for _, r := range decoded[v4Export](t, insomnia, bookshop(t), strictJSON).inOrder() {
		signs := r.PreRequestScript != ""
		if signs != (r.Name == "Receive a delivery (post)") {
			t.Errorf("%s signs: %t", r.Name, signs)
		}
		if strings.Contains(r.PreRequestScript+r.AfterResponseScript, "pm.") {
			t.Errorf("%s speaks Postman's dialect", r.Name)
		}
		if signs && !strings.Contains(*r.Body.Text, "{% uuid 'v4' %}") {
			t.Errorf("the body %s has nothing to resolve", *r.Body.Text)
		}
	}
}
