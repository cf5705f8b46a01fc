package stats

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/stats/drop"
	"github.com/waypost/waypost/internal/stats/hit"
)

var undecided = []string{"XX000", "XX001", "08006", "57P01", "57P03", dbtest.FIN, dbtest.RST}

// newSpoilt is a bench whose database is behind a proxy, with today's row made.
func newSpoilt(t *testing.T) (*bench, *dbtest.Proxy) {
	t.Helper()
	proxy := dbtest.NewProxy(t, dbtest.NewURL(t).App)
	d, err := db.Open(t.Context(), db.Options{URL: proxy.URL(), MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	b := newBenchOn(t, d, "UTC", reportedNow)
	b.collect(b.ingester, nil)
	return b, proxy
}

// nth spoils the COMMIT of that number, from 1 on.
func nth(n int64, f dbtest.Fault) func() (dbtest.Fault, bool) {
	var commits atomic.Int64
	return func() (dbtest.Fault, bool) { return f, commits.Add(1) == n }
}

// reportUntilTold sends a batch as a server does: again until it is told what became of it.
func (b *bench) reportUntilTold(batch []Reported) (BatchResult, bool) {
	b.t.Helper()
	for attempt := range 100 {
		got, err := b.ingester.CollectBatch(b.t.Context(), b.site, batch)
		if err == nil {
			return got, attempt == 0
		}
		if fault.KindOf(err) != fault.Unavailable {
			b.t.Errorf("a batch: %v", err)
		}
	}
	b.t.Error("a batch is never stored")
	return BatchResult{}, false
}

func TestAHitWhoseCommitIsNotAnsweredIsCountedOnceOrRefused(t *testing.T) {
	t.Parallel()
	for _, answer := range undecided {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			b, proxy := newSpoilt(t)
			const together = 12 // so that some share their transaction
			for _, fate := range []dbtest.Fate{dbtest.Applied, dbtest.Dropped} {
				for n := range int64(2) {
					before := b.int(`select count(*) from events`)
					proxy.Spoil(nth(n+1, dbtest.Fault{Fate: fate, Answer: answer}))
					var told, refused atomic.Int64
					var visitors sync.WaitGroup
					for range together {
						visitors.Go(func() {
							switch err := b.ingester.Collect(t.Context(), b.site, aHit(nil)); {
							case err == nil:
								told.Add(1)
							case fault.KindOf(err) == fault.Unavailable:
								refused.Add(1)
							default:
								t.Errorf("%s, commit %d: %v", fate, n, err)
							}
						})
					}
					visitors.Wait()
					stored := int64(b.int(`select count(*) from events`) - before)
					if stored != told.Load() || fate == dbtest.Applied && refused.Load() > 0 {
						t.Errorf("%s, commit %d: %d hits acknowledged, %d refused, %d stored", fate, n, told.Load(), refused.Load(), stored)
					}
				}
			}
		})
	}
}

func TestABatchWhoseCommitIsNotAnsweredIsCountedOnce(t *testing.T) {
	t.Parallel()
	for _, answer := range undecided {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			b, proxy := newSpoilt(t)
			id := 0
			for _, fate := range []dbtest.Fate{dbtest.Applied, dbtest.Dropped} {
				for n := range int64(2) {
					proxy.Spoil(nth(n+1, dbtest.Fault{Fate: fate, Answer: answer}))
					var servers sync.WaitGroup
					for range 12 {
						batch := []Reported{reported(fmt.Sprint(id), nil), reported(fmt.Sprint(id+1), nil), {EventID: "unreadable", Problem: "Unreadable."}}
						id += 2
						servers.Go(func() {
							got, atOnce := b.reportUntilTold(batch)
							if got.Accepted+got.Duplicate != 2 || atOnce && got.Accepted != 2 || fate == dbtest.Applied && !atOnce {
								t.Errorf("%s, commit %d: %+v, at once: %v", fate, n, got, atOnce)
							}
						})
					}
					servers.Wait()
				}
			}
			if n := b.int(`select count(*) from events`) - 1; n != id {
				t.Errorf("%d events of %d ids", n, id)
			}
			if n := b.drops()[drop.Invalid]; n != int64(id/2) {
				t.Errorf("%d of %d events are counted as refused", n, id/2)
			}
		})
	}
}

