// Package telemetry holds the process's metrics and shows them in the Prometheus
// text format. There is no global registry: whoever measures gets this one.
package telemetry

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics is a registry with the Go runtime's and the process's own metrics in it.
type Metrics struct {
	registry *prometheus.Registry
	// counters has those of its metrics that are mere counters of this process: to read
	// them asks nobody, least of all the database.
	counters *prometheus.Registry
}

// New makes a registry.
func New() *Metrics {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &Metrics{registry: r, counters: prometheus.NewRegistry()}
}

// Registerer takes further metrics.
func (m *Metrics) Registerer() prometheus.Registerer { return registerer{m.registry, m.counters} }

// registerer registers counters and histograms with labels twice.
type registerer struct {
	prometheus.Registerer
	counters *prometheus.Registry
}

// Register implements prometheus.Registerer.
func (r registerer) Register(c prometheus.Collector) error {
	if err := r.Registerer.Register(c); err != nil {
		return err
	}
	switch c.(type) {
	case *prometheus.CounterVec, *prometheus.HistogramVec:
		return r.counters.Register(c)
	}
	return nil
}

// MustRegister implements prometheus.Registerer.
func (r registerer) MustRegister(list ...prometheus.Collector) {
	for _, c := range list {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister implements prometheus.Registerer.
func (r registerer) Unregister(c prometheus.Collector) bool {
	r.counters.Unregister(c)
	return r.Registerer.Unregister(c)
}

// Tally says what History counts by the minute: some series of a counter or a histogram.
type Tally struct {
	// Name is what it is stored and read by.
	Name string
	// Family is the metric. Of a histogram the observations are counted.
	Family string
	// Where selects series by their labels; nil for all of them.
	Where func(labels map[string]string) bool
}

// Tallies returns how far each of list has counted since the start of the process, by
// name. What is not registered, or has counted nothing, is left out.
func (m *Metrics) Tallies(list []Tally) map[string]uint64 {
	families, _ := m.counters.Gather() // what can't be gathered is left out, as of a scrape
	sums := map[string]uint64{}
	for _, f := range families {
		for _, t := range list {
			if t.Family != f.GetName() {
				continue
			}
			for _, series := range f.GetMetric() {
				labels := map[string]string{}
				for _, l := range series.GetLabel() {
					labels[l.GetName()] = l.GetValue()
				}
				n := uint64(series.GetCounter().GetValue()) + series.GetHistogram().GetSampleCount()
				if n > 0 && (t.Where == nil || t.Where(labels)) {
					sums[t.Name] += n
				}
			}
		}
	}
	return sums
}

// Handler answers a scrape. A metric that can't be collected is left out rather
// than failing the others.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError,
		// The edge compresses.
		DisableCompression:  true,
		MaxRequestsInFlight: 4,
	})
}
