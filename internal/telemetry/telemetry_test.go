package telemetry_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestTalliesSumSeriesWithoutAskingWhatIsSlow(t *testing.T) {
	t.Parallel()
	m := telemetry.New()
	mails := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mails", Help: "x"}, []string{"outcome"})
	runs := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "runs", Help: "x"}, []string{"name"})
	asked := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow", Help: "x"}, func() float64 { t.Error("it asked the database"); return 1 })
	for _, c := range []prometheus.Collector{mails, runs, asked, broken{}} {
		if err := m.Registerer().Register(c); err != nil {
			t.Fatal(err)
		}
	}
	mails.WithLabelValues("sent").Add(3)
	mails.WithLabelValues("refused").Add(2)
	mails.WithLabelValues("given_up").Add(1)
	runs.WithLabelValues("a").Observe(.5)
	runs.WithLabelValues("b").Observe(5)
	got := m.Tallies([]telemetry.Tally{
		{Name: "sent", Family: "mails", Where: func(l map[string]string) bool { return l["outcome"] == "sent" }},
		{Name: "failed", Family: "mails", Where: func(l map[string]string) bool { return l["outcome"] != "sent" }},
		{Name: "runs", Family: "runs"}, {Name: "none", Family: "none"}, {Name: "slow", Family: "slow"},
	})
	if diff := cmp.Diff(map[string]uint64{"sent": 3, "failed": 3, "runs": 2}, got); diff != "" {
		t.Error(diff)
	}
	if !m.Registerer().Unregister(runs) || len(m.Tallies([]telemetry.Tally{{Name: "runs", Family: "runs"}})) != 0 {
		t.Error("what is unregistered is counted still")
	}
}

// Disks that there are, each once; a directory that is gone is an error.
func TestADiskIsListedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list, err := telemetry.Disks([]string{dir, dir})
	if err != nil || len(list) != 1 || list[0].Dir != dir || list[0].Total <= 0 || list[0].Free > list[0].Total || list[0].Share() < 0 || list[0].Share() > 1 {
		t.Errorf("%v %+v", err, list)
	}
	if _, err := telemetry.Disks([]string{dir + "/gone"}); err == nil {
		t.Error("a directory that is gone has a disk")
	}
}

// broken can't be collected.
type broken struct{}

func (broken) Describe(chan<- *prometheus.Desc) {}

func (broken) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "", nil, nil), errors.New("no database"))
}
