package webhook_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/webhook"
	"github.com/waypost/waypost/internal/webhook/signature"
)

// to makes a binding of targets, each tried 5 times, once an hour.
func to(t *testing.T, eventType string, targets ...webhook.ForwardTarget) webhook.Binding {
	t.Helper()
	for i := range targets {
		targets[i].Provider, targets[i].EventType, targets[i].SecretEnv = "payment", eventType, "FORWARD_SECRET"
	}
	b, err := webhook.ForwardAll(targets, webhook.ForwardOptions{
		LookupSecret: func(name string) string { return map[string]string{"FORWARD_SECRET": forwardSecret}[name] },
		Retry:        webhook.Retry{Attempts: 5, Backoff: func(int) time.Duration { return time.Hour }},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// got is how many requests a target has had.
func (s *target) got() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// header is the values of a header in the order of the requests.
func (s *target) header(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, r := range s.requests {
		all = append(all, r.Header.Get(name))
	}
	return all
}

// outcomes are an event's targets, in words.
func outcomes(t *testing.T, r *faces, id uuid.UUID) string {
	t.Helper()
	var words []string
	for _, o := range mustFind(t, r, id).Targets {
		words = append(words, fmt.Sprintf("%s %s %d", o.Name, o.Status, o.Attempts))
		if waits := o.NextAttemptAt != nil; waits && o.Status != webhook.Pending {
			t.Errorf("%+v", o)
		}
	}
	return strings.Join(words, ", ")
}

// due makes the attempts that are due by themselves.
func due(t *testing.T, r *faces) int {
	t.Helper()
	n, err := r.ForwardDue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func replay(t *testing.T, r *faces, id uuid.UUID, force bool) webhook.Record {
	t.Helper()
	rec, err := r.Replay(t.Context(), id, force)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestATargetThatHangsTakesUpNothingOfAnother(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := make(chan struct{})
	hanging := newTarget(t, func(http.ResponseWriter, *http.Request) { <-release })
	healthy := newTarget(t, status(http.StatusOK))
	defer close(release)
	r := f.receiver(t, setup{bindings: []webhook.Binding{
		to(t, "hangs", webhook.ForwardTarget{URL: hanging.URL, Timeout: patience, Concurrency: 4}),
		to(t, "works", webhook.ForwardTarget{URL: healthy.URL}),
	}})
	r.Start()
	for i := range 300 {
		mustReceive(t, r, signed(t, "payment", "hangs", eventID(i), `{}`))
	}
	if !within(patience, func() bool { return hanging.got() == 4 }) {
		t.Fatalf("%d requests to the target that hangs", hanging.got())
	}
	var waits []time.Duration
	for i := range 50 {
		began := time.Now()
		got := mustReceive(t, r, signed(t, "payment", "works", eventID(1000+i), `{}`))
		eventually(t, r, got.ID, webhook.Processed)
		waits = append(waits, time.Since(began))
	}
	slices.Sort(waits)
	t.Logf("from receipt to outcome beside 300 of a target that hangs: p50 %v, most %v", waits[len(waits)/2], waits[len(waits)-1])
	if hanging.got() != 4 {
		t.Errorf("%d requests at once to a target with 4 places", hanging.got())
	}
	if n := f.count(t, `select count(*) from webhook_forwards where target = 'hangs' and status = 'pending' and attempts = 0`); n < 200 {
		t.Errorf("only %d of 300 wait untouched", n)
	}
	if n := f.count(t, `select count(*) from pg_stat_activity where datname = current_database() and state = 'idle in transaction'`); n != 0 {
		t.Errorf("%d transactions are open while the target hangs", n)
	}
}

func TestTheFirstAttemptIsDueAsSoonAsTheEventIsStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := newTarget(t, status(http.StatusOK))
	r := f.receiver(t, setup{bindings: []webhook.Binding{
		to(t, "sent", webhook.ForwardTarget{URL: s.URL}),
		{Provider: "payment", EventType: "handled", Handler: failing, ByJob: true},
	}})
	sent := mustReceive(t, r, signed(t, "payment", "sent", "1", `{}`))
	if n := due(t, r); n != 1 || outcomes(t, r, sent.ID) != "sent processed 1" {
		t.Errorf("%d attempts were due: %s", n, outcomes(t, r, sent.ID))
	}
	mustReceive(t, r, signed(t, "payment", "handled", "2", `{}`))
	// One with a time of its own, even if it has come, waits for the queue's scheduler.
	if n := f.count(t, `select count(*) from river_job where kind = 'webhooks.attempt' and state = 'available'`); n != 1 {
		t.Errorf("%d jobs can be worked", n)
	}
}

func TestBothSecretsSignAForwardWhileOneIsRotated(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const old, fresh = "whsec_b2xkIG9sZCBvbGQgb2xkIG9sZCBvbGQ=", "whsec_ZnJlc2ggZnJlc2ggZnJlc2ggZnJlc2g="
	secrets := map[string]string{"FORWARD_SECRET": fresh, "FORWARD_SECRET_PREVIOUS": old}
	s := newTarget(t, status(http.StatusOK))
	r := f.forwarding(t, s.URL, secrets, webhook.Retry{})
	mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{}`))
	due(t, r)
	delete(secrets, "FORWARD_SECRET_PREVIOUS")
	mustReceive(t, r, signed(t, "payment", "paid", "evt_2", `{}`))
	due(t, r)
	for i, secret := range []string{fresh, old} {
		if err := (signature.Standard{}).Verify([]byte(secret), []byte(s.bodies[0]), s.requests[0].Header, time.Now()); err != nil {
			t.Errorf("secret %d of the rotation: %v", i, err)
		}
		if err := (signature.Standard{}).Verify([]byte(secret), []byte(s.bodies[1]), s.requests[1].Header, time.Now()); (err == nil) != (secret == fresh) {
			t.Errorf("secret %d after the rotation: %v", i, err)
		}
	}
}

func TestAnEventIsProcessedWhenAllItsTargetsHaveItAndAReplayGoesToThoseThatFailed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b, c := newTarget(t, status(http.StatusOK)), newTarget(t, status(http.StatusServiceUnavailable)), newTarget(t, status(http.StatusTeapot))
	r := f.receiver(t, setup{bindings: []webhook.Binding{to(t, "paid",
		webhook.ForwardTarget{Name: "a", URL: a.URL, Headers: map[string]string{"X-Tenant": "seven"}},
		webhook.ForwardTarget{Name: "b", URL: b.URL},
		webhook.ForwardTarget{Name: "c", URL: c.URL, Attempts: 2},
	)}})
	got := mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{}`))
	if got.Status != webhook.Pending || outcomes(t, r, got.ID) != "a pending 0, b pending 0, c pending 0" {
		t.Errorf("%s: %s", got.Status, outcomes(t, r, got.ID))
	}
	due(t, r)
	if rec := mustFind(t, r, got.ID); rec.Status != webhook.Pending || outcomes(t, r, got.ID) != "a processed 1, b pending 1, c pending 1" ||
		!strings.Contains(rec.HandlerError, "b: forward: the target answered 503") || !strings.Contains(rec.HandlerError, "c: forward: the target answered 418") {
		t.Errorf("%s %q: %s", rec.Status, rec.HandlerError, outcomes(t, r, got.ID))
	}
	b.answers(status(http.StatusOK))
	f.forward(t, r)
	rec := mustFind(t, r, got.ID)
	if rec.Status != webhook.Failed || outcomes(t, r, got.ID) != "a processed 1, b processed 2, c failed 2" || strings.Contains(rec.HandlerError, "503") {
		t.Errorf("%s %q: %s", rec.Status, rec.HandlerError, outcomes(t, r, got.ID))
	}
	c.answers(status(http.StatusOK))
	replay(t, r, got.ID, false)
	due(t, r)
	rec = mustFind(t, r, got.ID)
	if rec.Status != webhook.Processed || rec.HandlerError != "" || rec.ProcessedAt == nil || outcomes(t, r, got.ID) != "a processed 1, b processed 2, c processed 3" {
		t.Errorf("%+v", rec)
	}
	replay(t, r, got.ID, true)
	due(t, r)
	if rec := mustFind(t, r, got.ID); rec.Status != webhook.Processed || outcomes(t, r, got.ID) != "a processed 2, b processed 3, c processed 4" || a.got() != 2 {
		t.Errorf("%+v", rec)
	}
	if got := a.header("X-Tenant"); !slices.Equal(got, []string{"seven", "seven"}) {
		t.Errorf("X-Tenant %q", got)
	}
	d, err := r.Detail(t.Context(), got.ID)
	if err != nil || len(d.Attempts) != 9 {
		t.Errorf("%d attempts in the ledger, %v", len(d.Attempts), err)
	}
}

// Each of them must see what the others did, whoever comes last.
func TestTargetsThatEndAtTheSameTimeSettleTheirEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var targets []webhook.ForwardTarget
	for i := range 4 {
		targets = append(targets, webhook.ForwardTarget{Name: fmt.Sprint("t", i), URL: newTarget(t, status(http.StatusOK)).URL})
	}
	b := to(t, "", targets...)
	instances := []*faces{f.receiver(t, setup{bindings: []webhook.Binding{b}}), f.receiver(t, setup{bindings: []webhook.Binding{b}})}
	for _, r := range instances {
		r.Start()
	}
	var senders sync.WaitGroup
	for i := range 60 {
		senders.Go(func() { mustReceive(t, instances[i%2], signed(t, "payment", "paid", eventID(i), `{}`)) })
	}
	senders.Wait()
	if !within(patience, func() bool { return f.count(t, `select count(*) from webhook_events where status = 'pending'`) == 0 }) {
		t.Errorf("%d events are left, with %d forwards", f.count(t, `select count(*) from webhook_events where status = 'pending'`),
			f.count(t, `select count(*) from webhook_forwards where status = 'pending'`))
	}
	if n := f.count(t, `select count(*) from webhook_forwards where status = 'processed' and attempts = 1`); n != 240 {
		t.Errorf("%d of 240 forwards went once", n)
	}
}

func TestATargetThatWasTakenOutOfTheConfigurationIsAMissingHandler(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := newTarget(t, status(http.StatusOK))
	a, b := webhook.ForwardTarget{Name: "a", URL: s.URL}, webhook.ForwardTarget{Name: "b", URL: s.URL}
	with := f.instance(t, to(t, "paid", a, b))
	announce(t, with.faces)
	got := mustReceive(t, with.faces, signed(t, "payment", "paid", "evt_1", `{}`))
	f.exec(t, `update webhook_forwards set created_at = now() - interval '10 days'`)

	var log logged
	without := f.receiver(t, setup{bindings: []webhook.Binding{to(t, "paid", a)}, change: log.into})
	due(t, without)
	announce(t, without)
	if rec := mustFind(t, without, got.ID); rec.Status != webhook.Pending || outcomes(t, without, got.ID) != "a processed 1, b pending 0" {
		t.Errorf("%s: %s", rec.Status, outcomes(t, without, got.ID))
	}
	if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], "target=b events=1") {
		t.Errorf("a start says %q", lines)
	}
	if n := f.instance(t, to(t, "paid", a)).live(t, 2*time.Hour); n != 0 {
		t.Errorf("%d failed beside an instance that announced the target", n)
	}
	f.exec(t, `update webhook_targets set announced_at = now() - interval '61 minutes' where name = 'b'`)
	list, err := without.Targets(t.Context())
	if err != nil || len(list) != 2 || list[1].Condition != webhook.TargetMissing || list[1].Here != nil || list[1].Waiting != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if n := f.instance(t, to(t, "paid", a)).live(t, 2*time.Hour); n != 1 {
		t.Errorf("%d failed without one", n)
	}
	if rec := mustFind(t, without, got.ID); rec.Status != webhook.Failed || !strings.Contains(rec.HandlerError, "b: no running instance has had this target for an hour") {
		t.Errorf("%+v", rec)
	}
	// It comes back.
	if rec := replay(t, without, got.ID, false); rec.Status != webhook.Pending {
		t.Errorf("replayed elsewhere: %+v", rec)
	}
	due(t, without)
	due(t, with.faces)
	if rec := mustFind(t, without, got.ID); rec.Status != webhook.Processed || outcomes(t, without, got.ID) != "a processed 1, b processed 1" {
		t.Errorf("%s: %s", rec.Status, outcomes(t, without, got.ID))
	}
	// With force it goes to the targets of today.
	f.exec(t, `update webhook_forwards set status = 'failed', error = 'gone' where target = 'b'`)
	f.exec(t, `update webhook_events set status = 'failed', processed_at = null`)
	replay(t, without, got.ID, true)
	due(t, without)
	if rec := mustFind(t, without, got.ID); rec.Status != webhook.Processed || outcomes(t, without, got.ID) != "a processed 2" {
		t.Errorf("%s: %s", rec.Status, outcomes(t, without, got.ID))
	}
}

