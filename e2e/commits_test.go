package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

const acmeConfig = `
webhooks:
  providers:
    - {name: acme, secret_env: ACME_SECRET, verifier: {type: hmac, header: X-Acme-Signature}, extractor: {type: json, type_field: kind, id_field: uid}}
  handlers:
    - {provider: acme, event: "", forward: {url: "%s/in", secret_env: FORWARD_SECRET}}
`

// clients send hits, batches and deliveries, and check each answer.
type clients struct {
	*audience
	t          *testing.T
	refused    atomic.Int64
	unsure     atomic.Int64 // hits that were refused
	deliveries atomic.Int64
}

// visit reports a page or a bot, once.
func (c *clients) visit(sender, n int) {
	switch status := c.hit(sender, n); status {
	case http.StatusAccepted:
	case http.StatusServiceUnavailable:
		c.unsure.Add(1)
	default:
		c.t.Errorf("a hit is answered %d", status)
	}
}

// deliver sends an event until it is acknowledged.
func (c *clients) deliver(provider, id string) {
	body := fmt.Sprintf(`{"type":"paid","id":%q}`, id)
	if provider == "acme" {
		body = fmt.Sprintf(`{"kind":"paid","uid":%q}`, id)
	}
	for attempt := 0; attempt < 200; attempt++ {
		status, text := c.post("/webhooks/"+provider, body, "Payment-Signature", outside.PaymentSignature(outside.PaymentSecret, body), "X-Acme-Signature", outside.MAC("an acme secret", body))
		switch status {
		case http.StatusOK:
			var got outside.Receipt
			if err := json.Unmarshal(text, &got); err != nil || attempt == 0 && got.Status == "skipped" {
				c.t.Errorf("the first delivery of %s is answered %s", id, text)
			}
			c.deliveries.Add(1)
			return
		case http.StatusServiceUnavailable:
			c.refused.Add(1)
		default:
			c.t.Errorf("a delivery is answered %d %s", status, text)
			return
		}
	}
	c.t.Errorf("%s is never stored", id)
}

// Several clients at once, while every third COMMIT is applied, held back or lost, and
// answered with an error or not at all.
func TestWhateverBecomesOfCommitsWhatIsAcknowledgedIsThereOnce(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	status.Store(http.StatusNoContent)
	url, forwarded := target(t, &status)
	go func() {
		for range forwarded { // so that the target never waits
		}
	}()
	file := filepath.Join(dbtest.TempDir(t), "waypost.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, acmeConfig, url), 0o600); err != nil {
		t.Fatal(err)
	}
	urls := dbtest.NewURL(t)
	proxy := dbtest.NewProxy(t, urls.App)
	p := startServe(t, proxy.URL(), "WAYPOST_CONFIG="+file, "PAYMENT_WEBHOOK_SECRET="+outside.PaymentSecret, "ACME_SECRET=an acme secret",
		"FORWARD_SECRET=whsec_YSBrZXkgb2YgdGhlIGZvcndhcmQ=", "WAYPOST_TRUSTED_PROXIES=127.0.0.1", "WAYPOST_ADDRESS_RATE=0", "WAYPOST_SITE_RATE=0", "WAYPOST_KEY_RATE=0")
	siteID, public, _ := newSite(t, urls.App, "example.com", "UTC")
	c := &clients{t: t, audience: &audience{siteKey: public, ingestKey: newKey(t, urls.App, siteID, "ingest"), answered: map[string]bool{}, sent: map[string]bool{}}}
	c.joined(p)

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	answers := []string{"XX000", "XX001", "08006", "57P01", "57P03", dbtest.FIN, dbtest.RST}
	proxy.Spoil(func() (dbtest.Fault, bool) {
		mu.Lock()
		defer mu.Unlock()
		return dbtest.Fault{
			Fate:   []dbtest.Fate{dbtest.Applied, dbtest.Held, dbtest.Dropped}[random.IntN(3)],
			Answer: answers[random.IntN(len(answers))], Early: random.IntN(4) == 0,
		}, random.IntN(3) == 0
	})
	var senders sync.WaitGroup
	began := time.Now()
	more := func() bool {
		took := time.Since(began)
		return took < 3*time.Second || c.unsure.Load() == 0 && took < outside.Patience
	}
	for s := range 12 {
		senders.Go(func() {
			for n := 0; more(); n++ {
				switch s % 4 {
				case 0:
					c.visit(s, n)
				case 1:
					c.batch(t, s, n)
				case 2:
					c.deliver("payment", fmt.Sprintf("evt_%d_%d", s, n))
				case 3:
					c.deliver("acme", fmt.Sprintf("evt_%d_%d", s, n))
				}
			}
		})
	}
	sent := make(chan struct{})
	go func() { senders.Wait(); close(sent) }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case <-tick.C:
			proxy.Release()
		case <-sent:
			waiting = false
		}
	}
	proxy.Spoil(func() (dbtest.Fault, bool) { return dbtest.Fault{}, false })
	proxy.Release()

	c.settle(t, storedHits(t, urls.Admin, siteID))
	if n := dropsOf(t, p, admin(t, p, urls.App), siteID)["bot"]; n < c.bots || n > c.botsSent {
		t.Errorf("%d bots are counted; %d of %d were acknowledged", n, c.bots, c.botsSent)
	}
	conn, err := pgx.Connect(t.Context(), urls.Admin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var stored, ids int64
	if err := conn.QueryRow(t.Context(), `select count(*), count(distinct (provider, external_id)) from webhook_events`).Scan(&stored, &ids); err != nil {
		t.Fatal(err)
	}
	if stored != c.deliveries.Load() || ids != stored {
		t.Errorf("%d events with %d ids are stored, %d were sent", stored, ids, c.deliveries.Load())
	}
	t.Logf("%d deliveries, %d of them refused before", stored, c.refused.Load())
	if log := p.stderr.String(); strings.Contains(log, `"status":500`) {
		t.Errorf("something is answered 500:\n%s", tail(log, 4000))
	}
}

