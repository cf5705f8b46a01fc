package webhook_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/webhook"
)

func TestTheLedgerKeepsEveryAttemptWithItsOutcome(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	failed := store(t, f, failing, webhook.Failed)
	mended := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)}})
	if got := attempts(t, mended, failed.ID); got != "failed" {
		t.Errorf("after the delivery: %s", got)
	}
	if _, err := mended.Replay(t.Context(), failed.ID, false); err != nil {
		t.Fatal(err)
	}
	quiet := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", func(context.Context, *webhook.Delivery) error { return nil })}})
	if _, err := quiet.Replay(t.Context(), failed.ID, true); err != nil {
		t.Fatal(err)
	}
	again := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", failing)}})
	if _, err := again.Replay(t.Context(), failed.ID, true); err != nil {
		t.Fatal(err)
	}
	if got := attempts(t, mended, failed.ID); got != "failed processed processed failed" {
		t.Errorf("after three replays: %s", got)
	}
	d, err := mended.Detail(t.Context(), failed.ID)
	if err != nil || d.Attempts[0].Error != errHandler.Error() || d.Header.Get("Payment-Signature") != "[redacted]" || string(d.Body) != string(failed.Body) {
		t.Errorf("%+v, %v", d, err)
	}
	unhandled := f.receiver(t, setup{})
	got := mustReceive(t, unhandled, signed(t, "codehost", "push", "1", `{}`))
	if a := attempts(t, unhandled, got.ID); a != "" {
		t.Errorf("an event without a handler: %s", a)
	}
	if _, err := mended.Detail(t.Context(), uuid.New()); !errors.Is(err, webhook.ErrEvent) {
		t.Errorf("unknown id: %v", err)
	}
}

func TestADetailHasTheWholeBodyHoweverLarge(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.receiver(t, setup{})
	body := `"` + strings.Repeat("x", 3*webhook.MaxInlineBody) + `"`
	got := mustReceive(t, r, signed(t, "codehost", "push", "1", body))
	d, err := r.Detail(t.Context(), got.ID)
	if err != nil || string(d.Body) != body {
		t.Errorf("%d bytes, %v", len(d.Body), err)
	}
	if raw, err := r.Raw(t.Context(), got.ID); err != nil || string(raw) != body {
		t.Errorf("raw: %d bytes, %v", len(raw), err)
	}
	if _, err := r.Raw(t.Context(), uuid.New()); !errors.Is(err, webhook.ErrEvent) {
		t.Errorf("unknown id: %v", err)
	}
}

// A handler that takes the process with it must not do so for ever.
func TestAnEventWhoseAttemptsNeverEndFailsAfterFiveAndThoseBesideItDoNot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var poisonID, lastID uuid.UUID
	// sweepUntilDeath sweeps in a process that dies with the poison's handler: those
	// beside it in a batch are not concluded, and nothing is claimed any more.
	sweepUntilDeath := func(inBatch bool) {
		ctx, die := context.WithCancel(t.Context())
		defer die()
		r := f.receiver(t, setup{
			bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)},
			change: func(o *webhook.Options) {
				o.Interrupt = func(b webhook.Boundary, id uuid.UUID) error {
					if id == poisonID && b == webhook.AfterClaim {
						die()
						return errCrash
					}
					if inBatch && b == webhook.AfterHandler {
						return errCrash
					}
					return nil
				}
			},
		})
		_, _ = r.Sweep(ctx)
	}
	var innocent []uuid.UUID
	asleep := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)}, change: func(o *webhook.Options) {
		o.Interrupt = func(b webhook.Boundary, id uuid.UUID) error {
			if b == webhook.AfterStore {
				lastID = id
				return errCrash
			}
			return nil
		}
	}})
	for i := range 3 {
		_, _ = asleep.Receive(t.Context(), signed(t, "payment", "paid", eventID(i), `{}`))
		innocent = append(innocent, lastID)
	}
	_, _ = asleep.Receive(t.Context(), signed(t, "payment", "paid", "poison", `{}`))
	poisonID = lastID
	sane := f.receiver(t, setup{})
	for crash := 1; mustFind(t, sane, poisonID).Status == webhook.Pending; crash++ {
		if crash > 20 {
			t.Fatal("the poison is still pending")
		}
		f.expireLeases(t)
		sweepUntilDeath(crash == 1)
	}
	rec := mustFind(t, sane, poisonID)
	if rec.Status != webhook.Failed || !strings.Contains(rec.HandlerError, "started 5 times") {
		t.Errorf("the poison: %s, %q", rec.Status, rec.HandlerError)
	}
	if got := attempts(t, sane, poisonID); got != "interrupted interrupted interrupted interrupted interrupted" {
		t.Errorf("its ledger: %s", got)
	}
	f.expireLeases(t)
	healthy := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)}})
	if _, err := healthy.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range innocent {
		if rec := mustFind(t, sane, id); rec.Status != webhook.Processed {
			t.Errorf("beside it: %s, %s", rec.Status, attempts(t, sane, id))
		}
	}
	if n := f.count(t, `select count(*) from effects`); n != 3 {
		t.Errorf("%d effects", n)
	}
	if rec, err := healthy.Replay(t.Context(), poisonID, false); err != nil || rec.Status != webhook.Processed {
		t.Errorf("a replay of the mended poison: %+v, %v", rec, err)
	}
}
