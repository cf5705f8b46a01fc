package api_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// atTen is when the traffic's last visitor came, ten past one in the morning of 10 May at
// the site.
var atTen = time.Date(2024, 5, 10, 5, 14, 0, 0, time.UTC)

func TestAKeysHolderLearnsTheSitesZone(t *testing.T) {
	t.Parallel()
	s := newStatistics(t, atTen)
	w := s.get(t, "/api/stats/site", s.key)
	want := `{"name":"Example","domain":"example.com","timezone":"America/New_York","first_event_at":"2024-05-09T12:00:00Z","now":"2024-05-10T05:14:00Z"}`
	if diff := cmp.Diff(decoded(t, want), decoded(t, w.Body.String())); diff != "" || w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, diff)
	}
	for _, name := range statsPaths {
		for _, query := range []string{"", "limit=0", "unknown=x"} {
			w := s.get(t, ask(name, query), s.key)
			if zone := w.Header().Get("X-Site-Timezone"); zone != "America/New_York" || w.Code != 200 && w.Code != 422 {
				t.Errorf("%s?%s: %d, X-Site-Timezone %q", name, query, w.Code, zone)
			}
		}
	}
}

// TestAnUnknownParameterIsRefusedWithTheNearestOne: a misspelt one would answer another
// question.
func TestAnUnknownParameterIsRefusedWithTheNearestOne(t *testing.T) {
	t.Parallel()
	s := newStatistics(t, atTen)
	for _, name := range statsPaths {
		for query, says := range map[string]string{
			"perod=7d": "period", "form=2024-05-10&to=2024-05-10": "from", "Limit=5": "limit", "comparison=true": "compare",
			"filter=PT": "filter[os]", "filters%5Bcountry%5D=PT": "filter[country]", "filter%5Bcontry%5D=PT": "filter[country]", strings.Repeat("x", 9000) + "=1": "", "%ff=1": "", "=1": "",
		} {
			w := s.get(t, ask(name, query), s.key)
			var body struct {
				Error struct {
					Code    string
					Details map[string]string
				}
			}
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != 422 || body.Error.Code != "validation_failed" {
				t.Errorf("%s?%.30s: %d %.300s", name, query, w.Code, w.Body)
				continue
			}
			parameter, _, _ := strings.Cut(strings.NewReplacer("%5B", "[", "%5D", "]").Replace(query), "=")
			if says != "" && !strings.HasSuffix(body.Error.Details["query."+parameter], "the nearest is "+says+".") {
				t.Errorf("%s?%s: %v, want the name %s", name, query, body.Error.Details, says)
			}
		}
	}
	for path, field := range map[string]string{"summary?granularity=day": "granularity", "realtime?offset=1": "offset", "pages?name=x": "name", "events?metrics=sessions": "metrics", "report?questions=summary&format=csv": "format"} {
		s.wantsInvalid(t, "/api/stats/"+path, "query."+field)
	}
	if w := s.get(t, "/api/stats/summary?perod=7d", ""); w.Code != http.StatusUnauthorized {
		t.Errorf("without a key: %d %s", w.Code, w.Body)
	}
}

func TestRowsPastTheFirstPageAreHad(t *testing.T) {
	t.Parallel()
	s := newStatistics(t, atTen)
	var all []string
	next := "/api/stats/pages" + theDay + "&limit=1&filter%5Bdevice%5D=*"
	for page := 0; next != ""; page++ {
		w := s.get(t, next, s.key)
		var body struct{ Top []struct{ Label string } }
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != 200 || len(body.Top) != 1 || w.Header().Get("X-Total-Count") != "2" {
			t.Fatalf("%s: %d %s %v", next, w.Code, w.Body, w.Header())
		}
		all = append(all, body.Top[0].Label)
		m := regexp.MustCompile(`^<` + regexp.QuoteMeta(baseURL) + `(/api/stats/pages\?.*)>; rel="next"$`).FindStringSubmatch(w.Header().Get("Link"))
		if next = ""; m != nil {
			next = m[1]
		}
	}
	if diff := cmp.Diff([]string{"/", "/pricing"}, all); diff != "" {
		t.Error(diff)
	}
	for path, want := range map[string]string{
		"pages" + theDay + "&offset=10000":          `{"top":[],"entry":[],"exit":[]}`,
		"events" + theDay + "&offset=1&name=signup": `{"events":[],"props":[{"key":"seats","value":"3","count":1}]}`,
	} {
		w := s.get(t, "/api/stats/"+path, s.key)
		if diff := cmp.Diff(decoded(t, want), decoded(t, w.Body.String())); diff != "" || w.Header().Get("X-Total-Count") != "2" || w.Header().Get("Link") != "" {
			t.Errorf("%s: %v %s", path, w.Header(), diff)
		}
	}
	for _, query := range []string{"offset=10001", "offset=-1", "offset=x", "offset="} {
		s.wantsInvalid(t, "/api/stats/tech?"+query, "query.offset")
	}
}

