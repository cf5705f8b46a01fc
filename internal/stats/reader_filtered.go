package stats

import (
	"context"
	"maps"
	"slices"

	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/columns"
)

// Traffic implements Reader.
func (r *columnReader) Traffic(ctx context.Context, spans []calendar.Span) ([]Traffic, error) {
	c := totalsCounter{traffic: make([]Traffic, len(spans))}
	return c.traffic, r.scan(ctx, r.groups(spans), &c)
}

// Sessions implements Reader.
func (r *columnReader) Sessions(ctx context.Context, spans []calendar.Span) ([]SessionTotals, error) {
	_, sessions, err := r.Totals(ctx, spans)
	return sessions, err
}

// Totals is Traffic and Sessions at once.
func (r *columnReader) Totals(ctx context.Context, spans []calendar.Span) ([]Traffic, []SessionTotals, error) {
	c := totalsCounter{traffic: make([]Traffic, len(spans)), sessions: make([]SessionTotals, len(spans))}
	return c.traffic, c.sessions, r.scan(ctx, r.groups(spans), &c)
}

// Breakdowns implements Reader.
func (r *columnReader) Breakdowns(ctx context.Context, spans []calendar.Span, dimensions []Dimension, limit int) (map[Dimension]List[Row], error) {
	sums, err := r.countLabels(ctx, spans, dimensions, r.labelCap)
	if err != nil {
		return nil, err
	}
	out := make(map[Dimension]List[Row], len(dimensions))
	for i, d := range dimensions {
		ranked, err := r.rank(ctx, d, sums[i], limit)
		if err != nil {
			return nil, err
		}
		rows := make([]Row, len(ranked.Rows))
		for i, c := range ranked.Rows {
			rows[i] = Row{Label: r.text(c.label), Visitors: c.visitors, Pageviews: c.pageviews}
		}
		out[d] = List[Row]{rows, ranked.Total}
	}
	return out, nil
}

// CustomEvents implements Reader.
func (r *columnReader) CustomEvents(ctx context.Context, spans []calendar.Span, limit int) (List[EventCount], error) {
	sums, err := r.countLabels(ctx, spans, []Dimension{byEvent}, r.caps.Names)
	if err != nil {
		return List[EventCount]{}, err
	}
	return r.rankEvents(ctx, sums[0], limit)
}

func (r *columnReader) rankEvents(ctx context.Context, sum *tally, limit int) (List[EventCount], error) {
	ranked, err := r.rank(ctx, byEvent, sum, limit)
	out := List[EventCount]{make([]EventCount, len(ranked.Rows)), ranked.Total}
	for i, c := range ranked.Rows {
		out.Rows[i] = EventCount{Name: r.text(c.label), Count: c.pageviews, Visitors: c.visitors}
	}
	return out, err
}

// Props implements Reader.
func (r *columnReader) Props(ctx context.Context, spans []calendar.Span, name string, limit int) (List[PropCount], error) {
	c, err := r.newPropCounter(ctx, name)
	if err != nil {
		return List[PropCount]{}, err
	}
	if err := r.scan(ctx, r.singles(spans), c); err != nil {
		return List[PropCount]{}, err
	}
	return r.rankProps(ctx, c, limit)
}

func (r *columnReader) newPropCounter(ctx context.Context, name string) (*propCounter, error) {
	event := labelText{label: name}
	err := r.labels.find(ctx, []labelText{event})
	return &propCounter{event: r.labels.ids[event], sum: &tally{}, few: min(r.caps.Keys, r.caps.Values)}, err
}

func (r *columnReader) rankProps(ctx context.Context, c *propCounter, limit int) (List[PropCount], error) {
	if c.tooMany {
		return List[PropCount]{}, ErrTooExpensive
	}
	for _, day := range c.many {
		capped, err := r.labels.capProps(ctx, day, r.caps)
		if err != nil {
			return List[PropCount]{}, err
		}
		for _, n := range capped {
			c.sum.add(n)
		}
	}
	ranked, err := r.rank(ctx, byProp, c.sum, limit)
	out := List[PropCount]{make([]PropCount, len(ranked.Rows)), ranked.Total}
	for i, c := range ranked.Rows {
		t := r.labels.texts[c.label]
		out.Rows[i] = PropCount{Key: t.label, Value: t.value, Count: c.pageviews}
	}
	return out, err
}

// EventsAndProps is CustomEvents and Props at once.
func (r *columnReader) EventsAndProps(ctx context.Context, spans []calendar.Span, name string, limit int) (List[EventCount], List[PropCount], error) {
	none := func(err error) (List[EventCount], List[PropCount], error) {
		return List[EventCount]{}, List[PropCount]{}, err
	}
	ofProps, err := r.newPropCounter(ctx, name)
	if err != nil {
		return none(err)
	}
	sums, err := r.countLabels(ctx, spans, []Dimension{byEvent}, r.caps.Names, ofProps)
	if err != nil {
		return none(err)
	}
	events, err := r.rankEvents(ctx, sums[0], limit)
	if err != nil {
		return none(err)
	}
	props, err := r.rankProps(ctx, ofProps, limit)
	return events, props, err
}

