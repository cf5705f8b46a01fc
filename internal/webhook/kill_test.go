package webhook_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/webhook"
)

// world is a database, a target of forwards, and senders that behave as providers
// do: they send again until they are answered 200.
type world struct {
	f      fixture
	url    string // the application's
	target *target

	mu           sync.Mutex
	receivers    []string // where to send to
	acknowledged map[string]uuid.UUID
}

func newWorld(t *testing.T) *world {
	t.Helper()
	f, urls := newFixtureWithURL(t)
	return &world{f: f, url: urls.App, target: newTarget(t, func(w http.ResponseWriter, _ *http.Request) {
		if rand.N(8) == 0 {
			w.WriteHeader(http.StatusBadGateway)
		}
	}), acknowledged: map[string]uuid.UUID{}}
}

func (w *world) start(t *testing.T, env ...string) *process {
	t.Helper()
	p := startProcess(t, w.url, w.target.URL, env...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.receivers = append(w.receivers, p.url)
	return p
}

func (w *world) gone(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.receivers = slices.DeleteFunc(w.receivers, func(url string) bool { return url == p.url })
}

func (w *world) receiver() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.receivers) == 0 {
		return ""
	}
	return w.receivers[rand.N(len(w.receivers))]
}

// load starts senders, each sending one delivery after another; the returned
// function stops them once each has been answered 200 for its last.
func (w *world) load(t *testing.T, senders int) func() {
	t.Helper()
	stop := make(chan struct{})
	var running sync.WaitGroup
	for s := range senders {
		running.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				kind := kinds()[(s+i)%len(kinds())]
				w.deliver(t, kind, fmt.Sprintf("%s-%d-%d", kind, s, i))
			}
		})
	}
	return func() { close(stop); running.Wait() }
}

// deliver sends one event until it is answered 200, at times once more.
func (w *world) deliver(t *testing.T, kind, id string) {
	deadline := time.Now().Add(4 * patience)
	for again := rand.N(10) == 0; ; {
		got, ok := w.post(t, kind, id)
		if ok {
			w.mu.Lock()
			if before, known := w.acknowledged[id]; known && before != got {
				t.Errorf("%s is acknowledged as %s and as %s", id, before, got)
			}
			w.acknowledged[id] = got
			w.mu.Unlock()
			if !again {
				return
			}
			again = false
			continue
		}
		if time.Now().After(deadline) {
			t.Errorf("%s is never acknowledged", id)
			return
		}
	}
}

// post sends once and reports the event's id of a 200.
func (w *world) post(t *testing.T, kind, id string) (uuid.UUID, bool) {
	in := signed(t, "payment", kind, id, `{}`)
	r, err := http.NewRequest(http.MethodPost, w.receiver(), bytes.NewReader(in.Body))
	if err != nil {
		return uuid.UUID{}, false
	}
	r.Header = in.Header
	client := &http.Client{Timeout: patience}
	res, err := client.Do(r)
	if err != nil {
		return uuid.UUID{}, false
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return uuid.UUID{}, false
	}
	_, name, _ := strings.Cut(string(text), " ")
	got, err := uuid.Parse(name)
	if err != nil {
		t.Errorf("%q is no receipt", text)
	}
	return got, true
}

// rescueSoon spares the test River's two minutes, after which it takes up the jobs
// of a process that died, and the time until another process may lead.
func (w *world) rescueSoon(t *testing.T) {
	t.Helper()
	w.f.exec(t, `update river_job set attempted_at = now() - interval '1 hour' where state = 'running'`)
	w.f.exec(t, `delete from river_leader`)
}

// settle waits until no event is pending, and holds the promises against the
// database and the target.
func (w *world) settle(t *testing.T) {
	t.Helper()
	settled := within(6*patience, func() bool { return w.f.count(t, `select count(*) from webhook_events where status = 'pending'`) == 0 })
	if !settled {
		t.Fatalf("events are still pending:\n%s", w.pending(t))
	}
	if len(w.acknowledged) == 0 {
		t.Fatal("nothing was acknowledged")
	}
	w.checkRows(t)
	w.checkEffects(t)
}

func (w *world) pending(t *testing.T) string {
	rows, err := w.f.admin.Query(t.Context(), `select concat_ws(' ', external_id, attempts, interrupted, lease_id is not null, lease_until - now(), job_id,
		(select state from river_job where id = job_id), handler_error) from webhook_events where status = 'pending' limit 10`)
	if err != nil {
		return err.Error()
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return fmt.Sprint(strings.Join(lines, "\n"), err)
}

// checkRows: every 200 has its row, one for each external id, with an outcome.
func (w *world) checkRows(t *testing.T) {
	t.Helper()
	rows, err := w.f.admin.Query(t.Context(), `select external_id, id, status, event_type, handler_error from webhook_events`)
	if err != nil {
		t.Fatal(err)
	}
	type event struct {
		ExternalID  string
		ID          uuid.UUID
		Status      webhook.Status
		Kind, Error string
	}
	events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[event])
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]event{}
	for _, e := range events {
		if _, twice := stored[e.ExternalID]; twice {
			t.Errorf("%s has two rows", e.ExternalID)
		}
		stored[e.ExternalID] = e
		want := webhook.Processed
		if e.Kind == kindFailing {
			want = webhook.Failed
		}
		if e.Status != want {
			t.Errorf("%s ends %s: %s", e.ExternalID, e.Status, e.Error)
		}
	}
	for id, event := range w.acknowledged {
		if stored[id].ID != event {
			t.Errorf("%s was acknowledged as %s and is stored as %q", id, event, stored[id].ID)
		}
	}
	t.Logf("%d acknowledged, %d rows, %d attempts in the ledger's table", len(w.acknowledged), len(events), w.f.count(t, `select count(*) from webhook_attempts`))
}

