package webhook_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/waypost/waypost/internal/webhook"
)

func TestMetricsTellBacklogAgeAndOutcomesByProviderAndTarget(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	to := newTarget(t, status(http.StatusServiceUnavailable))
	binding, err := webhook.Forward(webhook.ForwardTarget{Provider: "payment", URL: to.URL, SecretEnv: "FORWARD_SECRET"}, webhook.ForwardOptions{
		LookupSecret: func(string) string { return forwardSecret }, Retry: webhook.Retry{Attempts: 5}, Timeout: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	now := time.Now()
	r := f.receiver(t, setup{bindings: []webhook.Binding{binding}, change: func(o *webhook.Options) {
		o.Budget, o.Metrics, o.Now = patience, registry, func() time.Time { return now }
	}})
	for i := range 3 {
		mustReceive(t, r, signed(t, "payment", "paid", eventID(i), `{}`))
	}
	if _, err := r.Announce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ForwardDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Another instance's target is no label here.
	f.exec(t, `insert into webhook_targets (provider, name, announced_at) values ('payment', 'elsewhere', now())`)
	now = now.Truncate(time.Microsecond).Add(90 * time.Second)
	const want = `# HELP waypost_webhook_target_up 1 for a target that events are sent to, 0 for one that is paused or whose breaker is open.
# TYPE waypost_webhook_target_up gauge
waypost_webhook_target_up{provider="payment",target="default"} 1
# HELP waypost_webhook_target_waiting Events that wait for a target, counted up to 10,000.
# TYPE waypost_webhook_target_waiting gauge
waypost_webhook_target_waiting{provider="payment",target="default"} 3
# HELP waypost_webhook_waiting Events of a provider without an outcome, counted up to 10,000.
# TYPE waypost_webhook_waiting gauge
waypost_webhook_waiting{provider="codehost"} 0
waypost_webhook_waiting{provider="payment"} 3
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "waypost_webhook_waiting", "waypost_webhook_target_waiting", "waypost_webhook_target_up"); err != nil {
		t.Error(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			switch family.GetName() {
			case "waypost_webhook_waiting_seconds", "waypost_webhook_target_waiting_seconds":
				if seconds := m.GetGauge().GetValue(); seconds != 0 && (seconds < 80 || seconds > 100) {
					t.Errorf("%s: %v s", family.GetName(), seconds)
				}
			}
		}
	}
	if n := sumOf(t, registry, "waypost_webhook_forward_seconds"); n != 3 {
		t.Errorf("%v attempts are timed", n)
	}
}
