package e2e_test

import (
	"bytes"
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
	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/stats/client"
)

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
		code, out, errOut := command(t, serveSettings(database), "", "import", "--site", id, "--format", "combined", file)
		if code != 0 || !strings.Contains(out, want) || !strings.Contains(out, "malformed") {
			t.Fatalf("import %d: exit %d, %q %q, want %q", run+1, code, out, errOut, want)
		}
	}
	compare(t, p, key, naive.New(naive.Rules{Zone: zone}, hits))
}

func TestACollectedVisitIsCountedAndABotIsNot(t *testing.T) {
	t.Parallel()
	p, database := serve(t)
	_, public, key := newSite(t, database, "example.com", "UTC")
	const browser = "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0"
	collect := func(url, name, userAgent string, header ...string) outside.Answer {
		body := fmt.Sprintf(`{"site_key":%q,"url":%q,"referrer":"https://www.example.org/x","name":%q,"props":{"plan":"team"}}`, public, url, name)
		return outside.Do(t, "POST", p.url+"/api/collect", body, append([]string{"Content-Type", "text/plain", "User-Agent", userAgent, "Origin", "https://example.com"}, header...)...)
	}
	for _, c := range []struct {
		name string
		got  outside.Answer
	}{
		{"a page", collect("https://example.com/a?utm_source=mail#top", "", browser)},
		{"another", collect("https://www.example.com:8443/b", "pageview", browser)},
		{"an event", collect("https://example.com/b", "signup", browser)},
		{"a bot", collect("https://example.com/a", "", "Googlebot/2.1 (+http://www.google.com/bot.html)")},
		{"another host", collect("https://example.net/a", "", browser)},
		{"Do Not Track", collect("https://example.com/a", "", browser, "DNT", "1")},
	} {
		if c.got.Status != 202 || len(c.got.Body) != 0 || c.got.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d %q %v", c.name, c.got.Status, c.got.Body, c.got.Header)
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
	wantError(t, outside.Do(t, "POST", p.url+"/api/collect", strings.Repeat("x", 9<<10), "Content-Type", "text/plain"), 413, "payload_too_large")
	wantError(t, outside.Do(t, "GET", p.url+"/api/stats/summary?from=2024-01-01", "", "X-Analytics-API-Key", key), 422, "validation_failed")
	wantError(t, outside.Do(t, "GET", p.url+"/api/stats/pages?limit=501", "", "X-Analytics-API-Key", key), 422, "validation_failed")
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
