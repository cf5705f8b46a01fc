package api_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/seal"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/stats/visitor"
)

const browser = "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0"

// collection is the API over a real site, as a page of that site sees it.
type collection struct {
	handler  http.Handler
	db       *db.DB
	site     site.Site
	ingester *stats.Ingester
}

func newCollection(t *testing.T, honorDoNotTrack bool) collection {
	t.Helper()
	d := dbtest.New(t)
	sites, err := site.New(site.Options{DB: d, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	made, err := sites.Create(t.Context(), "Example", "example.com", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	ingester, err := stats.NewIngester(stats.IngesterOptions{DB: d, Sites: sites, Keys: statsKeys(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ingester.Close() })
	r := chi.NewRouter()
	if err := httpedge.Use(r, httpedge.Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.Mount(r, api.Options{BaseURL: baseURL, Resources: []api.Resource{
		api.Statistics(nil, nil, api.Collection{Sites: sites, Collector: ingester, HonorDoNotTrack: honorDoNotTrack}),
	}}); err != nil {
		t.Fatal(err)
	}
	return collection{handler: r, db: d, site: made, ingester: ingester}
}

// body puts the site's key into a hit's members.
func (c collection) body(members string) string {
	return fmt.Sprintf(`{"site_key":%q,%s}`, c.site.Key, members)
}

func (c collection) send(t *testing.T, method, body string, changes ...func(http.Header)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/api/collect", strings.NewReader(body))
	r.Header.Set("Content-Type", "text/plain;charset=UTF-8")
	r.Header.Set("User-Agent", browser)
	r.Header.Set("Origin", "https://example.com")
	for _, change := range changes {
		change(r.Header)
	}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	if got := w.Header().Get("Access-Control-Allow-Origin"); got != "*" {
		t.Errorf("%s %.80s: Access-Control-Allow-Origin %q", method, body, got)
	}
	return w
}

func header(name, value string) func(http.Header) {
	return func(h http.Header) { h.Set(name, value) }
}

func (c collection) events(t *testing.T) int {
	t.Helper()
	var n int
	if err := c.db.Pool().QueryRow(t.Context(), `select count(*) from events`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAHitIsDurableBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	c := newCollection(t, true)
	for i, change := range []func(http.Header){
		header("Content-Type", "text/plain;charset=UTF-8"), header("Content-Type", "application/json"),
		func(h http.Header) { h.Del("Content-Type") },
	} {
		w := c.send(t, http.MethodPost, c.body(`"url":"https://example.com/a","referrer":"","name":"pageview","props":{}`), change)
		if w.Code != http.StatusAccepted || w.Body.Len() != 0 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if n := c.events(t); n != i+1 {
			t.Errorf("%d events after %d answers", n, i+1)
		}
	}
	c.send(t, http.MethodPost, c.body(`"url":"https://example.com/a","name":"signup","props":{"plan":"pro","seats":1.50,"trial":true}`))
	var props string
	err := c.db.Pool().QueryRow(t.Context(), `select props::text from events where name = 'signup'`).Scan(&props)
	if want := `{"plan": "pro", "seats": "1.50", "trial": "true"}`; err != nil || props != want {
		t.Errorf("props %s, %v; want %s", props, err, want)
	}
	var visitors int
	if err := c.db.Pool().QueryRow(t.Context(), `select count(*) from session_heads`).Scan(&visitors); err != nil || visitors != 1 {
		t.Errorf("%d visitors, %v", visitors, err)
	}
}

func TestHitsThatDoNotCountGetTheSameAnswer(t *testing.T) {
	t.Parallel()
	c, lax := newCollection(t, true), newCollection(t, false)
	page := `"url":"https://example.com/"`
	for name, w := range map[string]*httptest.ResponseRecorder{
		"a bot":          c.send(t, http.MethodPost, c.body(page), header("User-Agent", "Googlebot/2.1")),
		"no user agent":  c.send(t, http.MethodPost, c.body(page), func(h http.Header) { h.Del("User-Agent") }),
		"Do Not Track":   c.send(t, http.MethodPost, c.body(page), header("DNT", "1")),
		"GPC":            c.send(t, http.MethodPost, c.body(page), header("Sec-GPC", "1")),
		"another's page": c.send(t, http.MethodPost, c.body(`"url":"https://example.net/"`)),
	} {
		if w.Code != http.StatusAccepted || w.Body.Len() != 0 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if n := c.events(t); n != 0 {
		t.Errorf("%d events", n)
	}
	lax.send(t, http.MethodPost, lax.body(page), header("DNT", "1"), header("Sec-GPC", "1"))
	if n := lax.events(t); n != 1 {
		t.Errorf("%d events where the wish is not honoured", n)
	}
}

func TestBadHitsAreRefusedWithTheEnvelope(t *testing.T) {
	t.Parallel()
	c := newCollection(t, true)
	page := `"url":"https://example.com/"`
	many := strings.TrimSuffix(strings.Repeat(`"p%":1,`, 17), ",")
	for i := range 17 {
		many = strings.Replace(many, "%", fmt.Sprint(i), 1)
	}
	for name, try := range map[string]struct {
		body   string
		change func(http.Header)
		status int
		code   string
		field  string
	}{
		"nothing":               {"", nil, 400, "invalid_json", ""},
		"no JSON":               {"{", nil, 400, "invalid_json", ""},
		"no UTF-8":              {c.body("\"url\":\"https://example.com/\xff\""), nil, 400, "invalid_json", ""},
		"two values":            {c.body(page) + "{}", nil, 400, "invalid_json", ""},
		"another media type":    {c.body(page), header("Content-Type", "application/xml"), 415, "unsupported_media_type", ""},
		"8 KiB and a byte":      {c.body(page) + strings.Repeat(" ", 8<<10+1-len(c.body(page))), nil, 413, "payload_too_large", ""},
		"no object":             {"[]", nil, 422, "validation_failed", "body"},
		"null":                  {"null", nil, 422, "validation_failed", "body"},
		"no url":                {c.body(`"name":"x"`), nil, 422, "validation_failed", "body.url"},
		"no key":                {"{" + page + "}", nil, 422, "validation_failed", "body.site_key"},
		"a null":                {c.body(page + `,"name":null`), nil, 422, "validation_failed", "body.name"},
		"a number":              {c.body(page + `,"referrer":1`), nil, 422, "validation_failed", "body.referrer"},
		"an unknown member":     {c.body(page + `,"URL":"x"`), nil, 422, "validation_failed", "body"},
		"a member twice":        {c.body(page + "," + page), nil, 422, "validation_failed", "body.url"},
		"a relative url":        {c.body(`"url":"/a"`), nil, 422, "validation_failed", "body.url"},
		"U+0000":                {c.body(page + `,"name":"a\u0000"`), nil, 422, "validation_failed", "body"},
		"a lone surrogate":      {c.body(page + `,"name":"\ud800"`), nil, 422, "validation_failed", "body"},
		"a long name":           {c.body(page + `,"name":"` + strings.Repeat("é", 101) + `"`), nil, 422, "validation_failed", "body.name"},
		"props that are null":   {c.body(page + `,"props":null`), nil, 422, "validation_failed", "body.props"},
		"a list of props":       {c.body(page + `,"props":[]`), nil, 422, "validation_failed", "body.props"},
		"seventeen props":       {c.body(page + `,"props":{` + many + `}`), nil, 422, "validation_failed", "body.props"},
		"an unknown key":        {`{"site_key":"wps_x",` + page + `}`, nil, 401, "invalid_site_key", ""},
		"another's unknown key": {strings.Replace(c.body(page), "wps_", "wps_a", 1), nil, 401, "invalid_site_key", ""},
	} {
		change := try.change
		if change == nil {
			change = func(http.Header) {}
		}
		w := c.send(t, http.MethodPost, try.body, change)
		var got struct {
			Error struct {
				Code    string
				Details map[string]string
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
			continue
		}
		if w.Code != try.status || got.Error.Code != try.code || try.field != "" && got.Error.Details[try.field] == "" {
			t.Errorf("%s: %d %s, want %d %s %s", name, w.Code, w.Body, try.status, try.code, try.field)
		}
	}
	if n := c.events(t); n != 0 {
		t.Errorf("%d events", n)
	}
	fits := c.body(page)
	if w := c.send(t, http.MethodPost, fits+strings.Repeat(" ", 8<<10-len(fits))); w.Code != http.StatusAccepted {
		t.Errorf("a body of 8 KiB: %d %s", w.Code, w.Body)
	}
}

func TestBrowsersMaySendHitsFromAnyOrigin(t *testing.T) {
	t.Parallel()
	c := newCollection(t, true)
	w := c.send(t, http.MethodOptions, "", header("Access-Control-Request-Method", "POST"), header("Access-Control-Request-Headers", "content-type"))
	if w.Code != http.StatusNoContent || w.Header().Get("Access-Control-Allow-Methods") != "POST" || w.Header().Get("Access-Control-Allow-Headers") != "Content-Type" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if got := w.Header().Get("Access-Control-Allow-Credentials"); got != "" {
		t.Errorf("credentials are allowed: %q", got)
	}
}

func TestAHitThatCannotBeStoredIsToldToComeBack(t *testing.T) {
	t.Parallel()
	c := newCollection(t, true)
	if err := c.ingester.Close(); err != nil {
		t.Fatal(err)
	}
	w := c.send(t, http.MethodPost, c.body(`"url":"https://example.com/"`))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"unavailable"`) {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestAPropertyThatIsNoScalarCostsOnlyItself(t *testing.T) {
	t.Parallel()
	c := newCollection(t, true)
	for _, props := range []string{`{"plan":"pro","trial":null,"cart":[1,{"a":2}],"who":{"id":7}}`, `{"plan":null}`} {
		if w := c.send(t, http.MethodPost, c.body(`"url":"https://example.com/a","name":"signup","props":`+props)); w.Code != 202 {
			t.Errorf("%s: %d %s", props, w.Code, w.Body)
		}
	}
	var props []string
	if err := c.db.Pool().QueryRow(t.Context(), `select array_agg(coalesce(props::text, 'none') order by id) from events`).Scan(&props); err != nil || !slices.Equal(props, []string{`{"plan": "pro"}`, "none"}) {
		t.Errorf("%q, %v", props, err)
	}
}

func TestAHitThatCannotBeReadIsShownToTheOwner(t *testing.T) {
	t.Parallel()
	s := newSiteAPI(t, limits{})
	made := s.create(t, `{"name":"Blog","domain":"example.com"}`)
	for _, rest := range []string{`"url":"https://example.com/","props":null`, `"url":7`, `"url":"https://example.com/","x":1`} {
		s.send(t, "POST", "/api/collect", `{"site_key":"`+made.SiteKey+`",`+rest+`}`).wants(t, rest, 422, "validation_failed")
	}
	s.send(t, "POST", "/api/collect", `{"site_key":"nobody's","url":7}`).wants(t, "nobody's", 422, "validation_failed")
	if err := s.ingester.Close(); err != nil {
		t.Fatal(err)
	}
	if a := s.send(t, "GET", "/api/admin/sites/"+made.ID+"/drops", ""); !strings.Contains(a.text, `"reason":"validation_failed","count":3`) {
		t.Errorf("%d %s", a.status, a.text)
	}
}

// statsKeys seals the salts and import secrets of tests.
func statsKeys(t *testing.T) *seal.Keyring {
	t.Helper()
	keys, err := seal.New(visitor.SealPurpose, []byte("a secret key for tests, longer than 32 bytes"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
