package stats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/hit"
	"github.com/waypost/waypost/internal/stats/imports"
)

// jobList keeps the jobs of committed and of broken transactions alike.
type jobList struct {
	jobs []queue.Job
	err  error
}

func (l *jobList) Insert(_ context.Context, _ pgx.Tx, j queue.Job) error {
	l.jobs = append(l.jobs, j)
	return l.err
}

// rowsOf counts a site's rows in every table that has any.
func (b *bench) rowsOf(s site.Site) map[string]int {
	b.t.Helper()
	rows, err := b.db.Pool().Query(b.t.Context(), `
select c.relname::text from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'site_id'
where c.relkind in ('r', 'p') and not c.relispartition and c.relnamespace = 'public'::regnamespace`)
	if err != nil {
		b.t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.t.Fatal(err)
	}
	counts := map[string]int{}
	for _, table := range tables {
		if n := b.int(`select count(*) from `+table+` where site_id = $1`, s.ID); n > 0 {
			counts[table] = n
		}
	}
	return counts
}

func (b *bench) fill(s site.Site) {
	b.t.Helper()
	var lines strings.Builder
	for n := range 6000 { // more than a batch
		fmt.Fprintf(&lines, `{"ts":"2024-0%d-10T10:00:00Z","url":"https://example.com/%d","ip":"192.0.2.%d"}`+"\n", 1+n%5, n, n%200)
	}
	if _, err := b.importer.Import(b.t.Context(), s, strings.NewReader(lines.String()), imports.NDJSON, nil); err != nil {
		b.t.Fatal(err)
	}
	r, err := b.ingester.CollectBatch(b.t.Context(), s, []Reported{reported("a", nil), reported("b", func(h *hit.Hit) { h.URL = "x" })})
	if err != nil || r.Accepted != 1 {
		b.t.Fatal(r, err)
	}
	if _, _, err := b.sites.CreateKey(b.t.Context(), s.ID, "key", site.ScopeRead); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.sites.Update(b.t.Context(), s.ID, site.Change{Timezone: new("Asia/Tokyo")}); err != nil {
		b.t.Fatal(err)
	}
}

