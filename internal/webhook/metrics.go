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
	handled                                   *prometheus.HistogramVec
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
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "waypost", Subsystem: "webhook", Name: "rejected_log_dropped_total",
			Help: "Refused deliveries that are counted but missing in the log, because too many came at once or the database was away.",
		}),
		bodies: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "waypost", Subsystem: "webhook", Name: "body_bytes", Help: "Bytes of memory that deliveries' bodies take at this moment.",
		}, func() float64 { return float64(bodies.held.Load()) }),
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
	for _, c := range []prometheus.Collector{m.received, m.duplicates, m.conflicts, m.rejected, m.handled, m.dropped, m.bodies, m.waiting, streaks} {
		if err := to.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) handlerEnded(provider string, s Status, took time.Duration) {
	m.handled.WithLabelValues(provider, string(s)).Observe(took.Seconds())
}

// observe counts what became of a delivery and logs it when it was refused.
func (r *Receiver) observe(ctx context.Context, in Inbound, got Receipt, err error) {
	if p, unknown := r.o.Registry.Provider(in.Provider); unknown == nil {
		r.metrics.received.WithLabelValues(p.Name).Inc()
		if err == nil && got.Status == Skipped {
			r.metrics.duplicates.WithLabelValues(p.Name).Inc()
		}
	}
	if err != nil {
		r.Refuse(ctx, Refusal{Provider: in.Provider, Header: in.Header, Size: int64(len(in.Body)), Err: err})
	}
}

// streakCollector reads the failure streaks at each scrape.
type streakCollector struct {
	r    *Receiver
	desc *prometheus.Desc
}

func newStreakCollector(r *Receiver) streakCollector {
	return streakCollector{r, prometheus.NewDesc("waypost_webhook_failure_streak",
		"How many of a provider's newest handled events in a row are failing.", []string{"provider"}, nil)}
}

// Describe implements prometheus.Collector.
func (c streakCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements prometheus.Collector. Without the database there is no value.
func (c streakCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	streaks, err := c.r.streaks(ctx)
	if err != nil {
		return
	}
	for _, p := range c.r.o.Registry.Providers() {
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(streaks[p.Name].Streak), p.Name)
	}
}

// streaks returns the failure streaks of the providers that have one.
func (r *Receiver) streaks(ctx context.Context) (map[string]dbsqlc.WebhookFailureStreaksRow, error) {
	rows, err := r.store.queries.WebhookFailureStreaks(ctx, r.o.AdminDB.Direct())
	if err != nil {
		return nil, err
	}
	byProvider := make(map[string]dbsqlc.WebhookFailureStreaksRow, len(rows))
	for _, row := range rows {
		byProvider[row.Provider] = row
	}
	return byProvider, nil
}
