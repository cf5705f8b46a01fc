package stats

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/columns"
)

// columnReader answers with filters. Sealed days are read as the columns that were packed
// of them, and no more of these than a question needs; of open days the visitors that
// were folded are read as they were packed, and all else from sessions and events.
type columnReader struct {
	queries  *dbsqlc.Queries
	tx       pgx.Tx
	siteID   uuid.UUID
	labelCap int
	caps     EventCaps
	days     map[time.Time]*rollupDay
	labels   *dictionary
	match    *matcher
	schema   columns.Schema
	window   int64 // ServiceOptions.Window
	asked    []ask // since the last scan
}

func newColumnReader(ctx context.Context, r columnReader, filters Filters) (*columnReader, error) {
	r.schema = schema()
	var err error
	r.match, err = newMatcher(ctx, r.labels, filters)
	return &r, err
}

// spanGroup is spans of one day, in order, which follow each other in a list of spans.
type spanGroup struct {
	*rollupDay
	first int // of spans in that list
	spans []calendar.Span
	alone bool // while one of its blocks is counted: there is no other
}

// whole reports whether g is just the whole day.
func (g spanGroup) whole() bool { return len(g.spans) == 1 && g.spans[0].Whole }

// groups puts the spans of each day together; a day without traffic has none.
func (r *columnReader) groups(spans []calendar.Span) []spanGroup {
	var out []spanGroup
	for i, s := range spans {
		if n := len(out); n > 0 && out[n-1].Date.Equal(s.Day) && out[n-1].first+len(out[n-1].spans) == i {
			out[n-1].spans = spans[out[n-1].first : i+1]
			continue
		}
		if d := r.days[s.Day]; d != nil {
			out = append(out, spanGroup{rollupDay: d, first: i, spans: spans[i : i+1]})
		}
	}
	return out
}

// singles is groups with each span by itself.
func (r *columnReader) singles(spans []calendar.Span) []spanGroup {
	var out []spanGroup
	for i, s := range spans {
		if d := r.days[s.Day]; d != nil {
			out = append(out, spanGroup{rollupDay: d, first: i, spans: spans[i : i+1]})
		}
	}
	return out
}

// counter counts what is left of one day after another.
type counter interface {
	// begin is called before the first day, to look up what labels are compared with.
	begin(ctx context.Context, labels *dictionary) error
	// want adds what is read to w.
	want(w *columns.Wanted)
	// count takes a block of g's day, of which k is left.
	count(g spanGroup, b *columns.Block, k *marks)
	// done is called after the last block of a day.
	done(g spanGroup)
}

// ask asks a counter to count days.
type ask struct {
	counter
	groups []spanGroup
}

// ask has c count the days of groups with the next scan.
func (r *columnReader) ask(groups []spanGroup, c counter) { r.asked = append(r.asked, ask{c, groups}) }

// fetch has everything counted that was asked since the last scan.
func (r *columnReader) fetch(ctx context.Context) error {
	if len(r.asked) == 0 {
		return nil
	}
	if err := r.scan(ctx, r.asked...); err != nil {
		return err
	}
	r.asked = nil
	return nil
}

// scanner goes through blocks.
type scanner struct {
	*columnReader
	wanted columns.Wanted
	marks  marks
}

// take lets the counters of a day count what is left of a block; alone says that the day has
// no other.
func (s *scanner) take(d dayAsks, b *columns.Block, alone bool) {
	if b.Sessions() == 0 || !s.match.mark(b, &s.marks) {
		return
	}
	for _, of := range d.counts {
		of.group.alone = alone
		of.count(of.group, b, &s.marks)
	}
}

// know gives a text of a block an id for this answer.
func (s *scanner) know(t columns.Text) int64 {
	text := labelText{label: t.Label, value: t.Value}
	id, known := s.labels.ids[text]
	if !known {
		s.labels.unknown--
		id = s.labels.unknown
		s.labels.know(text, id)
	}
	return id
}

// defaultBlockEvents is how many events a block has at least, but for a day's last.
const defaultBlockEvents = 1 << 15

// scanOpen goes through a day that isn't packed.
func (s *scanner) scanOpen(ctx context.Context, d dayAsks) error {
	builder := columns.NewBuilderOf(s.schema, s.wanted.Labels)
	add := func(sessions []columns.Session) {
		builder.AddVisitor(sessions)
		if builder.Block().Events() >= defaultBlockEvents {
			s.take(d, builder.Block(), false)
			builder.Reset()
		}
	}
	var err error
	if d.state == stateOpen {
		err = s.eachOpen(ctx, d.rollupDay, add)
	} else {
		err = eachVisits(ctx, s.queries, s.tx, s.siteID, d.siteDay, func(visitors []int64, visits map[int64][]rawVisit) error {
			return s.addVisits(ctx, d.rollupDay, visitors, visits, add)
		})
	}
	if err != nil {
		return err
	}
	s.take(d, builder.Block(), false)
	d.done()
	return nil
}

func (s *scanner) addVisits(ctx context.Context, d *rollupDay, visitors []int64, visits map[int64][]rawVisit, add func([]columns.Session)) error {
	var texts []labelText
	for _, of := range visits {
		for _, v := range of {
			texts = v.texts(texts)
		}
	}
	if err := s.labels.find(ctx, texts); err != nil {
		return err
	}
	for _, visitor := range visitors {
		var sessions []columns.Session
		for _, v := range visits[visitor] {
			sessions = append(sessions, v.resolve(s.labels, d.Start))
		}
		if len(sessions) > 0 {
			add(sessions)
		}
	}
	return nil
}

// eachOpen calls add for all visitors of an open day.
func (s *scanner) eachOpen(ctx context.Context, d *rollupDay, add func([]columns.Session)) error {
	var stale []int64
	if d.stale {
		var err error
		if stale, err = s.queries.ListStaleVisitors(ctx, s.tx, s.siteID, d.Date, allRows); err != nil {
			return err
		}
	}
	changed := make(map[int64]bool, len(stale))
	for _, v := range stale {
		changed[v] = true
	}
	// By hand, as listColumns, so that nothing is copied out of the driver's buffer.
	const listVisitors = `select visitor, sessions from rollup_visitors where site_id = $1 and day = $2`
	rows, err := s.tx.Query(ctx, listVisitors, s.siteID, d.Date)
	if err != nil {
		return err
	}
	visitors := columns.NewVisitors(s.schema)
	var visitor int64
	var packed pgtype.DriverBytes
	_, err = pgx.ForEachRow(rows, []any{&visitor, &packed}, func() error {
		switch {
		case changed[visitor]:
			return nil
		case packed == nil:
			stale = append(stale, visitor)
			return nil
		}
		sessions, err := visitors.Read(packed)
		if err == nil && len(sessions) > 0 {
			add(sessions)
		}
		return err
	})
	for len(stale) > 0 && err == nil {
		some := stale[:min(len(stale), visitsPerRead)]
		stale = stale[len(some):]
		var visits map[int64][]rawVisit
		if visits, err = loadVisits(ctx, s.queries, s.tx, s.siteID, d.siteDay, some); err == nil {
			err = s.addVisits(ctx, d, some, visits, add)
		}
	}
	return err
}