// checkEffects: a database effect exists once if its event is processed, else not;
// a forward reached its target at least once.
func (w *world) checkEffects(t *testing.T) {
	t.Helper()
	if n := w.f.count(t, `select count(*) from (select event from effects group by event having count(*) > 1) d`); n != 0 {
		t.Errorf("%d events have their effect more than once", n)
	}
	if n := w.f.count(t, `select count(*) from webhook_events e where event_type in ($1, $2)
		and (status = 'processed') <> exists (select from effects where event = e.id)`, kindTx, kindFlaky); n != 0 {
		t.Errorf("of %d events the effect and the outcome differ", n)
	}
	if n := w.f.count(t, `select count(*) from effects f left join webhook_events e on e.id = f.event where e.event_type is distinct from $1 and e.event_type is distinct from $2`, kindTx, kindFlaky); n != 0 {
		t.Errorf("%d effects of others", n)
	}
	w.target.mu.Lock()
	defer w.target.mu.Unlock()
	reached := map[string]bool{}
	for _, r := range w.target.requests {
		reached[r.Header.Get("Webhook-Id")] = true
	}
	for id, event := range w.acknowledged {
		if strings.HasPrefix(id, kindForward) && !reached[event.String()] {
			t.Errorf("%s never reached its target", id)
		}
	}
}

// Case 58.
func TestAProcessKilledAtAnyBoundaryLosesNothingAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	for _, boundary := range []webhook.Boundary{
		webhook.AfterVerify, webhook.AfterExtract, webhook.AfterStore, webhook.AfterClaim,
		webhook.AfterHandler, webhook.BeforeCommit, webhook.AfterOutcome,
	} {
		t.Run(string(boundary), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			stop := func() {}
			for _, arrival := range []string{"1", "2", "25"} {
				p := w.start(t, envBoundary+"="+string(boundary), envCount+"="+arrival)
				if arrival == "1" {
					stop = w.load(t, 6)
				}
				select {
				case <-p.exited:
				case <-time.After(2 * patience):
					t.Errorf("the process never came to its arrival %s", arrival)
					p.kill()
				}
				w.gone(p)
				w.rescueSoon(t)
			}
			p := w.start(t)
			stop()
			w.settle(t)
			p.stop(t)
		})
	}
}

// Case 58.
func TestAProcessKilledAtRandomInstantsUnderLoadLosesNothingAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.load(t, 16)
	const kills = 15
	for range kills {
		p := w.start(t)
		<-time.After(rand.N(400 * time.Millisecond)) // the instant is what is random
		p.kill()
		w.gone(p)
		w.rescueSoon(t)
	}
	p := w.start(t)
	stop()
	w.settle(t)
	p.stop(t)
}

// Case 59.
func TestTwoInstancesKeepThePromisesThroughARollingRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	instances := []*process{w.start(t), w.start(t)}
	stop := w.load(t, 16)
	for round := range 6 {
		old := instances[round%2]
		w.waitForMore(t, 50)
		w.gone(old)
		old.stop(t)
		instances[round%2] = w.start(t)
	}
	w.waitForMore(t, 50)
	stop()
	w.settle(t)
	for _, p := range instances {
		p.stop(t)
	}
}

// Jobs and sweeps run in both, deliveries come to the one with the handlers, which is
// stopped and killed in between.
func TestAnInstanceWithoutTheHandlersSettlesNothingOfOneThatHasThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	without := w.start(t, envWithout+"=1")
	w.gone(without)
	stop := w.load(t, 8) // which sends again and again until there is one that takes it
	for _, end := range []func(*process){func(p *process) { p.stop(t) }, (*process).kill} {
		with := w.start(t)
		w.waitForMore(t, 100)
		w.gone(with)
		end(with)
		w.rescueSoon(t)
	}
	with := w.start(t)
	w.waitForMore(t, 50)
	stop()
	w.settle(t)
	with.stop(t)
	without.stop(t)
}

// waitForMore waits until n more deliveries are acknowledged.
func (w *world) waitForMore(t *testing.T, n int) {
	t.Helper()
	count := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.acknowledged)
	}
	want := count() + n
	if !within(2*patience, func() bool { return count() >= want }) {
		t.Fatal("deliveries are acknowledged no more")
	}
}

// within asks done again and again until it says so, or the time is over.
func within(limit time.Duration, done func() bool) bool {
	deadline := time.After(limit)
	for tick := time.NewTicker(20 * time.Millisecond); !done(); {
		select {
		case <-tick.C:
		case <-deadline:
			return false
		}
	}
	return true
}
