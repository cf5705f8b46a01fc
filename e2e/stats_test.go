package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/naive"
	"github.com/waypost/waypost/internal/stats/client"
)

// newSite makes a site as an operator would and returns its id, public key and
// reading key.
func newSite(t *testing.T, databaseURL, domain, zone string) (string, string, string) {
	t.Helper()
	code, out, errOut := command(t, []string{"DATABASE_URL=" + databaseURL}, "", "site", "create", "--name", "Site", "--domain", domain, "--timezone", zone)
	if code != 0 {
		t.Fatal(errOut)
	}
	return wordAfter(t, out, "site"), wordAfter(t, out, "site", "key"), wordAfter(t, out, "secret")
}

// newKey makes a secret key as an operator would.
func newKey(t *testing.T, databaseURL, siteID, scope string) string {
	t.Helper()
	code, out, errOut := command(t, []string{"DATABASE_URL=" + databaseURL}, "", "site", "key", "create", siteID, "--name", "key", "--scope", scope)
	if code != 0 {
		t.Fatal(errOut)
	}
	return wordAfter(t, out, "secret")
}

// wordAfter is the word that a command's output has after some others.
func wordAfter(t *testing.T, out string, after ...string) string {
	t.Helper()
	words := strings.Fields(out)
	for i := range words {
		if i+len(after) < len(words) && cmp.Equal(words[i:i+len(after)], after) {
			return words[i+len(after)]
		}
	}
	t.Fatalf("no %v in %q", after, out)
	return ""
}

func ask(t *testing.T, p *process, key, path string, query url.Values, out any) {
	t.Helper()
	a := do(t, "GET", p.url+"/api/stats/"+path+"?"+query.Encode(), "", "X-Analytics-API-Key", key)
	if a.status != 200 {
		t.Fatalf("%s?%s: %d %s", path, query.Encode(), a.status, a.body)
	}
	d := json.NewDecoder(bytes.NewReader(a.body))
	if err := d.Decode(out); err != nil {
		t.Fatal(err)
	}
}

// metrics is the answer of the summary, in the naive count's fields.
type metrics struct {
	Pageviews     int64   `json:"pageviews"`
	Visitors      int64   `json:"visitors"`
	Sessions      int64   `json:"sessions"`
	BounceRate    float64 `json:"bounce_rate"`
	AvgDuration   float64 `json:"avg_duration"`
	ViewsPerVisit float64 `json:"views_per_visit"`
}

func TestAnImportedLogIsAnsweredAsAnIndependentCountHasIt(t *testing.T) {
	t.Parallel()
	p, database := serve(t)
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	traffic := naive.Traffic{Seed: 7, Start: time.Date(2024, 10, 31, 12, 0, 0, 0, zone), Days: 5, Zone: zone, Visitors: 40, Domain: "example.com"}
	var log bytes.Buffer
	if err := traffic.Log(&log); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dbtest.TempDir(t), "access.log")
	if err := os.WriteFile(file, log.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	id, _, key := newSite(t, database, "example.com", zone.String())
	clients, err := client.NewParser()
	if err != nil {
		t.Fatal(err)
	}
	read := naive.Log{Domain: "example.com", Classify: func(userAgent string) naive.Agent {
		c := clients.Parse(userAgent)
		return naive.Agent{Bot: c.Bot, Device: c.Device, Browser: c.Browser, OS: c.OS}
	}}
	hits := read.Read(bytes.NewReader(log.Bytes()))
	for run, want := range []string{fmt.Sprintf("imported    %d\n", read.Counted), "imported    0\n"} {
		code, out, errOut := command(t, []string{"DATABASE_URL=" + database}, "", "import", "--site", id, "--format", "combined", file)
		if code != 0 || !strings.Contains(out, want) || !strings.Contains(out, "malformed") {
			t.Fatalf("import %d: exit %d, %q %q, want %q", run+1, code, out, errOut, want)
		}
	}
	compare(t, p, key, naive.New(naive.Rules{Zone: zone}, hits))
}

