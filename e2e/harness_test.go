package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/e2e/naive"
	"github.com/waypost/waypost/e2e/outside"
)

// admin makes an ADMIN as an operator would and signs in.
func admin(t *testing.T, p *process, databaseURL string) string {
	t.Helper()
	code, out, errOut := command(t, []string{"DATABASE_URL=" + databaseURL}, outside.Password+"\n",
		"user", "create", "--email", "root@example.com", "--first-name", "Ro", "--last-name", "Ot", "--role", "admin")
	if code != 0 {
		t.Fatalf("user create: %d %s %s", code, out, errOut)
	}
	return signIn(t, p, "root@example.com", outside.Password)
}

func ask(t *testing.T, p *process, key, path string, query url.Values, out any) {
	t.Helper()
	a := outside.Do(t, "GET", p.url+"/api/stats/"+path+"?"+query.Encode(), "", "X-Analytics-API-Key", key)
	if a.Status != 200 {
		t.Fatalf("%s?%s: %d %s", path, query.Encode(), a.Status, a.Body)
	}
	d := json.NewDecoder(bytes.NewReader(a.Body))
	if err := d.Decode(out); err != nil {
		t.Fatal(err)
	}
}

// behind changes the database behind the service's back.
func behind(t *testing.T, databaseURL, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// blocks returns the pages' code blocks in a language, in their order.
func blocks(t *testing.T, page, language string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for rest := string(text); ; {
		_, after, found := strings.Cut(rest, "```"+language+"\n")
		if !found {
			return list
		}
		block, behind, _ := strings.Cut(after, "```")
		list, rest = append(list, block), behind
	}
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

// countEvents is the number of events in a state.
func countEvents(t *testing.T, p *process, token, status string) int {
	t.Helper()
	var list struct{ Meta struct{ Total int } }
	outside.Do(t, "GET", p.url+"/api/admin/webhooks?limit=1&total=true&status="+status, "", "Authorization", "Bearer "+token).Into(t, &list)
	return list.Meta.Total
}

// countNow asks the database for a number, as its superuser.
func countNow(t *testing.T, databaseURL, sql string, args ...any) int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var n int
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
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

func signIn(t *testing.T, p *process, email, password string) string {
	t.Helper()
	body, err := json.Marshal(map[string]string{"email": email, "password": password})
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		Data struct {
			AccessToken string `json:"access_token"`
			TokenType   string `json:"token_type"`
			ExpiresIn   int    `json:"expires_in"`
		}
	}
	a := outside.Do(t, "POST", p.url+"/api/auth/login", string(body), "Content-Type", "application/json")
	a.Into(t, &in)
	if a.Status != 200 || in.Data.AccessToken == "" || in.Data.TokenType != "Bearer" || in.Data.ExpiresIn != 900 {
		t.Fatalf("sign in: %d %s", a.Status, a.Body)
	}
	if got := a.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("an answer with tokens is Cache-Control: %q", got)
	}
	return in.Data.AccessToken
}

func wantError(t *testing.T, a outside.Answer, status int, code string) envelope {
	t.Helper()
	var e envelope
	a.Into(t, &e)
	if a.Status != status || e.Error.Code != code || e.Error.Message == "" {
		t.Errorf("got %d %+v, want %d %s", a.Status, e.Error, status, code)
	}
	if got := a.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
	if a.Header.Get("X-Request-Id") == "" {
		t.Error("no X-Request-Id")
	}
	return e
}

// within asks done again and again until it says so, or the time is over.
func within(limit time.Duration, done func() bool) bool {
	deadline := time.After(limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			return false
		}
	}
	return true
}

// envelope is the shape of every error.
type envelope struct {
	Error struct {
		Code    string
		Message string
		Details map[string]string
	}
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
