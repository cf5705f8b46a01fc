package stats

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/stats/calendar"
)

// Promise is an answer that is worked out when it is asked for.
type Promise[T any] func(ctx context.Context) (T, error)

// Reader answers questions about the spans of one site's plan, all from one snapshot.
// Nothing is read before the first promise is kept: what was asked until then may be
// answered together, from one look at the data. The calendar, the definitions of window and
// bucket, and the ratios are above Reader, so that another store has to implement only this
// interface.
type Reader interface {
	// Traffic returns what happened inside each span, one element per span.
	Traffic(spans []calendar.Span) Promise[[]Traffic]
	// Sessions returns the sessions that start inside each span, one element per span.
	Sessions(spans []calendar.Span) Promise[[]SessionTotals]
	// Breakdowns returns, for each dimension, the first limit labels of the spans'
	// sum: visitors descending, pageviews descending, label ascending by bytes
	// (ByPage: pageviews first), (other) last. Empty labels are left out.
	Breakdowns(spans []calendar.Span, dimensions []Dimension, limit int) Promise[map[Dimension]List[Row]]
	// CustomEvents returns the first limit names: count descending, name ascending.
	CustomEvents(spans []calendar.Span, limit int) Promise[List[EventCount]]
	// Props returns the first limit pairs of the event name: count descending, key
	// and value ascending.
	Props(spans []calendar.Span, name string, limit int) Promise[List[PropCount]]
	// Visits returns the sessions that start inside the spans by their labels in dimensions
	// of sessions.
	Visits(spans []calendar.Span, dimensions []Dimension) Promise[map[Dimension]VisitsByLabel]
}

// VisitsByLabel are whole sessions by their labels in a dimension.
type VisitsByLabel interface {
	// Of returns those with one of labels. "" are those without a label, (other) those whose
	// label Breakdowns has no row for.
	Of(ctx context.Context, labels []string) (map[string]LabelVisits, error)
	// Unlabelled is the row that Breakdowns leaves out: those without a label. Where there
	// are none, its numbers are 0.
	Unlabelled() Row
}

// List is the first rows of a list, and how many rows the whole list has.
type List[T any] struct {
	Rows  []T
	Total int64
}

// LabelVisits are sessions with a label, whole.
type LabelVisits struct {
	SessionTotals
	Pageviews int64
}

// Traffic is what happened inside a span. Visitors are distinct within it, by
// pageviews and custom events alike.
type Traffic struct {
	Pageviews, Visitors int64
}

// SessionTotals are the sessions that start inside a span.
type SessionTotals struct {
	Sessions int64
	Bounces  int64 // exactly one pageview, no custom event
	Micros   int64 // sum of last minus first event, in microseconds: a time.Duration holds only 292 years
}

// eventReader answers from the events and sessions themselves.
type eventReader struct {
	queries *dbsqlc.Queries
	tx      pgx.Tx
	siteID  uuid.UUID
	// labelCap is how many labels of a dimension keep their name in each span.
	labelCap int
	caps     EventCaps
}

// EventCaps bound what is kept of the custom events of a site day: names, keys of each of
// them and values of each of these; the rest reads (other). A zero takes the default.
type EventCaps struct {
	Names  int // default 1,000
	Keys   int // default 30
	Values int // default 200
}

func (c EventCaps) withDefaults() EventCaps {
	return EventCaps{Names: cmp.Or(c.Names, 1000), Keys: cmp.Or(c.Keys, 30), Values: cmp.Or(c.Values, 200)}
}

func bounds(spans []calendar.Span) ([]time.Time, []time.Time) {
	starts, ends := make([]time.Time, len(spans)), make([]time.Time, len(spans))
	for i, s := range spans {
		starts[i], ends[i] = s.From, s.To
	}
	return starts, ends
}

