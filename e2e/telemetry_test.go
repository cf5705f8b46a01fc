package e2e_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

// receiver takes traces as an OpenTelemetry collector does.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracev1.Span
	raw   bytes.Buffer // all that came
}

func newTraceReceiver(t *testing.T) *receiver {
	t.Helper()
	r := new(receiver)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != "POST" || req.URL.Path != "/base/v1/traces" || req.Header.Get("Content-Type") != "application/x-protobuf" || req.Header.Get("X-Key") != "a key" {
			t.Errorf("%s %s %v", req.Method, req.URL, req.Header)
		}
		z, err := gzip.NewReader(req.Body)
		if err != nil {
			t.Error(err)
			return
		}
		b, err := io.ReadAll(z)
		if err != nil {
			t.Error(err)
			return
		}
		var data tracev1.TracesData
		if err := proto.Unmarshal(b, &data); err != nil {
			t.Error(err)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.raw.Write(b)
		for _, resource := range data.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// of returns the spans of a trace by their ids, and what all that came holds.
func (r *receiver) of(trace string) (map[string]*tracev1.Span, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := map[string]*tracev1.Span{}
	for _, s := range r.spans {
		if hex.EncodeToString(s.TraceId) == trace {
			list[hex.EncodeToString(s.SpanId)] = s
		}
	}
	return list, r.raw.String()
}

func named(spans map[string]*tracev1.Span, name string) *tracev1.Span {
	for _, s := range spans {
		if s.Name == name {
			return s
		}
	}
	return nil
}

func TestOneTraceSpansADeliveryFromItsRequestToItsTarget(t *testing.T) {
	t.Parallel()
	traces := newTraceReceiver(t)
	forwarded := make(chan http.Header, 1)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { forwarded <- r.Header }))
	t.Cleanup(target.Close)
	file := filepath.Join(dbtest.TempDir(t), "waypost.yaml")
	content := "webhooks:\n  handlers:\n    - {provider: payment, event: order.paid, forward: {url: \"" + target.URL + "/a-path-with-a-key\", secret_env: FORWARD_SECRET}}\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startServe(t, dbtest.NewURL(t).App, "WAYPOST_CONFIG="+file, "PAYMENT_WEBHOOK_SECRET="+outside.PaymentSecret, "WAYPOST_TRUSTED_PROXIES=127.0.0.1",
		"FORWARD_SECRET=whsec_"+base64.StdEncoding.EncodeToString([]byte("a key of the forward, long enough")),
		"OTEL_EXPORTER_OTLP_ENDPOINT="+traces.URL+"/base/", "OTEL_EXPORTER_OTLP_HEADERS=x-key=a%20key")
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	const body = `{"id":"evt_private_1","type":"order.paid"}`
	a := outside.Do(t, "POST", p.url+"/webhooks/payment?token=in-the-query", body, "Payment-Signature", outside.PaymentSignature(outside.PaymentSecret, body),
		"Traceparent", "00-"+trace+"-"+parent+"-01", "Tracestate", "vendor=state", "X-Forwarded-For", "203.0.113.77", "User-Agent", "agent-of-the-client", "X-Request-Id", "request-77")
	if a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	var header http.Header
	select {
	case header = <-forwarded:
	case <-time.After(outside.Patience):
		t.Fatal("nothing comes to the target")
	}
	p.waitFor(t, "the spans", func() bool {
		spans, _ := traces.of(trace)
		return named(spans, "webhooks.forward") != nil
	})
	spans, raw := traces.of(trace)
	for id, s := range spans {
		if up := hex.EncodeToString(s.ParentSpanId); up != parent && spans[up] == nil {
			t.Errorf("%s %q hangs in the air: its parent is %q", id, s.Name, up)
		}
	}
	ancestors := func(s *tracev1.Span) []string {
		var names []string
		for ; s != nil; s = spans[hex.EncodeToString(s.ParentSpanId)] {
			names = append(names, s.Name)
		}
		return names
	}
	for name, want := range map[string][]string{
		"POST":                         {"webhooks.forward", "POST /webhooks/{provider}"},
		"InsertWebhookForwardedEvents": {"commit together", "POST /webhooks/{provider}"},
	} {
		s := named(spans, name)
		if s == nil || !slices.Equal(ancestors(s)[1:], want) {
			t.Errorf("%s: %v", name, ancestors(s))
		}
	}
	sent := strings.Split(header.Get("Traceparent"), "-")
	if len(sent) != 4 || sent[1] != trace || spans[sent[2]] == nil || spans[sent[2]].Name != "POST" || header.Get("Tracestate") != "vendor=state" {
		t.Errorf("the target got %q %q", header.Get("Traceparent"), header.Get("Tracestate"))
	}
	for _, private := range []string{"in-the-query", "203.0.113.77", "agent-of-the-client", "evt_private_1", "a-path-with-a-key", outside.PaymentSecret, "insert into"} {
		if strings.Contains(raw, private) {
			t.Errorf("%q is in the traces", private)
		}
	}
	if !strings.Contains(raw, "request-77") {
		t.Error("the request's id is not in its span")
	}
	var line struct {
		TraceID   string `json:"trace_id"`
		RequestID string `json:"request_id"`
		Route     string
	}
	for l := range strings.Lines(p.stderr.String()) {
		if strings.Contains(l, "request-77") {
			if err := json.Unmarshal([]byte(l), &line); err != nil {
				t.Fatal(err)
			}
		}
	}
	if line.TraceID != trace || line.RequestID != "request-77" || line.Route != "/webhooks/{provider}" {
		t.Errorf("%+v", line)
	}
}

