package webhook_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/webhook"
)

func announce(t *testing.T, r *faces) int {
	t.Helper()
	n, err := r.Announce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// instance announces itself as its clock says.
type instance struct {
	*faces
	now time.Time
}

func (f fixture) instance(t *testing.T, bindings ...webhook.Binding) *instance {
	t.Helper()
	i := &instance{now: time.Now()}
	i.faces = f.receiver(t, setup{bindings: bindings, change: func(o *webhook.Options) { o.Now = func() time.Time { return i.now } }})
	return i
}

// live is d of an instance's life: it announces itself at the beginning and each
// minute. It returns how many events failed.
func (i *instance) live(t *testing.T, d time.Duration) int {
	t.Helper()
	n := announce(t, i.faces)
	for ; d > 0; d -= time.Minute {
		i.now = i.now.Add(min(d, time.Minute))
		n += announce(t, i.faces)
	}
	return n
}

func TestAnEventFailsWhenNoInstanceHasHadItsHandlerForAnHour(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	with := f.instance(t, retrying(5, failingTimes(1)))
	announce(t, with.faces)
	got := mustReceive(t, with.faces, signed(t, "payment", "paid", "evt_1", `{}`))
	f.exec(t, `update webhook_events set created_at = now() - interval '10 days'`)
	before := f.state(t, got.ID)
	announced := func(ago string) {
		f.exec(t, `update webhook_bindings set announced_at = now() - $1::text::interval`, ago)
	}

	without := f.instance(t, webhook.Handle("codehost", "", inTx))
	if n := without.live(t, 90*time.Minute); n != 0 {
		t.Errorf("%d failed beside an instance that has their handler", n)
	}
	announced("59 minutes")
	if n := announce(t, without.faces); n != 0 || f.state(t, got.ID) != before {
		t.Errorf("after 59 minutes %d failed: %s", n, f.state(t, got.ID))
	}
	announced("61 minutes")
	if n := announce(t, without.faces); n != 1 {
		t.Errorf("after 61 minutes %d failed", n)
	}
	rec := mustFind(t, without.faces, got.ID)
	if rec.Status != webhook.Failed || !strings.Contains(rec.HandlerError, "no running instance has had a handler") || rec.RetryCount != 0 {
		t.Errorf("%+v", rec)
	}
	if got := attempts(t, without.faces, got.ID); got != "failed" {
		t.Errorf("ledger: %s", got)
	}
	if n := f.count(t, `select count(*) from webhook_bindings where provider = 'payment'`); n != 0 {
		t.Errorf("%d expired announcements are left", n)
	}
	if n, err := f.alerts(t, "", 1).Check(t.Context()); n != 1 || err != nil {
		t.Errorf("alerts: %d, %v", n, err)
	}
	if rec, err := with.Replay(t.Context(), got.ID, false); err != nil || rec.Status != webhook.Processed {
		t.Errorf("replayed: %+v, %v", rec, err)
	}
}

func TestNoEventFailsForTheTimeInWhichNobodyCouldAnnounceAnything(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	with := f.instance(t, forwardTo(t, newTarget(t, status(http.StatusOK)), ""))
	announce(t, with.faces)
	got := mustReceive(t, with.faces, signed(t, "payment", "paid", "evt_1", `{}`))
	// All instances are down for a week, and the first to come back is another.
	f.exec(t, `update webhook_events set created_at = now() - interval '7 days'`)
	f.exec(t, `update webhook_bindings set announced_at = now() - interval '7 days'`)
	without := f.instance(t)
	if n := without.live(t, 59*time.Minute); n != 0 {
		t.Errorf("%d failed within the first hour", n)
	}
	without.now = without.now.Add(6 * time.Minute) // it was asleep, or the database away
	if n := without.live(t, 59*time.Minute); n != 0 {
		t.Errorf("%d failed within an hour after a gap", n)
	}
	without.now = without.now.Add(-time.Hour) // its clock is set right
	if n := without.live(t, 59*time.Minute); n != 0 {
		t.Errorf("%d failed within an hour after the clock was set", n)
	}
	f.workJobs(t, without.faces)
	announce(t, with.faces) // back in time
	if n := without.live(t, 30*time.Minute); n != 0 {
		t.Errorf("%d failed", n)
	}
	if n := sweep(t, with.faces); n != 1 || mustFind(t, with.faces, got.ID).Status != webhook.Processed {
		t.Errorf("a sweep took %d", n)
	}
}

func TestAnEventThatIsBeingHandledOrHasJustArrivedDoesNotFailForWantOfAnAnnouncement(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	entered, release := make(chan struct{}), make(chan struct{})
	// It can't announce itself, or is of an older version.
	with := f.receiver(t, setup{change: func(o *webhook.Options) { o.AnswerAfter = time.Millisecond }, bindings: []webhook.Binding{
		webhook.Handle("payment", "slow", func(context.Context, *webhook.Delivery) error { close(entered); <-release; return nil }),
		retrying(5, failing),
	}})
	slow := mustReceive(t, with, signed(t, "payment", "slow", "evt_1", `{}`))
	<-entered
	f.exec(t, `update webhook_events set created_at = now() - interval '7 days'`)
	mustReceive(t, with, signed(t, "payment", "paid", "evt_2", `{}`))
	if n := f.instance(t).live(t, 2*time.Hour); n != 0 {
		t.Errorf("%d failed", n)
	}
	close(release)
	eventually(t, with, slow.ID, webhook.Processed)
}

func TestManyEventsWithoutAHandlerFailInBatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(t, `insert into webhook_events (id, provider, event_type, external_id, status, created_at, raw, raw_sha256, headers, lease_until)
		select gen_random_uuid(), 'payment', 'renamed' || i % 2, '', 'pending', now() - interval '2 days', '{}', sha256('{}'), '{}', now() + interval '1 day'
		from generate_series(1, 1200) i`)
	i := f.instance(t, webhook.Handle("payment", "renamed0", inTx))
	if n := i.live(t, time.Hour); n != 600 {
		t.Errorf("%d failed", n)
	}
	if n := f.count(t, `select count(*) from webhook_events where status = 'failed' and event_type = 'renamed1'`); n != 600 {
		t.Errorf("%d failed of the type without a handler", n)
	}
}

func TestAStartNamesWhatNoHandlerHereWouldTake(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(t, `insert into webhook_events (id, provider, event_type, external_id, status, created_at, raw, raw_sha256, headers, lease_until)
		select gen_random_uuid(), 'payment', 'type ' || i, '', 'pending', now(), '{}', sha256('{}'), '{}', now()
		from generate_series(1, 30) i, generate_series(1, i)`)
	var log logged
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "type 29", inTx)}, change: log.into})
	for range 3 {
		announce(t, r)
	}
	lines := log.lines()
	if len(lines) != 21 || !strings.Contains(lines[0], `event_type="type 30" events=30`) || !strings.Contains(lines[1], `event_type="type 28" events=28`) ||
		!strings.Contains(lines[20], "still more types") {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}