func (r eventReader) Traffic(ctx context.Context, spans []calendar.Span) ([]Traffic, error) {
	out := make([]Traffic, len(spans))
	if len(spans) == 0 {
		return out, nil
	}
	starts, ends := bounds(spans)
	rows, err := r.queries.CountTraffic(ctx, r.tx, starts, ends, r.siteID)
	for _, row := range rows {
		out[row.Ordinal-1] = Traffic{Pageviews: row.Pageviews, Visitors: row.Visitors}
	}
	return out, err
}

func (r eventReader) Sessions(ctx context.Context, spans []calendar.Span) ([]SessionTotals, error) {
	out := make([]SessionTotals, len(spans))
	if len(spans) == 0 {
		return out, nil
	}
	starts, ends := bounds(spans)
	rows, err := r.queries.CountSessions(ctx, r.tx, starts, ends, r.siteID)
	for _, row := range rows {
		out[row.Ordinal-1] = SessionTotals{Sessions: row.Sessions, Bounces: row.Bounces, Micros: row.DurationUs}
	}
	return out, err
}

func (r eventReader) Breakdowns(ctx context.Context, spans []calendar.Span, dimensions []Dimension, limit int) (map[Dimension]List[Row], error) {
	out := make(map[Dimension]List[Row], len(dimensions))
	if len(spans) == 0 {
		return out, nil
	}
	var ofSessions []string
	for _, d := range dimensions {
		if d != ByPage {
			ofSessions = append(ofSessions, string(d))
			continue
		}
		rows, err := r.pages(ctx, spans, limit)
		if err != nil {
			return nil, err
		}
		out[d] = rows
	}
	if len(ofSessions) == 0 {
		return out, nil
	}
	return out, r.sessionLabels(ctx, spans, ofSessions, limit, out)
}

func (r eventReader) pages(ctx context.Context, spans []calendar.Span, limit int) (List[Row], error) {
	starts, ends := bounds(spans)
	rows, err := r.queries.RankPages(ctx, r.tx, dbsqlc.RankPagesParams{
		Starts: starts, Ends: ends, SiteID: r.siteID, LabelCap: int32(r.labelCap), MaxRows: int32(limit),
	})
	out := List[Row]{Rows: make([]Row, len(rows))}
	for i, row := range rows {
		out.Rows[i], out.Total = Row{Label: row.Label, Visitors: row.Visitors, Pageviews: row.Pageviews}, row.Total
	}
	return out, err
}

func (r eventReader) CustomEvents(ctx context.Context, spans []calendar.Span, limit int) (List[EventCount], error) {
	if len(spans) == 0 {
		return List[EventCount]{}, nil
	}
	starts, ends := bounds(spans)
	rows, err := r.queries.CountCustomEvents(ctx, r.tx, dbsqlc.CountCustomEventsParams{
		Starts: starts, Ends: ends, SiteID: r.siteID, NameCap: int32(r.caps.Names), MaxRows: int32(limit),
	})
	out := List[EventCount]{Rows: make([]EventCount, len(rows))}
	for i, row := range rows {
		out.Rows[i], out.Total = EventCount{Name: row.Name, Count: row.Count, Visitors: row.Visitors}, row.Total
	}
	return out, err
}

func (r eventReader) Props(ctx context.Context, spans []calendar.Span, name string, limit int) (List[PropCount], error) {
	if len(spans) == 0 {
		return List[PropCount]{}, nil
	}
	starts, ends := bounds(spans)
	rows, err := r.queries.CountEventProps(ctx, r.tx, dbsqlc.CountEventPropsParams{
		Starts: starts, Ends: ends, SiteID: r.siteID, Name: name, KeyCap: int32(r.caps.Keys), ValueCap: int32(r.caps.Values), MaxRows: int32(limit),
	})
	out := List[PropCount]{Rows: make([]PropCount, len(rows))}
	for i, row := range rows {
		out.Rows[i], out.Total = PropCount{Key: row.Key, Value: row.Value, Count: row.Count}, row.Total
	}
	return out, err
}
