package webhook_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/webhook"
)

// watching is an instance that watches for every trouble; what it mails goes to box.
func (f fixture) watching(t *testing.T, box *mailed, now func() time.Time) *webhook.Alerts {
	t.Helper()
	registry, err := webhook.NewRegistry([]webhook.Registration{webhook.Payment(), webhook.CodeHost()})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := queue.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := webhook.NewAlerts(webhook.AlertOptions{
		DB: f.db, Registry: registry, Logger: discard, Jobs: jobs, Streak: 1000, URL: "http://alerts.example", Secret: alertSecret, Mail: box, Now: now,
		MaxWait: time.Hour, Refused: 3, FailureRate: 50,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// notices are the types of the notices that are to be posted, in their order.
func (f fixture) notices(t *testing.T) []string {
	t.Helper()
	rows, err := f.admin.Query(t.Context(), `select args->>'type' from river_job where kind = 'webhooks.notice' order by id`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestABacklogIsAlertedAboutOnceAndItsEndIsTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var working atomic.Bool
	b := webhook.Handle("payment", "", func(context.Context, *webhook.Delivery) error {
		if working.Load() {
			return nil
		}
		return errHandler
	})
	b.Retry = webhook.Retry{Attempts: 5}
	r := f.receiver(t, setup{bindings: []webhook.Binding{b}})
	var box mailed
	now := time.Now()
	clock := func() time.Time { return now }
	instances := []*webhook.Alerts{f.watching(t, &box, clock), f.watching(t, &box, clock)}
	check := func() {
		t.Helper()
		for range 2 {
			for _, a := range instances {
				if _, err := a.Check(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for i := range 3 {
		mustReceive(t, r, signed(t, "payment", "paid", eventID(i), `{}`))
	}
	check()
	if len(box.details) != 0 {
		t.Errorf("at once: %q", box.details)
	}
	now = now.Add(61 * time.Minute)
	check()
	working.Store(true)
	f.workJobs(t, r)
	check()
	if diff := cmp.Diff([]string{"3 webhook events of payment have no outcome yet; the oldest has waited for 1h1m0s.", "The webhook events of payment no longer wait for long."}, box.details); diff != "" {
		t.Errorf("mails (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"waypost.webhooks.backlog", "waypost.webhooks.backlog.recovered"}, f.notices(t)); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
}

func TestAProviderOfWhichOnlyRefusedDeliveriesComeIsAlertedAbout(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.receiver(t, setup{})
	var box mailed
	a := f.watching(t, &box, time.Now)
	total := 0
	refuse := func(n int) {
		t.Helper()
		for range n {
			in := signed(t, "payment", "paid", "evt", `{}`)
			in.Header.Set("Payment-Signature", "t=1,v1=00")
			if _, err := r.Receive(t.Context(), in); err == nil {
				t.Fatal("taken")
			}
		}
		total += n
		rejected(t, r, webhook.RejectedFilter{Provider: "payment"}, total)
		if _, err := a.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	refuse(2)
	mustReceive(t, r, signed(t, "payment", "paid", "good", `{}`))
	refuse(2) // some are good
	if len(box.details) != 0 {
		t.Errorf("too early: %q", box.details)
	}
	refuse(1)
	refuse(1)
	mustReceive(t, r, signed(t, "payment", "paid", "better", `{}`))
	refuse(0)
	want := []string{"The last 3 deliveries of payment were all refused, the latest for signature_too_old.", "The deliveries of payment are no longer refused."}
	if diff := cmp.Diff(want, box.details); diff != "" {
		t.Errorf("mails (-want +got):\n%s", diff)
	}
}

func TestAFailureRateIsAlertedAboutUntilItIsHalved(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var broken atomic.Bool
	r := f.receiver(t, setup{bindings: []webhook.Binding{flaky(&broken)}})
	var box mailed
	a := f.watching(t, &box, time.Now)
	n := 0
	deliver := func(failing, fine int) {
		t.Helper()
		for i := range failing + fine {
			n++
			broken.Store(i%2 == 0 && i/2 < failing || i >= 2*fine)
			mustReceive(t, r, signed(t, "payment", "paid", eventID(n), `{}`))
			mustReceive(t, r, signed(t, "payment", "unhandled", "u"+eventID(n), `{}`)) // says nothing
		}
		if _, err := a.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	deliver(9, 9)
	if len(box.details) != 0 {
		t.Errorf("of 18: %q", box.details)
	}
	deliver(1, 1)
	deliver(0, 10) // a third: not over
	if diff := cmp.Diff([]string{"Of the 20 newest webhook events of payment, 10 fail."}, box.details); diff != "" {
		t.Errorf("mails (-want +got):\n%s", diff)
	}
	deliver(0, 20)
	if diff := cmp.Diff([]string{"waypost.webhooks.failure_rate", "waypost.webhooks.failure_rate.recovered"}, f.notices(t)); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
	var data map[string]any
	if err := f.admin.QueryRow(t.Context(), `select args->'data' from river_job where kind = 'webhooks.notice' order by id limit 1`).Scan(&data); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"provider": "payment", "handled": 20.0, "failed": 10.0, "message": "Of the 20 newest webhook events of payment, 10 fail."}, data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
}

func TestTheEndOfAStreakIsTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var broken atomic.Bool
	broken.Store(true)
	r := f.receiver(t, setup{bindings: []webhook.Binding{flaky(&broken)}})
	a := f.alerts(t, "http://alerts.example", 2)
	for i := range 4 {
		broken.Store(i < 2)
		mustReceive(t, r, signed(t, "payment", "paid", eventID(i), `{}`))
		if _, err := a.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"waypost.webhooks.failing.recovered"}, f.notices(t)); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
	var args json.RawMessage
	if err := f.admin.QueryRow(t.Context(), `select args from river_job where kind = 'webhooks.notice'`).Scan(&args); err != nil {
		t.Fatal(err)
	}
	var job webhook.NoticeJob
	if err := json.Unmarshal(args, &job); err != nil || job.ID.Version() != 7 {
		t.Errorf("%s, %v", args, err)
	}
}
