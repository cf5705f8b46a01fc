package stats_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/naive"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/imports"
)

// life is a site whose traffic is imported, undone, sealed and ended.
type life struct {
	t        *testing.T
	db       *db.DB
	sites    *site.Service
	of       site.Site
	now      time.Time
	importer *imports.Importer
	rollups  *stats.Rollups
	traffic  naive.Traffic
}

func newLife(t *testing.T, zone string) *life {
	t.Helper()
	l := &life{t: t, db: dbtest.New(t), traffic: season(t, zone)}
	clock := func() time.Time { return l.now }
	var err error
	if l.sites, err = site.New(site.Options{DB: l.db, Logger: slog.New(slog.DiscardHandler), Now: clock}); err != nil {
		t.Fatal(err)
	}
	l.now = l.traffic.Start.AddDate(0, 0, l.traffic.Days+10)
	if l.of, err = l.sites.Create(t.Context(), "Life", l.traffic.Domain, zone); err != nil {
		t.Fatal(err)
	}
	if l.importer, err = imports.New(imports.Options{DB: l.db, Keys: stats.Keys(t), Now: clock}); err != nil {
		t.Fatal(err)
	}
	if l.rollups, err = stats.NewRollups(stats.RollupsOptions{DB: l.db, Sites: l.sites, Now: clock}); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *life) load(t rapid.TB, lines []string) imports.Report {
	t.Helper()
	report, err := l.importer.Load(l.t.Context(), l.of, strings.NewReader(strings.Join(lines, "")), imports.Settings{Format: imports.Combined, Name: "access.log"})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func (l *life) seal(t rapid.TB) int {
	t.Helper()
	n, err := l.rollups.SealDue(l.t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// comparison holds the answers against a count of lines.
func (l *life) comparison(t rapid.TB, lines []string) comparison {
	t.Helper()
	log := naive.Log{Domain: l.traffic.Domain, Classify: classifier(l.t)}
	hits := log.Read(strings.NewReader(strings.Join(lines, "")))
	return comparison{
		service: newService(l.t, l.db, l.now, 0), site: l.of.ID, zone: l.traffic.Zone,
		count: naive.New(naive.Rules{Zone: l.traffic.Zone}, hits), limit: 500, events: []string{"signup"},
	}
}

func (l *life) lines() []string {
	return slices.Collect(strings.Lines(string(logOf(l.t, l.traffic))))
}

// withoutTies leaves out what a visitor did at an instant of something else: of such
// events the one that arrives first is first.
func withoutTies(lines []string) []string {
	seen := make(map[string]bool)
	return slices.DeleteFunc(lines, func(line string) bool {
		quoted := strings.Split(line, `"`)
		if len(quoted) < 6 {
			return true // nothing that counts
		}
		who := quoted[0] + quoted[len(quoted)-2]
		defer func() { seen[who] = true }()
		return seen[who]
	})
}

func (l *life) whole() naive.Window {
	from := l.traffic.Start.In(l.traffic.Zone)
	return naive.Window{From: from.AddDate(0, 0, -1).Format(time.DateOnly), To: from.AddDate(0, 0, l.traffic.Days+2).Format(time.DateOnly)}
}

// Lines of the same visitors come with several imports, in any order, and some of these
// are undone: what is left is counted as if the others had never been, whether days were
// sealed meanwhile or not, and what was undone can be imported again.
func TestAnUndoneImportLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	l := newLife(t, "Asia/Kolkata")
	all := withoutTies(l.lines())
	rapid.Check(t, func(rt *rapid.T) {
		var err error
		if l.of, err = l.sites.Create(t.Context(), "Life", l.traffic.Domain, l.traffic.Zone.String()); err != nil {
			rt.Fatal(err)
		}
		files := make([][]string, rapid.IntRange(2, 3).Draw(rt, "files"))
		for _, line := range all {
			if i := rapid.IntRange(0, len(files)).Draw(rt, "file"); i < len(files) {
				files[i] = append(files[i], line)
			}
		}
		ids := make([]uuid.UUID, len(files))
		for i, lines := range files {
			if rapid.Bool().Draw(rt, "backwards") {
				slices.Reverse(lines)
			}
			ids[i] = l.load(rt, lines).ID
			if rapid.Bool().Draw(rt, "seal") {
				l.seal(rt)
			}
		}
		for range rapid.IntRange(1, len(files)).Draw(rt, "undone") {
			i := rapid.IntRange(0, len(files)-1).Draw(rt, "which")
			u, err := l.importer.Undo(t.Context(), ids[i], nil)
			switch {
			case files[i] == nil && errors.Is(err, imports.ErrUndone):
				continue
			case err != nil || u.Kept != 0:
				rt.Fatalf("%+v, %v", u, err)
			}
			files[i] = nil
			l.comparison(rt, slices.Concat(files...)).mustAgree(t.Context(), rt, l.whole())
			if rapid.Bool().Draw(rt, "seal") {
				l.seal(rt)
				l.comparison(rt, slices.Concat(files...)).mustAgree(t.Context(), rt, l.whole())
			}
		}
		l.checkTrimmed(rt, slices.Concat(files...))
		l.load(rt, all)
		l.comparison(rt, all).mustAgree(t.Context(), rt, l.whole())
	})
}

// checkTrimmed lets go of labels that nothing has, among them those of lines that were undone
// as an older version kept them, and compares what is answered with and without filters.
func (l *life) checkTrimmed(t *rapid.T, lines []string) {
	t.Helper()
	ctx := l.t.Context()
	_, err := l.db.Single(identity.System("test")).Exec(ctx, `with kept as (update rollup_labels set open_day = null where site_id = $1)
		update rollup_sites set labels_trimmed_at = case when site_id = $1 then null else 'infinity'::timestamptz end`, l.of.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.rollups.TrimLabels(ctx); err != nil {
		t.Fatal(err)
	}
	c := l.comparison(t, lines)
	c.mustAgree(ctx, t, l.whole())
	c.filters = filtersOf(filterableOfEvents).Draw(t, "filters")
	c.count = c.count.Filtered(asNaiveFilters(c.filters))
	c.mustAgree(ctx, t, l.whole())
}

func TestImportsAreListedWithWhatBecameOfThem(t *testing.T) {
	t.Parallel()
	l := newLife(t, "UTC")
	all := l.lines()
	first := l.load(t, all[:100])
	l.now = l.now.Add(time.Minute)
	second := l.load(t, all[50:150])
	list, err := l.importer.Imports(t.Context(), l.of.ID, nil, 10)
	if err != nil || len(list) != 2 || list[0].ID != second.ID || list[1].ID != first.ID || list[0].Events != int64(second.Imported) || list[0].Lines != 100 || list[0].Name != "access.log" {
		t.Fatalf("%+v, %v", list, err)
	}
	if older, err := l.importer.Imports(t.Context(), uuid.Nil, &list[0], 10); err != nil || len(older) != 1 || older[0].ID != first.ID {
		t.Errorf("%+v, %v", older, err)
	}
	if _, err := l.importer.Undo(t.Context(), second.ID, nil); err != nil {
		t.Fatal(err)
	}
	if of, err := l.importer.FindImport(t.Context(), second.ID); err != nil || of.State != "undone" {
		t.Errorf("%+v, %v", of, err)
	}
	if _, err := l.importer.Undo(t.Context(), uuid.New(), nil); !errors.Is(err, imports.ErrNoImport) {
		t.Error(err)
	}
}

func (l *life) retention(months int) *stats.Retention {
	l.t.Helper()
	r, err := stats.NewRetention(stats.RetentionOptions{DB: l.db, Months: months, Now: func() time.Time { return l.now }})
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

func (l *life) int(sql string, args ...any) int {
	l.t.Helper()
	var n int
	if err := l.db.Pool().QueryRow(l.t.Context(), sql, args...).Scan(&n); err != nil {
		l.t.Fatal(err)
	}
	return n
}

// beyond reports whether err says that the visits are gone, and from which day on not.
func beyond(err error) (string, bool) {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Code != stats.CodeBeyondRetention {
		return "", false
	}
	return f.Details["earliest"], true
}

// The days are of December and January; the site's own month ends on its 1 January at
// 18:30 UTC of the day before, so that this day loses a part and with it everything.
func TestWhatWasCountedOutlivesItsVisitsAndNothingElseIsAnswered(t *testing.T) {
	t.Parallel()
	l := newLife(t, "Asia/Kolkata")
	all := l.lines()
	other, err := l.sites.Create(t.Context(), "Keeps", l.traffic.Domain, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	keeps := 0
	forEver := &keeps
	if other, err = l.sites.Update(t.Context(), other.ID, site.Change{RetentionMonths: &forEver}); err != nil {
		t.Fatal(err)
	}
	l.load(t, all)
	mine := l.of
	l.of = other
	l.load(t, all[:200])
	l.of = mine
	l.now = time.Date(2024, 2, 8, 12, 0, 0, 0, time.UTC)
	l.seal(t)
	r := l.retention(1)
	if n, err := r.Trim(t.Context()); err != nil || n != 0 {
		t.Fatalf("%d days were trimmed that were sealed just now, %v", n, err)
	}
	l.now = l.now.AddDate(0, 0, 2)
	days, err := r.Trim(t.Context())
	if err != nil || days != 5 {
		t.Fatalf("%d days, %v", days, err)
	}
	if again, err := r.Trim(t.Context()); err != nil || again != 0 {
		t.Errorf("%d days again, %v", again, err)
	}
	if n := l.int(`select count(*) from events where site_id = $1 and occurred_at < '2024-01-01'`, mine.ID); n != 0 {
		t.Errorf("%d events are left", n)
	}
	for _, table := range []string{"sessions", "session_heads", "rollup_columns"} {
		if n := l.int(`select count(*) from `+table+` where site_id = $1 and day <= '2024-01-01'`, mine.ID); n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
	if n := l.int(`select count(*) from events where site_id = $1`, other.ID); n == 0 {
		t.Error("a site that keeps its visits lost them")
	}
	c := l.comparison(t, all)
	if _, err := c.differences(t.Context(), l.whole()); err == nil {
		t.Error("sessions by label are answered without sessions")
	}
	c.rollupsOnly = true
	start := l.traffic.Start.In(l.traffic.Zone)
	c.mustAgree(t.Context(), t, l.whole())
	c.mustAgree(t.Context(), t, naive.Window{From: start.Format(time.DateOnly), To: start.AddDate(0, 0, 2).Format(time.DateOnly)})
	_, err = c.differences(t.Context(), naive.Window{From: start.Add(time.Hour).Format(time.RFC3339), To: start.Add(time.Hour * 2).Format(time.RFC3339)})
	if earliest, gone := beyond(err); !gone || earliest != "2024-01-02" {
		t.Errorf("one hour of a day without visits: %v", err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		w := windows(l.traffic.Start, l.traffic.Start.AddDate(0, 0, l.traffic.Days), l.traffic.Zone).Draw(rt, "window")
		report, err := c.differences(t.Context(), w)
		earliest, gone := beyond(err)
		switch {
		case gone && earliest == "2024-01-02":
		case fault.KindOf(err) == fault.Invalid && c.count.Empty(w):
		case err != nil || report != "":
			rt.Fatalf("%+v: %v %s", w, err, report)
		}
	})
	l.checkFilters(c)
	l.checkLate(r, c, all)
}

// checkFilters: never a zero for what nobody knows any more.
func (l *life) checkFilters(c comparison) {
	l.t.Helper()
	ask := func(from, to string) error {
		_, err := c.service.Summary(l.t.Context(), stats.Query{SiteID: l.of.ID, Zones: calendar.Always(l.traffic.Zone), From: from, To: to, Filters: stats.Filters{"device": {"desktop"}}})
		return err
	}
	for _, w := range [][2]string{{"2023-12-29", "2023-12-30"}, {"2024-01-01", "2024-01-02"}} {
		if earliest, gone := beyond(ask(w[0], w[1])); !gone || earliest != "2024-01-02" {
			l.t.Errorf("a filter over %v: earliest %q", w, earliest)
		}
	}
	if err := ask("2024-01-02", "2024-01-03"); err != nil {
		l.t.Error(err)
	}
}

// checkLate: a line of a day whose visits are gone changes nothing, and is told of.
func (l *life) checkLate(r *stats.Retention, c comparison, all []string) {
	l.t.Helper()
	late := strings.Replace(strings.Replace(all[0], "GET /", "GET /late", 1), "28/Dec/2023", "30/Dec/2023", 1)
	report := l.load(l.t, append([]string{late, strings.Replace(late, "30/Dec", "05/Dec", 1)}, all[:50]...))
	if report.Imported != 0 || report.Skipped[imports.SkipTooLate] < 2 {
		l.t.Errorf("late lines: %+v", report)
	}
	if n := l.int(`select sum(count) from site_drops where site_id = $1 and reason = 'too_late'`, l.of.ID); n != report.Skipped[imports.SkipTooLate] {
		l.t.Errorf("%d drops of %d late lines", n, report.Skipped[imports.SkipTooLate])
	}
	l.now = l.now.AddDate(0, 0, 3)
	if n := l.seal(l.t); n != 0 {
		l.t.Errorf("%d days are sealed anew", n)
	}
	c.mustAgree(l.t.Context(), l.t, l.whole())
	kept, err := r.Of(l.t.Context(), l.of.ID, nil)
	if err != nil || kept.Months != 1 || kept.FirstDay.Format(time.DateOnly) != "2024-01-02" {
		l.t.Errorf("%+v, %v", kept, err)
	}
}

func TestAMonthThatNobodyWantsIsDroppedWhole(t *testing.T) {
	t.Parallel()
	l := newLife(t, "UTC")
	l.traffic.Start = time.Date(2024, 1, 30, 0, 0, 0, 0, time.UTC)
	l.load(t, l.lines())
	partitions := func() int { return l.int(`select count(*) from events_months()`) }
	if n := partitions(); n < 2 {
		t.Fatalf("%d months", n)
	}
	l.now = time.Date(2024, 5, 2, 0, 0, 0, 0, time.UTC)
	l.seal(t)
	l.now = l.now.AddDate(0, 0, 2)
	// Somebody who reads for long keeps it until the next time.
	var days int
	err := l.db.InSnapshot(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select count(*) from events`); err != nil {
			return err
		}
		var err error
		days, err = l.retention(2).Trim(t.Context())
		return err
	})
	if err != nil || days == 0 {
		t.Fatalf("%d days, %v", days, err)
	}
	if n := partitions(); n < 2 {
		t.Errorf("%d months: one was dropped under a reader", n)
	}
	l.now = l.now.AddDate(0, 1, 0)
	if _, err := l.retention(2).Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := partitions(); n != 0 {
		t.Errorf("%d months are left", n)
	}
	// Another site may still import into such a month.
	var errs error
	if l.of, errs = l.sites.Create(t.Context(), "Another", l.traffic.Domain, "UTC"); errs != nil {
		t.Fatal(errs)
	}
	lines := l.lines()
	l.load(t, lines)
	l.comparison(t, lines).mustAgree(t.Context(), t, l.whole())
}

// A process that dies anywhere in between leaves a state that the next run completes, and
// what was marked is never counted anew, also by a program that knows nothing of marks.
func TestAMarkedDayIsNeverMadeDirty(t *testing.T) {
	t.Parallel()
	l := newLife(t, "UTC")
	l.load(t, l.lines())
	l.now = time.Date(2024, 8, 1, 0, 0, 0, 0, time.UTC)
	l.seal(t)
	l.now = l.now.AddDate(0, 0, 2)
	if _, err := l.retention(1).Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := l.db.Single(identity.System("test")).Exec(t.Context(), `update site_days set state = 'dirty'`)
	if err == nil || !strings.Contains(err.Error(), "site_days_trimmed") {
		t.Errorf("a trimmed day was made dirty: %v", err)
	}
}
