package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/naive"
	"github.com/waypost/waypost/e2e/outside"
)

func (a *audience) joined(p *process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.urls = append(a.urls, p.url)
}

func (a *audience) left(p *process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, url := range a.urls {
		if url == p.url {
			a.urls = append(a.urls[:i:i], a.urls[i+1:]...)
			return
		}
	}
}

// post sends a body to some process and returns its answer, status 0 for none.
func (a *audience) post(path, body string, header ...string) (int, []byte) {
	a.mu.Lock()
	if len(a.urls) == 0 {
		a.mu.Unlock()
		<-time.After(5 * time.Millisecond) // both processes are gone for the moment
		return 0, nil
	}
	url := a.urls[rand.N(len(a.urls))]
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), outside.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil
	}
	return res.StatusCode, text
}

// hit reports a page of its own, once; at times a bot does. It returns the status.
func (a *audience) hit(sender, n int) int {
	path, agent := fmt.Sprintf("/hit/%d-%d", sender, n), visitorAgent
	bot := n%9 == 0
	if bot {
		agent = "Googlebot/2.1 (+http://www.google.com/bot.html)"
	}
	status, _ := a.post("/api/collect", fmt.Sprintf(`{"site_key":%q,"url":"https://example.com%s"}`, a.siteKey, path),
		"Content-Type", "text/plain", "User-Agent", agent, "X-Forwarded-For", fmt.Sprintf("198.18.%d.%d", sender, n%7))
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case bot:
		if a.botsSent++; status == http.StatusAccepted {
			a.bots++
		}
	default:
		a.sent[path] = true
		a.answered[path] = status == http.StatusAccepted
	}
	return status
}

// batch reports some events until that is answered.
func (a *audience) batch(t *testing.T, sender, n int) {
	const size = 25
	var events []map[string]any
	for i := range size {
		path := fmt.Sprintf("/batch/%d-%d-%d", sender, n, i)
		events = append(events, map[string]any{
			"event_id": path, "ts": time.Now().UTC().Format(time.RFC3339Nano), "url": "https://example.com" + path,
			"ip": fmt.Sprintf("198.19.%d.%d", sender, i%5), "user_agent": visitorAgent,
		})
	}
	body, err := json.Marshal(map[string]any{"events": events})
	if err != nil {
		t.Error(err)
		return
	}
	for deadline := time.Now().Add(2 * outside.Patience); ; {
		status, text := a.post("/api/collect/batch", string(body), "Content-Type", "application/json", "X-Analytics-API-Key", a.ingestKey)
		if status == http.StatusOK {
			var got struct {
				Accepted, Duplicate int
				Rejected            []any
			}
			if err := json.Unmarshal(text, &got); err != nil || got.Accepted+got.Duplicate != size || len(got.Rejected) > 0 {
				t.Errorf("batch %d of %d: %s", n, sender, text)
			}
			break
		}
		if status != 0 && status != http.StatusServiceUnavailable || time.Now().After(deadline) {
			t.Errorf("batch %d of %d is answered %d %s", n, sender, status, text)
			return
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range events {
		path := strings.TrimPrefix(e["url"].(string), "https://example.com")
		a.sent[path], a.answered[path] = true, true
	}
}

// report lets pages and servers report until the returned function is called,
// which waits for the last answers.
func (a *audience) report(t *testing.T, pages, servers int) func() {
	stop := make(chan struct{})
	var running sync.WaitGroup
	loop := func(once func(n int)) {
		running.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					once(n)
				}
			}
		})
	}
	for s := range pages {
		loop(func(n int) { a.hit(s, n) })
	}
	for s := range servers {
		loop(func(n int) { a.batch(t, s, n) })
	}
	return func() { close(stop); running.Wait() }
}

// settle holds what is stored against what was answered.
func (a *audience) settle(t *testing.T, hits []naive.Hit) {
	t.Helper()
	times := map[string]int{}
	for _, h := range hits {
		if times[h.Path]++; times[h.Path] == 2 {
			t.Errorf("%s is counted twice", h.Path)
		}
		if !a.sent[h.Path] {
			t.Errorf("%s is counted and was never reported", h.Path)
		}
	}
	answered, unanswered := 0, 0
	for path, ok := range a.answered {
		switch {
		case !ok:
			unanswered++
		case times[path] == 0:
			t.Errorf("%s was acknowledged and is not counted", path)
		default:
			answered++
		}
	}
	t.Logf("%d acknowledged, %d not, %d counted, %d of %d bots acknowledged", answered, unanswered, len(hits), a.bots, a.botsSent)
	if answered == 0 || unanswered == 0 || a.bots == 0 {
		t.Error("the test shows little")
	}
}

