package telemetry

import (
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Request is a request that was answered.
type Request struct {
	At     time.Time // when it began
	Method string
	// Route is the pattern of the router, "" for a path that nothing is served at. It
	// is never a path: those have no end.
	Route  string
	Status int
	Took   time.Duration
	// ID is the request's id, Trace that of its trace ("" for none).
	ID, Trace string
	// Code is the error's code in the answer, "" for none.
	Code string
}

// Unmatched stands for the route of paths that nothing is served at.
const Unmatched = "(no route)"

const (
	// maxRoutes bounds the routes that are counted one by one. There are some hundred
	// patterns, so that it is reached by a mistake alone; further ones are counted together.
	maxRoutes = 2000
	elsewhere = "(other)"
	// slowest is how many of a minute's slowest requests are kept.
	slowest = 10
	// failedOfEach is how many failed requests of a minute are kept for each status,
	// so that a flood of 503 hides no 500.
	failedOfEach = 10
)

// methods are those that are counted by their names; others are one.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

// MethodName is a method as it is counted: clients may send any word.
func MethodName(method string) string {
	if slices.Contains(methods, method) {
		return method
	}
	return elsewhere
}

// routeKey names what is counted together.
type routeKey struct{ method, route string }

// route counts since the start of the process. Nothing in it is ever reset.
type route struct {
	buckets [bucketCount]atomic.Uint64
	classes [6]atomic.Uint64 // by the first digit of the status
	nanos   atomic.Uint64    // the sum of durations
}

// histogram is what was counted so far.
func (r *route) histogram() *Histogram {
	var h Histogram
	for i := range r.buckets {
		h[i] = r.buckets[i].Load()
	}
	return &h
}

// Requests counts requests by route, in bounded memory: some 2 KiB for each route
// that is asked for. It is safe for concurrent use, and takes no lock for a request
// that is neither slow nor failed.
type Requests struct {
	routes   atomic.Pointer[map[routeKey]*route]
	inFlight atomic.Int64

	// floor is the duration in nanoseconds above which a request is one of this
	// minute's slowest.
	floor atomic.Int64
	// failures counts this minute's failed requests by their status less 500.
	failures [100]atomic.Int32

	mu      sync.Mutex // also makes routes one after the other
	slow    []Request  // the slowest of this minute
	failed  []Request  // of this minute
	flushed map[routeKey]counted
}

// counted is what a route had counted at the last cut.
type counted struct {
	buckets Histogram
	classes [6]uint64
}

// NewRequests makes a Requests that has counted nothing.
func NewRequests() *Requests {
	r := &Requests{flushed: map[routeKey]counted{}}
	r.routes.Store(&map[routeKey]*route{})
	r.floor.Store(-1)
	return r
}

// Begin counts a request in, until End.
func (r *Requests) Begin() { r.inFlight.Add(1) }

// End is called once for each Begin.
func (r *Requests) End() { r.inFlight.Add(-1) }

// Observe counts a request that was answered.
func (r *Requests) Observe(q Request) {
	if q.Route == "" {
		q.Route = Unmatched
	}
	q.Method = MethodName(q.Method)
	at := r.route(routeKey{q.Method, q.Route})
	at.buckets[bucketOf(q.Took)].Add(1)
	at.nanos.Add(uint64(max(q.Took, 0)))
	at.classes[classOf(q.Status)].Add(1)
	if int64(q.Took) > r.floor.Load() {
		r.keepSlow(q)
	}
	if q.Status >= 500 && q.Status < 600 && r.failures[q.Status-500].Load() < failedOfEach {
		r.keepFailed(q)
	}
}

func classOf(status int) int {
	if c := status / 100; c >= 1 && c <= 5 {
		return c
	}
	return 0
}

// route finds the counters of a route, and makes them for its first request.
func (r *Requests) route(k routeKey) *route {
	if at := (*r.routes.Load())[k]; at != nil {
		return at
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := *r.routes.Load()
	if len(known) >= maxRoutes {
		k = routeKey{elsewhere, elsewhere}
	}
	if at := known[k]; at != nil {
		return at
	}
	more := maps.Clone(known)
	at := new(route)
	more[k] = at
	r.routes.Store(&more)
	return at
}

func (r *Requests) keepSlow(q Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if int64(q.Took) <= r.floor.Load() { // others were faster to get here
		return
	}
	i, _ := slices.BinarySearchFunc(r.slow, q, func(a, b Request) int { return int(b.Took - a.Took) })
	r.slow = slices.Insert(r.slow, i, q)
	if len(r.slow) > slowest {
		r.slow = r.slow[:slowest]
	}
	if len(r.slow) == slowest {
		r.floor.Store(int64(r.slow[slowest-1].Took))
	}
}

func (r *Requests) keepFailed(q Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failures[q.Status-500].Add(1) <= failedOfEach {
		r.failed = append(r.failed, q)
	}
}

// RouteCounts is how often a route was asked for in a time, and how it answered.
type RouteCounts struct {
	Method, Route string
	// Classes are the numbers of answers by the first digit of their status.
	Classes   [6]uint64
	Durations Histogram
}

// cut returns what was counted since the last cut.
func (r *Requests) cut() (counts []RouteCounts, slow, failed []Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, at := range *r.routes.Load() {
		now := counted{buckets: *at.histogram()}
		for i := range at.classes {
			now.classes[i] = at.classes[i].Load()
		}
		before := r.flushed[k]
		if now == before {
			continue
		}
		r.flushed[k] = now
		c := RouteCounts{Method: k.method, Route: k.route}
		for i := range now.buckets {
			c.Durations[i] = now.buckets[i] - before.buckets[i]
		}
		for i := range now.classes {
			c.Classes[i] = now.classes[i] - before.classes[i]
		}
		counts = append(counts, c)
	}
	slow, failed = r.slow, r.failed
	r.slow, r.failed = nil, nil
	r.floor.Store(-1)
	for i := range r.failures {
		r.failures[i].Store(0)
	}
	return counts, slow, failed
}

// Metrics of requests. The bounds of the histogram are bounds of buckets.
var (
	requestsDesc = prometheus.NewDesc("waypost_http_requests_total", "Requests that were answered, by route pattern and class of status.",
		[]string{"method", "route", "status"}, nil)
	secondsDesc = prometheus.NewDesc("waypost_http_request_seconds", "Time from a request's headers to the end of its answer, by route pattern.",
		[]string{"method", "route"}, nil)
	inFlightDesc = prometheus.NewDesc("waypost_http_requests_in_flight", "Requests that are being answered at this moment.", nil, nil)
)

// shownBounds are the bounds of waypost_http_request_seconds in nanoseconds.
var shownBounds = []uint64{
	1e6, 25e5, 5e6, 10e6, 25e6, 50e6, 100e6, 250e6, 500e6, 1e9, 25e8, 5e9, 10e9, 25e9,
}

// Describe implements prometheus.Collector.
func (r *Requests) Describe(to chan<- *prometheus.Desc) {
	to <- requestsDesc
	to <- secondsDesc
	to <- inFlightDesc
}

// Collect implements prometheus.Collector.
func (r *Requests) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(inFlightDesc, prometheus.GaugeValue, float64(r.inFlight.Load()))
	for k, at := range *r.routes.Load() {
		h := at.histogram()
		shown := make(map[float64]uint64, len(shownBounds))
		var below uint64
		i := 0
		for _, b := range shownBounds {
			for ; i < len(bounds) && bounds[i] <= b; i++ {
				below += h[i]
			}
			shown[float64(b)/1e9] = below
		}
		to <- prometheus.MustNewConstHistogram(secondsDesc, h.Count(), float64(at.nanos.Load())/1e9, shown, k.method, k.route)
		for class := range at.classes {
			n := at.classes[class].Load()
			if n == 0 && class != 2 && class != 5 { // those are there from the start, so that the first failure is an increase
				continue
			}
			to <- prometheus.MustNewConstMetric(requestsDesc, prometheus.CounterValue, float64(n), k.method, k.route, string(rune('0'+class))+"xx")
		}
	}
}
