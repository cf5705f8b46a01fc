package webhook_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/webhook"
)

// state is what a handler's absence must not change about an event.
func (f fixture) state(t *testing.T, id uuid.UUID) string {
	t.Helper()
	var s string
	if err := f.admin.QueryRow(t.Context(), `select concat_ws(' ', status, 'attempts', attempts, 'tries', tries, 'interrupted', interrupted, 'error', handler_error,
		'replays', retry_count, 'attempt', attempt_at, attempt_ms, 'lease', lease_id, 'ledger', (select count(*) from webhook_attempts where event_id = e.id),
		(select string_agg(concat_ws(' ', target, status, attempts, tries, lease_id, error), ', ') from webhook_forwards where event_id = e.id))
		from webhook_events e where id = $1`, id).Scan(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// due is when the event is to be handled, as far as its row says.
func (f fixture) due(t *testing.T, id uuid.UUID) string {
	t.Helper()
	var s string
	if err := f.admin.QueryRow(t.Context(), `select concat_ws(' ', job_id, lease_until, (select string_agg(due_at::text, ' ') from webhook_forwards where event_id = id)) from webhook_events where id = $1`, id).Scan(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// sweep is what an instance does at start and again and again.
func sweep(t *testing.T, r *faces) int {
	t.Helper()
	n, err := r.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.SweepForwards(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sent, err := r.ForwardDue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n + m + sent
}

// logged is a log at the level of production.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.FieldsFunc(l.b.String(), func(r rune) bool { return r == '\n' })
}

func (l *logged) into(o *webhook.Options) { o.Logger = slog.New(slog.NewTextHandler(l, nil)) }

// forwardTo is a forward of one type to the target, tried again each hour.
func forwardTo(t *testing.T, to *target, eventType string) webhook.Binding {
	t.Helper()
	b, err := webhook.Forward(webhook.ForwardTarget{Provider: "payment", EventType: eventType, URL: to.URL, SecretEnv: "FORWARD_SECRET"},
		webhook.ForwardOptions{LookupSecret: func(string) string { return forwardSecret }, Retry: webhook.Retry{Attempts: 5, Backoff: func(int) time.Duration { return time.Hour }}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Case 63: an event whose handler is not here. Each way leaves one as its name says.
func TestAnInstanceWithoutTheHandlerLeavesAnEventAsItIs(t *testing.T) {
	t.Parallel()
	type left struct {
		binding func(*testing.T, *target) webhook.Binding
		change  func(*webhook.Options)
		ledger  string // in the end
	}
	for name, c := range map[string]left{
		"crashed before its handler began": {
			func(*testing.T, *target) webhook.Binding { return webhook.Handle("payment", "paid", inTx) }, crashAt(webhook.AfterStore), "interrupted processed",
		},
		"waiting after a failure": {
			func(*testing.T, *target) webhook.Binding { return retrying(5, failingTimes(1)) }, nil, "failed processed",
		},
		"a forward": {
			func(t *testing.T, to *target) webhook.Binding { return forwardTo(t, to, "paid") }, nil, "processed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			to := newTarget(t, status(http.StatusOK))
			bindings := []webhook.Binding{c.binding(t, to)}
			// A provider's other type, and another provider's catch-all, are no handlers.
			elsewhere := []webhook.Binding{webhook.Handle("payment", "refunded", inTx), webhook.Handle("codehost", "", inTx)}
			with := f.receiver(t, setup{bindings: bindings, change: c.change})
			_, _ = with.Receive(t.Context(), signed(t, "payment", "paid", "evt_1", `{}`))
			list, err := with.List(t.Context(), webhook.Filter{Status: webhook.Pending}, nil, 2)
			if err != nil || len(list) != 1 {
				t.Fatalf("%d pending, %v", len(list), err)
			}
			id := list[0].ID
			before := f.state(t, id)

			var log logged
			without := f.receiver(t, setup{bindings: elsewhere, change: log.into})
			due := f.due(t, id)
			if n := sweep(t, without); n != 0 || f.due(t, id) != due {
				t.Errorf("a sweep took %d: %s, before %s", n, f.due(t, id), due)
			}
			f.workJobs(t, without) // whose jobs have come, so that it is due
			f.expireLeases(t)
			for range 3 {
				if n := sweep(t, without) + f.workJobs(t, without); n != 0 {
					t.Errorf("%d sweeps and jobs in vain", n)
				}
			}
			if diff := cmp.Diff(before, f.state(t, id)); diff != "" {
				t.Errorf("the event (-before +after):\n%s", diff)
			}
			if lines := log.lines(); len(lines) != 0 {
				t.Errorf("the log says %q", lines)
			}

			restarted := f.receiver(t, setup{bindings: bindings})
			if n := sweep(t, restarted); n != 1 {
				t.Errorf("with its handler a sweep took %d", n)
			}
			if rec := mustFind(t, restarted, id); rec.Status != webhook.Processed {
				t.Errorf("in the end %+v", rec)
			}
			if got := attempts(t, restarted, id); got != c.ledger {
				t.Errorf("ledger: %s", got)
			}
			if n := f.count(t, `select count(*) from effects`) + len(to.requests); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

func TestAnEventThatInterruptsItsHandlersIsFailedOnlyWhereThoseAre(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	with := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)}, change: crashAt(webhook.AfterStore)})
	_, _ = with.Receive(t.Context(), signed(t, "payment", "paid", "evt_1", `{}`))
	f.exec(t, `update webhook_events set interrupted = 10`)
	f.expireLeases(t)
	sweep(t, f.receiver(t, setup{}))
	if n := f.count(t, `select count(*) from webhook_events where status = 'pending'`); n != 1 {
		t.Errorf("%d pending", n)
	}
	sweep(t, with)
	if n := f.count(t, `select count(*) from webhook_events where status = 'failed'`); n != 1 {
		t.Errorf("%d failed", n)
	}
}

func TestACatchAllIsAHandlerForEveryTypeAndTheExactOneComesFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	crashed := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "paid", inTx), webhook.Handle("payment", "", inTx)}, change: func(o *webhook.Options) {
		o.Interrupt = func(b webhook.Boundary, _ uuid.UUID) error {
			if b == webhook.AfterStore {
				return errCrash
			}
			return nil
		}
	}})
	for _, kind := range []string{"paid", "refunded"} {
		_, _ = crashed.Receive(t.Context(), signed(t, "payment", kind, kind, `{}`))
	}
	f.expireLeases(t)
	var exact, rest atomic.Int64
	forward := webhook.Binding{Provider: "payment", Handler: counting(&rest), ByJob: true}
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "paid", counting(&exact)), forward}})
	if n, err := r.Sweep(t.Context()); n != 1 || err != nil || exact.Load() != 1 || rest.Load() != 0 {
		t.Errorf("Sweep = %d, %v: %d and %d calls", n, err, exact.Load(), rest.Load())
	}
	if n, err := r.SweepForwards(t.Context()); n != 1 || err != nil || exact.Load() != 1 || rest.Load() != 1 {
		t.Errorf("SweepForwards = %d, %v: %d and %d calls", n, err, exact.Load(), rest.Load())
	}
}

