package stats

import (
	"context"

	"github.com/waypost/waypost/internal/stats/calendar"
)

// promised makes a Reader of a rollupReader, which answers each question by itself.
type promised struct{ from *rollupReader }

// Traffic implements Reader.
func (p promised) Traffic(spans []calendar.Span) Promise[[]Traffic] {
	return func(ctx context.Context) ([]Traffic, error) { return p.from.Traffic(ctx, spans) }
}

// Sessions implements Reader.
func (p promised) Sessions(spans []calendar.Span) Promise[[]SessionTotals] {
	return func(ctx context.Context) ([]SessionTotals, error) { return p.from.Sessions(ctx, spans) }
}

// Breakdowns implements Reader.
func (p promised) Breakdowns(spans []calendar.Span, dimensions []Dimension, limit int) Promise[map[Dimension]List[Row]] {
	return func(ctx context.Context) (map[Dimension]List[Row], error) {
		return p.from.Breakdowns(ctx, spans, dimensions, limit)
	}
}

// CustomEvents implements Reader.
func (p promised) CustomEvents(spans []calendar.Span, limit int) Promise[List[EventCount]] {
	return func(ctx context.Context) (List[EventCount], error) { return p.from.CustomEvents(ctx, spans, limit) }
}

// Props implements Reader.
func (p promised) Props(spans []calendar.Span, name string, limit int) Promise[List[PropCount]] {
	return func(ctx context.Context) (List[PropCount], error) { return p.from.Props(ctx, spans, name, limit) }
}

// Visits implements Reader: rollups have no sessions by label, nor those without one.
func (p promised) Visits(spans []calendar.Span, dimensions []Dimension) Promise[map[Dimension]VisitsByLabel] {
	return func(ctx context.Context) (map[Dimension]VisitsByLabel, error) {
		r, err := p.from.columns(spans)
		if err != nil {
			return nil, err
		}
		return r.Visits(spans, dimensions)(ctx)
	}
}

// columns reads columns without a filter.
func (r *rollupReader) columns(spans []calendar.Span) (*columnReader, error) {
	if _, err := r.events(spans); err != nil {
		return nil, err
	}
	return &columnReader{
		queries: r.queries, tx: r.tx, siteID: r.siteID, labelCap: r.labelCap, caps: r.caps, days: r.days, labels: r.labels, window: r.window,
		match: &matcher{labels: r.labels}, schema: schema(),
	}, nil
}
