package stats

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/hit"
)

// keepLabels makes all labels of a site what a version made them that knew no open days.
func (b *bench) keepLabels(siteID uuid.UUID) {
	b.t.Helper()
	b.exec(`update rollup_labels set open_day = null where site_id = $1`, siteID)
}

// internPaths makes the paths of hits labels for good, whether anything has them or not.
func (b *bench) internPaths(ctx context.Context, r *Rollups, siteID uuid.UUID, hits []hit.Hit) error {
	var texts []labelText
	for _, h := range hits {
		if u, err := url.Parse(h.URL); err == nil {
			texts = append(texts, labelText{label: u.Path})
		}
	}
	return r.holding(ctx, siteID, func(ctx context.Context, tx pgx.Tx) error {
		return newDictionary(r.queries, tx, siteID).intern(ctx, texts, nil)
	})
}

// dueForTrim makes a site due for TrimLabels, and no other.
func (b *bench) dueForTrim(ctx context.Context, siteID uuid.UUID) error {
	_, err := b.db.Single(identity.System("test")).Exec(ctx, `update rollup_sites set labels_trimmed_at = case when site_id = $1 then null else 'infinity'::timestamptz end`, siteID)
	return err
}

func (b *bench) trimLabelsAgain(siteID uuid.UUID) {
	b.t.Helper()
	if err := b.dueForTrim(b.t.Context(), siteID); err != nil {
		b.t.Fatal(err)
	}
}

// crowd is a site two days of which have more pages than the cap, each seen by a visitor
// of its own. Those from undonePages on come with an import that is undone.
type crowd struct {
	*bench
	day time.Time
	now time.Time
	r   *Rollups
	q   Query
}

const crowdCap, crowdPages, undonePages = 10, 60, 200

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	return newCrowdOn(t, dbtest.New(t))
}

func newCrowdOn(t *testing.T, d *db.DB) *crowd {
	t.Helper()
	c := &crowd{bench: newBenchOn(t, d, "UTC", time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC)), day: time.Date(2024, 11, 4, 12, 0, 0, 0, time.UTC)}
	c.now = c.day
	c.r = c.rollups(RollupsOptions{LabelCap: crowdCap, Now: func() time.Time { return c.now }})
	c.q = Query{SiteID: c.site.ID, Zones: calendar.Always(c.site.Zone), From: "2024-11-04", To: "2024-11-05", Limit: 500}
	for _, first := range []int{0, undonePages} {
		var hits []hit.Hit
		for i := range 2 * crowdPages {
			hits = append(hits, c.hit(first+i, c.day.AddDate(0, 0, i%2)))
		}
		c.arrive(hits...)
	}
	return c
}

// undo folds both imports, seals the first days so many days later, and undoes the second
// import, with labels as a version left them that knew no open days.
func (c *crowd) undo(daysLater, days int) {
	c.t.Helper()
	c.fold()
	c.seal(daysLater, days)
	c.keepLabels(c.site.ID)
	c.undoLatest()
	c.seal(daysLater, days)
	if n := c.undone(); n == 0 {
		c.t.Fatal("no label of an undone import is left: the test shows nothing")
	}
}

func (c *crowd) hit(page int, at time.Time) hit.Hit {
	return hit.Hit{
		At: at, URL: fmt.Sprintf("https://example.com/%d", page), UserAgent: "Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0",
		Address: netip.MustParseAddr(fmt.Sprintf("198.51.%d.%d", 100+page/100, page%100)),
	}
}

func (c *crowd) arrive(hits ...hit.Hit) {
	c.t.Helper()
	if err := c.importHits(c.importer, c.site, hits...); err != nil {
		c.t.Fatal(err)
	}
}