func TestAHitThatMustNotCountIsDroppedOnceWhateverBecomesOfTheCommit(t *testing.T) {
	t.Parallel()
	b, proxy := newSpoilt(t)
	for n, answer := range undecided {
		proxy.SpoilNext(dbtest.Fault{Fate: dbtest.Applied, Answer: answer})
		if err := b.ingester.Collect(t.Context(), b.site, aHit(func(h *hit.Hit) { h.UserAgent = "curl/8.5.0" })); err != nil {
			t.Errorf("%s: %v", answer, err)
		}
		if got := b.drops()[drop.Bot]; got != int64(n+1) {
			t.Errorf("%s: %d drops, want %d", answer, got, n+1)
		}
	}
}

func TestRefusalsThatMayBeStoredAreNotCountedAgain(t *testing.T) {
	t.Parallel()
	b, proxy := newSpoilt(t)
	b.ingester.CountRefused(b.site.Key, drop.RateLimited)
	proxy.SpoilNext(dbtest.Fault{Fate: dbtest.Held, Answer: "XX000"})
	if err := b.ingester.refused.Flush(t.Context()); !db.IsUnknownOutcome(err) {
		t.Fatalf("a commit that is held: %v", err)
	}
	proxy.Release()
	for range 2 {
		if err := b.ingester.refused.Flush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got := b.drops()[drop.RateLimited]; got != 1 {
		t.Errorf("%d refusals", got)
	}
	// What is known not to be stored is kept.
	b.ingester.CountRefused(b.site.Key, drop.RateLimited)
	proxy.SpoilNext(dbtest.Fault{Fate: dbtest.Dropped, Answer: "XX000"})
	if err := b.ingester.refused.Flush(t.Context()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a commit that is dropped: %v", err)
	}
	if err := b.ingester.refused.Flush(t.Context()); err != nil || b.drops()[drop.RateLimited] != 2 {
		t.Errorf("%v, %v", err, b.drops())
	}
}

func TestWhateverBecomesOfCommitsNothingIsCountedTwice(t *testing.T) {
	t.Parallel()
	b, proxy := newSpoilt(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	proxy.Spoil(func() (dbtest.Fault, bool) {
		mu.Lock()
		defer mu.Unlock()
		return dbtest.Fault{
			Fate:   []dbtest.Fate{dbtest.Applied, dbtest.Held, dbtest.Dropped}[random.IntN(3)],
			Answer: undecided[random.IntN(len(undecided))],
		}, random.IntN(3) == 0
	})
	done := make(chan struct{})
	var releases sync.WaitGroup
	releases.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				proxy.Release()
			case <-done:
				return
			}
		}
	})
	var told, unsure, ids atomic.Int64
	var senders sync.WaitGroup
	until := time.Now().Add(3 * time.Second)
	for s := range 16 {
		senders.Go(func() {
			for i := 0; time.Now().Before(until); i++ {
				if s%2 == 0 {
					ids.Add(1)
					b.reportUntilTold([]Reported{reported(fmt.Sprint(s, "-", i), func(h *hit.Hit) { h.URL = "https://example.com/reported" })})
					continue
				}
				switch err := b.ingester.Collect(t.Context(), b.site, aHit(nil)); {
				case err == nil:
					told.Add(1)
				case fault.KindOf(err) == fault.Unavailable:
					unsure.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
	close(done)
	releases.Wait()
	proxy.Spoil(func() (dbtest.Fault, bool) { return dbtest.Fault{}, false })
	proxy.Release()
	if n := int64(b.int(`select count(*) from events where path = '/reported'`)); n != ids.Load() {
		t.Errorf("%d events of %d ids", n, ids.Load())
	}
	hits := int64(b.int(`select count(*) from events where path <> '/reported'`) - 1)
	if hits < told.Load() || hits > told.Load()+unsure.Load() {
		t.Errorf("%d hits are stored; %d were acknowledged and %d refused", hits, told.Load(), unsure.Load())
	}
	t.Logf("%d ids, %d hits acknowledged, %d refused", ids.Load(), told.Load(), unsure.Load())
}
