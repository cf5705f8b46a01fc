package api_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/waypost/waypost/internal/webhook"
)

// crowded is the API over a receiver whose memory takes one body of 1 MiB and some
// small ones, and what it counts.
func crowded(t *testing.T, bindings ...webhook.Binding) (hooks, *prometheus.Registry) {
	t.Helper()
	metrics := prometheus.NewRegistry()
	return newHooks(t, func(o *webhook.Options) { o.BodyMemory, o.Metrics = 2<<20, metrics }, bindings...), metrics
}

func TestABodyForWhichThereIsNoMemoryIs503AndSmallOnesGoOn(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	h, metrics := crowded(t, webhook.Handle("payment", "slow", func(context.Context, *webhook.Delivery) error {
		close(entered)
		<-release
		return nil
	}))
	large := `{"data":"` + strings.Repeat("x", 900<<10) + `"}`
	first := make(chan int, 1)
	slow := h.delivery(t, "payment", "slow", "evt_1", large)
	go func() {
		status := 0
		if resp, err := http.DefaultClient.Do(slow); err == nil {
			status = resp.StatusCode
			_ = resp.Body.Close()
		}
		first <- status
	}()
	<-entered
	for name, chunked := range map[string]bool{"announced": false, "in chunks": true} {
		r := h.delivery(t, "payment", "other", "evt_2", large)
		if chunked {
			r.ContentLength, r.Body = -1, io.NopCloser(r.Body)
		}
		status, header, got := send(t, r)
		e, _ := got["error"].(map[string]any)
		if status != http.StatusServiceUnavailable || e["code"] != "storage_unavailable" || header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %v %v", name, status, header, got)
		}
	}
	if status, _, got := send(t, h.delivery(t, "payment", "other", "evt_3", `{}`)); status != http.StatusOK {
		t.Errorf("a small one: %d %v", status, got)
	}
	close(release)
	if status := <-first; status != http.StatusOK {
		t.Errorf("the first: %d", status)
	}
	if status, _, got := send(t, h.delivery(t, "payment", "other", "evt_2", large)); status != http.StatusOK {
		t.Errorf("once there is memory again: %d %v", status, got)
	}
	const want = `
# HELP waypost_webhook_rejected_total Deliveries that were refused. For an unknown provider the label is empty.
# TYPE waypost_webhook_rejected_total counter
waypost_webhook_rejected_total{provider="payment",reason="crowded"} 2
`
	if err := testutil.GatherAndCompare(metrics, strings.NewReader(want), "waypost_webhook_rejected_total"); err != nil {
		t.Error(err)
	}
}

// The memory comes back whatever becomes of a delivery, slow and broken senders
// included.
func TestEveryDeliveryGivesItsMemoryBack(t *testing.T) {
	t.Parallel()
	h, metrics := crowded(t, webhook.Handle("payment", "bad", func(context.Context, *webhook.Delivery) error { panic("no") }))
	for range 3 {
		for _, r := range []*http.Request{
			h.delivery(t, "payment", "ok", "evt_1", `{}`),
			h.delivery(t, "payment", "bad", "", `{}`),
			h.request(t, "POST", "/webhooks/payment", []byte(`{}`)),
			h.request(t, "POST", "/webhooks/nobody", []byte(`{}`)),
			h.raw(t, "1", []byte("Hello")),
			h.raw(t, "1", make([]byte, 1<<20+1)),
		} {
			send(t, r)
		}
	}
	conns := make([]net.Conn, 50)
	for i := range conns {
		var err error
		if conns[i], err = net.Dial("tcp", strings.TrimPrefix(h.url, "http://")); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conns[i].Close() }()
		if _, err := fmt.Fprintf(conns[i], "POST /webhooks/payment HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", 60<<10, "{"); err != nil {
			t.Fatal(err)
		}
	}
	held := func(want string) bool {
		deadline := time.Now().Add(30 * time.Second)
		for time.Now().Before(deadline) {
			if testutil.GatherAndCompare(metrics, strings.NewReader(`
# HELP waypost_webhook_body_bytes Bytes of memory that deliveries' bodies take at this moment.
# TYPE waypost_webhook_body_bytes gauge
waypost_webhook_body_bytes `+want+"\n"), "waypost_webhook_body_bytes") == nil {
				return true
			}
		}
		return false
	}
	if !held(fmt.Sprint(len(conns) * (4 << 10))) {
		t.Error("senders that have sent one byte do not hold 4 KiB each")
	}
	for _, c := range conns[:25] {
		_ = c.Close()
	}
	if !held("0") { // the others' time runs out
		t.Error("memory is held for senders that have gone, or that were told 408")
	}
}