// fold leaves labels as a version did that knew no open days.
func (c *crowd) fold() {
	c.t.Helper()
	if _, err := c.r.FoldBusy(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	c.keepLabels(c.site.ID)
}

// seal seals the days that are due so many days later, and checks how many these are.
func (c *crowd) seal(daysLater, want int) {
	c.t.Helper()
	c.now = c.day.AddDate(0, 0, daysLater)
	if n, err := c.r.SealDue(c.t.Context()); err != nil || n != want {
		c.t.Fatalf("%d days sealed, %v; want %d", n, err, want)
	}
}

func (c *crowd) trim() int {
	c.t.Helper()
	n, err := c.r.TrimLabels(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

func (c *crowd) pages() int {
	c.t.Helper()
	return c.int(`select count(*) from rollup_labels where label like '/%'`)
}

// undone is how many labels are known that nobody counts.
func (c *crowd) undone() int {
	c.t.Helper()
	return c.int(`select count(*) from rollup_labels where label ~ '^/[2-9]..$'`)
}

// answers are those of rollups and of columns.
func (c *crowd) answers() map[string]any {
	c.t.Helper()
	c.checkSnapshot(c.t.Context(), c.t, c.q, crowdCap)
	out := map[string]any{"rows": rowsOf(c.t, c.bench, c.q, crowdCap)}
	for _, filters := range []Filters{{FilterPath: {"/*"}}, {FilterPath: {"/9*"}, FilterEntry: {"/99", "/7"}}, {FilterPath: {"/7"}}} {
		q := c.q
		q.Filters = filters
		summary, err := service(c.t, c.bench, crowdCap).Summary(c.t.Context(), q)
		if err != nil {
			c.t.Fatal(err)
		}
		out[fmt.Sprint(filters)+" summary"], out[fmt.Sprint(filters)] = summary.Metrics, rowsOf(c.t, c.bench, q, crowdCap)
	}
	return out
}

// same fails the test where an answer has changed.
func (c *crowd) same(what string, before map[string]any) {
	c.t.Helper()
	if diff := cmp.Diff(before, c.answers()); diff != "" {
		c.t.Errorf("%s changed an answer: %s", what, diff)
	}
}

func TestLabelsThatNothingHasAnyMoreEndThoughAnOlderVersionMadeThem(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.undo(9, 2)
	before, all := c.answers(), c.pages()
	unused := c.undone()
	if n := c.trim(); n != unused || c.undone() != 0 || c.pages() != all-unused {
		t.Errorf("%d labels let go of %d that nothing has, %d are left, %d of %d in all", n, unused, c.undone(), c.pages(), all)
	}
	c.same("trimming", before)
	// What went may come back.
	c.arrive(c.hit(undonePages, c.day.Add(time.Hour)), c.hit(undonePages+1, c.day.Add(time.Hour)))
	c.seal(9, 1)
	c.checkSnapshot(t.Context(), t, c.q, crowdCap)

	c.exec(`insert into rollup_labels select site_id, last_label + 1, '\x00', 'nothing', '', null from rollup_sites`)
	c.exec(`update rollup_sites set last_label = last_label + 1`)
	c.now = c.now.Add(labelsEvery)
	if n := c.trim(); n != 0 {
		t.Errorf("%d labels let go within 30 days", n)
	}
	c.now = c.now.Add(time.Second)
	if n := c.trim(); n != 1 || c.int(`select count(*) from rollup_labels where label = 'nothing'`) != 0 {
		t.Errorf("%d labels let go after 30 days", n)
	}
}

func TestLabelsGoWithTheVisitsThatHadThem(t *testing.T) {
	t.Parallel()
	for layout, make := range map[string]func(testing.TB) *db.DB{"one PostgreSQL": dbtest.New, "sharded": dbtest.NewSharded} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			checkLabelsGoWithVisits(t, newCrowdOn(t, make(t)))
		})
	}
}

func checkLabelsGoWithVisits(t *testing.T, c *crowd) {
	t.Helper()
	c.fold()
	c.seal(9, 2)
	rows := rowsOf(t, c.bench, c.q, crowdCap)
	if c.trim(); c.pages() != 4*crowdPages {
		t.Fatalf("%d pages are known, want all %d that columns have", c.pages(), 4*crowdPages)
	}
	c.now = c.now.AddDate(0, 3, 0)
	retention, err := NewRetention(RetentionOptions{DB: c.db, Months: 1, Now: func() time.Time { return c.now }})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := retention.Trim(t.Context()); n != 2 || err != nil {
		t.Fatalf("%d days, %v", n, err)
	}
	if c.trim(); c.pages() != 2*crowdCap {
		t.Errorf("%d pages are known, want the %d that count", c.pages(), 2*crowdCap)
	}
	if diff := cmp.Diff(rows, rowsOf(t, c.bench, c.q, crowdCap)); diff != "" {
		t.Error(diff)
	}
}

func TestLabelsStayWhileADayGoesOnThatMayHaveThem(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.undo(3, 1) // the second day goes on
	before, all := c.answers(), c.pages()
	if n := c.trim(); n == 0 || c.pages() != all {
		t.Errorf("%d labels let go, %d of %d pages are known while a day goes on", n, c.pages(), all)
	}
	c.same("trimming", before)
	c.arrive(c.hit(4, c.day.AddDate(0, 0, 1).Add(time.Hour))) // a page of the first day
	c.arrive(c.hit(undonePages, c.day.AddDate(0, 0, 1).Add(time.Hour)))
	if _, err := c.r.FoldBusy(t.Context()); err != nil {
		t.Fatal(err)
	}
	before = c.answers()
	c.seal(9, 1)
	c.same("sealing", before)
	c.trimLabelsAgain(c.site.ID)
	if c.trim(); c.undone() > 1 {
		t.Errorf("%d labels of an undone import are known, want at most the one that came back", c.undone())
	}
	c.same("trimming again", before)
}

