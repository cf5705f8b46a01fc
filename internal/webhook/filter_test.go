package webhook_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/webhook"
)

// listed are the external ids of what a filter finds, sorted.
func listed(t *testing.T, r *faces, f webhook.Filter) string {
	t.Helper()
	list, err := r.List(t.Context(), f, nil, 100)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, rec := range list {
		ids = append(ids, rec.ExternalID)
	}
	if n, err := r.Count(t.Context(), f); err != nil || int(n) != len(list) {
		t.Errorf("%+v: counted %d of %d, %v", f, n, len(list), err)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

func TestEqualBodiesDeliveredAtOnceAreAllRepeatedButOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	// Two instances, so that no process knows of all.
	both := []*faces{f.receiver(t, setup{}), f.receiver(t, setup{})}
	var deliveries sync.WaitGroup
	for i := range 40 {
		deliveries.Go(func() { mustReceive(t, both[i%2], signed(t, "codehost", "push", eventID(i), `{"ref":"main"}`)) })
	}
	deliveries.Wait()
	mustReceive(t, both[0], signed(t, "codehost", "push", "another", `{"ref":"other"}`))
	r := both[0]
	for step := range 2 {
		list, err := r.List(t.Context(), webhook.Filter{Repeated: true}, nil, 100)
		if err != nil || len(list) != 39 {
			t.Fatalf("look %d: %d events, %v", step, len(list), err)
		}
		for _, rec := range list {
			if rec.RepeatedBodyOf == nil {
				t.Errorf("%s repeats nothing", rec.ExternalID)
			}
		}
		if n, err := r.FindRepeats(t.Context()); err != nil || n != 0 {
			t.Errorf("%d more, %v", n, err)
		}
	}
}

func TestRepeatsAreLookedForOnceAndForgottenWithTheirEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	clock := time.Now()
	r := f.receiver(t, setup{change: func(o *webhook.Options) { o.Now = func() time.Time { return clock } }})
	for i := range 3 {
		mustReceive(t, r, signed(t, "codehost", "push", eventID(i), `{}`))
	}
	clock = clock.Add(time.Hour)
	if n, err := r.FindRepeats(t.Context()); err != nil || n != 2 {
		t.Fatalf("%d, %v", n, err)
	}
	if n := f.count(t, `select count(*) from webhook_repeats_mark m where checked_at = (select max(created_at) from webhook_events)`); n != 1 {
		t.Error("the mark is not at the last event")
	}
	mustReceive(t, r, signed(t, "codehost", "push", "last", `{}`))
	if n, err := r.FindRepeats(t.Context()); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	f.exec(t, `set waypost.actor_type = 'system'; set waypost.actor_id = 'test'; delete from webhook_events where external_id <> 'last'`)
	if _, err := r.FindRepeats(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := f.count(t, `select count(*) from webhook_repeats`); n != 1 {
		t.Errorf("%d are kept", n)
	}
}

func TestWhatHadNoHandlerIsFoundAndReplayedWithoutForceOnceThereIsOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "paid", inTx), webhook.Handle("payment", "lost", failing)}})
	for i, kind := range []string{"paid", "lost", "refund", "refund"} {
		mustReceive(t, old, signed(t, "payment", kind, kind+eventID(i), `{}`))
	}
	unhandled := webhook.Filter{Unhandled: true}
	want := "refund" + eventID(2) + " refund" + eventID(3)
	if got := listed(t, old, unhandled); got != want {
		t.Fatalf("%q", got)
	}
	var calls atomic.Int64
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", counting(&calls))}})
	b, err := r.StartBulk(asAdmin(t.Context(), 1), unhandled, false)
	if err != nil || b.Matched != 2 {
		t.Fatalf("%+v, %v", b, err)
	}
	if err := r.ContinueBulk(t.Context(), webhook.ReplayJob{ReplayID: b.ID}); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Bulk(t.Context(), b.ID); err != nil || got.Processed != 2 || got.Filter != unhandled || calls.Load() != 2 {
		t.Errorf("%+v, %d calls, %v", got, calls.Load(), err)
	}
	if got := listed(t, r, unhandled); got != "" {
		t.Errorf("still %q", got)
	}
	if got := listed(t, r, webhook.Filter{Unhandled: true, Status: webhook.Failed}); got != "" {
		t.Errorf("failed and never handled: %q", got)
	}
}

func TestErrorsAreFoundByTheirBeginningInAnyCase(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.receiver(t, setup{bindings: []webhook.Binding{
		webhook.Handle("payment", "", func(_ context.Context, d *webhook.Delivery) error { return errText(d.Event.Type) }),
	}})
	for i, text := range []string{"No route to host", "no ROUTE", "100% wrong", "100_ wrong", "ÄRGER"} {
		mustReceive(t, r, signed(t, "payment", text, eventID(i), `{}`))
	}
	for prefix, want := range map[string]int{"no route": 2, "NO ROUTE TO": 1, "route": 0, "100%": 1, "100_": 1, `100\`: 0, "": 5} {
		if got := listed(t, r, webhook.Filter{Error: prefix, Provider: "payment"}); len(strings.Fields(got)) != want {
			t.Errorf("%q: %q", prefix, got)
		}
	}
	for _, bad := range []webhook.Filter{{Error: strings.Repeat("e", 201)}, {Error: "\x00"}, {Target: "\xff"}} {
		if _, err := r.List(t.Context(), bad, nil, 10); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// errText is an error of any text.
type errText string

func (e errText) Error() string { return string(e) }

func TestLookingForRepeatsEndsHoweverManyEventsCameJustNow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const n = 12_001
	f.exec(t, `insert into webhook_events (id, provider, event_type, external_id, status, processed_at, created_at, raw, raw_sha256, headers)
		select lpad(to_hex(i), 32, '0')::uuid, 'payment', '', 'evt_' || i, 'processed', now(), now() - i * interval '1 ms', '', sha256((i / 2)::text::bytea), '{}'
		from generate_series(1, $1::int) i`, n)
	r := f.receiver(t, setup{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, want := range []int{n / 2, 0} { // each is found once, and looked at again, since others may come between
		if got, err := r.FindRepeats(ctx); got != want || err != nil || ctx.Err() != nil {
			t.Errorf("FindRepeats = %d, %v, %v; want %d", got, err, ctx.Err(), want)
		}
	}
}
