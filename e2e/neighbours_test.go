package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
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
	question := func(key string, n int, filtered bool) outside.Answer {
		q := url.Values{"from": {"2024-01-01"}, "to": {time.Now().UTC().Format(time.DateOnly)}, "limit": {fmt.Sprint(n + 1)}}
		if filtered {
			q.Set("filter[path]", fmt.Sprintf("/%d", n))
		}
		return outside.Do(t, "GET", p.url+"/api/stats/pages?"+q.Encode(), "", "X-Analytics-API-Key", key)
	}
	unlock := dbtest.Lock(t, urls.Owner, "lock table rollup_days in access exclusive mode") // which every answer reads

	const asking = 40
	var asked sync.WaitGroup
	statuses := make(chan string, 3*asking)
	for n := range asking {
		for _, ask := range []func() outside.Answer{
			func() outside.Answer { return question(key, n, true) },
			func() outside.Answer { return question(key, n, false) },
			func() outside.Answer { return question(otherKey, n, true) },
		} {
			asked.Go(func() {
				a := ask()
				var e envelope
				a.Into(t, &e)
				statuses <- fmt.Sprint(a.Status, " ", e.Error.Code)
				if strings.Contains(e.Error.Message, "cannot reach") {
					t.Errorf("the database can be reached: %s", e.Error.Message)
				}
				if a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") == "" {
					t.Error("busy without Retry-After")
				}
			})
		}
	}
	for n := range 30 {
		if a := outside.Do(t, "GET", p.url+"/readyz", ""); a.Status != http.StatusOK {
			t.Errorf("readiness: %d %s", a.Status, a.Body)
		}
		hit := fmt.Sprintf(`{"site_key":%q,"url":"https://example.com/%d"}`, public, n)
		if a := outside.Do(t, "POST", p.url+"/api/collect", hit, "User-Agent", visitorAgent); a.Status != http.StatusAccepted {
			t.Errorf("a hit: %d %s", a.Status, a.Body)
		}
		body := fmt.Sprintf(`{"id":"evt_%d","type":"payment.succeeded"}`, n)
		if a := outside.Do(t, "POST", p.url+"/webhooks/payment", body, "Payment-Signature", outside.PaymentSignature(secret, body)); a.Status != http.StatusOK {
			t.Errorf("a delivery: %d %s", a.Status, a.Body)
		}
		if a := outside.Do(t, "GET", p.url+"/api/posts", "", "Authorization", "Bearer "+signIn(t, p, "root@example.com", outside.Password)); a.Status != http.StatusOK {
			t.Errorf("a sign-in and a list: %d %s", a.Status, a.Body)
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
		if a := question(key, 0, filtered); a.Status != http.StatusOK {
			t.Errorf("a question after it: %d %s", a.Status, a.Body)
		}
	}
}

