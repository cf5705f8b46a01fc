package stats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/naive"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/hit"
)

// errCrash ends a transaction as a crash would.
var errCrash = errors.New("crash")

// crashAt makes an Interrupt that crashes at the nth boundary from now.
func crashAt(n int) func(Boundary) error {
	return func(Boundary) error {
		if n--; n == 0 {
			return errCrash
		}
		return nil
	}
}

func (b *bench) rollups(o RollupsOptions) *Rollups {
	b.t.Helper()
	o.DB, o.Sites = b.db, b.sites
	if o.Now == nil {
		o.Now = b.clock.now
	}
	if o.FoldFrom == 0 {
		o.FoldFrom = 1
	}
	r, err := NewRollups(o)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// reportedLine is a line that naive.Traffic writes.
type reportedLine struct {
	TS        time.Time      `json:"ts"`
	URL       string         `json:"url"`
	Referrer  string         `json:"referrer"`
	Name      string         `json:"name"`
	Props     map[string]any `json:"props"`
	IP        string         `json:"ip"`
	UserAgent string         `json:"user_agent"`
}

// someTraffic is a few days of hits, as the product and as the naive count take them.
func someTraffic(t testing.TB, zone *time.Location, seed uint64, days, visitors int) ([]hit.Hit, []string) {
	t.Helper()
	traffic := naive.Traffic{
		Seed: seed, Start: time.Date(2024, 10, 31, 12, 0, 0, 0, time.UTC), Days: days, Zone: zone, Visitors: visitors, Domain: "example.com",
	}
	var b bytes.Buffer
	if err := traffic.Events(&b); err != nil {
		t.Fatal(err)
	}
	var hits []hit.Hit
	var lines []string
	for line := range strings.Lines(b.String()) {
		var r reportedLine
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		h := hit.Hit{At: r.TS, URL: r.URL, Referrer: r.Referrer, Name: r.Name, UserAgent: r.UserAgent, Address: netip.MustParseAddr(r.IP), Props: hit.Props{}}
		for key, value := range r.Props {
			h.Props[key] = fmt.Sprint(value)
		}
		hits, lines = append(hits, h), append(lines, line)
	}
	return hits, lines
}

// dumpRollups is every number that rollups hold of a site, as text.
func (b *bench) dumpRollups(of ...string) string {
	b.t.Helper()
	if len(of) == 0 {
		of = []string{"rollup_days", "rollup_hours", "rollup_counts", "rollup_blocks"}
	}
	var out strings.Builder
	for _, table := range of {
		rows, err := b.db.Pool().Query(context.Background(), `select x::text from `+table+` x order by 1`)
		if err != nil {
			b.t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			b.t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s\n%s\n", table, strings.Join(lines, "\n"))
	}
	return out.String()
}

func (b *bench) days() []time.Time {
	b.t.Helper()
	rows, err := b.db.Pool().Query(context.Background(), `select day from site_days where site_id = $1 order by 1`, b.site.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	days, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		b.t.Fatal(err)
	}
	return days
}

func TestSealingAgainGivesByteEqualRollups(t *testing.T) {
	t.Parallel()
	b := newBench(t, "America/New_York", time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC))
	hits, _ := someTraffic(t, b.site.Zone, 11, 20, 30)
	if err := b.importHits(b.importer, b.site, hits...); err != nil {
		t.Fatal(err)
	}
	r := b.rollups(RollupsOptions{LabelCap: 4})
	if n, err := r.SealDue(t.Context()); err != nil || n < 20 {
		t.Fatalf("%d days sealed, %v", n, err)
	}
	first := b.dumpRollups()
	if n := b.int(`select count(*) from rollup_blocks`); n < 5 {
		t.Fatalf("only %d blocks: the test shows little", n)
	}
	days := b.days()
	for i := len(days) - 1; i >= 0; i -= 2 {
		if err := r.SealAgain(t.Context(), b.site.ID, days[i]); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(first, b.dumpRollups()); diff != "" {
		t.Errorf("sealing some days again: %s", diff)
	}
	if _, err := b.db.Pool().Exec(t.Context(), `delete from rollup_days; delete from rollup_hours; delete from rollup_counts; delete from rollup_blocks;
		update site_days set state = 'dirty'`); err != nil {
		t.Fatal(err)
	}
	if _, err := r.SealDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, b.dumpRollups()); diff != "" {
		t.Errorf("sealing all from nothing: %s", diff)
	}
}

func TestFoldingVisitByVisitGivesWhatSealingGives(t *testing.T) {
	t.Parallel()
	b := newBench(t, "America/New_York", time.Date(2024, 12, 1, 0, 0, 0, 0, time.UTC))
	hits, _ := someTraffic(t, b.site.Zone, 12, 5, 30)
	first := hits[0].At
	r := b.rollups(RollupsOptions{Now: func() time.Time { return first }}) // no day is over yet
	for len(hits) > 0 {
		n := min(37, len(hits))
		if err := b.importHits(b.importer, b.site, hits[:n]...); err != nil {
			t.Fatal(err)
		}
		if _, err := r.FoldBusy(t.Context()); err != nil {
			t.Fatal(err)
		}
		hits = hits[n:]
	}
	if n := b.int(`select count(*) from session_heads where stale`); n > 0 {
		t.Fatalf("%d visitors are still stale", n)
	}
	// An empty list and none are the same.
	const tables = `(select * from rollup_counts where counts <> '')`
	folded := b.dumpRollups("rollup_days", "rollup_hours", tables)
	for _, day := range b.days() {
		if err := r.SealAgain(t.Context(), b.site.ID, day); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(folded, b.dumpRollups("rollup_days", "rollup_hours", tables)); diff != "" {
		t.Error(diff)
	}
}

// at is a question of which nothing is asked before it is answered.
func at(p calendar.Range, answer func(ctx context.Context, r Reader, c calendar.Calendar, w calendar.Window) error) question {
	return question{p, []fold{func(r Reader, c calendar.Calendar, w calendar.Window) (finish, error) {
		return func(ctx context.Context) error { return answer(ctx, r, c, w) }, nil
	}}}
}

// kept keeps each promise of a reader at once.
type kept struct{ Reader }

func (k kept) Traffic(ctx context.Context, spans []calendar.Span) ([]Traffic, error) {
	return k.Reader.Traffic(spans)(ctx)
}

func (k kept) Sessions(ctx context.Context, spans []calendar.Span) ([]SessionTotals, error) {
	return k.Reader.Sessions(spans)(ctx)
}

func (k kept) Breakdowns(ctx context.Context, spans []calendar.Span, dimensions []Dimension, limit int) (map[Dimension]List[Row], error) {
	return k.Reader.Breakdowns(spans, dimensions, limit)(ctx)
}

func (k kept) CustomEvents(ctx context.Context, spans []calendar.Span, limit int) (List[EventCount], error) {
	return k.Reader.CustomEvents(spans, limit)(ctx)
}

func (k kept) Props(ctx context.Context, spans []calendar.Span, name string, limit int) (List[PropCount], error) {
	return k.Reader.Props(spans, name, limit)(ctx)
}

// counts is what all readers answer.
type counts interface {
	Traffic(ctx context.Context, spans []calendar.Span) ([]Traffic, error)
	Sessions(ctx context.Context, spans []calendar.Span) ([]SessionTotals, error)
	Breakdowns(ctx context.Context, spans []calendar.Span, dimensions []Dimension, limit int) (map[Dimension]List[Row], error)
	CustomEvents(ctx context.Context, spans []calendar.Span, limit int) (List[EventCount], error)
	Props(ctx context.Context, spans []calendar.Span, name string, limit int) (List[PropCount], error)
}

// checkSnapshot holds the readers against each other in one snapshot: what rollups and
// packed columns say must be what the events say, whatever is going on.
func (b *bench) checkSnapshot(ctx context.Context, t rapid.TB, q Query, labelCap int) {
	t.Helper()
	few := 3
	if labelCap > 0 {
		few = min(few, labelCap)
	}
	s, err := NewService(ServiceOptions{DB: b.db, Now: b.clock.now, LabelCap: labelCap})
	if err != nil {
		t.Fatal(err)
	}
	p, err := calendar.Parse("", q.From, q.To, b.clock.now())
	if err != nil {
		t.Fatal(err)
	}
	err = s.snapshot(ctx, q, at(p, func(ctx context.Context, r Reader, c calendar.Calendar, w calendar.Window) error {
		rolled := r.(promised).from
		answers := func(r counts) (map[string]any, error) {
			out := map[string]any{}
			for name, plan := range map[string]func() (calendar.Plan, error){
				"days": func() (calendar.Plan, error) { return c.Plan(w), nil }, "hours": func() (calendar.Plan, error) { return c.Series(w, calendar.ByHour) },
			} {
				p, err := plan()
				if err != nil {
					return nil, err
				}
				if out["traffic by "+name], err = r.Traffic(ctx, p.Spans); err != nil {
					return nil, err
				}
			}
			spans := c.Plan(w).Spans
			var err error
			if out["sessions"], err = r.Sessions(ctx, spans); err != nil {
				return nil, err
			}
			// A crowded day is read from its events for lists longer than what it keeps, and
			// for the others is not.
			for _, limit := range []int{200, few} {
				rows, err := r.Breakdowns(ctx, spans, rankedDimensions(), limit)
				if err != nil {
					return nil, err
				}
				for _, d := range rankedDimensions() {
					out[fmt.Sprintf("the first %d by %s", limit, d)] = List[Row]{append([]Row{}, rows[d].Rows...), rows[d].Total}
				}
			}
			events, err := r.CustomEvents(ctx, spans, 200)
			if err != nil {
				return nil, err
			}
			props, err := r.Props(ctx, spans, "signup", 200)
			out["events"], out["props"] = List[EventCount]{append([]EventCount{}, events.Rows...), events.Total}, List[PropCount]{append([]PropCount{}, props.Rows...), props.Total}
			return out, err
		}
		want, err := answers(rolled.eventReader)
		if err != nil {
			return err
		}
		got, err := answers(rolled)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("%s to %s (-events +rollups):\n%s", q.From, q.To, diff)
		}
		packed, err := rolled.columns(nil)
		if err != nil {
			return err
		}
		if got, err = answers(kept{packed}); err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("%s to %s (-events +columns):\n%s", q.From, q.To, diff)
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
}

func TestPackedCountsComeBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		counts := drawCounts(t, "counts")
		packed, err := packCounts(counts)
		if err != nil {
			t.Fatal(err)
		}
		back, err := unpackCounts(packed)
		if diff := cmp.Diff(append([]labelCount{}, counts...), back, cmp.AllowUnexported(labelCount{})); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
	})
}

func drawCounts(t *rapid.T, name string) []labelCount {
	number := rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64Range(0, 1<<40))
	drawn := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) labelCount {
		return labelCount{label: rapid.OneOf(rapid.Int64Range(0, 40), rapid.Int64Range(0, 1<<40)).Draw(t, "label"), visitors: number.Draw(t, "visitors"), pageviews: number.Draw(t, "pageviews")}
	}), 0, 30).Draw(t, name)
	return sortCounts(drawn)
}

