package api_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/stats/imports"
)

// traffic is of two visitors of a site in New York, at 1 in the morning of 10 May
// 2024 there, and of one on the day before.
const traffic = `{"ts":"2024-05-09T12:00:00Z","url":"https://example.com/","ip":"192.0.2.9","user_agent":"Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0"}
{"ts":"2024-05-10T05:00:00Z","url":"https://example.com/?utm_source=news&utm_medium=mail","referrer":"https://www.example.org/x","ip":"192.0.2.1","user_agent":"Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0"}
{"ts":"2024-05-10T05:00:30.25Z","url":"https://example.com/pricing","referrer":"https://example.com/","ip":"192.0.2.1","user_agent":"Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0"}
{"ts":"2024-05-10T05:00:40Z","url":"https://example.com/pricing","name":"signup","props":{"plan":"team","seats":3},"ip":"192.0.2.1","user_agent":"Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0"}
{"ts":"2024-05-10T05:10:00Z","url":"https://example.com/","ip":"192.0.2.2","user_agent":"Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Mobile/15E148 Safari/604.1"}
`

// statistics is the statistics API of one site with traffic.
type statistics struct {
	handler http.Handler
	key     string
	db      *db.DB
	sites   *site.Service
	site    site.Site
}

func newStatistics(t *testing.T, now time.Time) statistics {
	t.Helper()
	d := dbtest.New(t)
	sites, err := site.New(site.Options{DB: d, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := sites.Create(t.Context(), "Example", "example.com", "America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	_, key, err := sites.CreateKey(t.Context(), s.ID, "reader", site.ScopeRead)
	if err != nil {
		t.Fatal(err)
	}
	importer, err := imports.New(imports.Options{DB: d, Keys: statsKeys(t)})
	if err != nil {
		t.Fatal(err)
	}
	if report, err := importer.Import(t.Context(), s, strings.NewReader(traffic), imports.NDJSON, nil); err != nil || report.Imported != 5 {
		t.Fatalf("imported %+v, %v", report, err)
	}
	service, err := stats.NewService(stats.ServiceOptions{DB: d, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	r := chi.NewRouter()
	if err := httpedge.Use(r, httpedge.Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.Mount(r, api.Options{BaseURL: baseURL, SiteKeys: sites, Resources: []api.Resource{api.Statistics(service, sites, api.Collection{})}}); err != nil {
		t.Fatal(err)
	}
	return statistics{handler: r, key: key, db: d, sites: sites, site: s}
}

func (s statistics) get(t *testing.T, path, key string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	if key != "" {
		r.Header.Set("X-Analytics-API-Key", key)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

const theDay = "?from=2024-05-10&to=2024-05-10"

func TestEachStatisticHasItsShape(t *testing.T) {
	t.Parallel()
	s := newStatistics(t, time.Date(2024, 5, 10, 5, 14, 0, 0, time.UTC))
	for path, want := range map[string]string{
		"summary" + theDay: `{"pageviews":3,"visitors":2,"sessions":2,"bounce_rate":0.5,"avg_duration":20,"views_per_visit":1.5}`,
		"summary" + theDay + "&compare=true": `{"pageviews":3,"visitors":2,"sessions":2,"bounce_rate":0.5,"avg_duration":20,"views_per_visit":1.5,
			"previous":{"pageviews":1,"visitors":1,"sessions":1,"bounce_rate":1,"avg_duration":0,"views_per_visit":1},
			"change":{"pageviews":200,"visitors":100,"sessions":100}}`,
		"summary?from=2024-05-09&to=2024-05-09&compare=true": `{"pageviews":1,"visitors":1,"sessions":1,"bounce_rate":1,"avg_duration":0,"views_per_visit":1,
			"previous":{"pageviews":0,"visitors":0,"sessions":0,"bounce_rate":0,"avg_duration":0,"views_per_visit":0},
			"change":{"pageviews":null,"visitors":null,"sessions":null}}`,
		"summary": `{"pageviews":4,"visitors":3,"sessions":3,"bounce_rate":0.667,"avg_duration":13.3,"views_per_visit":1.33}`,
		"timeseries?from=2024-05-09&to=2024-05-10&granularity=day&compare=true": `{"granularity":"day",
			"buckets":[{"ts":"2024-05-09T00:00:00-04:00","pageviews":1,"visitors":1},{"ts":"2024-05-10T00:00:00-04:00","pageviews":3,"visitors":2}],
			"previous":[{"ts":"2024-05-07T00:00:00-04:00","pageviews":0,"visitors":0},{"ts":"2024-05-08T00:00:00-04:00","pageviews":0,"visitors":0}]}`,
		"timeseries?from=2024-05-10T04:30:00Z&to=2024-05-10T05:00:30.25Z": `{"granularity":"hour",
			"buckets":[{"ts":"2024-05-10T00:00:00-04:00","pageviews":0,"visitors":0},{"ts":"2024-05-10T01:00:00-04:00","pageviews":1,"visitors":1}]}`,
		"timeseries?from=2024-05-10&to=2024-05-10&granularity=week": `{"granularity":"week","buckets":[{"ts":"2024-05-06T00:00:00-04:00","pageviews":3,"visitors":2}]}`,
		"pages" + theDay: `{"top":[{"label":"/","visitors":2,"pageviews":2},{"label":"/pricing","visitors":1,"pageviews":1}],
			"entry":[{"label":"/","visitors":2,"pageviews":2}],
			"exit":[{"label":"/","visitors":1,"pageviews":1},{"label":"/pricing","visitors":1,"pageviews":1}]}`,
		"pages" + theDay + "&limit=1": `{"top":[{"label":"/","visitors":2,"pageviews":2}],"entry":[{"label":"/","visitors":2,"pageviews":2}],"exit":[{"label":"/","visitors":1,"pageviews":1}]}`,
		"referrers" + theDay: `{"sources":[{"label":"example.org","visitors":1,"pageviews":2}],"utm":{"source":[{"label":"news","visitors":1,"pageviews":2}],
			"medium":[{"label":"mail","visitors":1,"pageviews":2}],"campaign":[],"term":[],"content":[]}}`,
		"geo" + theDay: `{"countries":[]}`,
		"tech" + theDay: `{"devices":[{"label":"desktop","visitors":1,"pageviews":2},{"label":"mobile","visitors":1,"pageviews":1}],
			"browsers":[{"label":"Firefox","visitors":1,"pageviews":2},{"label":"Safari","visitors":1,"pageviews":1}],
			"os":[{"label":"Linux","visitors":1,"pageviews":2},{"label":"iOS","visitors":1,"pageviews":1}]}`,
		"events" + theDay: `{"events":[{"name":"signup","count":1,"visitors":1}]}`,
		"events" + theDay + "&name=signup": `{"events":[{"name":"signup","count":1,"visitors":1}],
			"props":[{"key":"plan","value":"team","count":1},{"key":"seats","value":"3","count":1}]}`,
		"events" + theDay + "&name=nothing":           `{"events":[{"name":"signup","count":1,"visitors":1}],"props":[]}`,
		"events?from=2020-01-01&to=2020-01-01&name=x": `{"events":[],"props":[]}`,
		"realtime": `{"visitors":1,"window_seconds":300}`,
	} {
		w := s.get(t, "/api/stats/"+path, s.key)
		if w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "private, no-cache" || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		if diff := cmp.Diff(decoded(t, want), decoded(t, w.Body.String())); diff != "" {
			t.Errorf("%s:\n%s", path, diff)
		}
	}
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

var statsPaths = []string{"site", "summary", "timeseries", "pages", "referrers", "geo", "tech", "events", "realtime", "report"}

// ask is the query string of name, with what it can't be without.
func ask(name, query string) string {
	if name == "report" {
		return "/api/stats/report?questions=realtime,pages&" + query
	}
	return "/api/stats/" + name + "?" + query
}

func TestEveryStatisticRefusesTheSameParameters(t *testing.T) {
	t.Parallel()
	s := newStatistics(t, time.Date(2024, 5, 10, 5, 14, 0, 0, time.UTC))
	for _, c := range []struct{ query, field string }{
		{"from=2024-05-10", "query.to"}, {"to=2024-05-10", "query.from"}, {"from=&to=2024-05-10", "query.from"}, {"from=&to=", "query.to"},
		{"from=2024-05-10&to=2024-05-09", "query.to"}, {"from=today&to=2024-05-09", "query.from"}, {"from=2024-05-10&to=2024-05-10T0:00:00Z", "query.to"},
		{"from=2024-05-10T00:00:00+02:00&to=2024-05-11", "query.from"}, // a blank: + was not written as %2B
		{"from=2010-05-10&to=2024-05-10", "query.to"},
		{"limit=0", "query.limit"}, {"limit=501", "query.limit"}, {"limit=-1", "query.limit"}, {"limit=many", "query.limit"}, {"limit=", "query.limit"},
		{"period=7d&from=2024-05-10&to=2024-05-10", "query.period"}, {"period=7d&to=2024-05-10", "query.period"}, {"period=week", "query.period"}, {"period=", "query.period"},
		{"limit=1.5", "query.limit"}, {"limit=99999999999999999999", "query.limit"},
	} {
		for _, name := range statsPaths {
			s.wantsInvalid(t, ask(name, c.query), c.field)
		}
	}
	s.wantsInvalid(t, "/api/stats/timeseries?granularity=minute", "query.granularity")
	s.wantsInvalid(t, "/api/stats/timeseries?granularity=", "query.granularity")
	s.wantsInvalid(t, "/api/stats/timeseries?from=2020-01-01&to=2024-01-01&granularity=hour", "query.granularity")
	s.wantsInvalid(t, "/api/stats/events?name="+url.QueryEscape("a\x00b"), "query.name")
	s.wantsInvalid(t, "/api/stats/events?name=%ff", "query.name")
}

func (s statistics) wantsInvalid(t *testing.T, path, field string) {
	t.Helper()
	w := s.get(t, path, s.key)
	var body struct {
		Error struct {
			Code    string
			Details map[string]string
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != http.StatusUnprocessableEntity ||
		body.Error.Code != "validation_failed" || body.Error.Details[field] == "" {
		t.Errorf("%s: %d %s, want details of %s", path, w.Code, w.Body, field)
	}
}

func TestParametersWithoutEffectAreAccepted(t *testing.T) {
	t.Parallel()
	s := newStatistics(t, time.Date(2024, 5, 10, 5, 14, 0, 0, time.UTC))
	for _, query := range []string{
		"compare=true", "compare=false", "compare=TRUE", "compare=1", "compare=", "compare=yes&compare=true", "limit=1", "limit=500", "period=7d", "period=all",
		"from=2024-05-10T00:00:00%2B02:00&to=2024-05-11T00:00:00.123456789Z", "from=2024-05-10t00:00:00z&to=2024-05-11",
	} {
		for _, name := range statsPaths {
			w := s.get(t, ask(name, query), s.key)
			if w.Code != http.StatusOK {
				t.Errorf("%s?%s: %d %s", name, query, w.Code, w.Body)
			}
			compared := strings.Contains(w.Body.String(), `"previous"`)
			if want := query == "compare=true" && (name == "summary" || name == "timeseries"); compared != want {
				t.Errorf("%s?%s: compared = %v", name, query, compared)
			}
		}
	}
}

func TestStatisticsNeedAKeyOfTheSite(t *testing.T) {
	t.Parallel()
	s := newStatistics(t, time.Now())
	for _, name := range statsPaths {
		for _, key := range []string{"", "x", s.key + "x", s.key[:len(s.key)-1]} {
			if w := s.get(t, "/api/stats/"+name, key); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), `"invalid_api_key"`) {
				t.Errorf("%s with the key %q: %d %s", name, key, w.Code, w.Body)
			}
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/stats/"+name, nil)
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", name, w.Code)
		}
	}
}

func TestTheDescriptionOfASummaryHasItsFields(t *testing.T) {
	t.Parallel()
	summary := described(t).Components.Schemas.Map()["StatsSummary"]
	want := []string{"avg_duration", "bounce_rate", "change", "pageviews", "previous", "sessions", "views_per_visit", "visitors"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(summary.Properties))); diff != "" {
		t.Error(diff)
	}
	if len(summary.Required) != 6 {
		t.Errorf("required are %v, want all but previous and change", summary.Required)
	}
}
