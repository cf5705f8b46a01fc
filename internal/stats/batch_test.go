package stats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/drop"
	"github.com/waypost/waypost/internal/stats/hit"
)

var reportedNow = time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC)

func reported(id string, change func(*hit.Hit)) Reported {
	h := aHit(change)
	if h.At.IsZero() {
		h.At = reportedNow
	}
	return Reported{EventID: id, Hit: h}
}

func (b *bench) report(events ...Reported) BatchResult {
	b.t.Helper()
	r, err := b.ingester.CollectBatch(b.t.Context(), b.site, events)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bench) drops() map[drop.Reason]int64 {
	b.t.Helper()
	s, err := NewService(ServiceOptions{DB: b.db})
	if err != nil {
		b.t.Fatal(err)
	}
	list, err := s.ListDrops(b.t.Context(), b.site.ID, nil, 100)
	if err != nil {
		b.t.Fatal(err)
	}
	counts := map[drop.Reason]int64{}
	for _, d := range list {
		counts[d.Reason] += d.Count
	}
	return counts
}

func TestABadEventFailsNoneOfItsNeighbours(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", reportedNow)
	got := b.report(
		reported("a", nil),
		reported("b", func(h *hit.Hit) { h.URL = "not a url" }),
		reported("c", func(h *hit.Hit) { h.At = reportedNow.Add(-reportedLate - time.Second) }),
		reported("d", func(h *hit.Hit) { h.At = reportedNow.Add(hit.AheadOfClock + time.Second) }),
		reported("e", func(h *hit.Hit) { h.UserAgent = "curl/8.5.0" }),
		reported("f", func(h *hit.Hit) { h.URL = "https://example.org/" }),
		reported("", nil),
		Reported{EventID: "h", Problem: "unreadable"},
		reported("i\x00", nil),
		reported("j", func(h *hit.Hit) { h.Name = strings.Repeat("x", 101) }),
		reported("a", nil),
		reported("k", func(h *hit.Hit) { h.At, h.UserAgent = reportedNow.Add(-reportedLate), "" }),
	)
	codes := map[int]drop.Reason{}
	for _, r := range got.Rejected {
		codes[r.Index] = r.Code
		if !strings.HasSuffix(r.Message, ".") && r.Message != "unreadable" {
			t.Errorf("message %q", r.Message)
		}
	}
	want := map[int]drop.Reason{1: drop.Invalid, 2: drop.TooOld, 3: drop.InFuture, 4: drop.Bot, 5: drop.Foreign, 6: drop.Invalid, 7: drop.Invalid, 8: drop.Invalid, 9: drop.Invalid}
	if diff := cmp.Diff(want, codes); diff != "" || got.Accepted != 2 || got.Duplicate != 1 {
		t.Errorf("%d accepted, %d duplicates; rejected:\n%s", got.Accepted, got.Duplicate, diff)
	}
	if n := b.int(`select count(*) from events`); n != 2 {
		t.Errorf("%d events", n)
	}
	if diff := cmp.Diff(map[drop.Reason]int64{drop.Invalid: 5, drop.TooOld: 1, drop.InFuture: 1, drop.Bot: 1, drop.Foreign: 1}, b.drops()); diff != "" {
		t.Error(diff)
	}
}