// One site's questions hang as long as they may, while another's find what they need.
func TestOneSitesQuestionsHangAndEverybodyElsesAreAnswered(t *testing.T) {
	t.Parallel()
	const secret = "a payment secret"
	urls := dbtest.NewURL(t)
	p := startServe(t, urls.App, "PAYMENT_WEBHOOK_SECRET="+secret, "WAYPOST_STATS_TIMEOUT=5s")
	slow, slowPublic, slowKey := newSite(t, urls.App, "example.com", "UTC")
	_, public, key := newSite(t, urls.App, "example.org", "UTC")
	hit := func(public, host string, n int) {
		t.Helper()
		body := fmt.Sprintf(`{"site_key":%q,"url":"https://%s/%d"}`, public, host, n)
		if a := outside.Do(t, "POST", p.url+"/api/collect", body, "User-Agent", visitorAgent); a.Status != http.StatusAccepted {
			t.Errorf("a hit: %d %s", a.Status, a.Body)
		}
	}
	hit(slowPublic, "example.com", 0)
	hit(public, "example.org", 0)
	// Only questions have a limit of time in the database.
	behind(t, urls.Admin, `create policy hang on sessions for select using (case when site_id = '`+slow+`' and current_setting('statement_timeout') <> '0'
		then (select pg_sleep(3600)) is null else true end)`)
	for _, others := range []string{"insert with check", "update using", "delete using"} {
		behind(t, urls.Admin, `create policy may_`+others[:6]+` on sessions for `+others+` (true)`)
	}
	behind(t, urls.Admin, `alter table sessions enable row level security`)
	question := func(key, query string) outside.Answer {
		return outside.Do(t, "GET", p.url+"/api/stats/summary?"+query, "", "X-Analytics-API-Key", key)
	}
	const filtered = "filter%5Bdevice%5D=desktop"
	var asked sync.WaitGroup
	statuses := make(chan string, 40)
	for range cap(statuses) {
		asked.Go(func() {
			var e envelope
			a := question(slowKey, filtered)
			a.Into(t, &e)
			statuses <- fmt.Sprint(a.Status, " ", e.Error.Code)
		})
	}
	p.waitFor(t, "a question that hangs", func() bool {
		return countNow(t, urls.Admin, `select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'`) > 0
	})
	for n := range 5 {
		for _, query := range []string{filtered, ""} {
			if a := question(key, query); a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"pageviews":`) {
				t.Errorf("another site's question %q: %d %s", query, a.Status, a.Body)
			}
		}
		hit(public, "example.org", n)
		hit(slowPublic, "example.com", n)
		body := fmt.Sprintf(`{"id":"evt_%d","type":"payment.succeeded"}`, n)
		if a := outside.Do(t, "POST", p.url+"/webhooks/payment", body, "Payment-Signature", outside.PaymentSignature(secret, body)); a.Status != http.StatusOK {
			t.Errorf("a delivery: %d %s", a.Status, a.Body)
		}
		if a := outside.Do(t, "GET", p.url+"/readyz", ""); a.Status != http.StatusOK {
			t.Errorf("readiness: %d %s", a.Status, a.Body)
		}
	}
	asked.Wait()
	close(statuses)
	counts := map[string]int{}
	for s := range statuses {
		counts[s]++
	}
	if counts["422 query_too_expensive"] == 0 || counts["503 busy"] == 0 || len(counts) != 2 {
		t.Errorf("the questions that hang were answered %v; want busy, and too expensive where they were begun", counts)
	}
}

func TestTwoHundredDeliveriesAtOnceFromOneAddressAreAllTaken(t *testing.T) {
	t.Parallel()
	const secret = "a payment secret"
	p := startServe(t, dbtest.NewURL(t).App, "PAYMENT_WEBHOOK_SECRET="+secret)
	var all sync.WaitGroup
	begin, padding := make(chan struct{}), strings.Repeat("waypost ", 2<<10)
	for n := range 200 {
		body := fmt.Sprintf(`{"id":"evt_%d","type":"payment.succeeded","data":%q}`, n, padding)
		all.Go(func() {
			<-begin
			if a := outside.Do(t, "POST", p.url+"/webhooks/payment", body, "Payment-Signature", outside.PaymentSignature(secret, body)); a.Status != http.StatusOK {
				t.Errorf("delivery %d: %d %s", n, a.Status, a.Body)
			}
		})
	}
	close(begin)
	all.Wait()
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
	case <-time.After(outside.Patience):
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
				"hit":       outside.Do(t, "POST", p.url+"/api/collect", hit, "User-Agent", visitorAgent).Status - http.StatusAccepted,
				"delivery":  outside.Do(t, "POST", p.url+"/webhooks/payment", body, "Payment-Signature", outside.PaymentSignature(secret, body)).Status - http.StatusOK,
				"question":  outside.Do(t, "GET", p.url+"/api/stats/summary", "", "X-Analytics-API-Key", key).Status - http.StatusOK,
				"list":      outside.Do(t, "GET", p.url+"/api/admin/webhooks", "", "Authorization", "Bearer "+token).Status - http.StatusOK,
				"readiness": outside.Do(t, "GET", p.url+"/readyz", "").Status - http.StatusOK,
			} {
				if got != 0 {
					t.Errorf("%s %d was answered otherwise (by %+d)", what, n, got)
				}
			}
		})
	}
	all.Wait()
}
