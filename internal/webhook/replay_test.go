package webhook_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/webhook"
)

// store leaves one event in the state that handler leads to.
func store(t *testing.T, f fixture, h webhook.Handler, want webhook.Status) webhook.Record {
	t.Helper()
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", h)}})
	got := mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{"amount":9007199254740993}`))
	if got.Status != want {
		t.Fatalf("stored as %s, want %s", got.Status, want)
	}
	return mustFind(t, r, got.ID)
}

func TestAReplayRunsTheHandlerOnTheStoredBytesAndRecordsTheOutcome(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	failed := store(t, f, failing, webhook.Failed)
	if failed.HandlerError != errHandler.Error() {
		t.Errorf("handler_error %q", failed.HandlerError)
	}
	again := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", failing)}})
	rec, err := again.Replay(t.Context(), failed.ID, false)
	if err != nil || rec.Status != webhook.Failed || rec.RetryCount != 1 || rec.HandlerError == "" || rec.ProcessedAt != nil {
		t.Errorf("failing again: %+v, %v", rec, err)
	}
	var seen webhook.Event
	mended := f.receiver(t, setup{secrets: map[string]string{}, bindings: []webhook.Binding{webhook.Handle("payment", "", func(ctx context.Context, d *webhook.Delivery) error {
		seen = d.Event
		return inTx(ctx, d)
	})}})
	rec, err = mended.Replay(t.Context(), failed.ID, false)
	if err != nil || rec.Status != webhook.Processed || rec.RetryCount != 2 || rec.HandlerError != "" || rec.ProcessedAt == nil {
		t.Errorf("mended: %+v, %v", rec, err)
	}
	if seen.ID != failed.ID || string(seen.Body) != string(failed.Body) || seen.RetryCount != 2 || seen.Type != "paid" ||
		seen.ExternalID != "evt_1" || seen.Provider != "payment" || !seen.CreatedAt.Equal(failed.CreatedAt) || seen.Header.Get("Payment-Signature") != "[redacted]" {
		t.Errorf("the handler saw %+v", seen)
	}
	if n := f.count(t, `select count(*) from effects`); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// Case 61.
func TestAProcessedEventIsReplayedOnlyByForce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	done := store(t, f, inTx, webhook.Processed)
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)}})
	if _, err := r.Replay(t.Context(), done.ID, false); !errors.Is(err, webhook.ErrNotReplayable) {
		t.Errorf("without force: %v", err)
	}
	rec, err := r.Replay(t.Context(), done.ID, true)
	if err != nil || rec.Status != webhook.Processed || rec.RetryCount != 1 {
		t.Errorf("with force: %+v, %v", rec, err)
	}
	if n := f.count(t, `select count(*) from effects`); n != 2 {
		t.Errorf("%d effects", n)
	}
	for _, force := range []bool{false, true} {
		if _, err := r.Replay(t.Context(), uuid.New(), force); !errors.Is(err, webhook.ErrEvent) {
			t.Errorf("unknown id: %v", err)
		}
	}
}

// Cases 61 and 62: a replay that races the first dispatch is in flight.
func TestAPendingEventIsReplayedOnlyOnceItIsStale(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := make(chan struct{})
	r := f.receiver(t, setup{
		change: func(o *webhook.Options) { o.AnswerAfter = 10 * time.Millisecond; o.Budget = time.Hour },
		bindings: []webhook.Binding{webhook.Handle("payment", "", func(context.Context, *webhook.Delivery) error {
			<-release
			return nil
		})},
	})
	got := mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{}`))
	for _, force := range []bool{false, true} {
		if _, err := r.Replay(t.Context(), got.ID, force); !errors.Is(err, webhook.ErrInFlight) {
			t.Errorf("while it is handled, force=%v: %v", force, err)
		}
	}
	f.expireLeases(t)
	other := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)}})
	rec, err := other.Replay(t.Context(), got.ID, false)
	if err != nil || rec.Status != webhook.Processed || rec.RetryCount != 1 {
		t.Errorf("stale: %+v, %v", rec, err)
	}
	close(release)
}

// Case 60.
func TestOfAHundredConcurrentReplaysOneRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	failed := store(t, f, failing, webhook.Failed)
	var calls, ran, refused atomic.Int64
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", func(ctx context.Context, d *webhook.Delivery) error {
		calls.Add(1)
		return inTx(ctx, d)
	})}})
	var admins sync.WaitGroup
	for range 100 {
		admins.Go(func() {
			rec, err := r.Replay(t.Context(), failed.ID, false)
			switch {
			case err == nil && rec.Status == webhook.Processed:
				ran.Add(1)
			case errors.Is(err, webhook.ErrInFlight), errors.Is(err, webhook.ErrNotReplayable):
				refused.Add(1)
			default:
				t.Errorf("Replay: %+v, %v", rec, err)
			}
		})
	}
	admins.Wait()
	rec := mustFind(t, r, failed.ID)
	if ran.Load() != 1 || refused.Load() != 99 || calls.Load() != 1 || rec.RetryCount != 1 {
		t.Errorf("%d ran, %d refused, %d calls, retry_count %d", ran.Load(), refused.Load(), calls.Load(), rec.RetryCount)
	}
	if n := f.count(t, `select count(*) from effects`); n != 1 {
		t.Errorf("%d effects", n)
	}
}