func TestSummedCountsAreTheSumOfEachLabel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := map[int64][2]int64{}
		var lists [][]labelCount
		for range rapid.IntRange(0, 6).Draw(t, "lists") {
			counts := drawCounts(t, "list")
			lists = append(lists, counts)
			for _, c := range counts {
				sum := want[c.label]
				want[c.label] = [2]int64{sum[0] + c.visitors, sum[1] + c.pageviews}
			}
		}
		got := map[int64][2]int64{}
		last := int64(-1)
		for _, c := range sumCounts(lists) {
			if c.label <= last {
				t.Fatalf("label %d comes after %d", c.label, last)
			}
			last = c.label
			got[c.label] = [2]int64{c.visitors, c.pageviews}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzUnpackCounts(f *testing.F) {
	f.Add([]byte{1, 2, 3, 1, 0, 0})
	f.Add([]byte{0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		counts, err := unpackCounts(b)
		// A label of its own costs memory; such as no dictionary gives are left out.
		if len(counts) == 0 || counts[len(counts)-1].label < 1<<20 {
			var sums tally
			if tallied := sums.addPacked(b); (tallied == nil) != (err == nil) {
				t.Fatalf("unpacked: %v, added up: %v", err, tallied)
			}
			var added []labelCount
			sums.each(func(c labelCount) { added = append(added, c) })
			present := slices.DeleteFunc(slices.Clone(counts), func(c labelCount) bool { return c.visitors == 0 && c.pageviews == 0 })
			if err == nil && !slices.Equal(present, added) {
				t.Errorf("unpacked %v, added up %v", present, added)
			}
		}
		if err != nil {
			return
		}
		if _, err := packCounts(counts); err != nil {
			t.Errorf("%v can be read and not written: %v", counts, err)
		}
	})
}

func FuzzUnpackPortion(f *testing.F) {
	p := newPortion()
	p.traffic, p.hours[0] = Traffic{Pageviews: 2, Visitors: 1}, Traffic{Pageviews: 2, Visitors: 1}
	p.counts[countKey{dimension: ByPage}] = []labelCount{{label: 1, visitors: 1, pageviews: 2}}
	b, err := p.pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = unpackPortion(b) })
}

