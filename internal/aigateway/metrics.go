package aigateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/waypost/waypost/internal/aigateway/upstream"
)

// metrics are counted by this process, by the model that clients name and by upstream.
type metrics struct {
	attempts, calls, tokens, cost *prometheus.CounterVec
	firstByte                     *prometheus.HistogramVec
	inFlight                      prometheus.Gauge
	lost                          prometheus.Counter
}

// newMetrics makes the metrics and registers them, where there is a registerer.
func newMetrics(to prometheus.Registerer, s *Service) (*metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "waypost", Subsystem: "ai", Name: name, Help: help}, labels)
	}
	m := &metrics{
		attempts: counter("attempts_total", "Requests to upstreams: answered; refused as bad ones; failed; aborted by the client.", "model", "upstream", "result"),
		calls:    counter("calls_total", "Calls that reached an upstream and were booked.", "model", "outcome"),
		tokens:   counter("tokens_total", "Tokens that were booked.", "model", "direction"),
		cost:     counter("cost_total", "What was booked, in the currency of the configured prices.", "model"),
		firstByte: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "waypost", Subsystem: "ai", Name: "first_byte_seconds", Help: "Time from a request to an upstream to the first byte of its answer.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 60, 120},
		}, []string{"model", "upstream"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "waypost", Subsystem: "ai", Name: "calls_in_flight", Help: "Calls that are on."}),
		lost:     prometheus.NewCounter(prometheus.CounterOpts{Namespace: "waypost", Subsystem: "ai", Name: "lost_calls_total", Help: "Calls that a crash left, booked at their worst case."}),
	}
	if to == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.attempts, m.calls, m.tokens, m.cost, m.firstByte, m.inFlight, m.lost, breakers{s.targets}} {
		if err := to.Register(c); err != nil {
			return nil, err
		}
	}
	// Each begins at zero, so that a rate sees the first of them.
	for _, model := range s.o.Declared.Models {
		for _, t := range model.Targets {
			for _, result := range []string{"answered", "refused", "failed", "aborted"} {
				m.attempts.WithLabelValues(model.Name, t.Upstream, result)
			}
		}
		for _, o := range []Outcome{Completed, Aborted, Cut, Failed, Lost} {
			m.calls.WithLabelValues(model.Name, string(o))
		}
		m.tokens.WithLabelValues(model.Name, "input")
		m.tokens.WithLabelValues(model.Name, "output")
		m.cost.WithLabelValues(model.Name)
	}
	return m, nil
}

func (m *metrics) attempt(model, upstream, result string) {
	m.attempts.WithLabelValues(model, upstream, result).Inc()
}

func (m *metrics) booked(model string, to settlement) {
	m.calls.WithLabelValues(model, string(to.outcome)).Inc()
	m.tokens.WithLabelValues(model, "input").Add(float64(to.used.Input))
	m.tokens.WithLabelValues(model, "output").Add(float64(to.used.Output))
	m.cost.WithLabelValues(model).Add(to.cost.Float())
}

// breakers tell the states of all targets.
type breakers struct {
	targets map[targetKey]*upstream.Breaker
}

var breakerState = prometheus.NewDesc("waypost_ai_breaker_state", "Whether a target is asked: 0 yes, 1 on trial, 2 no.", []string{"upstream", "target"}, nil)

// Describe implements prometheus.Collector.
func (b breakers) Describe(to chan<- *prometheus.Desc) { to <- breakerState }

// Collect implements prometheus.Collector.
func (b breakers) Collect(to chan<- prometheus.Metric) {
	for k, t := range b.targets {
		to <- prometheus.MustNewConstMetric(breakerState, prometheus.GaugeValue, float64(t.State()), k.upstream, k.model)
	}
}