// An older version gave each forward a job.
func TestForwardsOfAnOlderVersionAreTakenOverFromTheirJobs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := newTarget(t, status(http.StatusOK))
	var ids []uuid.UUID
	for i, due := range []string{"now() + interval '5 minutes'", "now() - interval '1 second'"} {
		var id uuid.UUID
		if err := f.admin.QueryRow(t.Context(), `insert into webhook_events (id, provider, event_type, external_id, status, created_at, raw, raw_sha256, headers, attempts, tries, lease_until, job_id)
			values (gen_random_uuid(), 'payment', 'paid', $1, 'pending', now(), '{}', sha256('{}'), '{}', 1, 1, `+due+`, $2) returning id`, eventID(i), 42+i).Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	r := f.receiver(t, setup{bindings: []webhook.Binding{to(t, "", webhook.ForwardTarget{URL: s.URL})}})
	if err := r.Attempt(t.Context(), webhook.AttemptJob{EventID: ids[0]}, 42); err != nil {
		t.Error(err)
	}
	// The other's job was lost.
	if n, err := r.SweepForwards(t.Context()); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n := due(t, r); n != 2 || s.got() != 2 {
		t.Errorf("%d attempts, %d requests", n, s.got())
	}
	for _, id := range ids {
		if rec := mustFind(t, r, id); rec.Status != webhook.Processed {
			t.Errorf("%+v", rec)
		}
	}
	if err := r.Attempt(t.Context(), webhook.AttemptJob{EventID: ids[0]}, 42); err != nil || s.got() != 2 {
		t.Errorf("the job again: %v, %d requests", err, s.got())
	}
}

