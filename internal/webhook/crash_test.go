package webhook_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/webhook"
)

var errCrash = errors.New("crash")

// crashAt makes the process die, so to speak, at its first arrival at b.
func crashAt(b webhook.Boundary) func(*webhook.Options) {
	var died atomic.Bool
	return func(o *webhook.Options) {
		o.Interrupt = func(at webhook.Boundary, _ uuid.UUID) error {
			if at == b && died.CompareAndSwap(false, true) {
				return errCrash
			}
			return nil
		}
	}
}

func TestACrashAtAnyBoundaryLeavesNothingOrAnEventThatTheSweepHandlesOnce(t *testing.T) {
	t.Parallel()
	durable := map[webhook.Boundary]bool{
		webhook.AfterVerify: false, webhook.AfterExtract: false,
		webhook.AfterStore: true, webhook.AfterHandler: true, webhook.BeforeCommit: true, webhook.AfterOutcome: true,
	}
	for boundary, stored := range durable {
		t.Run(string(boundary), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			bindings := []webhook.Binding{webhook.Handle("payment", "", inTx)}
			crashing := f.receiver(t, setup{bindings: bindings, change: crashAt(boundary)})
			restarted := f.receiver(t, setup{bindings: bindings})
			in := signed(t, "payment", "paid", "evt_1", `{"n":1}`)
			_, _ = crashing.Receive(t.Context(), in) // the answer, if any, is lost with the process

			rows := f.count(t, `select count(*) from webhook_events`)
			if (rows == 1) != stored {
				t.Fatalf("%d rows after the crash", rows)
			}
			if n, err := restarted.Sweep(t.Context()); err != nil || n != 0 {
				t.Errorf("a sweep took %d events whose lease holds, %v", n, err)
			}
			f.expireLeases(t)
			if _, err := restarted.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			again := mustReceive(t, restarted, in) // the sender got no 200, so it tries again
			if (again.Status == webhook.Skipped) != stored {
				t.Errorf("the second attempt is %s", again.Status)
			}
			rec := mustFind(t, restarted, again.ID)
			if rec.Status != webhook.Processed {
				t.Errorf("in the end %s: %s", rec.Status, rec.HandlerError)
			}
			if n := f.count(t, `select count(*) from effects where event = $1`, again.ID); n != 1 {
				t.Errorf("%d effects", n)
			}
			if n := f.count(t, `select count(*) from webhook_events`); n != 1 {
				t.Errorf("%d rows", n)
			}
		})
	}
}

func TestAHandlerWithoutATransactionRunsAgainAfterACrashUntilItsOutcomeIsDurable(t *testing.T) {
	t.Parallel()
	for boundary, want := range map[webhook.Boundary]int64{webhook.AfterStore: 1, webhook.AfterHandler: 2, webhook.AfterOutcome: 1} {
		t.Run(string(boundary), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			var calls atomic.Int64
			bindings := []webhook.Binding{webhook.Handle("payment", "", counting(&calls))}
			crashing := f.receiver(t, setup{bindings: bindings, change: crashAt(boundary)})
			_, _ = crashing.Receive(t.Context(), signed(t, "payment", "paid", "evt_1", `{}`))
			f.expireLeases(t)
			if _, err := f.receiver(t, setup{bindings: bindings}).Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if calls.Load() != want {
				t.Errorf("%d calls, want %d", calls.Load(), want)
			}
			if n := f.count(t, `select count(*) from webhook_events where status = 'processed'`); n != 1 {
				t.Errorf("%d processed", n)
			}
		})
	}
}

func TestAnInstanceThatLostItsLeaseLeavesNoEffectAndNoOutcome(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]webhook.Handler{
		"succeeding in its transaction": inTx,
		"failing in its transaction": func(ctx context.Context, d *webhook.Delivery) error {
			return errors.Join(inTx(ctx, d), errHandler)
		},
		"failing without one": failing,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			started, release := make(chan struct{}), make(chan struct{})
			slow := f.receiver(t, setup{
				change: func(o *webhook.Options) { o.AnswerAfter = time.Millisecond; o.Budget = time.Hour },
				bindings: []webhook.Binding{webhook.Handle("payment", "", func(ctx context.Context, d *webhook.Delivery) error {
					err := h(ctx, d)
					close(started)
					<-release
					return err
				})},
			})
			got := mustReceive(t, slow, signed(t, "payment", "paid", "evt_1", `{}`))
			<-started
			f.expireLeases(t)
			other := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)}})
			if n, err := other.Sweep(t.Context()); n != 1 || err != nil {
				t.Fatalf("Sweep = %d, %v", n, err)
			}
			close(release)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := slow.Close(ctx); err != nil {
				t.Fatal(err)
			}
			if rec := mustFind(t, other, got.ID); rec.Status != webhook.Processed || rec.HandlerError != "" {
				t.Errorf("in the end %s, %q", rec.Status, rec.HandlerError)
			}
			if n := f.count(t, `select count(*) from effects`); n != 1 {
				t.Errorf("%d effects of one event", n)
			}
		})
	}
}

