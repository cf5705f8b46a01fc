package webhook_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/webhook"
)

// Event types by what becomes of them.
const (
	typeNone  = "unhandled"
	typePlain = "handled"
	typeTx    = "handled in its transaction"
	typeJob   = "left to a job"
)

var allTypes = []string{typeNone, typePlain, typeTx, typeJob}

// newSpoilt is a receiver whose database is behind a proxy; the fixture's own
// connection is not.
func newSpoilt(t *testing.T) (fixture, *dbtest.Proxy, *faces) {
	t.Helper()
	f, urls := newFixtureWithURL(t)
	proxy := dbtest.NewProxy(t, urls.App)
	d, err := db.Open(t.Context(), db.Options{URL: proxy.URL(), MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	f.db = d
	var calls atomic.Int64
	job := webhook.Handle("payment", typeJob, inTx)
	job.ByJob = true
	return f, proxy, f.receiver(t, setup{bindings: []webhook.Binding{
		webhook.Handle("payment", typePlain, counting(&calls)), webhook.Handle("payment", typeTx, inTx), job,
	}})
}

// deliver sends a first delivery and, as a provider does, again what is not
// acknowledged.
func deliver(t *testing.T, r *faces, eventType, id string) (webhook.Receipt, bool) {
	t.Helper()
	in := signed(t, "payment", eventType, id, `{}`)
	got, err := r.Receive(t.Context(), in)
	if err == nil && got.Status == webhook.Skipped {
		t.Errorf("%s %s: a first delivery is skipped", eventType, id)
	}
	for attempt := 0; err != nil; attempt++ {
		if !errors.Is(err, webhook.ErrStorage) || fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%s %s: %v", eventType, id, err)
			return got, false
		}
		if attempt == 100 {
			t.Errorf("%s %s is never stored: %v", eventType, id, err)
			return got, false
		}
		if got, err = r.Receive(t.Context(), in); err == nil {
			return got, false
		}
	}
	return got, true
}

// wantEachOnce checks, after sweep and jobs, that n events are stored, each once and
// with its one effect.
func (f fixture) wantEachOnce(t *testing.T, r *faces, n int) {
	t.Helper()
	settled := within(patience, func() bool {
		f.expireLeases(t)
		if _, err := r.Sweep(t.Context()); err != nil && fault.KindOf(err) != fault.Unavailable {
			t.Error(err)
		}
		f.workJobs(t, r)
		return f.count(t, `select count(*) from webhook_events where status <> 'processed'`) == 0
	})
	if !settled {
		t.Errorf("%d events are not processed", f.count(t, `select count(*) from webhook_events where status <> 'processed'`))
	}
	if stored, ids := f.count(t, `select count(*) from webhook_events`), f.count(t, `select count(distinct external_id) from webhook_events`); stored != n || ids != n {
		t.Errorf("%d events with %d ids are stored, want %d", stored, ids, n)
	}
	wrong := f.count(t, `select count(*) from webhook_events e
		where (event_type in ($1, $2))::int <> (select count(*) from effects where event = e.id)`, typeTx, typeJob)
	if wrong != 0 {
		t.Errorf("%d events without their one effect", wrong)
	}
}

func TestADeliveryWhoseCommitIsNotAnsweredIsStoredAndHandledOnce(t *testing.T) {
	t.Parallel()
	const together = 12 // so that some share their transaction
	for _, eventType := range allTypes {
		for _, answer := range []string{"XX000", "XX001", "08006", "57P01", "57P03", dbtest.FIN, dbtest.RST} {
			t.Run(eventType+", "+answer, func(t *testing.T) {
				t.Parallel()
				f, proxy, r := newSpoilt(t)
				n := 0
				for _, fate := range []dbtest.Fate{dbtest.Applied, dbtest.Dropped} {
					for _, nth := range []int64{1, 2, 3} { // the arrival's, and the outcome's
						var commits atomic.Int64
						proxy.Spoil(func() (dbtest.Fault, bool) {
							return dbtest.Fault{Fate: fate, Answer: answer}, commits.Add(1) == nth
						})
						var senders sync.WaitGroup
						for range together {
							n++
							id := eventID(n)
							senders.Go(func() {
								got, first := deliver(t, r, eventType, id)
								// What is told of an error's transaction is its outcome.
								if learnt := fate == dbtest.Applied && answer != dbtest.FIN && answer != dbtest.RST; learnt && eventType != typeJob && (!first || got.Status != webhook.Processed) {
									t.Errorf("%s, commit %d: %s is answered %q, at once: %v", fate, nth, id, got.Status, first)
								}
							})
						}
						senders.Wait()
					}
				}
				f.wantEachOnce(t, r, n)
			})
		}
	}
}

func TestADeliveryWhoseCommitIsLateIsStoredAndHandledOnce(t *testing.T) {
	t.Parallel()
	for _, eventType := range allTypes {
		t.Run(eventType, func(t *testing.T) {
			t.Parallel()
			f, proxy, r := newSpoilt(t)
			for nth := range int64(2) {
				var commits atomic.Int64
				asked := proxy.Asked()
				proxy.Spoil(func() (dbtest.Fault, bool) {
					return dbtest.Fault{Fate: dbtest.Held, Answer: "XX000"}, commits.Add(1) == nth+1
				})
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					if got, first := deliver(t, r, eventType, eventID(int(nth))); !first || got.Status != webhook.Processed && eventType != typeJob {
						t.Errorf("commit %d is answered %q, at once: %v", nth+1, got.Status, first)
					}
				}()
				within(patience, func() bool {
					select {
					case <-sent:
						return true
					default:
						return proxy.Asked() > asked+1
					}
				})
				proxy.Release()
				<-sent
			}
			f.wantEachOnce(t, r, 2)
		})
	}
}

func TestWhateverBecomesOfCommitsADeliveryIsStoredAndHandledOnce(t *testing.T) {
	t.Parallel()
	f, proxy, r := newSpoilt(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	answers := []string{"XX000", "XX001", "08006", "57P01", "57P03", dbtest.FIN, dbtest.RST}
	proxy.Spoil(func() (dbtest.Fault, bool) {
		mu.Lock()
		defer mu.Unlock()
		return dbtest.Fault{
			Fate:   []dbtest.Fate{dbtest.Applied, dbtest.Held, dbtest.Dropped}[random.IntN(3)],
			Answer: answers[random.IntN(len(answers))], Early: random.IntN(4) == 0,
		}, random.IntN(3) == 0
	})
	var sent atomic.Int64
	var senders sync.WaitGroup
	until := time.Now().Add(3 * time.Second)
	for s := range 16 {
		senders.Go(func() {
			for i := 0; time.Now().Before(until); i++ {
				deliver(t, r, allTypes[(s+i)%len(allTypes)], fmt.Sprintf("evt_%d_%d", s, i))
				sent.Add(1)
			}
		})
	}
	done := make(chan struct{})
	go func() { senders.Wait(); close(done) }()
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		select {
		case <-tick.C:
			proxy.Release()
			continue
		case <-done:
			tick.Stop()
		}
		break
	}
	proxy.Spoil(func() (dbtest.Fault, bool) { return dbtest.Fault{}, false })
	proxy.Release()
	f.wantEachOnce(t, r, int(sent.Load()))
	t.Logf("%d deliveries", sent.Load())
}
