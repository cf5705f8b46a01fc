package stats

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/hit"
	"github.com/waypost/waypost/internal/stats/imports"
)

// said is what the statistics of the bench's site answer for a range.
func (b *bench) said(q Query) (map[string]any, error) {
	s, err := NewService(ServiceOptions{DB: b.db, Now: b.clock.now})
	if err != nil {
		return nil, err
	}
	p, err := calendar.Parse("", q.From, q.To, b.clock.now())
	if err != nil {
		return nil, err
	}
	q.SiteID, q.Zones = b.site.ID, calendar.ZonesOf(b.site)
	out := map[string]any{}
	return out, s.snapshot(b.t.Context(), q, at(p, func(ctx context.Context, of Reader, c calendar.Calendar, w calendar.Window) error {
		r := kept{of}
		spans := c.Plan(w).Spans
		series, err := c.Series(w, calendar.ByHour)
		if err != nil {
			return err
		}
		if out["traffic"], err = r.Traffic(ctx, series.Spans); err != nil {
			return err
		}
		if out["sessions"], err = r.Sessions(ctx, spans); err != nil {
			return err
		}
		if out["rows"], err = r.Breakdowns(ctx, spans, rankedDimensions(), 200); err != nil {
			return err
		}
		if out["events"], err = r.CustomEvents(ctx, spans, 200); err != nil {
			return err
		}
		out["props"], err = r.Props(ctx, spans, "signup", 200)
		return err
	}))
}

// moveTo folds or seals all days.
func (b *bench) moveTo(state string, first time.Time) {
	b.t.Helper()
	switch state {
	case "folded":
		r := b.rollups(RollupsOptions{Now: func() time.Time { return first }})
		if _, err := r.FoldBusy(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
	case "sealed":
		for _, day := range b.days() {
			if err := b.rollups(RollupsOptions{}).SealAgain(b.t.Context(), b.site.ID, day); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}

// compareLayouts has the same traffic counted in two databases, and compares what they
// answer while its days are open, folded and sealed, and when an import was undone. It
// returns how many answers it compared.
func compareLayouts(t *testing.T, one, other *bench, seed uint64) int {
	t.Helper()
	hits, _ := someTraffic(t, one.site.Zone, seed, 6, 40)
	late := slices.Clone(hits[len(hits)/2:])
	slices.Reverse(late) // so that sessions are joined
	for _, b := range []*bench{one, other} {
		for _, part := range [][]hit.Hit{hits[:len(hits)/2], late} {
			if err := b.importHits(b.importer, b.site, part...); err != nil {
				t.Fatal(err)
			}
		}
	}
	compared := 0
	for _, state := range []string{"open", "folded", "sealed", "undone"} {
		for _, b := range []*bench{one, other} {
			if b.moveTo(state, hits[0].At); state == "undone" {
				b.undoLatest()
			}
		}
		for from := range 6 {
			for to := from + 1; to <= 7; to++ {
				var q Query
				first := time.Date(2024, 10, 31+from, 0, 0, 0, 0, time.UTC)
				q.From, q.To = first.Format(time.DateOnly), first.AddDate(0, 0, to).Format(time.DateOnly)
				if to%2 == 0 { // parts of days
					q.From, q.To = first.Add(7*time.Hour).Format(time.RFC3339), first.AddDate(0, 0, to).Add(90*time.Minute).Format(time.RFC3339)
				}
				want, err := one.said(q)
				if err != nil {
					t.Fatal(err)
				}
				got, err := other.said(q)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s, %s, %s to %s (-one +other):\n%s", one.site.Zone, state, q.From, q.To, diff)
				}
				compared += len(want)
			}
		}
	}
	return compared
}

// undoLatest takes the import back that has the latest event.
func (b *bench) undoLatest() {
	b.t.Helper()
	list, err := b.importer.Imports(b.t.Context(), b.site.ID, nil, 10)
	if err != nil || len(list) == 0 {
		b.t.Fatalf("imports: %v, %v", list, err)
	}
	latest := slices.MaxFunc(list, func(a, b imports.Imported) int { return a.LastAt.Compare(*b.LastAt) })
	done, err := b.importer.Undo(b.t.Context(), latest.ID, nil)
	if err != nil || done.Events == 0 {
		b.t.Fatalf("undo: %+v, %v", done, err)
	}
}

func TestTheStatementsOfShardsCountWhatThoseOfOnePostgreSQLDo(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 12, 1, 0, 0, 0, 0, time.UTC)
	for seed, zone := range []string{"UTC", "Australia/Lord_Howe"} {
		n := compareLayouts(t, newBenchOn(t, dbtest.New(t), zone, now), newBenchOn(t, dbtest.NewSharded(t), zone, now), uint64(seed+1))
		if n < 100 {
			t.Errorf("%s: only %d answers were compared", zone, n)
		}
	}
}

// collectTogether has hits and reported events of several sites arrive at once, each of
// the latter twice, and one that is not counted. No two calls have the same series.
func (b *bench) collectTogether(series string, sites ...site.Site) {
	b.t.Helper()
	var callers sync.WaitGroup
	for n := range 24 {
		callers.Go(func() {
			s := sites[n%len(sites)]
			if err := b.ingester.Collect(b.t.Context(), s, aHit(func(h *hit.Hit) { h.UserAgent = fmt.Sprint(firefox, " ", n) })); err != nil {
				b.t.Errorf("Collect: %v", err)
			}
			event := Reported{EventID: fmt.Sprint(series, n), Hit: aHit(func(h *hit.Hit) { h.At = b.clock.now() })}
			result, err := b.ingester.CollectBatch(b.t.Context(), s, []Reported{event, event, {Problem: "unreadable"}})
			if err != nil || result.Accepted != 1 || result.Duplicate != 1 || len(result.Rejected) != 1 {
				b.t.Errorf("CollectBatch: %+v, %v", result, err)
			}
		})
	}
	callers.Wait()
}

func TestATransactionOfCollectionIsOfOneSiteWhereTablesAreSharded(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, dbtest.NewSharded(t), "UTC", reportedNow)
	sites := []site.Site{b.site}
	for n := range 5 {
		s, err := b.sites.Create(t.Context(), fmt.Sprint("Example ", n), "example.com", "UTC")
		if err != nil {
			t.Fatal(err)
		}
		sites = append(sites, s)
	}
	b.collectTogether("one ", sites...)
	if shared := texts(t, b.db, `select xmin::text from events group by xmin::text having count(distinct site_id) > 1`); len(shared) > 0 {
		t.Errorf("%d transactions have events of several sites", len(shared))
	}
	if n := b.int(`select count(*) from events`); n != 48 {
		t.Errorf("%d events are stored, want 48", n)
	}
	if n := b.int(`select sum(count)::bigint from site_drops where reason = 'validation_failed'`); n != 24 {
		t.Errorf("%d drops are counted, want 24", n)
	}
}

// Tables are sharded under a process that runs: what it had prepared is refused then.
func TestALayoutThatChangesIsNoticedByNewConnections(t *testing.T) {
	t.Parallel()
	d, urls := dbtest.NewWithURL(t)
	b := newBenchOn(t, d, "UTC", reportedNow)
	b.collectTogether("before ", b.site)
	if d.Sharded() {
		t.Fatal("one PostgreSQL is said to be sharded")
	}
	dbtest.Shard(t, urls)
	d.Pool().Reset()
	b.collectTogether("after ", b.site)
	if !d.Sharded() {
		t.Error("the layout was not noticed")
	}
}