// countLabels returns the labels of each dimension, of which labelCap keep their name on
// each day; 0 for all. Others count as well.
func (r *columnReader) countLabels(ctx context.Context, spans []calendar.Span, dimensions []Dimension, labelCap int, others ...counter) ([]*tally, error) {
	literal := labelText{label: other}
	if err := r.labels.find(ctx, []labelText{literal}); err != nil {
		return nil, err
	}
	c := newLabelCounter(dimensions, labelCap, r.labels.ids[literal])
	if err := r.scan(ctx, r.singles(spans), append(counters{c}, others...)); err != nil {
		return nil, err
	}
	for i, d := range dimensions {
		for _, g := range c.crowded[d] {
			if err := r.countCrowded(ctx, g, d, c, c.sums[i]); err != nil {
				return nil, err
			}
		}
	}
	return c.sums, nil
}

// countCrowded adds a day with more labels than the cap to sum.
func (r *columnReader) countCrowded(ctx context.Context, g spanGroup, d Dimension, of *labelCounter, sum *tally) error {
	all := newLabelCounter([]Dimension{d}, 0, of.otherText)
	if err := r.scan(ctx, []spanGroup{g}, all); err != nil {
		return err
	}
	kept, err := r.rank(ctx, d, all.sums[0], of.labelCap)
	if err != nil {
		return err
	}
	rest := restCounter{labelCounter: newLabelCounter([]Dimension{d}, 0, of.otherText), kept: make(map[int64]bool, len(kept.Rows))}
	for _, c := range kept.Rows {
		if c.label != otherID {
			rest.kept[c.label] = true
			sum.add(c)
		}
	}
	if err := r.scan(ctx, []spanGroup{g}, &rest); err != nil {
		return err
	}
	sum.add(labelCount{label: otherID, visitors: rest.sum.visitors, pageviews: rest.sum.pageviews})
	return nil
}

// restCounter counts what has a label that isn't kept, with its visitors distinct.
type restCounter struct {
	*labelCounter
	kept map[int64]bool
	sum  labelCount
}

func (c *restCounter) done(spanGroup) {}

func (c *restCounter) count(g spanGroup, b *columns.Block, k *marks) {
	d, of := c.dimensions[0], b.Labels[c.columns[0]]
	last := int32(0)
	add := func(code uint32, visitor int32, n int64) {
		if code == 0 || c.kept[of.Dict[code]] {
			return
		}
		c.sum.pageviews += n
		if last != visitor {
			last = visitor
			c.sum.visitors++
		}
	}
	if d.of == ofEvents {
		eachEvent(g, b, k, func(e, visitor int32, isView bool) {
			if isView == (d.name != byEvent) {
				add(of.Codes[e], visitor, 1)
			}
		})
		return
	}
	eachSession(g, b, k, func(i, visitor int32) {
		if d.perSession {
			add(of.Codes[i], visitor, 1)
		} else {
			add(of.Codes[i], visitor, int64(b.Views[i]))
		}
	})
}

// rank returns the first limit labels of a dimension, whose texts it makes known.
func (r *columnReader) rank(ctx context.Context, d Dimension, sum *tally, limit int) (List[labelCount], error) {
	if err := r.identify(ctx, sum); err != nil {
		return List[labelCount]{}, err
	}
	rank := newRanking(d, limit)
	sum.each(rank.add)
	found := rank.candidates()
	known := make([]int64, len(found))
	for i, c := range found {
		known[i] = c.label
	}
	if err := r.labels.name(ctx, known); err != nil {
		return List[labelCount]{}, err
	}
	return List[labelCount]{rank.cut(r.labels.texts), rank.total}, nil
}

// text is that of a label of a dimension with a cap.
func (r *columnReader) text(label int64) string {
	if label == otherID {
		return other
	}
	return r.labels.texts[label].label
}

// identify gives texts that a day has stored itself the ids that the site's dictionary has
// got for them since, so that each label is there once.
func (r *columnReader) identify(ctx context.Context, sum *tally) error {
	if len(sum.unknown) == 0 {
		return nil
	}
	texts := make([]labelText, 0, len(sum.unknown))
	for id := range sum.unknown {
		texts = append(texts, r.labels.texts[id])
	}
	ids, err := r.labels.look(ctx, texts)
	if err != nil {
		return err
	}
	for _, id := range slices.Collect(maps.Keys(sum.unknown)) {
		if known, ok := ids[r.labels.texts[id]]; ok {
			c := sum.unknown[id]
			delete(sum.unknown, id)
			sum.add(labelCount{label: known, visitors: c.Visitors, pageviews: c.Pageviews})
		}
	}
	return nil
}
