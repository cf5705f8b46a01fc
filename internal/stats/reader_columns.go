package stats

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/columns"
	"github.com/waypost/waypost/internal/stats/session"
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
	alone bool // of a block of the day: there is no other
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
	// want adds what is read to w.
	want(w *columns.Wanted)
	// count takes a block of g's day, of which k is left.
	count(g spanGroup, b *columns.Block, k *marks)
	// done is called after the last block of a day.
	done(g spanGroup)
}

// counters count the same at once.
type counters []counter

func (c counters) want(w *columns.Wanted) {
	for _, each := range c {
		each.want(w)
	}
}

func (c counters) count(g spanGroup, b *columns.Block, k *marks) {
	for _, each := range c {
		each.count(g, b, k)
	}
}

func (c counters) done(g spanGroup) {
	for _, each := range c {
		each.done(g)
	}
}

// scan lets c count what filters leave of the days of groups.
func (r *columnReader) scan(ctx context.Context, groups []spanGroup, c counter) error {
	w := columns.Wanted{Labels: make([]bool, r.schema.Columns())}
	r.match.want(&w)
	c.want(&w)
	timed := w
	timed.Labels = slices.Clone(w.Labels)
	timed.Times, timed.Labels[columnOf(byEvent)] = true, true
	var packed, packedParts []spanGroup
	s := scanner{columnReader: r, counter: c, wanted: w}
	for _, g := range groups {
		switch {
		case g.trimmed:
			return session.ErrTrimmed
		case g.state != stateSealed || !g.packed:
			s.wanted = w
			if !g.whole() {
				s.wanted = timed
			}
			if err := s.scanOpen(ctx, g); err != nil {
				return err
			}
		case g.whole():
			packed = append(packed, g)
		default:
			packedParts = append(packedParts, g)
		}
	}
	s.wanted = w
	if err := s.scanPacked(ctx, packed); err != nil {
		return err
	}
	s.wanted = timed
	return s.scanPacked(ctx, packedParts)
}

// scanner goes through blocks.
type scanner struct {
	*columnReader
	counter counter
	wanted  columns.Wanted
	marks   marks
}

// take lets the counter count what is left of a block.
func (s *scanner) take(g spanGroup, b *columns.Block) {
	if b.Sessions() > 0 && s.match.mark(b, &s.marks) {
		s.counter.count(g, b, &s.marks)
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
func (s *scanner) scanOpen(ctx context.Context, g spanGroup) error {
	builder := columns.NewBuilderOf(s.schema, s.wanted.Labels)
	add := func(sessions []columns.Session) {
		builder.AddVisitor(sessions)
		if builder.Block().Events() >= defaultBlockEvents {
			s.take(g, builder.Block())
			builder.Reset()
		}
	}
	var err error
	if g.state == stateOpen {
		err = s.eachOpen(ctx, g, add)
	} else {
		err = eachVisits(ctx, s.queries, s.tx, s.siteID, g.siteDay, func(visitors []int64, visits map[int64][]rawVisit) error {
			return s.addVisits(ctx, g, visitors, visits, add)
		})
	}
	if err != nil {
		return err
	}
	s.take(g, builder.Block())
	s.counter.done(g)
	return nil
}

func (s *scanner) addVisits(ctx context.Context, g spanGroup, visitors []int64, visits map[int64][]rawVisit, add func([]columns.Session)) error {
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
			sessions = append(sessions, v.resolve(s.labels, g.Start))
		}
		if len(sessions) > 0 {
			add(sessions)
		}
	}
	return nil
}

// eachOpen calls add for all visitors of an open day.
func (s *scanner) eachOpen(ctx context.Context, g spanGroup, add func([]columns.Session)) error {
	var stale []int64
	if g.stale {
		var err error
		if stale, err = s.queries.ListStaleVisitors(ctx, s.tx, s.siteID, g.Date, allRows); err != nil {
			return err
		}
	}
	changed := make(map[int64]bool, len(stale))
	for _, v := range stale {
		changed[v] = true
	}
	// By hand, as listColumns, so that nothing is copied out of the driver's buffer.
	const listVisitors = `select visitor, sessions from rollup_visitors where site_id = $1 and day = $2`
	rows, err := s.tx.Query(ctx, listVisitors, s.siteID, g.Date)
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
		if visits, err = loadVisits(ctx, s.queries, s.tx, s.siteID, g.siteDay, some); err == nil {
			err = s.addVisits(ctx, g, some, visits, add)
		}
	}
	return err
}