// compare holds every number of the answers against the count.
func compare(t *testing.T, p *process, key string, count *naive.Site) {
	t.Helper()
	for _, w := range []naive.Window{
		{From: "2024-10-31", To: "2024-11-04"},
		{From: "2024-11-03", To: "2024-11-03"}, // 25 hours long
		{From: "2024-11-02T13:30:00Z", To: "2024-11-04T01:00:01Z"},
	} {
		query := url.Values{"from": {w.From}, "to": {w.To}, "limit": {"500"}}
		var got metrics
		ask(t, p, key, "summary", query, &got)
		if diff := cmp.Diff(metrics(count.Summary(w)), got); diff != "" {
			t.Errorf("summary of %v: %s", w, diff)
		}
		if got.Pageviews == 0 || got.Sessions == 0 {
			t.Errorf("%v proves nothing: %+v", w, got)
		}
		for path, members := range map[string]map[string]string{
			"pages":     {"top": "page", "entry": "entry", "exit": "exit"},
			"referrers": {"sources": "source"},
			"tech":      {"devices": "device", "browsers": "browser", "os": "os"},
		} {
			var answer map[string]json.RawMessage
			ask(t, p, key, path, query, &answer)
			for member, dimension := range members {
				var rows []naive.Row
				if err := json.Unmarshal(answer[member], &rows); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(count.Breakdown(w, dimension, 500), rows); diff != "" {
					t.Errorf("%s.%s of %v: %s", path, member, w, diff)
				}
			}
		}
		var series struct {
			Buckets []struct {
				TS                  time.Time
				Pageviews, Visitors int64
			}
		}
		query.Set("granularity", "hour")
		ask(t, p, key, "timeseries", query, &series)
		want := count.Timeseries(w, "hour")
		if len(series.Buckets) != len(want) {
			t.Fatalf("timeseries of %v has %d buckets, want %d", w, len(series.Buckets), len(want))
		}
		for i, b := range series.Buckets {
			if !b.TS.Equal(want[i].Start) || b.Pageviews != want[i].Pageviews || b.Visitors != want[i].Visitors {
				t.Errorf("bucket %d of %v is %+v, want %+v", i, w, b, want[i])
			}
		}
	}
}

func TestACollectedVisitIsCountedAndABotIsNot(t *testing.T) {
	t.Parallel()
	p, database := serve(t)
	_, public, key := newSite(t, database, "example.com", "UTC")
	const browser = "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0"
	collect := func(url, name, userAgent string, header ...string) answer {
		body := fmt.Sprintf(`{"site_key":%q,"url":%q,"referrer":"https://www.example.org/x","name":%q,"props":{"plan":"team"}}`, public, url, name)
		return do(t, "POST", p.url+"/api/collect", body, append([]string{"Content-Type", "text/plain", "User-Agent", userAgent, "Origin", "https://example.com"}, header...)...)
	}
	for _, c := range []struct {
		name string
		got  answer
	}{
		{"a page", collect("https://example.com/a?utm_source=mail#top", "", browser)},
		{"another", collect("https://www.example.com:8443/b", "pageview", browser)},
		{"an event", collect("https://example.com/b", "signup", browser)},
		{"a bot", collect("https://example.com/a", "", "Googlebot/2.1 (+http://www.google.com/bot.html)")},
		{"another host", collect("https://example.net/a", "", browser)},
		{"Do Not Track", collect("https://example.com/a", "", browser, "DNT", "1")},
	} {
		if c.got.status != 202 || len(c.got.body) != 0 || c.got.header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d %q %v", c.name, c.got.status, c.got.body, c.got.header)
		}
	}
	var got metrics
	ask(t, p, key, "summary", nil, &got)
	if got.Pageviews != 2 || got.Visitors != 1 || got.Sessions != 1 || got.BounceRate != 0 {
		t.Errorf("summary %+v", got)
	}
	var referrers, events any
	ask(t, p, key, "referrers", nil, &referrers)
	row := func(label string) []any {
		return []any{map[string]any{"label": label, "visitors": 1.0, "pageviews": 2.0}}
	}
	none := []any{}
	if diff := cmp.Diff(map[string]any{"sources": row("example.org"), "utm": map[string]any{
		"source": row("mail"), "medium": none, "campaign": none, "term": none, "content": none,
	}}, referrers); diff != "" {
		t.Error(diff)
	}
	ask(t, p, key, "events", url.Values{"name": {"signup"}}, &events)
	if diff := cmp.Diff(map[string]any{
		"events": []any{map[string]any{"name": "signup", "count": 1.0, "visitors": 1.0}},
		"props":  []any{map[string]any{"key": "plan", "value": "team", "count": 1.0}},
	}, events); diff != "" {
		t.Error(diff)
	}
	var now any
	ask(t, p, key, "realtime", nil, &now)
	if diff := cmp.Diff(map[string]any{"visitors": 1.0, "window_seconds": 300.0}, now); diff != "" {
		t.Error(diff)
	}
	wantError(t, do(t, "POST", p.url+"/api/collect", strings.Repeat("x", 9<<10), "Content-Type", "text/plain"), 413, "payload_too_large")
	wantError(t, do(t, "GET", p.url+"/api/stats/summary?from=2024-01-01", "", "X-Analytics-API-Key", key), 422, "validation_failed")
	wantError(t, do(t, "GET", p.url+"/api/stats/pages?limit=501", "", "X-Analytics-API-Key", key), 422, "validation_failed")
}