func TestALargeBodyIsForwardedAsItCame(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := newTarget(t, status(http.StatusOK))
	r := f.receiver(t, setup{bindings: []webhook.Binding{to(t, "", webhook.ForwardTarget{URL: s.URL})}})
	data := `{"text":"` + strings.Repeat("ü ", 200<<10) + `"}`
	got := mustReceive(t, r, signed(t, "payment", "paid", "evt_1", data))
	due(t, r)
	raw, err := r.Raw(t.Context(), got.ID)
	if err != nil || s.got() != 1 || s.bodies[0] != string(raw) {
		t.Errorf("%d requests, %v", s.got(), err)
	}
}

func TestLargeBodiesForATargetThatHangsKeepNoMemoryFromAnother(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := make(chan struct{})
	var held, most atomic.Int64
	hanging := newTarget(t, func(_ http.ResponseWriter, r *http.Request) {
		for now := held.Add(1); now > most.Load(); {
			most.Store(now)
		}
		defer held.Add(-1)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	healthy := newTarget(t, status(http.StatusOK))
	defer close(release)
	r := f.receiver(t, setup{bindings: []webhook.Binding{
		to(t, "hangs", webhook.ForwardTarget{URL: hanging.URL, Timeout: patience, Concurrency: 100}),
		to(t, "works", webhook.ForwardTarget{URL: healthy.URL}),
	}})
	r.Start()
	const large = 40 // of these, 32 MiB are in memory at once, and one more
	data := `{"x":"` + strings.Repeat("a", 1<<20-1000) + `"}`
	for i := range large {
		mustReceive(t, r, signed(t, "payment", "hangs", eventID(i), data))
	}
	if !within(patience, func() bool { return hanging.got() >= 32 }) {
		t.Fatalf("%d requests to the target that hangs", hanging.got())
	}
	for i := range 3 {
		eventually(t, r, mustReceive(t, r, signed(t, "payment", "works", eventID(1000+i), data)).ID, webhook.Processed)
	}
	if n := most.Load(); n >= large {
		t.Errorf("%d large bodies are in memory at once", n)
	}
}

func TestAnInstanceThatEndsGivesBackWhatItHasNotBegun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := newTarget(t, status(http.StatusOK))
	b := to(t, "", webhook.ForwardTarget{URL: s.URL})
	o := webhook.Options{DB: f.db, Logger: discard, LookupSecret: func(n string) string { return secrets()[n] }}
	var err error
	if o.Registry, err = webhook.NewRegistry([]webhook.Registration{webhook.Payment()}, b); err != nil {
		t.Fatal(err)
	}
	if o.Jobs, err = queue.New(discard); err != nil {
		t.Fatal(err)
	}
	ending, err := newFaces(o)
	if err != nil {
		t.Fatal(err)
	}
	ending.Start()
	for i := range 200 {
		mustReceive(t, ending, signed(t, "payment", "paid", eventID(i), `{}`))
	}
	if err := ending.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := f.count(t, `select count(*) from webhook_forwards where lease_id is not null`); n != 0 {
		t.Errorf("%d leases are left", n)
	}
	due(t, f.receiver(t, setup{bindings: []webhook.Binding{b}}))
	if n := f.count(t, `select count(*) from webhook_events where status = 'processed'`); n != 200 || s.got() != 200 {
		t.Errorf("%d processed, %d requests", n, s.got())
	}
}

func TestARateIsKeptOverAnyTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0.01, 100).Draw(t, "rate")
		allow := webhook.Pace(rate)
		now, began := time.Unix(1e9, 0), 0
		first := now
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "pause")))
			n := rapid.IntRange(0, 20).Draw(t, "wanted")
			got := allow(n, now)
			if began += got; got > n || float64(began) > rate*now.Sub(first).Seconds()+max(1, rate)+1e-6 {
				t.Fatalf("%d of %d, %d in all within %v", got, n, began, now.Sub(first))
			}
		}
	})
}