// Abuse case 58.
// Abuse case 58.
func TestCase58MetricsAreOffUntilAnAddressOrATokenIsSet(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	const token = "a token of metrics"
	status := func(url string, header ...string) int { return outside.Do(t, "GET", url, "", header...).Status }
	bearer := []string{"Authorization", "Bearer " + token}
	p := startServe(t, urls.App)
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/vars"} {
		if got := status(p.url+path, bearer...); got != 404 {
			t.Errorf("without settings, %s: %d", path, got)
		}
	}
	p.stop(t)
	p = startServe(t, urls.App, "WAYPOST_METRICS_TOKEN="+token)
	if a, b, c := status(p.url+"/metrics"), status(p.url+"/metrics", "Authorization", "Bearer wrong"), status(p.url+"/metrics", bearer...); a != 401 || b != 401 || c != 200 {
		t.Errorf("with a token: %d, %d, %d", a, b, c)
	}
	p.stop(t)
	p = startServe(t, urls.App, "WAYPOST_METRICS_ADDR=127.0.0.1:0")
	own := metricsURL(t, p)
	outside.Do(t, "GET", p.url+"/nothing/1", "")
	a := outside.Do(t, "GET", own, "")
	for _, want := range []string{`waypost_http_requests_total{method="GET",route="(no route)",status="4xx"} 1`, `waypost_waiting{what="webhooks"} 0`, `waypost_jobs{queue="default",state="available"}`, `waypost_database_connections_max{area="requests"}`, "go_goroutines"} {
		if !strings.Contains(string(a.Body), want) {
			t.Errorf("no %s in\n%s", want, a.Body)
		}
	}
	if strings.Contains(string(a.Body), "/nothing") {
		t.Error("a path is a label")
	}
	if a, b, c := status(p.url+"/metrics"), status(strings.TrimSuffix(own, "/metrics")+"/healthz"), outside.Do(t, "POST", own, "").Status; a != 404 || b != 404 || c != 404 {
		t.Errorf("with an address: %d, %d, %d", a, b, c)
	}
	p.stop(t)
	p = startServe(t, urls.App, "WAYPOST_METRICS_ADDR=127.0.0.1:0", "WAYPOST_METRICS_TOKEN="+token)
	own = metricsURL(t, p)
	if a, b, c := status(own), status(own, bearer...), status(p.url+"/metrics", bearer...); a != 401 || b != 200 || c != 200 {
		t.Errorf("with both: %d, %d, %d", a, b, c)
	}
}

// metricsURL finds the address of metrics in the server's log.
func metricsURL(t *testing.T, p *process) string {
	t.Helper()
	for l := range strings.Lines(p.stderr.String()) {
		var line struct{ Msg, Address string }
		if json.Unmarshal([]byte(l), &line) == nil && line.Msg == "metrics" {
			return line.Address
		}
	}
	t.Fatalf("no address of metrics in %s", p.stderr)
	return ""
}

func TestThePageOnObservabilityShowsWhatAnyProcessMeasured(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	p := startServe(t, urls.App)
	admin(t, p, urls.App)
	v := &visitor{t: t, url: p.url}
	v.want(v.signIn("root@example.com", outside.Password), 303, "/admin")
	v.want(v.ask("GET", "/admin/observability", ""), 200, "Nothing was measured in this time")
	outside.Do(t, "GET", p.url+"/nothing/<script>", "")
	outside.Do(t, "GET", p.url+"/webhooks/payment", "", "X-Request-Id", "slow.1")
	p.stop(t) // which stores what it measured

	p = startServe(t, urls.App)
	v = &visitor{t: t, url: p.url, cookie: v.cookie}
	// The page ends with the last whole minute, and the measurements are of this one.
	behind(t, urls.Admin, `update telemetry_minutes set minute = minute - interval '2 min'`)
	a := v.ask("GET", "/admin/observability?range=1h&sort=-p95", "")
	for _, want := range []string{"GET (no route)", "GET /admin/observability", "POST /admin/sign-in", "slow.1", "Job queues", "deliveries", "readiness", `aria-sort="descending"`} {
		v.want(a, 200, want)
	}
	if strings.Contains(string(a.Body), "/nothing") {
		t.Error("a path is shown")
	}
	v.want(v.ask("GET", "/admin/observability/route?method=GET&route="+url.QueryEscape("(no route)"), ""), 200, "GET (no route)")
	v.want(v.ask("GET", "/admin/observability/route?method=GET&route="+url.QueryEscape("<script>alert(1)</script>"), ""), 200, "&lt;script&gt;alert(1)")
	v.want(v.ask("GET", "/admin/observability/route", ""), 404, "no such page")
	for _, wrong := range []string{"range=2h", "sort=nothing", "sort=--p95"} {
		v.want(v.ask("GET", "/admin/observability?"+wrong, ""), 422, "did not work")
	}
}
