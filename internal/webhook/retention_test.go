package webhook_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
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
	forget := func(r *faces, want int) {
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

// What is deleted with the body are its headers and whatever an error quotes of a target.
func TestRetentionLeavesNeitherHeadersNorTextsOfErrors(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	clock := time.Now()
	r := f.receiver(t, setup{
		change:   func(o *webhook.Options) { o.Now, o.Retention = func() time.Time { return clock }, 24*time.Hour },
		bindings: []webhook.Binding{webhook.Handle("payment", "refused", failing)},
	})
	got := mustReceive(t, r, signed(t, "payment", "refused", "evt_1", `{}`))
	if _, err := r.Replay(t.Context(), got.ID, false); err != nil { // so that the ledger has an earlier attempt
		t.Fatal(err)
	}
	const kept = `select (select count(*) from webhook_events where headers <> '{}' or handler_error <> '' or raw is not null)
		+ (select count(*) from webhook_attempts where error <> '')`
	if n := f.count(t, kept); n != 2 {
		t.Fatalf("%d rows have something to empty", n)
	}
	clock = clock.Add(25 * time.Hour)
	if n, err := r.ForgetPayloads(t.Context()); n != 1 || err != nil {
		t.Fatalf("ForgetPayloads = %d, %v", n, err)
	}
	if n := f.count(t, kept); n != 0 {
		t.Errorf("%d rows still have something", n)
	}
	d, err := r.Detail(t.Context(), got.ID)
	if err != nil || len(d.Header) != 0 || len(d.Attempts) != 2 || d.Status != webhook.Failed {
		t.Errorf("%+v, %v", d, err)
	}
	if n := f.count(t, `select count(*) from audit_pending where changes like '%"old"%"new"%' and table_name = 'webhook_events'`); n != 0 {
		t.Errorf("the audit log says %d times that the events are others now", n)
	}
}

// A replay that commits while the retention waits for its row is emptied once it is settled.
func TestTheRetentionForgetsNoEventThatIsReplayedMeanwhile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	clock := time.Now()
	r := f.receiver(t, setup{
		change:   func(o *webhook.Options) { o.Now, o.Retention = func() time.Time { return clock }, 24*time.Hour },
		bindings: []webhook.Binding{webhook.Handle("payment", "refused", failing)},
	})
	got := mustReceive(t, r, signed(t, "payment", "refused", "evt_1", `{}`))
	other := mustReceive(t, r, signed(t, "payment", "paid", "evt_2", `{}`))
	clock = clock.Add(25 * time.Hour)
	replay, err := f.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = replay.Exec(t.Context(), `set local session_replication_role = replica;
		update webhook_events set status = 'pending', lease_id = gen_random_uuid(), lease_until = now() + interval '1 hour' where id = '`+got.ID.String()+`'`)
	if err != nil {
		t.Fatal(err)
	}
	forgotten := make(chan error, 1)
	go func() {
		_, err := r.ForgetPayloads(context.Background())
		forgotten <- err
	}()
	f.waitForLock(t)
	if err := replay.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-forgotten; err != nil {
		t.Fatal(err)
	}
	if rec := mustFind(t, r, got.ID); rec.Emptied {
		t.Error("it is empty while it is handled")
	}
	if rec := mustFind(t, r, other.ID); !rec.Emptied {
		t.Error("it keeps others from being emptied")
	}
	f.exec(t, `set session_replication_role = replica`)
	f.exec(t, `update webhook_events set status = 'failed', lease_id = null, lease_until = null where id = $1`, got.ID)
	if n, err := r.ForgetPayloads(t.Context()); n != 1 || err != nil {
		t.Errorf("ForgetPayloads = %d, %v; want 1", n, err)
	}
	if rec := mustFind(t, r, got.ID); !rec.Emptied {
		t.Error("it is never emptied")
	}
	if n := f.count(t, `select count(*) from webhook_events where overdue`); n != 0 {
		t.Errorf("%d are noted as overdue", n)
	}
}

// waitForLock waits until some statement of this database waits for a lock.
func (f fixture) waitForLock(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		var n int
		// Over a connection of its own: the fixture's is in a transaction.
		if err := f.db.Direct().QueryRow(t.Context(), `select count(*) from pg_locks l join pg_stat_activity a using (pid) where not l.granted and a.datname = current_database()`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
	}
	t.Fatal("nothing waits for a lock")
}