func TestAnEventIdCountsOncePerSiteWhateverItsTime(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", reportedNow)
	other, err := b.sites.Create(t.Context(), "Other", "example.com", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	if r := b.report(reported("order-1", nil)); r.Accepted != 1 {
		t.Errorf("first: %+v", r)
	}
	b.clock.set(reportedNow.Add(90 * 24 * time.Hour))
	if r := b.report(reported("order-1", func(h *hit.Hit) { h.At = b.clock.now(); h.URL += "elsewhere" })); r.Duplicate != 1 {
		t.Errorf("months later: %+v", r)
	}
	r, err := b.ingester.CollectBatch(t.Context(), other, []Reported{reported("order-1", func(h *hit.Hit) { h.At = b.clock.now() })})
	if err != nil || r.Accepted != 1 {
		t.Errorf("another site: %+v, %v", r, err)
	}
	if strings.Contains(b.dump(), "order-1") {
		t.Error("the id itself is stored")
	}
}

// Several senders repeat overlapping batches through two instances.
func TestConcurrentRepetitionsCountEachEventOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", reportedNow)
	instances := []*Ingester{b.ingester, b.anotherIngester()}
	const events, senders = 400, 8
	var mu sync.Mutex
	accepted := 0
	var g errgroup.Group
	for n := range senders {
		g.Go(func() error {
			for start := range 10 {
				var batch []Reported
				for k := range 120 {
					id := (start*40 + n*13 + k*7) % events
					batch = append(batch, reported(fmt.Sprint("e", id), func(h *hit.Hit) {
						h.At = reportedNow.Add(-time.Duration(id) * time.Minute)
						h.URL = fmt.Sprintf("https://example.com/%d", id)
					}))
				}
				r, err := instances[n%2].CollectBatch(t.Context(), b.site, batch)
				if err != nil {
					return err
				}
				mu.Lock()
				accepted += r.Accepted
				mu.Unlock()
				if r.Accepted+r.Duplicate != len(batch) {
					return fmt.Errorf("%+v", r)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	distinct := b.int(`select count(distinct path) from events`)
	if n := b.int(`select count(*) from events`); n != accepted || n != distinct {
		t.Errorf("%d events of %d pages stored, %d accepted", n, distinct, accepted)
	}
}

func TestABatchHasALimit(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", reportedNow)
	if _, err := b.ingester.CollectBatch(t.Context(), b.site, make([]Reported, MaxReported+1)); fault.KindOf(err) != fault.Invalid {
		t.Errorf("%v", err)
	}
}

func TestWhatIsNotCountedIsCountedByReasonAndDay(t *testing.T) {
	t.Parallel()
	b := newBench(t, "Asia/Tokyo", reportedNow)
	for range 3 {
		b.collect(b.ingester, func(h *hit.Hit) { h.UserAgent = "curl/8.5.0" })
	}
	b.collect(b.ingester, func(h *hit.Hit) { h.DoNotTrack = true })
	b.clock.set(reportedNow.Add(4 * time.Hour)) // 1 June in Tokyo
	b.collect(b.ingester, func(h *hit.Hit) { h.URL = "https://example.org/" })
	if err := b.ingester.Collect(t.Context(), b.site, aHit(func(h *hit.Hit) { h.URL = "x" })); fault.KindOf(err) != fault.Invalid {
		t.Error(err)
	}
	s, err := NewService(ServiceOptions{DB: b.db})
	if err != nil {
		t.Fatal(err)
	}
	may, june := time.Date(2024, 5, 31, 0, 0, 0, 0, time.UTC), time.Date(2024, 6, 1, 0, 0, 0, 0, time.UTC)
	want := []DropCount{{june, drop.Foreign, 1}, {june, drop.Invalid, 1}, {may, drop.Bot, 3}, {may, drop.DoNotTrack, 1}}
	var got []DropCount
	var after *DropPosition
	for {
		page, err := s.ListDrops(t.Context(), b.site.ID, after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
		after = &DropPosition{Day: page[0].Day, Reason: page[0].Reason}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n, err := s.CountDrops(t.Context(), b.site.ID); n != 4 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
}

func TestAReportThatCanNotBeStoredIsNotAnswered(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", reportedNow)
	i := b.anotherIngester()
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := i.CollectBatch(t.Context(), b.site, []Reported{reported("a", nil)}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("%v", err)
	}
	if err := i.Collect(t.Context(), b.site, aHit(func(h *hit.Hit) { h.UserAgent = "" })); !errors.Is(err, fault.New(fault.Unavailable, fault.CodeUnavailable, "")) {
		t.Errorf("a bot: %v", err)
	}
}

// awayKeys are a store of sites that is away for a while.
type awayKeys struct {
	drop.PublicKeys
	away bool
}

func (k *awayKeys) BySiteKey(ctx context.Context, key string) (site.Site, error) {
	if k.away {
		return site.Site{}, fault.New(fault.Unavailable, fault.CodeUnavailable, "Away.")
	}
	return k.PublicKeys.BySiteKey(ctx, key)
}

func TestRefusedHitsAreKeptUntilTheyCanBeWrittenDown(t *testing.T) {
	t.Parallel()
	// On 31 March 2024 Kathmandu's midnight was at 18:15 UTC.
	midnight := time.Date(2024, 3, 30, 18, 15, 0, 0, time.UTC)
	b := newBench(t, "Asia/Kathmandu", midnight)
	keys := &awayKeys{PublicKeys: b.sites, away: true}
	r := drop.NewRefusals(b.db, b.ingester.queries, keys, time.Hour)
	b.ingester.refused, r = r, b.ingester.refused
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for at, n := range map[time.Time]int{midnight.Add(-time.Microsecond): 2, midnight: 3} {
		b.clock.set(at)
		for range n {
			b.ingester.CountRefused(b.site.Key, drop.RateLimited)
		}
	}
	const most = 1000
	for i := range 2 * most {
		b.ingester.CountRefused(fmt.Sprint("nobody's ", i), drop.RateLimited)
	}
	if n := b.ingester.refused.Waiting(); n != most {
		t.Errorf("%d keys are remembered, want %d", n, most)
	}
	if err := b.ingester.refused.Flush(t.Context()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("flush = %v", err)
	}
	keys.away = false
	for range 2 { // the second finds nothing
		if err := b.ingester.refused.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.int(`select count(*) from site_drops where reason = 'rate_limited' and (day, count) in (('2024-03-30', 2), ('2024-03-31', 3))`); n != 2 {
		t.Errorf("%d of 2 days have their count", n)
	}
	if n := b.int(`select sum(count) from site_drops`); n != 5 {
		t.Errorf("%d drops, want 5", n)
	}
}
