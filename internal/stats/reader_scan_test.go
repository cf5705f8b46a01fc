package stats

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/stats/calendar"
)

// columnRead is one part of the packed columns that was asked for, of some days and blocks.
type columnRead struct {
	part            string
	first, last     time.Time
	firstNo, lastNo int
}

// sameAs reports whether two reads have a stored row in common, or may have.
func (c columnRead) sameAs(d columnRead) bool {
	return c.part == d.part && !c.first.After(d.last) && !d.first.After(c.last) && c.firstNo <= d.lastNo && d.firstNo <= c.lastNo
}

// watchedTx notes which columns are read.
type watchedTx struct {
	pgx.Tx
	reads *[]columnRead
}

func (w watchedTx) note(sql string, args []any) {
	if sql != listColumns {
		return
	}
	number := func(of any) int {
		n, _ := strconv.Atoi(fmt.Sprint(of))
		return n
	}
	for _, part := range args[1].([]string) {
		*w.reads = append(*w.reads, columnRead{part, args[2].(time.Time), args[3].(time.Time), number(args[4]), number(args[5])})
	}
}

func (w watchedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	w.note(sql, args)
	return w.Tx.Query(ctx, sql, args...)
}

func (w watchedTx) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	for _, q := range batch.QueuedQueries {
		w.note(q.SQL, q.Arguments)
	}
	return w.Tx.SendBatch(ctx, batch)
}

// watched answers what q asks, and adds to reads what it reads.
func (b *bench) watched(q Questions, reads *[]columnRead) Answers {
	b.t.Helper()
	s, err := NewService(ServiceOptions{DB: b.db, Now: b.clock.now})
	if err != nil {
		b.t.Fatal(err)
	}
	p, err := q.period(b.clock.now())
	if err != nil {
		b.t.Fatal(err)
	}
	var out Answers
	watch := func(r Reader, _ calendar.Calendar, _ calendar.Window) (finish, error) {
		of := r.(*columnReader)
		of.tx = watchedTx{of.tx, reads}
		return func(context.Context) error { return nil }, nil
	}
	if err := s.snapshot(b.t.Context(), q.Query, question{p, append([]fold{watch}, q.folds(&out)...)}); err != nil {
		b.t.Fatal(err)
	}
	return out
}

// twice returns a read of what was read before.
func twice(reads []columnRead) (columnRead, bool) {
	for i, c := range reads {
		for _, before := range reads[:i] {
			if c.sameAs(before) {
				return c, true
			}
		}
	}
	return columnRead{}, false
}

// Of each day and block no column is read more than once, however much is asked.
func TestAReportWithAFilterReadsEachPackedColumnOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, "America/New_York", time.Date(2024, 12, 1, 0, 0, 0, 0, time.UTC))
	hits, _ := someTraffic(t, b.site.Zone, 31, 8, 60)
	if err := b.importHits(b.importer, b.site, hits...); err != nil {
		t.Fatal(err)
	}
	for _, blockEvents := range []int{50, 100_000} {
		for _, day := range b.days() {
			if err := b.rollups(RollupsOptions{BlockEvents: blockEvents}).SealAgain(t.Context(), b.site.ID, day); err != nil {
				t.Fatal(err)
			}
		}
		for _, g := range []calendar.Granularity{calendar.ByDay, calendar.ByHour} {
			for _, window := range [][2]string{{"2024-11-04", "2024-11-06"}, {"2024-11-04T07:30:00Z", "2024-11-06T20:00:00Z"}} {
				b.checkReads(Query{
					SiteID: b.site.ID, Zones: calendar.Always(b.site.Zone), From: window[0], To: window[1], Limit: 50, Compare: true, Visits: true, Empty: true,
					Filters: Filters{FilterDevice: {"desktop"}},
				}, g)
			}
		}
	}
}

func (b *bench) checkReads(query Query, g calendar.Granularity) {
	b.t.Helper()
	var once, again []columnRead
	together := b.watched(Questions{Query: query, Summary: true, Timeseries: true, Events: true, EventName: "signup", Granularity: g, Dimensions: rankedDimensions()}, &once)
	if of, is := twice(once); is || len(once) == 0 {
		b.t.Errorf("of %d columns, %v was read twice", len(once), of)
	}
	ask := func(q Questions) Answers {
		q.Query = query
		return b.watched(q, &again)
	}
	alone := Answers{
		Summary: ask(Questions{Summary: true}).Summary, Timeseries: ask(Questions{Timeseries: true, Granularity: g}).Timeseries,
		Events: ask(Questions{Events: true, EventName: "signup"}).Events, Breakdowns: make(map[Dimension]List[Row]),
	}
	for _, d := range rankedDimensions() {
		alone.Breakdowns[d] = ask(Questions{Dimensions: []Dimension{d}}).Breakdowns[d]
	}
	if _, is := twice(again); !is || len(again) < 2*len(once) {
		b.t.Errorf("one by one %d columns are read, together %d: the test shows little", len(again), len(once))
	}
	if diff := cmp.Diff(alone, together); diff != "" {
		b.t.Errorf("together the answers differ (-alone +together):\n%s", diff)
	}
}
