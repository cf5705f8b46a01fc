package webhook

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waypost/waypost/db/dbsqlc"
)

// metrics are counted by this process; the failure streak is the database's. The
// provider is "" for deliveries to unknown ones.
type metrics struct {
	received, duplicates, conflicts, rejected *prometheus.CounterVec
	handled, forwarded                        *prometheus.HistogramVec
	dropped                                   prometheus.Counter
	bodies, waiting                           prometheus.GaugeFunc
}

// newMetrics makes the metrics and registers them, where there is a registerer.
func newMetrics(to prometheus.Registerer, providers []Registration, streaks prometheus.Collector, bodies *bodyMemory, storing func() float64) (*metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "waypost", Subsystem: "webhook", Name: name, Help: help}, labels)
	}
	m := &metrics{
		received:   counter("received_total", "Deliveries to a registered provider whose body was read completely, whatever the outcome.", "provider"),
		duplicates: counter("duplicates_total", "Deliveries that were skipped because their id was stored before.", "provider"),
		conflicts:  counter("conflicts_total", "Duplicates whose body differs from the stored one: the provider used an id twice.", "provider"),
		rejected:   counter("rejected_total", "Deliveries that were refused. For an unknown provider the label is empty.", "provider", "reason"),
		handled: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "waypost", Subsystem: "webhook", Name: "handler_seconds",
			Help:    "Time from the start of a handler to its durable outcome; outcome pending means that the handler will be tried again.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15},
		}, []string{"provider", "outcome"}),
		forwarded: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "waypost", Subsystem: "webhook", Name: "forward_seconds",
			Help:    "Time of an attempt to forward an event to a target, to its durable outcome; outcome pending means that there will be another attempt.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 30},
		}, []string{"provider", "target", "outcome"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "waypost", Subsystem: "webhook", Name: "rejected_log_dropped_total",
			Help: "Refused deliveries that are counted but missing in the log, because too many came at once or the database was away.",
		}),
		bodies: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "waypost", Subsystem: "webhook", Name: "body_bytes", Help: "Bytes of memory that deliveries' bodies take at this moment.",
		}, func() float64 { return float64(bodies.bytes()) }),
	}
	m.waiting = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "waypost", Subsystem: "webhook", Name: "storing", Help: "Deliveries that wait for a transaction to be stored in.",
	}, storing)
	for _, p := range providers {
		m.received.WithLabelValues(p.Name)
		m.duplicates.WithLabelValues(p.Name)
		m.conflicts.WithLabelValues(p.Name)
	}
	if to == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.received, m.duplicates, m.conflicts, m.rejected, m.handled, m.forwarded, m.dropped, m.bodies, m.waiting, streaks} {
		if err := to.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) handlerEnded(provider string, s Status, took time.Duration) {
	m.handled.WithLabelValues(provider, string(s)).Observe(took.Seconds())
}

// forwardEnded counts an attempt at a target, which is one of the configuration's.
func (m *metrics) forwardEnded(provider, target string, s Status, took time.Duration) {
	m.forwarded.WithLabelValues(provider, target, string(s)).Observe(took.Seconds())
}

// beginAtZero makes the series of targets that nothing was sent to yet.
func (m *metrics) beginAtZero(r *Registry) {
	for key := range r.targets {
		for _, s := range []Status{Processed, Failed, Pending} {
			m.forwarded.WithLabelValues(key.provider, key.name, string(s))
		}
	}
}

// stateCollector reads what is the database's at each scrape: failure streaks and backlogs.
// Its labels are the names of this instance's configuration.
type stateCollector struct {
	r                                     *core
	streak, waiting, oldest               *prometheus.Desc
	targetWaiting, targetOldest, targetUp *prometheus.Desc
}

func newStateCollector(r *core) stateCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("waypost_webhook_"+name, help, labels, nil)
	}
	return stateCollector{
		r:             r,
		streak:        desc("failure_streak", "How many of a provider's newest handled events in a row are failing.", "provider"),
		waiting:       desc("waiting", "Events of a provider without an outcome, counted up to 10,000.", "provider"),
		oldest:        desc("waiting_seconds", "Age of a provider's oldest event without an outcome.", "provider"),
		targetWaiting: desc("target_waiting", "Events that wait for a target, counted up to 10,000.", "provider", "target"),
		targetOldest:  desc("target_waiting_seconds", "Age of the oldest event that waits for a target.", "provider", "target"),
		targetUp:      desc("target_up", "1 for a target that events are sent to, 0 for one that is paused or whose breaker is open.", "provider", "target"),
	}
}

// Describe implements prometheus.Collector.
func (c stateCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.streak, c.waiting, c.oldest, c.targetWaiting, c.targetOldest, c.targetUp} {
		out <- d
	}
}

// Collect implements prometheus.Collector. What the database doesn't answer in time has no
// value.
func (c stateCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	now := c.r.o.Now()
	age := func(since time.Time) float64 {
		if since.IsZero() {
			return 0
		}
		return max(0, now.Sub(since).Seconds())
	}
	if streaks, err := c.r.streaks(ctx); err == nil {
		for _, p := range c.r.o.Registry.Providers() {
			gauge(c.streak, float64(streaks[p.Name].Streak), p.Name)
		}
	}
	if rows, err := c.r.store.queries.MeasureWebhookBacklog(ctx, c.r.o.AdminDB.Direct(), MaxCounted, c.r.o.Registry.names); err == nil {
		for _, row := range rows {
			gauge(c.waiting, float64(row.Waiting), row.Provider)
			gauge(c.oldest, age(known(row.Oldest)), row.Provider)
		}
	}
	targets, err := (&Admin{c.r}).Targets(ctx)
	if err != nil {
		return
	}
	states := make(map[targetKey]TargetState, len(targets))
	for _, t := range targets {
		states[targetKey{t.Provider, t.Name}] = t
	}
	for key := range c.r.o.Registry.targets {
		t := states[key]
		up := 1.0
		if t.Condition == TargetPaused || t.Condition == TargetFailing {
			up = 0
		}
		var oldest time.Time
		if t.Oldest != nil {
			oldest = *t.Oldest
		}
		gauge(c.targetWaiting, float64(t.Waiting), key.provider, key.name)
		gauge(c.targetOldest, age(oldest), key.provider, key.name)
		gauge(c.targetUp, up, key.provider, key.name)
	}
}

// streakRows is among how many of a provider's newest events a success is looked for, and
// failures are counted.
const streakRows = 2000

// streaks returns the failure streaks of the providers that have one.
func (r *core) streaks(ctx context.Context) (map[string]dbsqlc.WebhookFailureStreaksRow, error) {
	rows, err := r.store.queries.WebhookFailureStreaks(ctx, r.o.AdminDB.Direct(), streakRows)
	if err != nil {
		return nil, err
	}
	byProvider := make(map[string]dbsqlc.WebhookFailureStreaksRow, len(rows))
	for _, row := range rows {
		byProvider[row.Provider] = row
	}
	return byProvider, nil
}