func TestRowsAndBucketsHaveTheMetricsThatAreAskedFor(t *testing.T) {
	t.Parallel()
	s := newStatistics(t, atTen)
	for path, want := range map[string]string{
		"referrers" + theDay + "&metrics=sessions,bounce_rate,avg_duration,views_per_visit&empty=true&limit=1": `{
			"sources":[{"label":"example.org","visitors":1,"pageviews":2,"sessions":1,"bounce_rate":0,"avg_duration":40,"views_per_visit":2}],
			"utm":{"source":[{"label":"news","visitors":1,"pageviews":2,"sessions":1,"bounce_rate":0,"avg_duration":40,"views_per_visit":2}],
			"medium":[{"label":"mail","visitors":1,"pageviews":2,"sessions":1,"bounce_rate":0,"avg_duration":40,"views_per_visit":2}],
			"campaign":[{"label":"(none)","visitors":2,"pageviews":3,"sessions":2,"bounce_rate":0.5,"avg_duration":20,"views_per_visit":1.5}],
			"term":[{"label":"(none)","visitors":2,"pageviews":3,"sessions":2,"bounce_rate":0.5,"avg_duration":20,"views_per_visit":1.5}],
			"content":[{"label":"(none)","visitors":2,"pageviews":3,"sessions":2,"bounce_rate":0.5,"avg_duration":20,"views_per_visit":1.5}]}}`,
		"pages" + theDay + "&metrics=bounce_rate": `{"top":[{"label":"/","visitors":2,"pageviews":2},{"label":"/pricing","visitors":1,"pageviews":1}],
			"entry":[{"label":"/","visitors":2,"pageviews":2,"bounce_rate":0.5}],
			"exit":[{"label":"/","visitors":1,"pageviews":1,"bounce_rate":1},{"label":"/pricing","visitors":1,"pageviews":1,"bounce_rate":0}]}`,
		"geo" + theDay + "&empty=true": `{"countries":[{"label":"(none)","visitors":2,"pageviews":3}]}`,
		"timeseries?from=2024-05-09&to=2024-05-10&granularity=day&compare=true&metrics=sessions,views_per_visit": `{"granularity":"day",
			"buckets":[{"ts":"2024-05-09T00:00:00-04:00","pageviews":1,"visitors":1,"sessions":1,"views_per_visit":1},
				{"ts":"2024-05-10T00:00:00-04:00","pageviews":3,"visitors":2,"sessions":2,"views_per_visit":1.5}],
			"previous":[{"ts":"2024-05-07T00:00:00-04:00","pageviews":0,"visitors":0,"sessions":0,"views_per_visit":0},
				{"ts":"2024-05-08T00:00:00-04:00","pageviews":0,"visitors":0,"sessions":0,"views_per_visit":0}]}`,
	} {
		w := s.get(t, "/api/stats/"+path, s.key)
		if diff := cmp.Diff(decoded(t, want), decoded(t, w.Body.String())); diff != "" || w.Code != 200 {
			t.Errorf("%s: %d\n%s", path, w.Code, diff)
		}
	}
	for path, want := range map[string]string{
		"pages" + theDay + "&format=csv&metrics=views_per_visit,sessions&limit=1": "list,label,visitors,pageviews,sessions,views_per_visit\r\ntop,/,2,2,,\r\nentry,/,2,2,2,1.5\r\nexit,/,1,1,1,1\r\n",
		"geo" + theDay + "&format=csv&empty=true":                                 "list,label,visitors,pageviews\r\ncountry,(none),2,3\r\n",
		"timeseries" + theDay + "&format=csv&granularity=month&metrics=sessions":  "period,ts,pageviews,visitors,sessions\r\ncurrent,2024-05-01T00:00:00-04:00,3,2,2\r\n",
	} {
		if w := s.get(t, "/api/stats/"+path, s.key); w.Body.String() != want {
			t.Errorf("%s: %d\n%s", path, w.Code, w.Body)
		}
	}
	for _, query := range []string{"metrics=visitors", "metrics=", "metrics=sessions,", "empty=", "empty=perhaps"} {
		parameter, _, _ := strings.Cut(query, "=")
		w := s.get(t, "/api/stats/tech?"+query, s.key)
		if w.Code != 422 || !strings.Contains(w.Body.String(), `"query.`+parameter) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}

// TestAReportHasWhatItsOperationsSay, each under its name.
func TestAReportHasWhatItsOperationsSay(t *testing.T) {
	t.Parallel()
	s := newStatistics(t, atTen)
	names := []string{"summary", "timeseries", "pages", "referrers", "geo", "tech", "events", "realtime"}
	got := s.get(t, "/api/stats/report"+theDay+"&questions="+strings.Join(names, ",")+"&limit=3&compare=true", s.key)
	want := map[string]any{}
	for _, name := range names {
		want[name] = decoded(t, s.get(t, "/api/stats/"+name+theDay+"&limit=3&compare=true", s.key).Body.String())
	}
	if diff := cmp.Diff(any(want), decoded(t, got.Body.String())); diff != "" || got.Code != 200 || got.Header().Get("X-Total-Count") != "2" {
		t.Errorf("%d %v\n%s", got.Code, got.Header(), diff)
	}
	full := s.get(t, "/api/stats/report"+theDay+"&questions=events,tech,timeseries&name=signup&metrics=sessions&empty=true&granularity=week&filter%5Bpath%5D=/pricing", s.key)
	want = map[string]any{}
	for name, query := range map[string]string{"events": "&name=signup", "tech": "&metrics=sessions&empty=true", "timeseries": "&metrics=sessions&granularity=week"} {
		want[name] = decoded(t, s.get(t, "/api/stats/"+name+theDay+query+"&filter%5Bpath%5D=/pricing", s.key).Body.String())
	}
	if diff := cmp.Diff(any(want), decoded(t, full.Body.String())); diff != "" || full.Code != 200 {
		t.Errorf("%d\n%s", full.Code, diff)
	}
	for _, query := range []string{"", "questions=", "questions=site", "questions=summary,pagse", "questions=summary,,pages"} {
		w := s.get(t, "/api/stats/report?"+query, s.key)
		if w.Code != 422 || !strings.Contains(w.Body.String(), `"query.questions`) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}
