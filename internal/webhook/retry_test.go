package webhook_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/webhook"
)

// failingTimes fails its first n calls.
func failingTimes(n int64) webhook.Handler {
	var calls atomic.Int64
	return func(ctx context.Context, d *webhook.Delivery) error {
		if calls.Add(1) <= n {
			return errors.Join(inTx(ctx, d), errHandler)
		}
		return inTx(ctx, d)
	}
}

func retrying(attempts int, h webhook.Handler) webhook.Binding {
	return webhook.Binding{Provider: "payment", Handler: h, Retry: webhook.Retry{
		Attempts: attempts, Backoff: func(int) time.Duration { return time.Hour },
	}}
}

func TestABindingsRetriesGoOnUntilTheHandlerSucceedsOrTheyAreSpent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failures int64
		want     webhook.Status
		ledger   string
		effects  int
	}{
		"the third succeeds": {2, webhook.Processed, "failed failed processed", 1},
		"none succeeds":      {3, webhook.Failed, "failed failed failed", 0},
		"the first succeeds": {0, webhook.Processed, "processed", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			r := f.receiver(t, setup{bindings: []webhook.Binding{retrying(3, failingTimes(c.failures))}})
			got := mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{}`))
			if want := map[bool]webhook.Status{true: webhook.Pending, false: webhook.Processed}[c.failures > 0]; got.Status != want {
				t.Errorf("answered %s", got.Status)
			}
			if c.failures > 0 {
				if rec := mustFind(t, r, got.ID); rec.Status != webhook.Pending || rec.HandlerError != errHandler.Error() {
					t.Errorf("waiting: %+v", rec)
				}
			}
			for f.workJobs(t, r) > 0 {
			}
			rec := mustFind(t, r, got.ID)
			if rec.Status != c.want || rec.RetryCount != 0 {
				t.Errorf("in the end %+v", rec)
			}
			if got := attempts(t, r, got.ID); got != c.ledger {
				t.Errorf("ledger: %s", got)
			}
			if n := f.count(t, `select count(*) from effects`); n != c.effects {
				t.Errorf("%d effects", n)
			}
		})
	}
}

func TestAReplayBeginsTheRetriesAnew(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.receiver(t, setup{bindings: []webhook.Binding{retrying(2, failingTimes(3))}})
	got := mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{}`))
	f.workJobs(t, r)
	if rec := mustFind(t, r, got.ID); rec.Status != webhook.Failed {
		t.Fatalf("spent: %s", rec.Status)
	}
	if rec, err := r.Replay(t.Context(), got.ID, false); err != nil || rec.Status != webhook.Pending {
		t.Errorf("the replay's first attempt: %+v, %v", rec, err)
	}
	f.workJobs(t, r)
	if rec := mustFind(t, r, got.ID); rec.Status != webhook.Processed || rec.RetryCount != 1 {
		t.Errorf("in the end %+v", rec)
	}
	if got := attempts(t, r, got.ID); got != "failed failed failed processed" {
		t.Errorf("ledger: %s", got)
	}
}

