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
}

// New makes a registry.
func New() *Metrics {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &Metrics{registry: r}
}

// Registerer takes further metrics.
func (m *Metrics) Registerer() prometheus.Registerer { return m.registry }

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
