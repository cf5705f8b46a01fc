package stats

import (
	"context"
	"time"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/session"
)

// rollupDay is a day of the calendar with its rollups' totals.
type rollupDay struct {
	siteDay
	state       string
	packed      bool      // sealed, and stored as columns
	trimmed     bool      // its events are gone
	stale       bool      // has visitors yet to be folded
	first, last time.Time // of the events counted; zero without any
	traffic     Traffic
	sessions    SessionTotals
	hours       []time.Time // the starts of its hours; nil until asked for
	open        *openDay    // what to add, of an open day; nil until asked for
}

// openDay puts an open day's rollups right: they lack what the stale visitors
// did since they were folded.
type openDay struct {
	tooMany bool // to be put right one by one
	portion      // without counts
	raw     map[int64]*rawPortion
	former  []portion
	counts  map[countKey][]labelCount // nil until asked for
}

// rollupReader answers from rollups where a span is a whole day, or an hour of
// one, or holds all that happened in one, and from events everywhere else.
type rollupReader struct {
	eventReader
	days     map[time.Time]*rollupDay
	maxStale int // that are put right; with more, the day is read from its events
	labels   *dictionary
	// maxEvents is how many more events may be read, by estimate.
	maxEvents int64
	window    int64 // ServiceOptions.Window
}

// uncounted stands for the events of a day that are not in its rollups yet: more
// than any limit.
const uncounted = 1 << 40

// events returns what reads the events of spans, or errManyEvents.
func (r *rollupReader) events(spans []calendar.Span) (eventReader, error) {
	for _, s := range spans {
		d := r.days[s.Day]
		if d == nil {
			continue // a day without events
		}
		if d.trimmed && s.From.Before(s.To) {
			return eventReader{}, session.ErrTrimmed
		}
		if d.open != nil && d.open.tooMany {
			r.maxEvents -= uncounted
		}
		r.maxEvents -= d.eventsIn(s)
	}
	if r.maxEvents < 0 {
		return eventReader{}, errManyEvents
	}
	return r.eventReader, nil
}

// eventsIn is how many of the day's events lie in s, as if they were spread evenly
// between its first and its last.
func (d *rollupDay) eventsIn(s calendar.Span) int64 {
	whole := d.last.Sub(d.first)
	if d.first.IsZero() || whole <= 0 {
		return d.traffic.Pageviews
	}
	part := calendar.Earlier(s.To, d.last).Sub(calendar.Later(s.From, d.first))
	return int64(float64(d.traffic.Pageviews) * max(0, part.Seconds()) / whole.Seconds())
}

func newRollupDay(row dbsqlc.ListRollupDaysRow, zones calendar.Zones) *rollupDay {
	d := &rollupDay{
		state: row.State, packed: row.Packed, trimmed: row.Trimmed, stale: row.Stale,
		siteDay: siteDay{Day: calendar.Day{Date: row.Day.UTC(), Start: row.StartsAt.UTC(), End: row.EndsAt.UTC()}},
	}
	d.zone = zones.At(d.Start)
	if row.FirstAt != nil {
		d.first, d.last = row.FirstAt.UTC(), row.LastAt.UTC()
		d.traffic, d.sessions = rollupTotals(row)
	}
	return d
}

// of returns the day of s when its rollups can be used, put right by openDay,
// and otherwise nil.
func (r *rollupReader) of(ctx context.Context, s calendar.Span) (*rollupDay, error) {
	d := r.days[s.Day]
	switch {
	case d == nil:
		return nil, nil
	case d.state == stateSealed:
		return d, nil
	case d.state != stateOpen:
		return nil, nil
	}
	if d.open == nil {
		if err := r.putRight(ctx, d); err != nil {
			return nil, err
		}
	}
	if d.open.tooMany {
		return nil, nil
	}
	return d, nil
}

// putRight loads what stale visitors did and adds it to d's totals.
func (r *rollupReader) putRight(ctx context.Context, d *rollupDay) error {
	if !d.stale {
		d.open = &openDay{portion: newPortion()}
		return nil
	}
	visitors, err := r.queries.ListStaleVisitors(ctx, r.tx, r.siteID, d.Date, int32(r.maxStale)+1)
	if err != nil {
		return err
	}
	o := &openDay{portion: newPortion(), tooMany: len(visitors) > r.maxStale}
	d.open = o
	if len(visitors) == 0 || o.tooMany {
		return nil
	}
	if o.raw, err = loadPortions(ctx, r.queries, r.tx, r.siteID, d.siteDay, visitors); err != nil {
		return err
	}
	rows, err := r.queries.ListVisitorPortions(ctx, r.tx, r.siteID, d.Date, visitors)
	if err != nil {
		return err
	}
	for _, row := range rows {
		p, err := unpackPortion(row.Portion)
		if err != nil {
			return err
		}
		o.former = append(o.former, p)
		o.add(portion{traffic: p.traffic, sessions: p.sessions, hours: p.hours}, -1)
	}
	for _, raw := range o.raw {
		o.add(raw.portion, 1)
	}
	d.traffic, d.sessions = d.traffic.plus(o.traffic, 1), d.sessions.plus(o.sessions, 1)
	if !o.first.IsZero() {
		if d.first.IsZero() || o.first.Before(d.first) {
			d.first = o.first
		}
		d.last = calendar.Later(d.last, o.last)
	}
	return nil
}

