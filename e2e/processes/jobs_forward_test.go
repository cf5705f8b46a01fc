package e2e_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

// The target holds the first forward until the end of the test, and the process that
// sent it is killed meanwhile.
func TestAForwardWhoseProcessDiesIsSentAgainUnderItsIDAndRecordedOnce(t *testing.T) {
	t.Parallel()
	ids, over := make(chan string, 100), make(chan struct{})
	held := make(chan struct{}, 1)
	held <- struct{}{}
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ids <- r.Header.Get("Webhook-Id")
		select {
		case <-held:
			<-over
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	t.Cleanup(target.Close)
	t.Cleanup(func() { close(over) }) // first
	file := filepath.Join(dbtest.TempDir(t), "waypost.yaml")
	content := "webhooks:\n  handlers:\n    - {provider: payment, event: order.paid, forward: {url: \"" + target.URL + "\", secret_env: FORWARD_SECRET}}\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	urls := dbtest.NewURL(t)
	key := "whsec_" + base64.StdEncoding.EncodeToString([]byte("a key of the forward, long enough"))
	serve := func() *process {
		return startServe(t, urls.App, "WAYPOST_CONFIG="+file, "PAYMENT_WEBHOOK_SECRET="+outside.PaymentSecret, "FORWARD_SECRET="+key)
	}
	p := serve()
	d := desk{p, admin(t, p, urls.App)}
	const body = `{"id":"evt_1","type":"order.paid"}`
	a := outside.Do(t, "POST", p.url+"/webhooks/payment", body, "Payment-Signature", outside.PaymentSignature(outside.PaymentSecret, body))
	var r outside.Receipt
	if a.Into(t, &r); a.Status != 200 || r.Status != "pending" {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	sent := func() string {
		t.Helper()
		select {
		case id := <-ids:
			return id
		case <-time.After(outside.Patience):
			t.Fatal("nothing comes to the target")
			return ""
		}
	}
	if id := sent(); id != r.ID {
		t.Errorf("forwarded %s, not %s", id, r.ID)
	}
	p.kill()
	// The dead process's attempt keeps the event for the time that an attempt may take.
	behind(t, urls.Admin, `update webhook_forwards set due_at = now() where lease_id is not null`)
	d = d.at(serve())
	if id := sent(); id != r.ID {
		t.Errorf("forwarded %s after the death, not %s", id, r.ID)
	}
	d.p.waitFor(t, "its outcome", func() bool { return countEvents(t, d.p, d.token, "processed") == 1 })
	var more []string
	for len(ids) > 0 {
		more = append(more, <-ids)
	}
	if diff := cmp.Diff([]string(nil), more); diff != "" {
		t.Errorf("one death, and more than one forward again: %s", diff)
	}
}
