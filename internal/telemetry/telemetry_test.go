package telemetry_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waypost/waypost/internal/telemetry"
)

func TestAScrapeShowsEveryMetricThatCanBeCollected(t *testing.T) {
	t.Parallel()
	m, other := telemetry.New(), telemetry.New()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "waypost_test_total", Help: "A test's."})
	for _, collector := range []prometheus.Collector{c, broken{}} {
		if err := m.Registerer().Register(collector); err != nil {
			t.Fatal(err)
		}
	}
	c.Add(3)
	scrape := func(m *telemetry.Metrics) string {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
			t.Errorf("%d %s", w.Code, w.Header())
		}
		return w.Body.String()
	}
	got := scrape(m)
	for _, want := range []string{"waypost_test_total 3\n", "go_goroutines ", "process_start_time_seconds "} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	if strings.Contains(scrape(other), "waypost_test_total") {
		t.Error("registries share a metric")
	}
}

// broken can't be collected.
type broken struct{}

func (broken) Describe(chan<- *prometheus.Desc) {}

func (broken) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "", nil, nil), errors.New("no database"))
}
