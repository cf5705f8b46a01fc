package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/webhook"
	"github.com/waypost/waypost/internal/webhook/signature"
)

const alertSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// flaky fails while broken says so.
func flaky(broken *atomic.Bool) webhook.Binding {
	return webhook.Handle("payment", "paid", func(context.Context, *webhook.Delivery) error {
		if broken.Load() {
			return errHandler
		}
		return nil
	})
}

func (f fixture) alerts(t *testing.T, url string, streak int) *webhook.Alerts {
	t.Helper()
	registry, err := webhook.NewRegistry([]webhook.Registration{webhook.Payment(), webhook.CodeHost()})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := queue.New(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	a, err := webhook.NewAlerts(webhook.AlertOptions{
		DB: f.db, Registry: registry, Logger: slog.New(slog.DiscardHandler), Jobs: jobs, Streak: streak, URL: url, Secret: alertSecret,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAnAlertIsRaisedOncePerStreakAlsoAcrossInstances(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var broken atomic.Bool
	r := f.receiver(t, setup{bindings: []webhook.Binding{flaky(&broken)}})
	n := 0
	deliver := func(fails bool, times int) {
		broken.Store(fails)
		for range times {
			n++
			mustReceive(t, r, signed(t, "payment", "paid", eventID(n), `{}`))
			mustReceive(t, r, signed(t, "payment", "unhandled", "u"+eventID(n), `{}`)) // says nothing about the handler
		}
	}
	instances := []*webhook.Alerts{f.alerts(t, "http://alerts.example", 3), f.alerts(t, "http://alerts.example", 3), f.alerts(t, "http://alerts.example", 3)}
	check := func() int {
		var raised atomic.Int64
		var checks sync.WaitGroup
		for _, a := range instances {
			checks.Go(func() {
				got, err := a.Check(t.Context())
				if err != nil {
					t.Error(err)
				}
				raised.Add(int64(got))
			})
		}
		checks.Wait()
		return int(raised.Load())
	}
	for i, step := range []struct {
		fails bool
		times int
		want  int // alerts
	}{
		{false, 2, 0},
		{true, 2, 0},
		{true, 1, 1},
		{true, 5, 0}, // the same streak
		{false, 1, 0},
		{true, 2, 0},
		{true, 2, 1}, // another
		{false, 1, 0},
		{true, 3, 1}, // and another, although no check saw it grow
	} {
		deliver(step.fails, step.times)
		if got := check(); got != step.want {
			t.Errorf("step %d: %d alerts, want %d", i, got, step.want)
		}
		if got := check(); got != 0 {
			t.Errorf("step %d again: %d alerts", i, got)
		}
	}
	if got := f.count(t, `select count(*) from river_job where kind = 'webhooks.alert'`); got != 3 {
		t.Errorf("%d jobs", got)
	}
	// A success between two checks ends a streak, however long the next one is.
	deliver(false, 1)
	deliver(true, 4)
	if got := check(); got != 1 {
		t.Errorf("after a success that no check saw: %d alerts", got)
	}
	// Replaying the old failures does not raise it again.
	broken.Store(false)
	list, err := r.List(t.Context(), webhook.Filter{Status: webhook.Failed}, nil, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if _, err := r.Replay(t.Context(), e.ID, false); err != nil {
			t.Fatal(err)
		}
		if got := check(); got != 0 {
			t.Errorf("while replaying: %d alerts", got)
		}
	}
	if got := f.count(t, `select count(*) from webhook_alerts`); got != 0 {
		t.Errorf("%d open alerts in the end", got)
	}
}

func TestAnEventThatWaitsForAnotherAttemptCountsIntoTheStreak(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := webhook.Handle("payment", "", failing)
	b.Retry = webhook.Retry{Attempts: 5}
	r := f.receiver(t, setup{bindings: []webhook.Binding{b}})
	for i := range 3 {
		if got := mustReceive(t, r, signed(t, "payment", "paid", eventID(i), `{}`)); got.Status != webhook.Pending {
			t.Fatalf("%+v", got)
		}
	}
	if n, err := f.alerts(t, "", 3).Check(t.Context()); n != 1 || err != nil {
		t.Errorf("Check = %d, %v", n, err)
	}
	if got := f.count(t, `select count(*) from river_job where kind = 'webhooks.alert'`); got != 0 {
		t.Errorf("%d jobs without a URL", got)
	}
}

func TestAnInstanceWithoutTheProviderEndsNoAlertAboutIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", failing)}})
	for i := range 3 {
		mustReceive(t, r, signed(t, "payment", "paid", eventID(i), `{}`))
	}
	with := f.alerts(t, "", 3)
	if n, err := with.Check(t.Context()); n != 1 || err != nil {
		t.Fatalf("Check = %d, %v", n, err)
	}
	jobs, err := queue.New(discard)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := webhook.NewRegistry([]webhook.Registration{webhook.CodeHost()})
	if err != nil {
		t.Fatal(err)
	}
	without, err := webhook.NewAlerts(webhook.AlertOptions{DB: f.db, Registry: registry, Logger: discard, Jobs: jobs, Streak: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []*webhook.Alerts{without, with} {
		if n, err := a.Check(t.Context()); n != 0 || err != nil {
			t.Errorf("the same streak again: Check = %d, %v", n, err)
		}
	}
}

func TestAnAlertIsASignedStandardWebhooksDelivery(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var got []http.Header
	var bodies [][]byte
	status := http.StatusNoContent
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if err := (signature.Standard{}).Verify([]byte(alertSecret), body, r.Header, time.Now()); err != nil {
			t.Error(err)
		}
		got, bodies = append(got, r.Header), append(bodies, body)
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(target.Close)
	a := f.alerts(t, target.URL, 5)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	job := webhook.AlertJob{ID: uuid.MustParse("01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10"), Provider: "payment", Streak: 7, LastSuccess: &at, At: at}
	if err := a.Send(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal(bodies[0], &body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{
		"type": "waypost.webhooks.failing", "timestamp": "2026-01-02T03:04:05Z",
		"data": map[string]any{"provider": "payment", "failure_streak": 7.0, "last_success_at": "2026-01-02T03:04:05Z",
			"message": "The last 7 webhook events of payment in a row have failed."},
	}, body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	for _, status = range []int{http.StatusFound, http.StatusInternalServerError, http.StatusGone} {
		if err := a.Send(t.Context(), job); err == nil || strings.Contains(err.Error(), target.URL) {
			t.Errorf("%d: %v", status, err)
		}
	}
	for _, h := range got {
		if h.Get("Webhook-Id") != job.ID.String() || len(got) != 4 {
			t.Errorf("id %s, %d requests", h.Get("Webhook-Id"), len(got))
		}
	}
	target.Close()
	if err := a.Send(t.Context(), job); err == nil || strings.Contains(err.Error(), target.URL) {
		t.Errorf("without a target: %v", err)
	}
	if err := f.alerts(t, "", 5).Send(t.Context(), job); err != nil {
		t.Errorf("without a URL: %v", err)
	}
}

func TestAlertsSayWhatTheyLack(t *testing.T) {
	t.Parallel()
	if _, err := webhook.NewAlerts(webhook.AlertOptions{}); err == nil {
		t.Error("alerts without a database")
	}
	f := newFixture(t)
	registry, err := webhook.NewRegistry(nil)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := queue.New(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	o := webhook.AlertOptions{DB: f.db, Registry: registry, Logger: slog.New(slog.DiscardHandler), Jobs: jobs, Streak: 1, URL: "http://x", Secret: "no key!"}
	if _, err := webhook.NewAlerts(o); !errors.Is(err, signature.ErrBadSecret) || strings.Contains(err.Error(), o.Secret) {
		t.Errorf("a secret that is no key: %v", err)
	}
	o.Secret, o.Streak = alertSecret, 0
	if _, err := webhook.NewAlerts(o); err == nil {
		t.Error("a streak of none")
	}
}

func TestMetricsTellReceivedRefusedDuplicatesHandlersAndStreaks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	registry := prometheus.NewRegistry()
	var broken atomic.Bool
	r := f.receiver(t, setup{bindings: []webhook.Binding{flaky(&broken)}, change: func(o *webhook.Options) { o.Metrics = registry }})
	mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{}`))
	mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{}`))
	broken.Store(true)
	mustReceive(t, r, signed(t, "payment", "paid", "evt_2", `{}`))
	mustReceive(t, r, signed(t, "payment", "paid", "evt_3", `{}`))
	if _, err := r.Receive(t.Context(), webhook.Inbound{Provider: "codehost", Body: []byte("{}")}); err == nil {
		t.Fatal("an unsigned delivery")
	}
	for _, name := range []string{"a", "b"} {
		r.Refuse(t.Context(), webhook.Refusal{Provider: name, Err: webhook.ErrProvider})
	}
	mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{"another":"body"}`))
	const want = `# HELP waypost_webhook_conflicts_total Duplicates whose body differs from the stored one: the provider used an id twice.
# TYPE waypost_webhook_conflicts_total counter
waypost_webhook_conflicts_total{provider="codehost"} 0
waypost_webhook_conflicts_total{provider="payment"} 1
# HELP waypost_webhook_duplicates_total Deliveries that were skipped because their id was stored before.
# TYPE waypost_webhook_duplicates_total counter
waypost_webhook_duplicates_total{provider="codehost"} 0
waypost_webhook_duplicates_total{provider="payment"} 2
# HELP waypost_webhook_failure_streak How many of a provider's newest handled events in a row are failing.
# TYPE waypost_webhook_failure_streak gauge
waypost_webhook_failure_streak{provider="codehost"} 0
waypost_webhook_failure_streak{provider="payment"} 2
# HELP waypost_webhook_received_total Deliveries to a registered provider whose body was read completely, whatever the outcome.
# TYPE waypost_webhook_received_total counter
waypost_webhook_received_total{provider="codehost"} 1
waypost_webhook_received_total{provider="payment"} 5
# HELP waypost_webhook_rejected_total Deliveries that were refused. For an unknown provider the label is empty.
# TYPE waypost_webhook_rejected_total counter
waypost_webhook_rejected_total{provider="",reason="unknown_provider"} 2
waypost_webhook_rejected_total{provider="codehost",reason="signature_missing"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "waypost_webhook_conflicts_total", "waypost_webhook_duplicates_total",
		"waypost_webhook_failure_streak", "waypost_webhook_received_total", "waypost_webhook_rejected_total"); err != nil {
		t.Error(err)
	}
	if n := sumOf(t, registry, "waypost_webhook_handler_seconds"); n != 3 {
		t.Errorf("%v runs of handlers are timed", n)
	}
	f.db.Close()
	if _, err := registry.Gather(); err != nil {
		t.Errorf("without the database: %v", err)
	}
}

func TestProviderStatesShowHowEachProviderFares(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var broken atomic.Bool
	env := secrets()
	env["PAYMENT_WEBHOOK_SECRET_PREVIOUS"] = "older"
	delete(env, "CODEHOST_WEBHOOK_SECRET")
	release := make(chan struct{})
	r := f.receiver(t, setup{secrets: env, change: func(o *webhook.Options) { o.AnswerAfter = time.Millisecond; o.Budget = time.Hour }, bindings: []webhook.Binding{
		flaky(&broken), webhook.Handle("payment", "", func(context.Context, *webhook.Delivery) error { <-release; return nil }),
	}})
	t.Cleanup(func() { close(release) })
	for i, step := range []struct {
		eventType string
		broken    bool
		want      webhook.Status
	}{{"paid", false, webhook.Processed}, {"paid", true, webhook.Failed}, {"slow", true, webhook.Pending}} {
		broken.Store(step.broken)
		eventually(t, r, mustReceive(t, r, signed(t, "payment", step.eventType, eventID(i), `{}`)).ID, step.want)
	}
	got, err := r.ProviderStates(t.Context(), "", 10)
	if err != nil {
		t.Fatal(err)
	}
	want := []webhook.ProviderState{
		{Name: "codehost", SecretEnv: "CODEHOST_WEBHOOK_SECRET", Verifier: "code-host", Extractor: "code-host", BodyLimit: 1 << 20, EventTypes: []string{}},
		{Name: "payment", SecretEnv: "PAYMENT_WEBHOOK_SECRET", SecretSet: true, PreviousSecretSet: true, Verifier: "timestamped-hmac", Extractor: "payment",
			BodyLimit: 1 << 20, EventTypes: []string{"", "paid"}, Pending: 1, Processed: 1, Failed: 1, FailureStreak: 1},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(webhook.ProviderState{}, "LastDelivery")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got[0].LastDelivery != nil || got[1].LastDelivery == nil || time.Since(*got[1].LastDelivery) > time.Hour {
		t.Errorf("last deliveries %v, %v", got[0].LastDelivery, got[1].LastDelivery)
	}
	if page, err := r.ProviderStates(t.Context(), "codehost", 1); err != nil || len(page) != 1 || page[0].Name != "payment" || r.CountProviders() != 2 {
		t.Errorf("second page: %+v, %v", page, err)
	}
}