func TestADayRangeIsMadeOfFewBlocks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		day := time.Date(1985, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 365*50).Draw(t, "day"))
		for level := int16(0); level <= maxLevel; level++ {
			b := blockOver(level, day)
			if b.first.After(day) || b.last().Before(day) || calendar.DaysBetween(b.first, b.last()) != b.days()-1 {
				t.Fatalf("the block of level %d over %v is %v to %v", level, day, b.first, b.last())
			}
			if level > 0 && blockOver(level, blockOver(level-1, day).first) != b {
				t.Fatalf("blocks over %v do not nest", day)
			}
		}
	})
}

func TestADictionaryKeepsItsIDs(t *testing.T) {
	t.Parallel()
	d, site := dbtest.New(t), uuid.New()
	queries := dbsqlc.New()
	texts := []labelText{{label: "/a"}, {label: "a", value: "b"}, {label: "ab"}, {label: "(other)"}, {label: "a"}, {label: "é"}}
	var ids map[labelText]int64
	for round := range 2 {
		err := pgx.BeginFunc(t.Context(), d.Pool(), func(tx pgx.Tx) error {
			if _, err := queries.LockRollupSite(t.Context(), tx, site); err != nil {
				return err
			}
			dict := newDictionary(queries, tx, site)
			if err := dict.intern(t.Context(), append(texts[:2+4*round:2+4*round], texts[0]), nil); err != nil {
				return err
			}
			for text, id := range ids {
				if dict.ids[text] != id {
					t.Errorf("%v had id %d and has %d", text, id, dict.ids[text])
				}
			}
			ids = dict.ids
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	distinct := map[int64]bool{}
	for _, id := range ids {
		distinct[id] = id > otherID
	}
	if len(ids) != len(texts) || len(distinct) != len(texts) || distinct[otherID] {
		t.Errorf("ids %v", ids)
	}
}
