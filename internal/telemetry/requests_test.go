package telemetry

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestEveryRequestIsCountedOnceHoweverManyComeAtOnce(t *testing.T) {
	t.Parallel()
	r := NewRequests()
	const callers, each = 8, 2000
	var all sync.WaitGroup
	sum := map[string]uint64{}
	count := func() {
		counts, _, _ := r.cut()
		for _, c := range counts {
			sum[c.Method+" "+c.Route] += c.Durations.Count()
		}
	}
	for caller := range callers {
		all.Go(func() {
			for i := range each {
				r.Observe(Request{Method: "GET", Route: fmt.Sprintf("/%d", (caller+i)%5), Status: 200, Took: time.Duration(i) * time.Microsecond})
			}
		})
	}
	for range 20 { // minutes end meanwhile
		count()
	}
	all.Wait()
	count()
	count()
	for i := range 5 {
		if n := sum[fmt.Sprintf("GET /%d", i)]; n != callers*each/5 {
			t.Errorf("/%d: %d", i, n)
		}
	}
}

func TestWhateverClientsSendMakesNoFurtherSeries(t *testing.T) {
	t.Parallel()
	r := NewRequests()
	for i := range 1000 {
		r.Observe(Request{Method: fmt.Sprintf("M%d", i), Status: 404})
		r.Observe(Request{Method: "GET", Status: 404})
	}
	if n := len(*r.routes.Load()); n != 2 {
		t.Errorf("%d routes", n)
	}
	for i := range 2 * maxRoutes { // a mistake: a path in place of a pattern
		r.Observe(Request{Method: "GET", Route: fmt.Sprintf("/%d", i), Status: 200})
	}
	if n := len(*r.routes.Load()); n > maxRoutes+1 {
		t.Errorf("%d routes", n)
	}
	counts, _, _ := r.cut()
	var all uint64
	for _, c := range counts {
		all += c.Durations.Count()
	}
	if all != 2000+2*maxRoutes {
		t.Errorf("%d requests are counted", all)
	}
}

func TestTheSlowestAreKeptAndAFloodHidesNoOtherFailure(t *testing.T) {
	t.Parallel()
	r := NewRequests()
	for i := range 1000 {
		r.Observe(Request{Method: "GET", Route: "/", Status: 503, Took: time.Duration(i%500) * time.Millisecond, ID: fmt.Sprint(i)})
	}
	r.Observe(Request{Method: "GET", Route: "/", Status: 500, ID: "rare"})
	_, slow, failed := r.cut()
	if len(slow) != slowest {
		t.Fatalf("%d slow ones", len(slow))
	}
	for i, q := range slow {
		if q.Took != time.Duration(499-i/2)*time.Millisecond {
			t.Errorf("place %d: %v", i, q.Took)
		}
	}
	if len(failed) != failedOfEach+1 || failed[failedOfEach].ID != "rare" {
		t.Errorf("%d: %+v", len(failed), failed)
	}
	r.Observe(Request{Method: "GET", Route: "/", Status: 503, Took: time.Millisecond})
	if _, slow, failed := r.cut(); len(slow) != 1 || len(failed) != 1 {
		t.Errorf("in the next minute: %d slow, %d failed", len(slow), len(failed))
	}
}

func TestAScrapeShowsRequestsByRouteWithTheirTimes(t *testing.T) {
	t.Parallel()
	r := NewRequests()
	r.Begin()
	for _, took := range []time.Duration{time.Millisecond, 2 * time.Millisecond, 40 * time.Second} {
		r.Observe(Request{Method: "GET", Route: "/api/posts/{id}", Status: 200, Took: took})
	}
	r.Observe(Request{Method: "BREW", Status: 404, Took: 3 * time.Millisecond})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r)
	const want = `
# HELP waypost_http_requests_in_flight Requests that are being answered at this moment.
# TYPE waypost_http_requests_in_flight gauge
waypost_http_requests_in_flight 1
# HELP waypost_http_requests_total Requests that were answered, by route pattern and class of status.
# TYPE waypost_http_requests_total counter
waypost_http_requests_total{method="(other)",route="(no route)",status="2xx"} 0
waypost_http_requests_total{method="(other)",route="(no route)",status="4xx"} 1
waypost_http_requests_total{method="(other)",route="(no route)",status="5xx"} 0
waypost_http_requests_total{method="GET",route="/api/posts/{id}",status="2xx"} 3
waypost_http_requests_total{method="GET",route="/api/posts/{id}",status="5xx"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "waypost_http_requests_total", "waypost_http_requests_in_flight"); err != nil {
		t.Error(err)
	}
	r.End()
	text := scrapeOf(t, registry)
	for _, line := range []string{
		`waypost_http_request_seconds_bucket{method="GET",route="/api/posts/{id}",le="0.001"} 1`,
		`waypost_http_request_seconds_bucket{method="GET",route="/api/posts/{id}",le="0.0025"} 2`,
		`waypost_http_request_seconds_bucket{method="GET",route="/api/posts/{id}",le="25"} 2`,
		`waypost_http_request_seconds_bucket{method="GET",route="/api/posts/{id}",le="+Inf"} 3`,
		`waypost_http_request_seconds_sum{method="GET",route="/api/posts/{id}"} 40.003`,
		`waypost_http_requests_in_flight 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func scrapeOf(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	m := &Metrics{registry: registry}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func TestCountingARequestAllocatesNothing(t *testing.T) {
	r := NewRequests()
	q := Request{Method: "POST", Route: "/webhooks/{provider}", Status: 200, Took: 2 * time.Millisecond, ID: "x"}
	for range 2 * slowest {
		r.Observe(q)
	}
	if n := testing.AllocsPerRun(100, func() { r.Observe(q) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	r := NewRequests()
	b.RunParallel(func(p *testing.PB) {
		i := 0
		for p.Next() {
			i++
			r.Observe(Request{Method: "POST", Route: "/webhooks/{provider}", Status: 200, Took: time.Duration(i%4000) * time.Microsecond, ID: "x"})
		}
	})
}