// The jobs, sweeps and replays of one instance, for events of another.
func TestTwoInstancesOfDifferentConfigurationHandleEveryEventOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	to := newTarget(t, status(http.StatusOK))
	var plain atomic.Int64
	a := f.receiver(t, setup{bindings: []webhook.Binding{
		forwardTo(t, to, "forward"), retrying(5, failingTimes(10)), webhook.Handle("payment", "plain", counting(&plain)),
	}})
	b := f.receiver(t, setup{})
	const each = 20
	ids := map[string][]uuid.UUID{}
	for i := range each {
		for _, kind := range []string{"forward", "retried", "plain"} {
			ids[kind] = append(ids[kind], mustReceive(t, a, signed(t, "payment", kind, fmt.Sprint(kind, i), `{}`)).ID)
		}
	}
	handled := func() int { return f.count(t, `select count(*) from webhook_events where status = 'processed'`) }
	first := handled() // of those retried, ten failed once
	if want := each + 10; first != want {
		t.Fatalf("%d are processed, not %d", first, want)
	}
	for _, id := range []uuid.UUID{ids["forward"][0], ids["retried"][0]} {
		if rec, err := b.Replay(t.Context(), id, false); err != nil || rec.Status != webhook.Pending || rec.RetryCount != 1 {
			t.Errorf("a replay: %+v, %v", rec, err)
		}
	}
	bulk, err := b.StartBulk(t.Context(), webhook.Filter{EventType: "forward", Status: webhook.Pending}, false)
	if err != nil || bulk.Matched != each {
		t.Errorf("%+v, %v", bulk, err)
	}
	if err := b.ContinueBulk(t.Context(), webhook.ReplayJob{ReplayID: bulk.ID}); err != nil {
		t.Error(err)
	}
	f.workJobs(t, b)
	f.expireLeases(t)
	sweep(t, b)
	if n := handled(); n != first || len(to.requests) != 0 {
		t.Errorf("the instance without handlers made %d of %d processed", n-first, each+10)
	}
	if n := f.count(t, `select count(*) from webhook_events where status = 'failed' or interrupted > 0`); n != 0 {
		t.Errorf("%d failed or interrupted", n)
	}

	sweep(t, a)
	f.workJobs(t, a)
	if n := handled(); n != 3*each {
		t.Errorf("%d are processed in the end", n)
	}
	seen := map[string]int{}
	for _, q := range to.requests {
		seen[q.Header.Get("Webhook-Id")]++
	}
	if len(seen) != each || len(to.requests) != each || plain.Load() != each {
		t.Errorf("%d forwards of %d events, %d calls", len(to.requests), len(seen), plain.Load())
	}
	if n := f.count(t, `select count(distinct event) from effects`); n != each || f.count(t, `select count(*) from effects`) != each {
		t.Errorf("effects of %d events", n)
	}
	if got := f.count(t, `select count(*) from webhook_events e join webhook_forwards f on f.event_id = e.id where e.attempts <> 1 or f.attempts <> 1 or f.tries <> 1`); got != 0 {
		t.Errorf("%d forwards count more than their one attempt", got)
	}
}