func TestADeletedSiteIsGoneAtOnceAndErasedPieceByPiece(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", reportedNow)
	other, err := b.sites.Create(t.Context(), "Other", "example.com", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	b.fill(b.site)
	b.fill(other)
	kept := b.rowsOf(other)
	list := &jobList{}
	e, err := NewEraser(EraserOptions{DB: b.db, Queue: list, Now: b.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	ctx := identity.NewContext(t.Context(), identity.System("test"))

	if wait, err := e.Erase(ctx, b.site.ID); wait != 0 || err != nil || len(b.rowsOf(b.site)) == 0 {
		t.Fatalf("a living site was erased: %v, %v", wait, err)
	}
	list.err = errors.New("the queue is away")
	if err := e.DeleteSite(ctx, b.site.ID); err == nil {
		t.Error("deleted without its job")
	}
	if _, err := b.sites.Find(ctx, b.site.ID); err != nil {
		t.Errorf("deleted without its job: %v", err)
	}
	list.err = nil
	if err := e.DeleteSite(ctx, b.site.ID); err != nil {
		t.Fatal(err)
	}
	if err := e.DeleteSite(ctx, b.site.ID); !errors.Is(err, site.ErrNoSite) {
		t.Errorf("deleted twice: %v", err)
	}
	if _, err := b.sites.Find(ctx, b.site.ID); !errors.Is(err, site.ErrNoSite) {
		t.Errorf("found: %v", err)
	}
	if len(list.jobs) != 2 || list.jobs[1] != queue.Job(EraseJob{SiteID: b.site.ID}) {
		t.Errorf("jobs %v", list.jobs)
	}

	// Broken off in the middle, and repeated.
	broken, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := e.Erase(broken, b.site.ID); err == nil {
		t.Error("erased without a database")
	}
	wait, err := e.Erase(ctx, b.site.ID)
	if err != nil || wait != settleTime {
		t.Fatalf("wait %v, %v", wait, err)
	}
	if err := b.ingester.Collect(t.Context(), b.site, aHit(nil)); !errors.Is(err, site.ErrSiteKey) {
		t.Errorf("a page that reports to an erased site: %v", err)
	}
	if _, err := b.ingester.CollectBatch(t.Context(), b.site, []Reported{reported("z", nil)}); !errors.Is(err, site.ErrAPIKey) {
		t.Errorf("a server that reports to an erased site: %v", err)
	}
	// A request that had begun still wrote.
	b.collect(b.ingester, func(h *hit.Hit) { h.UserAgent = "" })
	if n := len(b.rowsOf(b.site)); n == 0 {
		t.Error("nothing left to erase: the test tests nothing")
	}
	b.clock.set(reportedNow.Add(2*settleTime + time.Second))
	if n, err := e.Sweep(ctx); n != 1 || err != nil {
		t.Fatalf("sweep: %d, %v", n, err)
	}
	if left := b.rowsOf(b.site); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if n := b.int(`select count(*) from sites where id = $1`, b.site.ID); n != 0 {
		t.Error("the site itself is left")
	}
	if wait, err := e.Erase(ctx, b.site.ID); wait != 0 || err != nil {
		t.Errorf("once more: %v, %v", wait, err)
	}
	for table, n := range kept {
		if got := b.rowsOf(other)[table]; got != n {
			t.Errorf("%s of the other site: %d rows, had %d", table, got, n)
		}
	}
}

func TestAnImportStopsWhenItsSiteIsErased(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", reportedNow)
	e, err := NewEraser(EraserOptions{DB: b.db, Queue: &jobList{}, Now: b.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	line := `{"ts":"2024-05-10T10:00:00Z","url":"https://example.com/%d"}` + "\n"
	var lines strings.Builder
	for n := range 3 * linesTogether {
		fmt.Fprintf(&lines, line, n)
	}
	first := true
	_, err = b.importer.Import(t.Context(), b.site, strings.NewReader(lines.String()), imports.NDJSON, func(imports.Progress) {
		if !first {
			return
		}
		first = false
		if err := e.DeleteSite(t.Context(), b.site.ID); err != nil {
			t.Error(err)
		}
		if _, err := e.Erase(t.Context(), b.site.ID); err != nil {
			t.Error(err)
		}
	})
	if !errors.Is(err, imports.ErrSuperseded) && !errors.Is(err, site.ErrNoSite) {
		t.Errorf("the import ended with %v", err)
	}
}

// A process that was killed may have left a transaction that still deletes.
func TestTwoErasuresAtOnceLeaveNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", reportedNow)
	b.fill(b.site)
	e, err := NewEraser(EraserOptions{DB: b.db, Queue: &jobList{}, Now: b.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	ctx := identity.NewContext(t.Context(), identity.System("test"))
	if err := e.DeleteSite(ctx, b.site.ID); err != nil {
		t.Fatal(err)
	}
	b.clock.set(reportedNow.Add(settleTime))
	tx, err := b.db.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The rows that the other erasure takes first.
	if _, err := tx.Exec(t.Context(), `delete from events where site_id = $1 and id in (select id from events where site_id = $1 order by occurred_at, id limit 5000)`, b.site.ID); err != nil {
		t.Fatal(err)
	}
	type result struct {
		wait time.Duration
		err  error
	}
	ended := make(chan result, 1)
	go func() {
		wait, err := e.Erase(ctx, b.site.ID)
		ended <- result{wait, err}
	}()
	for b.int(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like 'delete from events%'`) == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := <-ended
	if first.err != nil {
		t.Fatal(first.err)
	}
	if left := b.rowsOf(b.site); first.wait == 0 && len(left) > 0 {
		t.Fatalf("the site is gone and its rows are not: %v", left)
	}
	for wait := first.wait; wait > 0; {
		if wait, err = e.Erase(ctx, b.site.ID); err != nil {
			t.Fatal(err)
		}
	}
	if left := b.rowsOf(b.site); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
