package api_test

import (
	"encoding/csv"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFiltersRestrictEveryStatistic(t *testing.T) {
	t.Parallel()
	s := newStatistics(t, time.Date(2024, 5, 10, 5, 14, 0, 0, time.UTC))
	for _, c := range []struct{ path, filters, want string }{
		{"summary", "filter[path]=/pricing", `{"pageviews":1,"visitors":1,"sessions":1,"bounce_rate":0,"avg_duration":40,"views_per_visit":1}`},
		{"summary", "filter[path]=/pri*", `{"pageviews":1,"visitors":1,"sessions":1,"bounce_rate":0,"avg_duration":40,"views_per_visit":1}`},
		{"summary", "filter[browser]=Safari", `{"pageviews":1,"visitors":1,"sessions":1,"bounce_rate":1,"avg_duration":0,"views_per_visit":1}`},
		{"summary", "filter[os]=iOS&filter[os]=Linux", `{"pageviews":3,"visitors":2,"sessions":2,"bounce_rate":0.5,"avg_duration":20,"views_per_visit":1.5}`},
		{"summary", "filter[os]=iOS&filter[device]=desktop", `{"pageviews":0,"visitors":0,"sessions":0,"bounce_rate":0,"avg_duration":0,"views_per_visit":0}`},
		{"summary", "filter[event]=signup", `{"pageviews":0,"visitors":1,"sessions":1,"bounce_rate":0,"avg_duration":40,"views_per_visit":0}`},
		{"summary", "filter[path]=%25", `{"pageviews":0,"visitors":0,"sessions":0,"bounce_rate":0,"avg_duration":0,"views_per_visit":0}`},
		{"summary", "filter[path]=/pricin_", `{"pageviews":0,"visitors":0,"sessions":0,"bounce_rate":0,"avg_duration":0,"views_per_visit":0}`},
		{"summary", "filter[device]=*&compare=true", `{"pageviews":3,"visitors":2,"sessions":2,"bounce_rate":0.5,"avg_duration":20,"views_per_visit":1.5,
			"previous":{"pageviews":1,"visitors":1,"sessions":1,"bounce_rate":1,"avg_duration":0,"views_per_visit":1},"change":{"pageviews":200,"visitors":100,"sessions":100}}`},
		{"pages", "filter[source]=example.org", `{"top":[{"label":"/","visitors":1,"pageviews":1},{"label":"/pricing","visitors":1,"pageviews":1}],
			"entry":[{"label":"/","visitors":1,"pageviews":1}],"exit":[{"label":"/pricing","visitors":1,"pageviews":1}]}`},
		{"referrers", "filter[utm_source]=n*s", `{"sources":[{"label":"example.org","visitors":1,"pageviews":2}],"utm":{"source":[{"label":"news","visitors":1,"pageviews":2}],
			"medium":[{"label":"mail","visitors":1,"pageviews":2}],"campaign":[],"term":[],"content":[]}}`},
		{"tech", "filter[utm_medium]=mail", `{"devices":[{"label":"desktop","visitors":1,"pageviews":2}],"browsers":[{"label":"Firefox","visitors":1,"pageviews":2}],"os":[{"label":"Linux","visitors":1,"pageviews":2}]}`},
		{"events", "filter[path]=/", `{"events":[]}`},
		{"events", "filter[path]=/pricing&name=signup", `{"events":[{"name":"signup","count":1,"visitors":1}],"props":[{"key":"plan","value":"team","count":1},{"key":"seats","value":"3","count":1}]}`},
		{"timeseries", "filter[device]=mobile&granularity=day", `{"granularity":"day","buckets":[{"ts":"2024-05-10T00:00:00-04:00","pageviews":1,"visitors":1}]}`},
		{"realtime", "filter[device]=mobile", `{"visitors":1,"window_seconds":300}`},
		{"realtime", "filter[device]=desktop", `{"visitors":0,"window_seconds":300}`},
	} {
		w := s.get(t, "/api/stats/"+c.path+theDay+"&"+strings.NewReplacer("[", "%5B", "]", "%5D").Replace(c.filters), s.key)
		if diff := cmp.Diff(decoded(t, c.want), decoded(t, w.Body.String())); diff != "" || w.Code != 200 {
			t.Errorf("%s %s: %d\n%s", c.path, c.filters, w.Code, diff)
		}
	}
	for _, bad := range []string{"filter[none]=x", "filter[path]=", "filter[path=x", "filter[path]=%00", "filter[path]=" + strings.Repeat("x", 2049), strings.Repeat("filter[path]=x&", 21)} {
		if w := s.get(t, "/api/stats/summary"+theDay+"&"+bad, s.key); w.Code != 422 || !strings.Contains(w.Body.String(), `"query.filter[`) {
			t.Errorf("%.60s: %d %s", bad, w.Code, w.Body)
		}
	}
}

func TestTablesComeAsCSVWithoutFormulas(t *testing.T) {
	t.Parallel()
	s := newSiteAPI(t, limits{})
	made := s.create(t, `{"name":"Blog","domain":"example.com"}`)
	_, key := s.key(t, made.ID, `{"name":"reader"}`)
	hit := func(members string) {
		if a := s.send(t, "POST", "/api/collect", `{"site_key":"`+made.SiteKey+`",`+members+`}`); a.status != 202 {
			t.Fatalf("%d %s", a.status, a.text)
		}
	}
	hit(`"url":"https://example.com/?utm_source=%3Dcmd%7C%27%2FC%20calc%27%21A0&utm_term=%2B1&utm_content=-2&utm_campaign=%40SUM(1)&utm_medium=a%2C%22b%22"`)
	hit(`"url":"https://example.com/","name":"=1+1","props":{"@k":"-v"}`)
	read := func(path string) [][]string {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/stats/"+path, nil)
		r.Header.Set("X-Analytics-API-Key", key)
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		if ct := w.Header().Get("Content-Type"); w.Code != 200 || ct != "text/csv; charset=utf-8" {
			t.Fatalf("%s: %d %s %s", path, w.Code, ct, w.Body)
		}
		rows, err := csv.NewReader(w.Body).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	head := []string{"list", "label", "visitors", "pageviews"}
	for path, want := range map[string][][]string{
		"pages?format=csv": {head, {"top", "/", "1", "1"}, {"entry", "/", "1", "1"}, {"exit", "/", "1", "1"}},
		"referrers?format=csv": {head, {"utm_source", "'=cmd|'/C calc'!A0", "1", "1"}, {"utm_medium", `a,"b"`, "1", "1"},
			{"utm_campaign", "'@SUM(1)", "1", "1"}, {"utm_term", "'+1", "1", "1"}, {"utm_content", "'-2", "1", "1"}},
		"tech?format=csv": {head, {"device", "desktop", "1", "1"}, {"browser", "Firefox", "1", "1"}, {"os", "Linux", "1", "1"}},
		"geo?format=csv":  {head},
		"events?format=csv&name=" + url.QueryEscape("=1+1"): {{"list", "name", "value", "count", "visitors"}, {"event", "'=1+1", "", "1", "1"}, {"prop", "'@k", "'-v", "1", ""}},
	} {
		if diff := cmp.Diff(want, read(path)); diff != "" {
			t.Errorf("%s\n%s", path, diff)
		}
	}
	day := time.Now().UTC().Format(time.DateOnly)
	series := read("timeseries?format=csv&granularity=day&compare=true&from=" + day + "&to=" + day)
	if len(series) != 3 || series[1][0] != "current" || series[2][0] != "previous" || series[1][2] != "1" {
		t.Errorf("%v", series)
	}
	if a := s.send(t, "GET", "/api/stats/pages?format=xml", "", "X-Analytics-API-Key", key); a.status != 422 {
		t.Errorf("%d %s", a.status, a.text)
	}
	if a := s.send(t, "GET", "/api/stats/pages", "", "X-Analytics-API-Key", key, "Accept", "text/csv"); a.header.Get("Content-Type") != "application/json" {
		t.Errorf("%v", a.header)
	}
}

func TestAnUnchangedAnswerIsNotSentAgain(t *testing.T) {
	t.Parallel()
	s := newStatistics(t, time.Date(2024, 5, 10, 5, 14, 0, 0, time.UTC))
	ask := func(path, tag string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/stats/"+path, nil)
		r.Header.Set("X-Analytics-API-Key", s.key)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		return w
	}
	first := ask("summary"+theDay, `"other"`)
	tag := first.Header().Get("ETag")
	if first.Code != 200 || tag == "" {
		t.Fatalf("%d %v", first.Code, first.Header())
	}
	for _, known := range []string{tag, `"x", ` + tag, "*", strings.TrimPrefix(tag, "W/")} {
		if again := ask("summary"+theDay, known); again.Code != 304 || again.Body.Len() != 0 || again.Header().Get("ETag") != tag {
			t.Errorf("%s: %d %s", known, again.Code, again.Body)
		}
	}
	if other := ask("summary?from=2024-05-09&to=2024-05-09", tag); other.Code != 200 || other.Header().Get("ETag") == tag {
		t.Errorf("another range: %d %v", other.Code, other.Header())
	}
	if refused := ask("summary?from=x&to=y", "*"); refused.Code != 422 || refused.Header().Get("ETag") != "" {
		t.Errorf("a refusal: %d %v", refused.Code, refused.Header())
	}
}
