package webhook_test

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/webhook"
)

func TestRetentionWaitsForTheLastTargetAndThenKeepsNothingThatTargetsSaid(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	clock := time.Now()
	steady := newTarget(t, status(http.StatusOK))
	var up atomic.Bool
	shaky := newTarget(t, func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "a secret of the target")
		}
	})
	r := f.receiver(t, setup{
		change:   func(o *webhook.Options) { o.Now, o.Retention = func() time.Time { return clock }, 24*time.Hour },
		bindings: []webhook.Binding{to(t, "paid", webhook.ForwardTarget{Name: "steady", URL: steady.URL}, webhook.ForwardTarget{Name: "shaky", URL: shaky.URL})},
	})
	said := func() int {
		return f.count(t, `select (select count(*) from webhook_forwards where error <> '') + (select count(*) from webhook_attempts where error <> '') + (select count(*) from webhook_events where handler_error <> '')`)
	}
	got := mustReceive(t, r, signed(t, "payment", "paid", "1", `{}`))
	f.forward(t, r)
	f.forward(t, r)
	clock = clock.Add(48 * time.Hour)
	if n, err := r.ForgetPayloads(t.Context()); n != 0 || err != nil {
		t.Errorf("ForgetPayloads = %d, %v, though a target has yet to get the event", n, err)
	}
	if rec := mustFind(t, r, got.ID); rec.Emptied || said() == 0 {
		t.Errorf("%+v, %d texts", rec, said())
	}
	up.Store(true)
	f.forward(t, r)
	if o := outcomes(t, r, got.ID); o != "shaky processed 3, steady processed 1" {
		t.Errorf("the targets: %s", o)
	}
	if n, err := r.ForgetPayloads(t.Context()); n != 1 || err != nil {
		t.Errorf("ForgetPayloads = %d, %v", n, err)
	}
	if rec := mustFind(t, r, got.ID); !rec.Emptied || rec.Status != webhook.Processed || said() != 0 {
		t.Errorf("%+v, %d texts are left", rec, said())
	}
	if _, err := r.Replay(t.Context(), got.ID, true); !errors.Is(err, webhook.ErrEmptied) {
		t.Errorf("its replay: %v", err)
	}
}

func TestTheLedgerTakesForwardsAlongAndKeepsWhatATargetGotLatelyOrWaitsFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	clock := time.Now()
	var up atomic.Bool
	steady := newTarget(t, status(http.StatusOK))
	shaky := newTarget(t, func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	r := f.receiver(t, setup{
		change: func(o *webhook.Options) { o.Now, o.Ledger = func() time.Time { return clock }, 30*24*time.Hour },
		bindings: []webhook.Binding{
			to(t, "paid", webhook.ForwardTarget{Name: "steady", URL: steady.URL}),
			to(t, "sent", webhook.ForwardTarget{Name: "steady-too", URL: steady.URL}, webhook.ForwardTarget{Name: "shaky", URL: shaky.URL}),
		},
	})
	settled := mustReceive(t, r, signed(t, "payment", "paid", "settled", `{}`))
	late := mustReceive(t, r, signed(t, "payment", "sent", "late", `{}`))
	f.forward(t, r)
	clock = clock.Add(40 * 24 * time.Hour)
	up.Store(true)
	f.forward(t, r) // the late one is settled only now
	up.Store(false)
	clock = clock.Add(-40 * 24 * time.Hour) // a signature's time, and the arrival's
	waiting := mustReceive(t, r, signed(t, "payment", "sent", "waiting", `{}`))
	clock = clock.Add(40 * 24 * time.Hour)
	if n, err := r.PruneLedger(t.Context()); n != 1 || err != nil {
		t.Errorf("PruneLedger = %d, %v", n, err)
	}
	if _, err := r.Find(t.Context(), settled.ID); !errors.Is(err, webhook.ErrEvent) {
		t.Errorf("what was settled long ago: %v", err)
	}
	if n := f.count(t, `select count(*) from webhook_forwards where event_id = $1`, settled.ID); n != 0 {
		t.Errorf("%d of its forwards are left", n)
	}
	for name, id := range map[string]uuid.UUID{"late": late.ID, "waiting": waiting.ID} {
		if rec := mustFind(t, r, id); len(rec.Targets) != 2 {
			t.Errorf("%s: %+v", name, rec)
		}
	}
}
