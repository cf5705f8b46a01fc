package stats

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/hit"
)

// everythingSealed is all that sealing writes.
var everythingSealed = []string{"rollup_days", "rollup_hours", "rollup_counts", "rollup_blocks", "rollup_columns"}

func TestARebuildMakesTheSameAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t, "America/New_York", time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC))
	hits, _ := someTraffic(t, b.site.Zone, 11, 12, 20)
	if err := b.importHits(b.importer, b.site, hits...); err != nil {
		t.Fatal(err)
	}
	r := b.rollups(RollupsOptions{})
	if _, err := r.SealDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := b.dumpRollups(everythingSealed...)
	if _, err := b.db.Pool().Exec(t.Context(), `update rollup_days set pageviews = 0; update rollup_counts set counts = ''; delete from rollup_columns`); err != nil {
		t.Fatal(err)
	}
	var told []int
	n, err := r.Rebuild(t.Context(), b.site.ID, func(_ time.Time, done, total int) { told = append(told, total-done) })
	if err != nil || n < 12 || len(told) != n || told[n-1] != 1 {
		t.Fatalf("%d days, progress %v, %v", n, told, err)
	}
	if diff := cmp.Diff(want, b.dumpRollups(everythingSealed...)); diff != "" {
		t.Error(diff)
	}
}

func TestDaysSealedWithoutColumnsGetThem(t *testing.T) {
	t.Parallel()
	b := newBench(t, "America/New_York", time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC))
	hits, _ := someTraffic(t, b.site.Zone, 11, 6, 20)
	if err := b.importHits(b.importer, b.site, hits...); err != nil {
		t.Fatal(err)
	}
	r := b.rollups(RollupsOptions{})
	if _, err := r.SealDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := b.dumpRollups(everythingSealed...)
	if _, err := b.db.Pool().Exec(t.Context(), `update site_days set packed = false; delete from rollup_columns`); err != nil {
		t.Fatal(err)
	}
	q := Query{SiteID: b.site.ID, Zones: calendar.Always(b.site.Zone), From: "2024-10-30", To: "2024-11-08", Limit: 10}
	b.checkSnapshot(t.Context(), t, q, 0)
	if n, err := r.SealDue(t.Context()); err != nil || n < 6 {
		t.Fatalf("%d days, %v", n, err)
	}
	if diff := cmp.Diff(want, b.dumpRollups(everythingSealed...)); diff != "" {
		t.Error(diff)
	}
	b.checkSnapshot(t.Context(), t, q, 0)
	if n, err := r.QueueDue(t.Context()); n > 0 || err != nil {
		t.Errorf("%d days are still due, %v", n, err)
	}
}

// TestLabelsGoWithTheDayThatTheyDontCountOn lets each visitor of two days see pages of its
// own: while the days go on, all have to be known; once they are sealed, those that count.
func TestLabelsGoWithTheDayThatTheyDontCountOn(t *testing.T) {
	t.Parallel()
	const labelCap, perDay = 10, 60
	b := newBench(t, "UTC", time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC))
	day := time.Date(2024, 11, 4, 12, 0, 0, 0, time.UTC)
	var hits []hit.Hit
	for i := range 2 * perDay {
		hits = append(hits, hit.Hit{
			At: day.AddDate(0, 0, i%2), URL: fmt.Sprintf("https://example.com/%d", i), UserAgent: "Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0",
			Address: netip.MustParseAddr(fmt.Sprintf("198.51.100.%d", i+1)),
		})
	}
	if err := b.importHits(b.importer, b.site, hits...); err != nil {
		t.Fatal(err)
	}
	pages := func() int { return b.int(`select count(*) from rollup_labels where label like '/%'`) }
	now := day
	r := b.rollups(RollupsOptions{LabelCap: labelCap, Now: func() time.Time { return now }})
	if _, err := r.FoldBusy(t.Context()); err != nil || pages() != 2*perDay {
		t.Fatalf("%d pages are known, %v", pages(), err)
	}
	q := Query{SiteID: b.site.ID, Zones: calendar.Always(b.site.Zone), From: "2024-11-04", To: "2024-11-05", Limit: 5}
	b.checkSnapshot(t.Context(), t, q, labelCap)
	before := rowsOf(t, b, q, labelCap)

	now = day.AddDate(0, 0, 3) // the first day is due, the second is not
	if n, err := r.SealDue(t.Context()); err != nil || n != 1 {
		t.Fatalf("%d days sealed, %v", n, err)
	}
	if n := pages(); n != labelCap+perDay {
		t.Errorf("%d pages are known while the second day goes on, want the %d that count and the day's %d", n, labelCap, perDay)
	}
	b.checkSnapshot(t.Context(), t, q, labelCap)
	now = day.AddDate(0, 0, 9)
	if _, err := r.SealDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := pages(); n != 2*labelCap {
		t.Errorf("%d pages are known of two sealed days, want %d", n, 2*labelCap)
	}
	b.checkSnapshot(t.Context(), t, q, labelCap)
	if diff := cmp.Diff(before, rowsOf(t, b, q, labelCap)); diff != "" {
		t.Errorf("sealing changed an answer: %s", diff)
	}
	// A page that is no label is still one that can be filtered by.
	q.Filters = Filters{FilterPath: {"/*"}, FilterEntry: {"/99"}}
	if got, err := service(t, b, labelCap).Summary(t.Context(), q); err != nil || got.Pageviews != 1 {
		t.Errorf("%d pageviews of a page beyond the cap, %v", got.Pageviews, err)
	}
}

func TestAFilterOfALabelMatchesItAlone(t *testing.T) {
	t.Parallel()
	texts := rapid.StringOfN(rapid.SampledFrom([]rune(`ab\\*!()none`)), 1, 8, -1)
	rapid.Check(t, func(t *rapid.T) {
		label, another := texts.Draw(t, "label"), texts.Draw(t, "another")
		r := parseRule([]string{Exactly(label, false)})
		if !r.matches(label) || r.matchesNone() || r.matches(another) != (label == another) {
			t.Fatalf("%q: %v", Exactly(label, false), r)
		}
	})
}

func service(t testing.TB, b *bench, labelCap int) *Service {
	t.Helper()
	s, err := NewService(ServiceOptions{DB: b.db, Now: b.clock.now, LabelCap: labelCap})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func rowsOf(t testing.TB, b *bench, q Query, labelCap int) map[Dimension]List[Row] {
	t.Helper()
	rows, err := service(t, b, labelCap).Breakdowns(context.Background(), q, ByPage, ByEntry)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
