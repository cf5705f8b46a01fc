package webhook_test

import (
	"errors"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/webhook"
)

// Case 63: a payload that is gone.
func TestAfterItsRetentionAnEventIsEmptyButStillKnown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	clock := time.Now()
	change := func(o *webhook.Options) {
		o.Now = func() time.Time { return clock }
		o.Retention = 24 * time.Hour
	}
	r := f.receiver(t, setup{change: change, bindings: []webhook.Binding{webhook.Handle("payment", "refused", failing)}})
	in := signed(t, "payment", "paid", "old", `{"secret":1}`)
	old := mustReceive(t, r, in)
	failed := mustReceive(t, r, signed(t, "payment", "refused", "failed", `{}`))
	// One is still to be handled when the others' time is over.
	clock = clock.Add(time.Second)
	asleep := f.receiver(t, setup{change: func(o *webhook.Options) { change(o); crashAt(webhook.AfterStore)(o) }, bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)}})
	_, _ = asleep.Receive(t.Context(), signed(t, "payment", "paid", "pending", `{}`))
	clock = clock.Add(23 * time.Hour)
	forget := func(r *webhook.Receiver, want int) {
		t.Helper()
		if n, err := r.ForgetPayloads(t.Context()); n != want || err != nil {
			t.Errorf("ForgetPayloads = %d, %v; want %d", n, err, want)
		}
	}
	forget(r, 0)
	clock = clock.Add(2 * time.Hour)
	forget(f.receiver(t, setup{}), 0) // it is off by default
	forget(r, 2)
	forget(r, 0)
	rec := mustFind(t, r, old.ID)
	if !rec.Emptied || rec.Body != nil || rec.BodySize != 0 || rec.Status != webhook.Processed {
		t.Errorf("%+v", rec)
	}
	clock = clock.Add(-25 * time.Hour) // the signature's time
	if got := mustReceive(t, r, in); got.Status != webhook.Skipped || got.ID != old.ID {
		t.Errorf("the same delivery again: %+v", got)
	}
	clock = clock.Add(25 * time.Hour)
	for _, force := range []bool{true, false} {
		if _, err := r.Replay(t.Context(), failed.ID, force); !errors.Is(err, webhook.ErrEmptied) {
			t.Errorf("replay of an empty event: %v", err)
		}
	}
	if _, err := r.Raw(t.Context(), old.ID); !errors.Is(err, webhook.ErrEmptied) {
		t.Errorf("its bytes: %v", err)
	}
	if b, err := r.StartBulk(t.Context(), webhook.Filter{Status: webhook.Failed}, false); err != nil || b.Matched != 0 {
		t.Errorf("a bulk replay takes it: %+v, %v", b, err)
	}
	f.expireLeases(t)
	if n, err := asleep.Sweep(t.Context()); n != 1 || err != nil {
		t.Fatalf("Sweep = %d, %v", n, err)
	}
	forget(r, 1)
	if n := f.count(t, `select count(*) from webhook_events where raw is not null`); n != 0 {
		t.Errorf("%d bodies are left", n)
	}
}

func TestRetentionGoesThroughManyEventsInBatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(t, `insert into webhook_events (id, provider, event_type, external_id, status, processed_at, created_at, raw, raw_sha256, headers)
		select gen_random_uuid(), 'payment', '', '', 'processed', now(), now() - interval '2 days' - (i / 700) * interval '1 minute', '{}', sha256('{}'), '{}'
		from generate_series(1, 1700) i`)
	f.exec(t, `insert into webhook_events (id, provider, event_type, external_id, status, processed_at, created_at, raw, raw_sha256, headers)
		values (gen_random_uuid(), 'payment', '', '', 'processed', now(), now(), '{}', sha256('{}'), '{}')`)
	r := f.receiver(t, setup{change: func(o *webhook.Options) { o.Retention = 24 * time.Hour }})
	if n, err := r.ForgetPayloads(t.Context()); n != 1700 || err != nil {
		t.Errorf("ForgetPayloads = %d, %v", n, err)
	}
	if n := f.count(t, `select count(*) from webhook_events where raw is not null`); n != 1 {
		t.Errorf("%d bodies are left", n)
	}
}
