package e2e_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

// Two instances share a database, and one of them has no handler. Then the other is
// away while an administrator replays.
func TestEventsWaitForAnInstanceThatHasTheirHandler(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	status.Store(http.StatusNoContent)
	to, got := target(t, &status)
	file := filepath.Join(dbtest.TempDir(t), "waypost.yaml")
	content := "webhooks:\n  handlers:\n    - {provider: payment, event: order.paid, forward: {url: \"" + to + "/in\", secret_env: FORWARD_SECRET}}\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	key := "whsec_" + base64.StdEncoding.EncodeToString([]byte("a key of the forward, long enough"))
	databaseURL := dbtest.NewURL(t).App
	without := startServe(t, databaseURL)
	with := func() *process {
		return startServe(t, databaseURL, "WAYPOST_CONFIG="+file, "PAYMENT_WEBHOOK_SECRET="+outside.PaymentSecret, "FORWARD_SECRET="+key)
	}
	token := admin(t, without, databaseURL)
	deliver := func(p *process, i int) string {
		t.Helper()
		body := fmt.Sprintf(`{"id":"evt_%d","type":"order.paid"}`, i)
		a := outside.Do(t, "POST", p.url+"/webhooks/payment", body, "Payment-Signature", outside.PaymentSignature(outside.PaymentSecret, body))
		var r outside.Receipt
		if a.Into(t, &r); a.Status != 200 || r.Status != "pending" {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		return r.ID
	}
	// Without a sign of it that would be seen here, the other instance gets about
	// every second job.
	first := with()
	const events = 20
	ids := map[string]bool{}
	for i := range events {
		ids[deliver(first, i)] = true
	}
	for range events {
		d := next(t, got, "/in")
		if id := d.header.Get("Webhook-Id"); !ids[id] {
			t.Errorf("%s came twice, or is nobody's", id)
		} else {
			delete(ids, id)
		}
	}
	first.waitFor(t, "every event's outcome", func() bool {
		return countEvents(t, without, token, "processed") == events
	})

	status.Store(http.StatusServiceUnavailable)
	waiting := deliver(first, events)
	next(t, got, "/in")
	first.stop(t)
	status.Store(http.StatusNoContent)
	var replayed struct {
		Data struct {
			Status     string
			RetryCount int `json:"retry_count"`
		}
	}
	without.waitFor(t, "a replay", func() bool { // the attempt's outcome may be under way
		a := outside.Do(t, "POST", without.url+"/api/admin/webhooks/"+waiting+"/replay", "", "Authorization", "Bearer "+token)
		if a.Status == 409 {
			return false
		}
		a.Into(t, &replayed)
		if a.Status != 200 || replayed.Data.Status != "pending" || replayed.Data.RetryCount != 1 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		return true
	})
	second := with()
	if d := next(t, got, "/in"); d.header.Get("Webhook-Id") != waiting {
		t.Errorf("forwarded %s, not %s", d.header.Get("Webhook-Id"), waiting)
	}
	second.waitFor(t, "its outcome", func() bool { return countEvents(t, second, token, "processed") == events+1 })
}