// What older programs stored is mended in portions, by whichever instance, and no more than
// that is changed; nor does the audit log take it for tampering.
func TestHeadersThatOlderProgramsStoredAreRedacted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(t, `set session_replication_role = replica`)
	f.exec(t, `insert into webhook_events (id, provider, event_type, external_id, status, processed_at, created_at, raw, raw_sha256, headers, handler_error)
		select gen_random_uuid(), 'payment', '', '', 'processed', now(), now() - interval '1 day' - (i / 7) * interval '1 second', case when i % 10 > 0 then '{}'::bytea end, sha256('{}'),
		       jsonb_build_object('X-Hub-Signature', jsonb_build_array('sha1=hunter2', 'hunter2'), 'X-GITLAB-TOKEN', jsonb_build_array('hunter2'), 'Payment-Signature', jsonb_build_array('[redacted]'),
		                          'Content-Type', jsonb_build_array('application/json'), 'Date', '[]'::jsonb), case when i % 10 = 0 then 'quotes hunter2' else '' end
		from generate_series(1, 1300) i`)
	f.exec(t, `insert into webhook_events (id, provider, event_type, external_id, status, processed_at, created_at, raw, raw_sha256, headers)
		values (gen_random_uuid(), 'payment', '', 'clean', 'processed', now(), now() - interval '1 day', '{}', sha256('{}'), '{"Date": ["today"]}')`)
	f.exec(t, `set session_replication_role = origin`)
	r := f.receiver(t, setup{})
	if n, err := r.RedactHeaders(t.Context()); n != 1300 || err != nil {
		t.Errorf("RedactHeaders = %d, %v", n, err)
	}
	if n := f.count(t, `select count(*) from webhook_events where headers::text like '%hunter2%' or handler_error <> ''`); n != 0 {
		t.Errorf("%d events still have a secret", n)
	}
	const whole = `{"Date": [], "Content-Type": ["application/json"], "X-GITLAB-TOKEN": ["[redacted]"], "X-Hub-Signature": ["[redacted]", "[redacted]"], "Payment-Signature": ["[redacted]"]}`
	if n := f.count(t, `select count(*) from webhook_events where headers = $1::jsonb and raw is not null`, whole); n != 1170 {
		t.Errorf("%d events have the headers that they should", n)
	}
	if n := f.count(t, `select count(*) from webhook_events where headers = '{}' and raw is null`); n != 130 {
		t.Errorf("%d events without a body have no headers", n)
	}
	if n := f.count(t, `select count(*) from webhook_events where external_id = 'clean' and headers = '{"Date": ["today"]}'`); n != 1 {
		t.Error("headers without a secret were changed")
	}
	if n := f.count(t, `select count(*) from audit_pending where changes like '%"old"%' and table_name = 'webhook_events'`); n != 0 {
		t.Errorf("the audit log says %d times that events are gone or others", n)
	}
	if n, err := r.RedactHeaders(t.Context()); n != 0 || err != nil {
		t.Errorf("once more: %d, %v", n, err)
	}
}

// The ledger loses what was settled long ago, and nothing else.
func TestTheLedgerIsPrunedOfWhatWasSettledLongAgo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	clock := time.Now()
	var broken atomic.Bool
	r := f.receiver(t, setup{
		change: func(o *webhook.Options) { o.Now, o.Ledger = func() time.Time { return clock }, 30*24*time.Hour },
		bindings: []webhook.Binding{
			webhook.Handle("payment", "refused", failing),
			webhook.Handle("payment", "flaky", func(context.Context, *webhook.Delivery) error {
				if broken.Load() {
					return errHandler
				}
				return nil
			}),
			{Provider: "payment", EventType: "waiting", Handler: failing, ByJob: true},
		},
	})
	gone := signed(t, "payment", "paid", "gone", `{}`)
	mustReceive(t, r, gone)
	failed := mustReceive(t, r, signed(t, "payment", "refused", "failed", `{}`))
	if b, err := r.StartBulk(t.Context(), webhook.Filter{Status: webhook.Failed}, false); err != nil {
		t.Fatal(err)
	} else if err := r.ContinueBulk(t.Context(), webhook.ReplayJob{ReplayID: b.ID}); err != nil {
		t.Fatal(err)
	}
	waiting := mustReceive(t, r, signed(t, "payment", "waiting", "waiting", `{}`))
	broken.Store(true)
	replayed := mustReceive(t, r, signed(t, "payment", "flaky", "replayed", `{}`))
	f.exec(t, `set session_replication_role = replica`)
	f.exec(t, `update webhook_events set created_at = created_at - interval '40 days', processed_at = processed_at - interval '40 days', attempt_at = attempt_at - interval '40 days'`)
	f.exec(t, `update webhook_replays set finished_at = finished_at - interval '40 days'`)
	f.exec(t, `set session_replication_role = origin`)
	young := mustReceive(t, r, signed(t, "payment", "paid", "young", `{}`))
	broken.Store(false)
	if _, err := r.Replay(t.Context(), replayed.ID, false); err != nil {
		t.Fatal(err)
	}
	if n, err := f.receiver(t, setup{}).PruneLedger(t.Context()); n != 0 || err != nil {
		t.Errorf("it is off by default: %d, %v", n, err)
	}
	if _, err := r.ProviderStates(t.Context(), "", 10); err != nil {
		t.Fatal(err)
	}
	if n, err := r.PruneLedger(t.Context()); n != 2 || err != nil {
		t.Errorf("PruneLedger = %d, %v", n, err)
	}
	for _, id := range []uuid.UUID{waiting.ID, replayed.ID, young.ID} {
		mustFind(t, r, id)
	}
	if _, err := r.Find(t.Context(), failed.ID); !errors.Is(err, webhook.ErrEvent) {
		t.Errorf("one that failed long ago: %v", err)
	}
	if n := f.count(t, `select (select count(*) from webhook_replay_events) + (select count(*) from webhook_replays) + (select count(*) from webhook_attempts where event_id = $1)`, failed.ID); n != 0 {
		t.Errorf("%d rows of events that are gone are left", n)
	}
	if states, err := r.ProviderStates(t.Context(), "", 10); err != nil || states[1].Processed != 2 {
		t.Errorf("%+v, %v", states, err)
	}
	if got := mustReceive(t, r, gone); got.Status != webhook.Processed {
		t.Errorf("a delivery of an id that is no longer in the ledger: %+v", got)
	}
}
