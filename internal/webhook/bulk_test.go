package webhook_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/webhook"
)

// failedEvents leaves n failed events of type paid, and one each of other sorts.
func failedEvents(t *testing.T, f fixture, n int) {
	t.Helper()
	r := f.receiver(t, setup{bindings: []webhook.Binding{
		webhook.Handle("payment", "paid", failing), webhook.Handle("payment", "other", failing), webhook.Handle("payment", "fine", inTx),
	}})
	for i := range n {
		mustReceive(t, r, signed(t, "payment", "paid", eventID(i), `{}`))
	}
	for _, kind := range []string{"other", "fine"} {
		mustReceive(t, r, signed(t, "payment", kind, kind, `{}`))
	}
}

func progress(b webhook.Bulk) [6]any {
	return [6]any{b.Status, b.Matched, b.Replayed, b.Processed, b.Failed, b.Pending}
}

func TestABulkReplayTakesWhatASingleOneWouldAndReportsItsProgress(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	failedEvents(t, f, 40)
	var calls atomic.Int64
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", func(ctx context.Context, d *webhook.Delivery) error {
		if calls.Add(1)%8 == 0 {
			return errHandler
		}
		return inTx(ctx, d)
	})}})
	b, err := r.StartBulk(asAdmin(t.Context(), 1), webhook.Filter{Provider: "payment", EventType: "paid"}, false)
	if err != nil || b.Matched != 40 || b.Status != webhook.BulkRunning {
		t.Fatalf("%+v, %v", b, err)
	}
	if n := f.count(t, `select count(*) from river_job where kind = 'webhooks.replay' and args->>'replay_id' = $1`, b.ID.String()); n != 1 {
		t.Errorf("%d jobs", n)
	}
	if err := r.ContinueBulk(t.Context(), webhook.ReplayJob{ReplayID: b.ID}); err != nil {
		t.Fatal(err)
	}
	got, err := r.Bulk(t.Context(), b.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([6]any{webhook.BulkFinished, int64(40), int64(40), int64(35), int64(5), int64(0)}, progress(got)); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	if got.FinishedAt == nil || got.Filter != (webhook.Filter{Provider: "payment", EventType: "paid"}) {
		t.Errorf("%+v", got)
	}
	if n := f.count(t, `select count(*) from webhook_events where retry_count = 1`); n != 40 {
		t.Errorf("%d were replayed once", n)
	}
	if n := f.count(t, `select count(*) from webhook_events where retry_count = 0 and event_type in ('other', 'fine')`); n != 2 {
		t.Errorf("others were replayed")
	}
	if err := r.ContinueBulk(t.Context(), webhook.ReplayJob{ReplayID: b.ID}); err != nil || calls.Load() != 40 {
		t.Errorf("once more: %v, %d calls", err, calls.Load())
	}
}

func TestABulkReplayNeedsAFilterThatMeansSomething(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.receiver(t, setup{})
	for name, filter := range map[string]webhook.Filter{"empty": {}, "NUL": {Provider: "a\x00"}} {
		if _, err := r.StartBulk(t.Context(), filter, false); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.Bulk(t.Context(), uuid.New()); !errors.Is(err, webhook.ErrBulk) {
		t.Errorf("unknown: %v", err)
	}
	if _, err := r.CancelBulk(t.Context(), uuid.New()); !errors.Is(err, webhook.ErrBulk) {
		t.Errorf("cancel unknown: %v", err)
	}
	b, err := r.StartBulk(t.Context(), webhook.Filter{Status: webhook.Failed, From: time.Now(), To: time.Now().Add(time.Hour)}, false)
	if err != nil || b.Matched != 0 {
		t.Errorf("nothing matches: %+v, %v", b, err)
	}
}

func TestACancelledBulkReplayTakesNoMore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	failedEvents(t, f, 40)
	var r *faces
	var id uuid.UUID
	var once sync.Once
	r = f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", func(ctx context.Context, d *webhook.Delivery) error {
		once.Do(func() {
			if b, err := r.CancelBulk(ctx, id); err != nil || b.Status != webhook.BulkCancelled {
				t.Errorf("cancel: %+v, %v", b, err)
			}
		})
		return nil
	})}})
	b, err := r.StartBulk(t.Context(), webhook.Filter{Status: webhook.Failed}, false)
	if err != nil {
		t.Fatal(err)
	}
	id = b.ID
	if err := r.ContinueBulk(t.Context(), webhook.ReplayJob{ReplayID: id}); err != nil {
		t.Error(err)
	}
	got, err := r.Bulk(t.Context(), id)
	if err != nil || got.Status != webhook.BulkCancelled || got.Replayed != 16 || got.Processed != 16 || got.FinishedAt == nil {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := r.CancelBulk(t.Context(), id); !errors.Is(err, webhook.ErrBulkEnded) {
		t.Errorf("cancelled twice: %v", err)
	}
}

func TestABulkReplayThatDiesGoesOnWhereItWasAndReplaysNothingTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	failedEvents(t, f, 50)
	var claimed atomic.Int64
	ctx, die := context.WithCancel(t.Context())
	defer die()
	dying := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)}, change: func(o *webhook.Options) {
		o.Interrupt = func(b webhook.Boundary, _ uuid.UUID) error {
			if b == webhook.AfterClaim && claimed.Add(1) > 20 { // in the second batch
				die()
				return errCrash
			}
			return nil
		}
	}})
	b, err := dying.StartBulk(t.Context(), webhook.Filter{EventType: "paid"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := dying.ContinueBulk(ctx, webhook.ReplayJob{ReplayID: b.ID}); err == nil {
		t.Fatal("it did not die")
	}
	restarted := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)}})
	var runs sync.WaitGroup
	for range 2 { // a rescued job beside one that was thought dead
		runs.Go(func() {
			if err := restarted.ContinueBulk(t.Context(), webhook.ReplayJob{ReplayID: b.ID}); err != nil {
				t.Error(err)
			}
		})
	}
	runs.Wait()
	f.expireLeases(t)
	if _, err := restarted.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := restarted.Bulk(t.Context(), b.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([6]any{webhook.BulkFinished, int64(50), int64(50), int64(50), int64(0), int64(0)}, progress(got)); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	if n := f.count(t, `select count(*) from webhook_events where event_type = 'paid' and retry_count = 1 and status = 'processed'`); n != 50 {
		t.Errorf("%d replayed once", n)
	}
	if n := f.count(t, `select count(*) from effects`); n != 51 { // and the one of type fine
		t.Errorf("%d effects", n)
	}
}

func TestABulkReplayStopsInTimeForItsJobToBeContinued(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	failedEvents(t, f, 5)
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)}})
	b, err := r.StartBulk(t.Context(), webhook.Filter{EventType: "paid"}, false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := r.ContinueBulk(ctx, webhook.ReplayJob{ReplayID: b.ID}); !isAgain(err) {
		t.Error(err)
	}
	if n := f.count(t, `select count(*) from webhook_events where retry_count > 0`); n != 0 {
		t.Errorf("%d were taken", n)
	}
}