// expectNumbers asks for the numbers of all that is stored.
func expectNumbers(t *testing.T, p *process, key string, hits []naive.Hit) {
	t.Helper()
	count := naive.New(naive.Rules{Zone: time.UTC}, hits)
	w := naive.Window{From: time.Now().AddDate(0, 0, -1).UTC().Format(time.DateOnly), To: time.Now().UTC().Format(time.DateOnly)}
	query := url.Values{"from": {w.From}, "to": {w.To}, "limit": {"500"}}
	var got metrics
	ask(t, p, key, "summary", query, &got)
	if diff := cmp.Diff(metrics(count.Summary(w)), got); diff != "" {
		t.Error("summary", diff)
	}
	var pages map[string][]naive.Row
	ask(t, p, key, "pages", query, &pages)
	for member, dimension := range map[string]string{"top": "page", "entry": "entry", "exit": "exit"} {
		if diff := cmp.Diff(count.Breakdown(w, dimension, 500), pages[member]); diff != "" {
			t.Error(member, diff)
		}
	}
}

func TestEveryAcknowledgedHitIsCountedOnceThoughProcessesAreKilled(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	serve := func() *process {
		return startServe(t, urls.App, "WAYPOST_TRUSTED_PROXIES=127.0.0.1", "WAYPOST_ADDRESS_RATE=0", "WAYPOST_SITE_RATE=0", "WAYPOST_KEY_RATE=0")
	}
	processes := []*process{serve(), serve()}
	siteID, public, key := newSite(t, urls.App, "example.com", "UTC")
	token := admin(t, processes[0], urls.App)
	a := &audience{siteKey: public, ingestKey: newKey(t, urls.App, siteID, "ingest"), answered: map[string]bool{}, sent: map[string]bool{}}
	for _, p := range processes {
		a.joined(p)
	}
	stop := a.report(t, 10, 3)
	for round := range 12 {
		<-time.After(rand.N(400 * time.Millisecond)) // the instant is what is random
		victims := []int{round % 2}
		if round%4 == 3 {
			victims = []int{0, 1}
		}
		for _, v := range victims {
			processes[v].kill()
			a.left(processes[v])
		}
		for _, v := range victims {
			processes[v] = serve()
			a.joined(processes[v])
		}
	}
	stop()
	hits := storedHits(t, urls.Admin, siteID)
	a.settle(t, hits)
	for _, p := range processes {
		expectNumbers(t, p, key, hits)
	}
	if n := dropsOf(t, processes[0], token, siteID)["bot"]; n < a.bots || n > a.botsSent {
		t.Errorf("%d bots are shown; %d of %d were acknowledged", n, a.bots, a.botsSent)
	}
}

// audience is the visitors of one site, who report to whichever process answers.
// Pages report each hit once and keep what became of it; a server reports each
// batch until it is answered.
type audience struct {
	siteKey, ingestKey string

	mu       sync.Mutex
	urls     []string
	answered map[string]bool // by path: 202, or in a batch that was answered 200
	sent     map[string]bool // by path
	bots     int             // bots' hits that were answered 202
	botsSent int
}

// dropsOf are the counts by reason, over all days, that the site's owner is shown.
func dropsOf(t *testing.T, p *process, token, siteID string) map[string]int {
	t.Helper()
	a := outside.Do(t, "GET", p.url+"/api/admin/sites/"+siteID+"/drops?limit=100", "", "Authorization", "Bearer "+token)
	var list struct {
		Data []struct {
			Reason string
			Count  int
		}
	}
	a.Into(t, &list)
	counts := map[string]int{}
	for _, d := range list.Data {
		counts[d.Reason] += d.Count
	}
	return counts
}

// storedHits are a site's events as the naive count takes them.
func storedHits(t *testing.T, databaseURL, siteID string) []naive.Hit {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	rows, err := conn.Query(t.Context(), `select occurred_at, visitor::text, path from events where site_id = $1 order by occurred_at, id`, siteID)
	if err != nil {
		t.Fatal(err)
	}
	hits, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (naive.Hit, error) {
		var h naive.Hit
		err := row.Scan(&h.At, &h.Visitor, &h.Path)
		return h, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return hits
}

const visitorAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0"
