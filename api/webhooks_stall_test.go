package api_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/waypost/waypost/internal/webhook"
)

// stall opens connections that each announce a body, or send it in chunks, send sent bytes
// of it and then nothing more.
func (h hooks) stall(t *testing.T, n, announced, sent int) {
	t.Helper()
	for range n {
		c, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		go func() {
			head, chunk := fmt.Sprintf("Content-Length: %d\r\n\r\n", announced), ""
			if announced < 0 {
				head, chunk = "Transfer-Encoding: chunked\r\n\r\n", fmt.Sprintf("%x\r\n", sent)
			}
			_, _ = fmt.Fprintf(c, "POST /webhooks/payment HTTP/1.1\r\nHost: x\r\n%s%s%s", head, chunk, strings.Repeat("x", sent))
			_, _ = io.Copy(io.Discard, c)
		}()
	}
}

// bodyBytes is the memory that bodies take.
func bodyBytes(t *testing.T, metrics *prometheus.Registry) float64 {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "waypost_webhook_body_bytes" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("no such metric")
	return 0
}

// Whoever sends most of a large body and then nothing holds memory that others need: it
// goes to those who send. The peers here share the address of the honest sender, as all do
// behind a proxy that is not trusted.
func TestStallingPeersDoNotShutOutDeliveries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ announced, sent int }{
		"just short of a large body":       {1 << 20, 1<<20 - 1},
		"just short of it, in chunks":      {-1, 1<<20 - 1},
		"just short of a small body":       {64 << 10, 64<<10 - 1},
		"a little in chunks without a sum": {-1, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			metrics := prometheus.NewRegistry()
			h := newHooks(t, func(o *webhook.Options) { o.BodyMemory, o.Metrics = 8<<20, metrics })
			h.stall(t, 50, c.announced, c.sent)
			for deadline := time.Now().Add(30 * time.Second); bodyBytes(t, metrics) < min(float64(50*4<<10), 3<<20) && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			for i, size := range []int{70_000, 100, 900_000} {
				for _, chunked := range []bool{false, true} {
					// While the peers are still sending, one may have to be sent again.
					status := 0
					for deadline := time.Now().Add(5 * time.Second); status != http.StatusOK && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
						r := h.delivery(t, "payment", "paid", fmt.Sprintf("evt_%d_%t", i, chunked), `{"data":"`+strings.Repeat("x", size)+`"}`)
						if chunked {
							r.ContentLength, r.Body = -1, io.NopCloser(r.Body)
						}
						status, _, _ = send(t, r)
					}
					if status != http.StatusOK {
						t.Errorf("a delivery of %d bytes (chunked %t): %d", size, chunked, status)
					}
				}
			}
		})
	}
}

// Of one address as many come at once as a provider has senders.
func TestDeliveriesAtOnceFromOneAddressAreNotRefused(t *testing.T) {
	t.Parallel()
	h := newHooks(t, nil)
	var all sync.WaitGroup
	for i := range 200 {
		r := h.delivery(t, "payment", "paid", fmt.Sprintf("evt_%d", i), `{"data":"`+strings.Repeat("x", 1000*i)+`"}`)
		if i%2 == 1 {
			r.ContentLength, r.Body = -1, io.NopCloser(r.Body)
		}
		all.Go(func() {
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = resp.Body.Close() }()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("delivery %d: %d", i, resp.StatusCode)
			}
		})
	}
	all.Wait()
}

// What is cut short for others is refused as a delivery that found no room, once, and not
// kept in the log of refused ones.
func TestAStallingBodyThatIsCutShortIsToldToComeAgain(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	h := newHooks(t, func(o *webhook.Options) { o.BodyMemory, o.Metrics = 2<<20, metrics })
	c, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := fmt.Fprintf(c, "POST /webhooks/payment HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", 1<<20, strings.Repeat("x", 1<<20-1)); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); bodyBytes(t, metrics) < 1<<20 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if status, _, got := send(t, h.delivery(t, "payment", "paid", "evt_1", `{"data":"`+strings.Repeat("x", 900_000)+`"}`)); status != http.StatusOK {
		t.Errorf("%d %v", status, got)
	}
	if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 503") || !strings.Contains(string(answer), "Retry-After") || !strings.Contains(string(answer), "storage_unavailable") {
		t.Errorf("%v\n%s", err, answer)
	}
	if err := testutil.GatherAndCompare(metrics, strings.NewReader(`
# HELP waypost_webhook_rejected_total Deliveries that were refused. For an unknown provider the label is empty.
# TYPE waypost_webhook_rejected_total counter
waypost_webhook_rejected_total{provider="payment",reason="crowded"} 1
`), "waypost_webhook_rejected_total"); err != nil {
		t.Error(err)
	}
}