// What was found: the right to a table is taken away, and nobody is told.
func TestAPeriodicTaskThatKeepsFailingIsSeenUntilItSucceeds(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	p := startServe(t, urls.App, "WAYPOST_METRICS_TOKEN=a token of metrics")
	conn, err := pgx.Connect(t.Context(), urls.Admin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	failing := func() int {
		a := outside.Do(t, "GET", p.url+"/readyz", "")
		var ready struct {
			Status      string
			JobFailures map[string]struct {
				Count       int
				Since, Last time.Time
			} `json:"job_failures"`
		}
		a.Into(t, &ready)
		if a.Status != http.StatusOK || ready.Status != "ready" {
			t.Errorf("readiness is %d %s", a.Status, a.Body)
		}
		if strings.Contains(string(a.Body), "permission") {
			t.Errorf("readiness tells too much: %s", a.Body)
		}
		return ready.JobFailures["statistics.fold"].Count
	}
	counted := func(n string) bool {
		a := outside.Do(t, "GET", p.url+"/metrics", "", "Authorization", "Bearer a token of metrics")
		return strings.Contains(string(a.Body), `waypost_job_failures_total{name="statistics.fold"} `+n+"\n")
	}
	if failing() != 0 || !counted("0") {
		t.Error("something fails at first")
	}
	if _, err := conn.Exec(t.Context(), `revoke select on session_heads from waypost_app`); err != nil {
		t.Fatal(err)
	}
	p.waitFor(t, "failure in /readyz", func() bool { return failing() >= 3 })
	if counted("0") {
		t.Error("the failure is not in the metrics")
	}
	told := 0
	for line := range strings.Lines(p.stderr.String()) {
		if strings.Contains(line, `"level":"ERROR"`) && strings.Contains(line, `"name":"statistics.fold"`) && strings.Contains(line, "permission denied") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("%d lines at error tell of it", told)
	}
	if _, err := conn.Exec(t.Context(), `grant select on session_heads to waypost_app`); err != nil {
		t.Fatal(err)
	}
	p.waitFor(t, "recovery in /readyz", func() bool { return failing() == 0 })
}
