package app_test

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/app"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/telemetry"
	"github.com/waypost/waypost/internal/webhook"
)

const (
	alertsFile   = "../../deploy/prometheus/alerts.yml"
	alertsTests  = "../../deploy/prometheus/alerts_test.yml"
	runbooksFile = "../../docs/runbooks.md"
)

// alert is a rule of the file for Prometheus.
type alert struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal([]byte(text(t, alertsFile)), &file); err != nil || len(file.Groups) != 1 {
		t.Fatal(file, err)
	}
	return file.Groups[0].Rules
}

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var sample = regexp.MustCompile(`(?m)^([a-z_]+)(?:\{(.*)\})? \S+$`)

// exported scrapes a service that has done something of everything, and one that sends
// traces: the labels of each of their metrics.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	d := dbtest.New(t)
	forward, err := webhook.Forward(webhook.ForwardTarget{Provider: "codehost", URL: "http://127.0.0.1:9", SecretEnv: "NONE"}, webhook.ForwardOptions{LookupSecret: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), app.Options{
		Config: configured(t, "WAYPOST_METRICS_TOKEN=a token of metrics"), Areas: db.Undivided(d), Logger: slog.New(slog.DiscardHandler), EchoModel: true,
		Extensions:   app.Extensions{Bindings: []webhook.Binding{webhook.Handle("payment", "", func(context.Context, *webhook.Delivery) error { return nil }), forward}},
		LookupSecret: func(name string) string { return map[string]string{"PAYMENT_WEBHOOK_SECRET": secret}[name] },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	body := `{"id":"evt_1","type":"paid"}`
	for _, signature := range []string{signed(body), "t=1,v1=00"} {
		r := httptest.NewRequest(http.MethodPost, "/webhooks/payment", strings.NewReader(body))
		r.Header.Set("Payment-Signature", signature)
		a.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
	_, err = d.Single(identity.System("test")).Exec(t.Context(), `insert into audit_verifications (kind, at, to_seq, to_hash, ok) values ('recent', now(), 0, '', true) on conflict do nothing`)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Authorization", "Bearer a token of metrics")
	scraped := httptest.NewRecorder()
	a.Handler().ServeHTTP(scraped, r)

	m := telemetry.New()
	tracing, err := telemetry.NewTracing(telemetry.TracingOptions{Endpoint: "http://127.0.0.1:9", Service: "waypost", Ratio: 1, Metrics: m.Registerer(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	defer func() { _ = tracing.Close(ctx) }()
	m.Handler().ServeHTTP(scraped, httptest.NewRequest(http.MethodGet, "/metrics", nil))

	found := map[string][]string{"up": {"job", "instance"}}
	for _, line := range sample.FindAllStringSubmatch(scraped.Body.String(), -1) {
		labels := []string{"job", "instance"} // Prometheus's own
		for _, label := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(line[2], -1) {
			labels = append(labels, label[1])
		}
		found[line[1]] = labels
	}
	return found
}

var (
	metricName = regexp.MustCompile(`\b(?:waypost|process|go)_[a-z_]+`)
	selector   = regexp.MustCompile(`\b([a-z_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	grouping   = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
)

// noMetrics are names of the same kind that documents have: roles and a cookie.
var noMetrics = []string{"waypost_ignore", "waypost_app", "waypost_viewer", "waypost_owner", "waypost_service", "waypost_oauth"}

func TestEveryMetricOfTheAlertsAndTheirDocumentsIsExported(t *testing.T) {
	t.Parallel()
	metrics := exported(t)
	isOne := func(name string) bool {
		for known := range metrics {
			switch {
			case known == name, known == name+"_bucket", strings.HasSuffix(name, "_") && strings.HasPrefix(known, name):
				return true
			}
		}
		return false
	}
	n := 0
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil || !slices.Contains(documents, runbooksFile) {
		t.Fatal(documents, err)
	}
	for _, path := range append(documents, alertsFile, alertsTests) {
		for _, name := range metricName.FindAllString(text(t, path), -1) {
			if slices.Contains(noMetrics, name) {
				continue
			}
			n++
			if !isOne(name) {
				t.Errorf("%s names %s, which /metrics doesn't have", path, name)
			}
		}
	}
	if n < 100 || isOne("waypost_none") || isOne("waypost_waitin") {
		t.Errorf("%d names were looked for among %v", n, slices.Sorted(maps.Keys(metrics)))
	}
	for _, a := range alerts(t) {
		var labels []string
		for _, s := range selector.FindAllStringSubmatch(a.Expr, -1) {
			for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
				if !slices.Contains(metrics[s[1]], m[1]) {
					t.Errorf("%s: %s has no label %s, but %v", a.Alert, s[1], m[1], metrics[s[1]])
				}
			}
		}
		for _, name := range metricName.FindAllString(a.Expr, -1) {
			labels = append(labels, metrics[name]...)
		}
		for _, g := range grouping.FindAllStringSubmatch(a.Expr, -1) {
			for label := range strings.SplitSeq(g[1], ", ") {
				if !slices.Contains(labels, label) {
					t.Errorf("%s groups by %s, which none of its metrics has", a.Alert, label)
				}
			}
		}
	}
}

func TestEveryAlertHasARunbookARowAndATestAndNoneIsWithoutAnAlert(t *testing.T) {
	t.Parallel()
	var names []string
	guide := text(t, runbooksFile)
	for _, a := range alerts(t) {
		names = append(names, a.Alert)
		if want := "docs/runbooks.md#" + strings.ToLower(a.Alert); a.Annotations["runbook"] != want || a.Annotations["summary"] == "" {
			t.Errorf("%s: %v; want a summary and the runbook %s", a.Alert, a.Annotations, want)
		}
		row := regexp.MustCompile(`(?m)^\| \[` + a.Alert + `\]\(#` + strings.ToLower(a.Alert) + `\) \| (.*) \| .* \| (\w+) \|$`).FindStringSubmatch(guide)
		if row == nil {
			t.Errorf("%s has no row in the table of alerts", a.Alert)
			continue
		}
		if s := a.Labels["severity"]; s != row[2] || s != "page" && s != "ticket" {
			t.Errorf("%s is a %q in the rules and a %q in the table", a.Alert, s, row[2])
		}
		watched := metricName.FindAllString(row[1]+strings.ReplaceAll(row[1], "`up`", "process_up"), -1)
		for _, name := range metricName.FindAllString(a.Expr, -1) {
			if !slices.Contains(watched, name) {
				t.Errorf("%s watches %s, its row doesn't say so", a.Alert, name)
			}
		}
	}
	slices.Sort(names)
	of := func(pattern, in string) []string {
		var found []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(in, -1) {
			found = append(found, m[1])
		}
		slices.Sort(found)
		return slices.Compact(found)
	}
	if diff := cmp.Diff(names, of(`(?m)^## (.*)$`, guide)); diff != "" {
		t.Errorf("headings of runbooks (-alerts +headings):\n%s", diff)
	}
	if diff := cmp.Diff(names, of(`(?m)^\| \[(\w+)\]`, guide)); diff != "" {
		t.Errorf("rows of the table (-alerts +rows):\n%s", diff)
	}
	if diff := cmp.Diff(names, of(`alertname: (\w+)\n\s*exp_alerts:`, text(t, alertsTests))); diff != "" {
		t.Errorf("tests that an alert fires (-alerts +tests):\n%s", diff)
	}
	for part := range strings.SplitSeq(guide, "\n## ") {
		name, body, _ := strings.Cut(part, "\n")
		for _, step := range []string{"**You see**", "**It means**", "**Look**", "**Do**", "**Verify**"} {
			if slices.Contains(names, name) && !strings.Contains(body, step) {
				t.Errorf("the runbook of %s lacks %s", name, step)
			}
		}
	}
}
