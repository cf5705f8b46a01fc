package stats

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
)

// Reader answers questions about the spans of one site's plan, all from one snapshot.
// The calendar, the definitions of window and bucket, and the ratios are above Reader,
// so that another store has to implement only this interface.
type Reader interface {
	// Traffic returns what happened inside each span, one element per span.
	Traffic(ctx context.Context, spans []DaySpan) ([]Traffic, error)
	// Sessions returns the sessions that start inside each span, one element per span.
	Sessions(ctx context.Context, spans []DaySpan) ([]SessionTotals, error)
	// Breakdowns returns, for each dimension, the first limit labels of the spans'
	// sum: visitors descending, pageviews descending, label ascending by bytes
	// (ByPage: pageviews first), (other) last. Empty labels are left out.
	Breakdowns(ctx context.Context, spans []DaySpan, dimensions []Dimension, limit int) (map[Dimension][]Row, error)
	// CustomEvents returns the first limit names: count descending, name ascending.
	CustomEvents(ctx context.Context, spans []DaySpan, limit int) ([]EventCount, error)
	// Props returns the first limit pairs of the event name: count descending, key
	// and value ascending.
	Props(ctx context.Context, spans []DaySpan, name string, limit int) ([]PropCount, error)
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
}

func bounds(spans []DaySpan) ([]time.Time, []time.Time) {
	starts, ends := make([]time.Time, len(spans)), make([]time.Time, len(spans))
	for i, s := range spans {
		starts[i], ends[i] = s.From, s.To
	}
	return starts, ends
}

func (r eventReader) Traffic(ctx context.Context, spans []DaySpan) ([]Traffic, error) {
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

func (r eventReader) Sessions(ctx context.Context, spans []DaySpan) ([]SessionTotals, error) {
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

func (r eventReader) Breakdowns(ctx context.Context, spans []DaySpan, dimensions []Dimension, limit int) (map[Dimension][]Row, error) {
	out := make(map[Dimension][]Row, len(dimensions))
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
	starts, ends := bounds(spans)
	rows, err := r.queries.RankSessionLabels(ctx, r.tx, dbsqlc.RankSessionLabelsParams{
		Starts: starts, Ends: ends, SiteID: r.siteID,
		Dimensions: ofSessions, LabelCap: int32(r.labelCap), MaxRows: int32(limit),
	})
	for _, row := range rows {
		d := Dimension(row.Dimension)
		out[d] = append(out[d], Row{Label: row.Label, Visitors: row.Visitors, Pageviews: row.Pageviews})
	}
	return out, err
}

func (r eventReader) pages(ctx context.Context, spans []DaySpan, limit int) ([]Row, error) {
	starts, ends := bounds(spans)
	rows, err := r.queries.RankPages(ctx, r.tx, dbsqlc.RankPagesParams{
		Starts: starts, Ends: ends, SiteID: r.siteID, LabelCap: int32(r.labelCap), MaxRows: int32(limit),
	})
	out := make([]Row, len(rows))
	for i, row := range rows {
		out[i] = Row{Label: row.Label, Visitors: row.Visitors, Pageviews: row.Pageviews}
	}
	return out, err
}

func (r eventReader) CustomEvents(ctx context.Context, spans []DaySpan, limit int) ([]EventCount, error) {
	if len(spans) == 0 {
		return nil, nil
	}
	starts, ends := bounds(spans)
	rows, err := r.queries.CountCustomEvents(ctx, r.tx, dbsqlc.CountCustomEventsParams{
		Starts: starts, Ends: ends, SiteID: r.siteID, MaxRows: int32(limit),
	})
	out := make([]EventCount, len(rows))
	for i, row := range rows {
		out[i] = EventCount{Name: row.Name, Count: row.Count, Visitors: row.Visitors}
	}
	return out, err
}

func (r eventReader) Props(ctx context.Context, spans []DaySpan, name string, limit int) ([]PropCount, error) {
	if len(spans) == 0 {
		return nil, nil
	}
	starts, ends := bounds(spans)
	rows, err := r.queries.CountEventProps(ctx, r.tx, dbsqlc.CountEventPropsParams{
		Starts: starts, Ends: ends, SiteID: r.siteID, Name: name, MaxRows: int32(limit),
	})
	out := make([]PropCount, len(rows))
	for i, row := range rows {
		out[i] = PropCount{Key: row.Key, Value: row.Value, Count: row.Count}
	}
	return out, err
}