func TestAnOutcomeIsRecordedOnlyUnderTheLeaseThatHoldsNow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	started, release := make(chan struct{}, 2), make(chan struct{})
	handle := func(err error, release chan struct{}) webhook.Handler {
		return func(context.Context, *webhook.Delivery) error {
			started <- struct{}{}
			<-release
			return err
		}
	}
	late := func(o *webhook.Options) { o.AnswerAfter = time.Millisecond; o.Budget = time.Hour }
	first := f.receiver(t, setup{change: late, bindings: []webhook.Binding{webhook.Handle("payment", "", handle(errHandler, release))}})
	got := mustReceive(t, first, signed(t, "payment", "paid", "evt_1", `{}`))
	<-started
	f.expireLeases(t)
	releaseSecond := make(chan struct{})
	second := f.receiver(t, setup{change: late, bindings: []webhook.Binding{webhook.Handle("payment", "", handle(nil, releaseSecond))}})
	if n, err := second.Sweep(t.Context()); n != 1 || err != nil {
		t.Fatalf("Sweep = %d, %v", n, err)
	}
	<-started
	close(release)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := first.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if rec := mustFind(t, second, got.ID); rec.Status != webhook.Pending {
		t.Errorf("while the second instance works it is %s", rec.Status)
	}
	close(releaseSecond)
	eventually(t, second, got.ID, webhook.Processed)
}

func TestASweepPassesOverAnEventThatIsBeingClaimed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	crashed := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)}, change: func(o *webhook.Options) {
		o.Interrupt = func(b webhook.Boundary, _ uuid.UUID) error {
			if b == webhook.AfterStore {
				return errCrash
			}
			return nil
		}
	}})
	for i := range 3 {
		if _, err := crashed.Receive(t.Context(), signed(t, "payment", "paid", eventID(i), `{}`)); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
	}
	f.expireLeases(t)
	f.exec(t, `begin`)
	f.exec(t, `select 1 from webhook_events where external_id = $1 for update`, eventID(1))
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if n, err := r.Sweep(ctx); n != 2 || err != nil {
		t.Errorf("Sweep = %d, %v", n, err)
	}
	f.exec(t, `rollback`)
	if n, err := r.Sweep(ctx); n != 1 || err != nil {
		t.Errorf("Sweep of the rest = %d, %v", n, err)
	}
}

func TestSweepsOfSeveralInstancesDispatchEachEventOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const events = 60
	crashed := f.receiver(t, setup{
		bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)},
		change: func(o *webhook.Options) {
			o.Interrupt = func(b webhook.Boundary, _ uuid.UUID) error {
				if b == webhook.AfterStore {
					return errCrash
				}
				return nil
			}
		},
	})
	for i := range events {
		if _, err := crashed.Receive(t.Context(), signed(t, "payment", "paid", eventID(i), `{}`)); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
	}
	f.expireLeases(t)
	var mu sync.Mutex
	var handled []uuid.UUID
	var swept atomic.Int64
	var sweeps sync.WaitGroup
	for range 3 {
		r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", func(ctx context.Context, d *webhook.Delivery) error {
			mu.Lock()
			handled = append(handled, d.Event.ID)
			mu.Unlock()
			return inTx(ctx, d)
		})}})
		sweeps.Go(func() {
			n, err := r.Sweep(t.Context())
			if err != nil {
				t.Error(err)
			}
			swept.Add(int64(n))
		})
	}
	sweeps.Wait()
	slices.SortFunc(handled, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	if n := len(slices.Compact(handled)); n != events || swept.Load() != events {
		t.Errorf("%d events handled, %d taken", n, swept.Load())
	}
	if n := f.count(t, `select count(*) from effects`); n != events {
		t.Errorf("%d effects", n)
	}
}

func TestADatabaseThatDiesUnderAHandlerLeavesTheEventToTheSweep(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var calls atomic.Int64
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", func(ctx context.Context, d *webhook.Delivery) error {
		if err := inTx(ctx, d); err != nil {
			return err
		}
		if calls.Add(1) > 1 {
			return nil
		}
		tx, err := d.Tx(ctx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `select pg_terminate_backend(pg_backend_pid())`)
		return err
	})}})
	got := mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{}`))
	if got.Status != webhook.Pending {
		t.Errorf("answered %s", got.Status)
	}
	f.expireLeases(t)
	if n, err := r.Sweep(t.Context()); n != 1 || err != nil {
		t.Fatalf("Sweep = %d, %v", n, err)
	}
	eventually(t, r, got.ID, webhook.Processed)
	if n := f.count(t, `select count(*) from effects`); n != 1 {
		t.Errorf("%d effects", n)
	}
}