func TestTheSweepLeavesAnEventToItsJobWhileThatLives(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.receiver(t, setup{bindings: []webhook.Binding{retrying(2, failingTimes(1))}})
	got := mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{}`))
	for _, state := range []string{"scheduled", "available", "running", "retryable"} {
		f.exec(t, `update river_job set state = $1::text::river_job_state where kind = 'webhooks.attempt'`, state)
		f.expireLeases(t)
		if n, err := r.Sweep(t.Context()); n != 0 || err != nil {
			t.Errorf("%s: Sweep = %d, %v", state, n, err)
		}
	}
	// An operator deletes the job.
	f.exec(t, `delete from river_job where kind = 'webhooks.attempt'`)
	if n, err := r.Sweep(t.Context()); n != 1 || err != nil {
		t.Fatalf("Sweep = %d, %v", n, err)
	}
	eventually(t, r, got.ID, webhook.Processed)
	if got := attempts(t, r, got.ID); got != "failed processed" {
		t.Errorf("ledger: %s", got)
	}
}

func TestAJobThatDiedIsWorkedAgainAndOneThatIsNoLongerTheEventsDoesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bindings := []webhook.Binding{retrying(5, failingTimes(1))}
	dying := f.receiver(t, setup{bindings: bindings, change: crashAt(webhook.BeforeCommit)})
	got := mustReceive(t, dying, signed(t, "payment", "paid", "evt_1", `{}`))
	var id int64
	if err := f.admin.QueryRow(t.Context(), `select id from river_job where kind = 'webhooks.attempt'`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	job := webhook.AttemptJob{EventID: got.ID}
	if err := dying.Attempt(t.Context(), job, id); err != nil {
		t.Errorf("the run that dies: %v", err)
	}
	r := f.receiver(t, setup{bindings: bindings})
	if err := r.Attempt(t.Context(), job, id); !isAgain(err) {
		t.Errorf("while its lease holds: %v", err)
	}
	f.expireLeases(t)
	for range 3 { // the second and third time for nothing
		if err := r.Attempt(t.Context(), job, id); err != nil {
			t.Errorf("rescued: %v", err)
		}
	}
	if err := r.Attempt(t.Context(), webhook.AttemptJob{EventID: uuid.New()}, id); err != nil {
		t.Errorf("without an event: %v", err)
	}
	eventually(t, r, got.ID, webhook.Processed)
	if got := attempts(t, r, got.ID); got != "failed interrupted processed" {
		t.Errorf("ledger: %s", got)
	}
	if n := f.count(t, `select count(*) from effects`); n != 1 {
		t.Errorf("%d effects", n)
	}
}

func TestAJobsAttemptsThatNeverEndFailTheEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	dying := f.receiver(t, setup{bindings: []webhook.Binding{retrying(100, failing)}, change: func(o *webhook.Options) {
		o.Interrupt = func(b webhook.Boundary, _ uuid.UUID) error {
			if b == webhook.AfterClaim {
				return errCrash
			}
			return nil
		}
	}})
	got := mustReceive(t, dying, signed(t, "payment", "paid", "evt_1", `{}`))
	var id int64
	if err := f.admin.QueryRow(t.Context(), `select id from river_job where kind = 'webhooks.attempt'`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		_ = dying.Attempt(t.Context(), webhook.AttemptJob{EventID: got.ID}, id)
		f.expireLeases(t)
	}
	if rec := mustFind(t, dying, got.ID); rec.Status != webhook.Failed {
		t.Errorf("%+v", rec)
	}
	if got := attempts(t, dying, got.ID); got != "failed interrupted interrupted interrupted interrupted interrupted" {
		t.Errorf("ledger: %s", got)
	}
}

func TestHandlersWaitForTransactionsRatherThanDrainThePool(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var open, most atomic.Int64
	r := f.receiver(t, setup{
		change: func(o *webhook.Options) { o.MaxTransactions = 2 },
		bindings: []webhook.Binding{webhook.Handle("payment", "", func(ctx context.Context, d *webhook.Delivery) error {
			if err := inTx(ctx, d); err != nil {
				return err
			}
			n := open.Add(1)
			defer open.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			return nil
		})},
	})
	var senders atomic.Int64
	done := make(chan struct{})
	const deliveries = 50
	for i := range deliveries {
		in := signed(t, "payment", "paid", eventID(i), `{}`)
		go func() {
			if got, err := r.Receive(t.Context(), in); err != nil || got.Status != webhook.Processed {
				t.Errorf("%+v, %v", got, err)
			}
			if senders.Add(1) == deliveries {
				close(done)
			}
		}()
	}
	<-done
	if most.Load() > 2 {
		t.Errorf("%d transactions at once", most.Load())
	}
}

func TestAnEventThatFindsNoTransactionFreeIsLeftToAJobUncounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release, held := make(chan struct{}), make(chan struct{})
	r := f.receiver(t, setup{
		change: func(o *webhook.Options) {
			o.MaxTransactions, o.Budget, o.AnswerAfter = 1, 300*time.Millisecond, 10*time.Millisecond
		},
		bindings: []webhook.Binding{
			webhook.Handle("payment", "slow", func(ctx context.Context, d *webhook.Delivery) error {
				err := inTx(ctx, d)
				close(held)
				<-release
				return err
			}),
			webhook.Handle("payment", "quick", inTx),
		},
	})
	mustReceive(t, r, signed(t, "payment", "slow", "1", `{}`))
	<-held
	got := mustReceive(t, r, signed(t, "payment", "quick", "2", `{}`))
	for f.count(t, `select count(*) from river_job where kind = 'webhooks.attempt'`) == 0 {
		if t.Context().Err() != nil {
			t.Fatal("no job")
		}
	}
	close(release)
	f.workJobs(t, r)
	if rec := mustFind(t, r, got.ID); rec.Status != webhook.Processed {
		t.Errorf("%+v", rec)
	}
	if got := attempts(t, r, got.ID); got != "processed" {
		t.Errorf("ledger: %s", got)
	}
}

func TestExponentialWaitsDoubleUpToTheMost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		first := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "first"))
		most := first + time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "more"))
		backoff := webhook.Exponential(first, most)
		n := rapid.IntRange(1, 1000).Draw(t, "n")
		if got := backoff(1); got != first {
			t.Fatalf("first wait %v", got)
		}
		this, next := backoff(n), backoff(n+1)
		if next > most || next != most && next != 2*this {
			t.Fatalf("after %v comes %v", this, next)
		}
	})
}
