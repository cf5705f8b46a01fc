package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
)

// Questions that never end are what the slowest ones look like to everybody else.
func TestQuestionsThatHangHoldUpNobodyElse(t *testing.T) {
	t.Parallel()
	const secret = "a payment secret"
	urls := dbtest.NewURL(t)
	p := startServe(t, urls.App, "PAYMENT_WEBHOOK_SECRET="+secret, "WAYPOST_STATS_TIMEOUT=3s")
	_, public, key := newSite(t, urls.App, "example.com", "UTC")
	_, _, otherKey := newSite(t, urls.App, "example.org", "UTC")
	admin(t, p, urls.App)
	question := func(key string, n int, filtered bool) answer {
		q := url.Values{"from": {"2024-01-01"}, "to": {time.Now().UTC().Format(time.DateOnly)}, "limit": {fmt.Sprint(n + 1)}}
		if filtered {
			q.Set("filter[path]", fmt.Sprintf("/%d", n))
		}
		return do(t, "GET", p.url+"/api/stats/pages?"+q.Encode(), "", "X-Analytics-API-Key", key)
	}
	unlock := hangAnswers(t, urls.Owner)

	const asking = 40
	var asked sync.WaitGroup
	statuses := make(chan string, 3*asking)
	for n := range asking {
		for _, ask := range []func() answer{
			func() answer { return question(key, n, true) },
			func() answer { return question(key, n, false) },
			func() answer { return question(otherKey, n, true) },
		} {
			asked.Go(func() {
				a := ask()
				var e envelope
				a.into(t, &e)
				statuses <- fmt.Sprint(a.status, " ", e.Error.Code)
				if strings.Contains(e.Error.Message, "cannot reach") {
					t.Errorf("the database can be reached: %s", e.Error.Message)
				}
				if a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "" {
					t.Error("busy without Retry-After")
				}
			})
		}
	}
	for n := range 30 {
		if a := do(t, "GET", p.url+"/readyz", ""); a.status != http.StatusOK {
			t.Errorf("readiness: %d %s", a.status, a.body)
		}
		hit := fmt.Sprintf(`{"site_key":%q,"url":"https://example.com/%d"}`, public, n)
		if a := do(t, "POST", p.url+"/api/collect", hit, "User-Agent", visitorAgent); a.status != http.StatusAccepted {
			t.Errorf("a hit: %d %s", a.status, a.body)
		}
		body := fmt.Sprintf(`{"id":"evt_%d","type":"payment.succeeded"}`, n)
		if a := do(t, "POST", p.url+"/webhooks/payment", body, "Payment-Signature", paymentSignature(secret, body)); a.status != http.StatusOK {
			t.Errorf("a delivery: %d %s", a.status, a.body)
		}
		if a := do(t, "GET", p.url+"/api/posts", "", "Authorization", "Bearer "+signIn(t, p, "root@example.com", adminPassword)); a.status != http.StatusOK {
			t.Errorf("a sign-in and a list: %d %s", a.status, a.body)
		}
	}
	asked.Wait()
	close(statuses)
	counts := map[string]int{}
	for s := range statuses {
		counts[s]++
	}
	if counts["422 query_too_expensive"] == 0 || counts["503 busy"] == 0 || len(counts) != 2 {
		t.Errorf("questions were answered %v; want busy, and too expensive where they were begun", counts)
	}
	unlock()
	for _, filtered := range []bool{true, false} {
		if a := question(key, 0, filtered); a.status != http.StatusOK {
			t.Errorf("a question after it: %d %s", a.status, a.body)
		}
	}
}

// hangAnswers locks a table that every answer of the statistics reads and that
// nothing else does which a client waits for, until unlock is called.
func hangAnswers(t *testing.T, ownerURL string) (unlock func()) {
	t.Helper()
	return lock(t, ownerURL, "lock table rollup_days in access exclusive mode")
}

// lock keeps the locks that a statement takes until unlock is called.
func lock(t *testing.T, databaseURL, sql string, args ...any) (unlock func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTooFewConnectionsToDivideAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	p := start(t, []string{
		"DATABASE_URL=" + urls.App, "WAYPOST_URL=https://waypost.example", "WAYPOST_SECRET_KEY=a secret key for tests, longer than 32 bytes",
		fmt.Sprint("WAYPOST_DATABASE_MAX_CONNS=", db.LeastConns()-1),
	}, "serve", "--addr", "127.0.0.1:0")
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Fatal("it runs")
	}
	if said := p.stderr.String(); p.err == nil || !strings.Contains(said, "WAYPOST_DATABASE_MAX_CONNS") || !strings.Contains(said, fmt.Sprint(db.LeastConns())) {
		t.Errorf("it ended with %v and said %s", p.err, said)
	}
}

// With the fewest connections everything still works, if not much at once.
func TestTheFewestConnectionsAreEnough(t *testing.T) {
	t.Parallel()
	const secret = "a payment secret"
	urls := dbtest.NewURL(t)
	p := startServe(t, urls.App, "PAYMENT_WEBHOOK_SECRET="+secret, fmt.Sprint("WAYPOST_DATABASE_MAX_CONNS=", db.LeastConns()))
	_, public, key := newSite(t, urls.App, "example.com", "UTC")
	token := admin(t, p, urls.App)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			hit := fmt.Sprintf(`{"site_key":%q,"url":"https://example.com/%d"}`, public, n)
			body := fmt.Sprintf(`{"id":"evt_%d","type":"payment.succeeded"}`, n)
			for what, got := range map[string]int{
				"hit":       do(t, "POST", p.url+"/api/collect", hit, "User-Agent", visitorAgent).status - http.StatusAccepted,
				"delivery":  do(t, "POST", p.url+"/webhooks/payment", body, "Payment-Signature", paymentSignature(secret, body)).status - http.StatusOK,
				"question":  do(t, "GET", p.url+"/api/stats/summary", "", "X-Analytics-API-Key", key).status - http.StatusOK,
				"list":      do(t, "GET", p.url+"/api/admin/webhooks", "", "Authorization", "Bearer "+token).status - http.StatusOK,
				"readiness": do(t, "GET", p.url+"/readyz", "").status - http.StatusOK,
			} {
				if got != 0 {
					t.Errorf("%s %d was answered otherwise (by %+d)", what, n, got)
				}
			}
		})
	}
	all.Wait()
}