func TestAReplayWithoutTheHandlerLeavesTheEventToAnInstanceThatHasIt(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(f fixture, a, b *faces) int{
		"its job is fetched there": func(f fixture, a, _ *faces) int { return f.workJobs(t, a) },
		"its job is fetched here":  func(f fixture, a, b *faces) int { f.workJobs(t, b); return sweep(t, a) },
	} {
		for _, of := range []webhook.Status{webhook.Failed, webhook.Processed} {
			t.Run(fmt.Sprint(name, ", ", of), func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				handler, ledger := failing, "failed"
				if of == webhook.Processed {
					handler, ledger = counting(new(atomic.Int64)), "processed"
				}
				stored := store(t, f, handler, of)
				b := f.receiver(t, setup{})
				rec, err := b.Replay(t.Context(), stored.ID, true)
				if err != nil || rec.Status != webhook.Pending || rec.RetryCount != 1 || rec.ProcessedAt != nil {
					t.Errorf("%+v, %v", rec, err)
				}
				if got := attempts(t, b, stored.ID); got != ledger {
					t.Errorf("ledger while it waits: %s", got)
				}
				if n := f.count(t, `select count(*) from river_job where kind = 'webhooks.attempt' and state = 'available'`); n != 1 {
					t.Errorf("%d jobs can be fetched at once", n)
				}
				a := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)}})
				if n := take(f, a, b); n != 1 {
					t.Errorf("%d are taken", n)
				}
				if rec := mustFind(t, a, stored.ID); rec.Status != webhook.Processed || rec.RetryCount != 1 {
					t.Errorf("in the end %+v", rec)
				}
				if got := attempts(t, a, stored.ID); got != ledger+" processed" {
					t.Errorf("ledger: %s", got)
				}
				if n := f.count(t, `select count(*) from effects`); n != 1 {
					t.Errorf("%d effects", n)
				}
			})
		}
	}
}

func TestAForcedReplayOfAnEventThatNeverHadAHandlerStaysProcessed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.receiver(t, setup{})
	ids := []uuid.UUID{}
	for i := range 20 {
		ids = append(ids, mustReceive(t, r, signed(t, "payment", "paid", eventID(i), `{}`)).ID)
	}
	for n := range 2 {
		rec, err := r.Replay(t.Context(), ids[0], true)
		if err != nil || rec.Status != webhook.Processed || rec.RetryCount != n+1 || rec.ProcessedAt == nil {
			t.Errorf("%+v, %v", rec, err)
		}
	}
	b, err := r.StartBulk(t.Context(), webhook.Filter{Provider: "payment"}, true)
	if err != nil || b.Matched != 20 {
		t.Errorf("%+v, %v", b, err)
	}
	if err := r.ContinueBulk(t.Context(), webhook.ReplayJob{ReplayID: b.ID}); err != nil {
		t.Error(err)
	}
	b, err = r.Bulk(t.Context(), b.ID)
	if err != nil || b.Processed != 20 || b.Replayed != 20 || !b.Force || b.Status != webhook.BulkFinished {
		t.Errorf("%+v, %v", b, err)
	}
	if got := attempts(t, r, ids[0]); got != "" || mustFind(t, r, ids[0]).RetryCount != 3 {
		t.Errorf("ledger: %s", got)
	}
	if n := f.count(t, `select count(*) from river_job where kind = 'webhooks.attempt'`); n != 0 {
		t.Errorf("%d jobs", n)
	}

	// Now an instance has a handler for it, and says so.
	a := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)}})
	announce(t, a)
	if rec, err := r.Replay(t.Context(), ids[0], true); err != nil || rec.Status != webhook.Pending {
		t.Errorf("with a handler elsewhere: %+v, %v", rec, err)
	}
	f.workJobs(t, a)
	if rec := mustFind(t, r, ids[0]); rec.Status != webhook.Processed || f.count(t, `select count(*) from effects`) != 1 {
		t.Errorf("%+v", rec)
	}
}

func TestABulkReplayWithForceTakesProcessedEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)}})
	for i := range 20 {
		mustReceive(t, r, signed(t, "payment", "paid", eventID(i), `{}`))
	}
	for force, want := range map[bool]int64{false: 0, true: 20} {
		b, err := r.StartBulk(t.Context(), webhook.Filter{Provider: "payment"}, force)
		if err != nil || b.Matched != want {
			t.Errorf("force %v: %+v, %v", force, b, err)
		}
		if err := r.ContinueBulk(t.Context(), webhook.ReplayJob{ReplayID: b.ID}); err != nil {
			t.Error(err)
		}
		if b, err = r.Bulk(t.Context(), b.ID); err != nil || b.Processed != want {
			t.Errorf("force %v: %+v, %v", force, b, err)
		}
	}
	if n := f.count(t, `select count(*) from effects`); n != 40 {
		t.Errorf("%d effects", n)
	}
}

func TestAForwardInFlightAtAKillIsTakenUpWhenItsLeaseIsOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	to := newTarget(t, status(http.StatusOK))
	dying := f.receiver(t, setup{bindings: []webhook.Binding{forwardTo(t, to, "paid")}, change: crashAt(webhook.AfterClaim)})
	got := mustReceive(t, dying, signed(t, "payment", "paid", "evt_1", `{}`))
	if n := f.forward(t, dying); n != 1 || len(to.requests) != 0 {
		t.Fatalf("%d claimed, %d requests", n, len(to.requests))
	}
	if n := f.count(t, `select count(*) from webhook_forwards where due_at - now() between interval '10 seconds' and interval '45 seconds'`); n != 1 {
		t.Error("the lease of a forward in flight is not over well within a minute")
	}
	r := f.receiver(t, setup{bindings: []webhook.Binding{forwardTo(t, to, "paid")}})
	if n := sweep(t, r) + f.forward(t, r); n != 0 {
		t.Errorf("%d taken while the lease holds", n)
	}
	f.expireLeases(t)
	if n := f.forward(t, r); n != 1 || mustFind(t, r, got.ID).Status != webhook.Processed || len(to.requests) != 1 {
		t.Errorf("%d taken, %d requests", n, len(to.requests))
	}
	if got := attempts(t, r, got.ID); got != "interrupted processed" {
		t.Errorf("ledger: %s", got)
	}
}

// Once a day's worth of kills hit the same event, it must be something about it.
func TestAForwardWhoseAttemptsNeverEndFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	to := newTarget(t, status(http.StatusOK))
	dying := f.receiver(t, setup{bindings: []webhook.Binding{forwardTo(t, to, "paid")}, change: func(o *webhook.Options) {
		o.Interrupt = func(at webhook.Boundary, _ uuid.UUID) error {
			if at == webhook.AfterClaim {
				return errCrash
			}
			return nil
		}
	}})
	got := mustReceive(t, dying, signed(t, "payment", "paid", "evt_1", `{}`))
	for range 6 {
		f.forward(t, dying)
		f.expireLeases(t)
	}
	r := f.receiver(t, setup{bindings: []webhook.Binding{forwardTo(t, to, "paid")}})
	f.forward(t, r)
	if rec := mustFind(t, r, got.ID); rec.Status != webhook.Failed || !strings.Contains(rec.HandlerError, "did not end") || len(to.requests) != 0 {
		t.Errorf("%+v, %d requests", rec, len(to.requests))
	}
}