// Between looking labels through and letting go of them anything may happen.
func TestLabelsThatCameBackMeanwhileStay(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(c *crowd, other *Rollups) error{
		"by a fold": func(c *crowd, other *Rollups) error {
			c.arrive(c.hit(undonePages, c.day.AddDate(0, 0, 9)), c.hit(undonePages+3, c.day.AddDate(0, 0, 9)))
			_, err := other.FoldBusy(c.t.Context())
			return err
		},
		"by a seal": func(c *crowd, other *Rollups) error {
			c.arrive(c.hit(undonePages, c.day.Add(time.Hour)), c.hit(undonePages+3, c.day.Add(time.Hour)))
			_, err := other.SealDue(c.t.Context())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrowd(t)
			c.undo(9, 2)
			other := c.rollups(RollupsOptions{LabelCap: crowdCap, Now: func() time.Time { return c.now.Add(time.Minute) }})
			called := false
			c.r = c.rollups(RollupsOptions{LabelCap: crowdCap, Now: func() time.Time { return c.now }, Interrupt: func(at Boundary) error {
				if at != BeforeLabelsGo || called {
					return nil
				}
				called = true
				return meanwhile(c, other)
			}})
			if n := c.trim(); !called || (n > 0) != (name == "by a fold") {
				t.Errorf("%d labels let go", n)
			}
			c.q.To = "2024-11-13"
			before := c.answers()
			for _, day := range c.days() {
				if err := other.SealAgain(t.Context(), c.site.ID, day); err != nil {
					t.Fatal(err)
				}
			}
			c.same("sealing", before)
			c.trimLabelsAgain(c.site.ID)
			c.trim()
			c.same("trimming again", before)
			if n := c.undone(); n != 2 {
				t.Errorf("%d labels of an undone import are known in the end, want the 2 that came back", n)
			}
		})
	}
}

// A newer version may store what this one can't read: nothing goes then.
func TestLabelsStayBesideColumnsOfANewerVersion(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.undo(9, 2)
	c.exec(`insert into rollup_columns (site_id, day, block, part, packed) select site_id, '2024-11-04', 0, '_new', '\x01' from rollup_sites`)
	if n := c.trim(); n != 0 {
		t.Errorf("%d labels let go", n)
	}
	c.exec(`update rollup_columns set part = 'new' where part = '_new'`)
	if n := c.trim(); n == 0 {
		t.Error("a column more keeps all labels")
	}
}

func TestACrashedTrimOfLabelsIsMadeGood(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.undo(9, 2)
	before, whole := c.answers(), c.r
	c.r = c.rollups(RollupsOptions{LabelCap: crowdCap, Now: func() time.Time { return c.now }, Interrupt: crashAt(1)})
	if _, err := c.r.TrimLabels(t.Context()); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	c.same("a crash", before)
	c.r = whole
	if c.trim(); c.undone() != 0 {
		t.Errorf("%d labels that nothing has are known", c.undone())
	}
}

func TestDropsEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", time.Date(2025, 3, 10, 12, 0, 0, 0, time.UTC))
	short, err := b.sites.Create(t.Context(), "Short", "example.com", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	months := 2
	own := &months
	if _, err := b.sites.Update(t.Context(), short.ID, site.Change{RetentionMonths: &own}); err != nil {
		t.Fatal(err)
	}
	b.exec(`insert into site_drops (site_id, day, reason, count)
		select s.id, d::date, r.reason, 1 from sites s
		cross join generate_series('2010-01-01'::date, '2025-03-10'::date, '1 day') d
		cross join (values ('bot'), ('too_late')) r (reason)`)
	retention, err := NewRetention(RetentionOptions{DB: b.db, Now: b.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := retention.Trim(t.Context()); n != 0 || err != nil {
		t.Fatalf("%d days, %v", n, err)
	}
	for of, want := range map[uuid.UUID]string{b.site.ID: "2023-03-01", short.ID: "2025-01-01"} {
		if got := b.text(`select min(day)::text from site_drops where site_id = $1`, of); got != want {
			t.Errorf("drops from %s on, want %s", got, want)
		}
		first, _ := time.Parse(time.DateOnly, want)
		if n, days := b.int(`select count(*) from site_drops where site_id = $1`, of), calendar.DaysBetween(first, b.clock.now())+1; n != 2*days {
			t.Errorf("%d drops are left of %d days", n, days)
		}
	}
}

func (b *bench) text(sql string, args ...any) string {
	b.t.Helper()
	var s string
	if err := b.db.Pool().QueryRow(b.t.Context(), sql, args...).Scan(&s); err != nil {
		b.t.Fatal(err)
	}
	return s
}