// holds reports whether s has everything that happened on d.
func (d *rollupDay) holds(s calendar.Span) bool {
	if d.first.IsZero() {
		return true
	}
	fromStart := !s.From.After(d.Start) || !s.From.After(d.first)
	toEnd := !s.To.Before(d.End) || s.To.After(d.last)
	return fromStart && toEnd
}

// hour returns the start of the hour that s is, as portion.hours has it.
func (d *rollupDay) hour(s calendar.Span) (int64, bool) {
	if d.hours == nil {
		d.hours = d.Day.Hours(d.zone)
	}
	for i, start := range d.hours {
		if !start.Equal(s.From) {
			continue
		}
		end := d.End
		if i+1 < len(d.hours) {
			end = d.hours[i+1]
		}
		return start.UnixMicro(), s.To.Equal(end) || s.To.Before(end) && s.To.After(d.last)
	}
	return 0, false
}

// Traffic is that of Reader, at once.
func (r *rollupReader) Traffic(ctx context.Context, spans []calendar.Span) ([]Traffic, error) {
	out := make([]Traffic, len(spans))
	var hours, events []int
	for i, s := range spans {
		d, err := r.of(ctx, s)
		if err != nil {
			return nil, err
		}
		if d == nil {
			events = append(events, i)
		} else if d.holds(s) {
			out[i] = d.traffic
		} else if _, one := d.hour(s); one {
			hours = append(hours, i)
		} else {
			events = append(events, i)
		}
	}
	missing, err := r.hourTraffic(ctx, spans, hours, out)
	if err != nil {
		return nil, err
	}
	events = append(events, missing...)
	reader, err := r.events(pick(spans, events))
	if err != nil {
		return nil, err
	}
	found, err := reader.Traffic(ctx, pick(spans, events))
	for i, t := range found {
		out[events[i]] = t
	}
	return out, err
}

// hourTraffic sets out for the spans of indices, which are hours, and returns
// those that no rollup has.
func (r *rollupReader) hourTraffic(ctx context.Context, spans []calendar.Span, indices []int, out []Traffic) ([]int, error) {
	if len(indices) == 0 {
		return nil, nil
	}
	first, last := spans[indices[0]].Day, spans[indices[len(indices)-1]].Day
	rows, err := r.queries.ListRollupHours(ctx, r.tx, r.siteID, first, last)
	if err != nil {
		return nil, err
	}
	stored := make(map[int64]Traffic, len(rows))
	for _, row := range rows {
		stored[row.StartsAt.UnixMicro()] = Traffic{Pageviews: row.Pageviews, Visitors: row.Visitors}
	}
	var missing []int
	for _, i := range indices {
		d := r.days[spans[i].Day]
		start, _ := d.hour(spans[i])
		t, found := stored[start]
		// A day without any folded visitor has no rows.
		if !found && d.open == nil {
			missing = append(missing, i)
			continue
		}
		if d.open != nil {
			t = t.plus(d.open.hours[start], 1)
		}
		out[i] = t
	}
	return missing, nil
}

// Sessions is that of Reader, at once.
func (r *rollupReader) Sessions(ctx context.Context, spans []calendar.Span) ([]SessionTotals, error) {
	out := make([]SessionTotals, len(spans))
	whole, events, err := r.split(ctx, spans)
	if err != nil {
		return nil, err
	}
	for _, i := range whole {
		out[i] = r.days[spans[i].Day].sessions
	}
	reader, err := r.events(pick(spans, events))
	if err != nil {
		return nil, err
	}
	found, err := reader.Sessions(ctx, pick(spans, events))
	for i, s := range found {
		out[events[i]] = s
	}
	return out, err
}

// split returns the indices of the spans that rollups answer for, and the others.
func (r *rollupReader) split(ctx context.Context, spans []calendar.Span) ([]int, []int, error) {
	var whole, events []int
	for i, s := range spans {
		d, err := r.of(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		if d != nil && d.holds(s) {
			whole = append(whole, i)
		} else {
			events = append(events, i)
		}
	}
	return whole, events, nil
}

func pick[T any](from []T, indices []int) []T {
	out := make([]T, len(indices))
	for i, at := range indices {
		out[i] = from[at]
	}
	return out
}