func TestEachOfManyForcedReplaysAtOnceIsTakenOrFindsTheEventInFlight(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	done := store(t, f, inTx, webhook.Processed)
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)}})
	var ran atomic.Int64
	for range 10 {
		var admins sync.WaitGroup
		for range 16 {
			admins.Go(func() {
				rec, err := r.Replay(t.Context(), done.ID, true)
				switch {
				case err == nil:
					ran.Add(1)
				case !errors.Is(err, webhook.ErrInFlight):
					t.Errorf("Replay: %+v, %v", rec, err)
				}
			})
		}
		admins.Wait()
	}
	rec := mustFind(t, r, done.ID)
	if n := f.count(t, `select count(*) from effects`); int64(n) != 1+ran.Load() || int64(rec.RetryCount) != ran.Load() {
		t.Errorf("%d ran, %d effects, retry_count %d", ran.Load(), n, rec.RetryCount)
	}
}

func TestAnEventThatWaitsForItsNextAttemptIsReplayedNow(t *testing.T) {
	t.Parallel()
	for name, replay := range map[string]func(*testing.T, *faces, uuid.UUID){
		"by itself": func(t *testing.T, r *faces, id uuid.UUID) {
			if rec, err := r.Replay(t.Context(), id, false); err != nil || rec.Status != webhook.Processed {
				t.Errorf("%+v, %v", rec, err)
			}
		},
		"in bulk": func(t *testing.T, r *faces, _ uuid.UUID) {
			b, err := r.StartBulk(t.Context(), webhook.Filter{Status: webhook.Pending}, false)
			if err != nil || b.Matched != 1 {
				t.Errorf("%+v, %v", b, err)
			}
			if err := r.ContinueBulk(t.Context(), webhook.ReplayJob{ReplayID: b.ID}); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			r := f.receiver(t, setup{bindings: []webhook.Binding{retrying(5, failingTimes(1))}})
			got := mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{}`))
			replay(t, r, got.ID)
			if n := f.workJobs(t, r); n != 1 { // the job that it waited for finds nothing
				t.Errorf("%d jobs", n)
			}
			if rec := mustFind(t, r, got.ID); rec.Status != webhook.Processed || rec.RetryCount != 1 {
				t.Errorf("%+v", rec)
			}
			if got := attempts(t, r, got.ID); got != "failed processed" {
				t.Errorf("ledger: %s", got)
			}
			if n := f.count(t, `select count(*) from effects`); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

// Case 65.
func TestTheRetryCountStopsAtTheEndOfItsRange(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	failed := store(t, f, failing, webhook.Failed)
	f.exec(t, `update webhook_events set retry_count = $1`, math.MaxInt32)
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)}})
	rec, err := r.Replay(t.Context(), failed.ID, false)
	if err != nil || rec.RetryCount != math.MaxInt32 {
		t.Errorf("%+v, %v", rec, err)
	}
}

func TestAReplayIsActedOutByWhoAskedForIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	failed := store(t, f, failing, webhook.Failed)
	var kind, id string
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", func(ctx context.Context, d *webhook.Delivery) error {
		tx, err := d.Tx(ctx)
		if err != nil {
			return err
		}
		return tx.QueryRow(ctx, `select current_setting('waypost.actor_type'), current_setting('waypost.actor_id')`).Scan(&kind, &id)
	})}})
	if _, err := r.Replay(asAdmin(t.Context(), 7), failed.ID, false); err != nil {
		t.Fatal(err)
	}
	if kind != "user" || id != "7" {
		t.Errorf("a replay's transaction is %s %s's", kind, id)
	}
	mustReceive(t, r, signed(t, "payment", "paid", "evt_2", `{}`))
	if kind != "webhook" || id != "payment" {
		t.Errorf("a delivery's transaction is %s %s's", kind, id)
	}
}

func TestAnAdministratorsHangUpCancelsNoReplay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	failed := store(t, f, failing, webhook.Failed)
	ctx, hangUp := context.WithCancel(t.Context())
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", func(ctx context.Context, d *webhook.Delivery) error {
		hangUp()
		return errors.Join(inTx(ctx, d), ctx.Err())
	})}})
	rec, err := r.Replay(ctx, failed.ID, false)
	if err != nil || rec.Status != webhook.Processed {
		t.Errorf("%+v, %v", rec, err)
	}
}
