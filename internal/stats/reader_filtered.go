package stats

import (
	"context"
	"maps"
	"slices"

	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/columns"
)

// Traffic implements Reader.
func (r *columnReader) Traffic(spans []calendar.Span) Promise[[]Traffic] {
	c := trafficCounter{traffic: make([]Traffic, len(spans))}
	r.ask(r.groups(spans), &c)
	return func(ctx context.Context) ([]Traffic, error) { return c.traffic, r.fetch(ctx) }
}

// Sessions implements Reader.
func (r *columnReader) Sessions(spans []calendar.Span) Promise[[]SessionTotals] {
	c := sessionCounter{sessions: make([]SessionTotals, len(spans))}
	r.ask(r.groups(spans), &c)
	return func(ctx context.Context) ([]SessionTotals, error) { return c.sessions, r.fetch(ctx) }
}

// Breakdowns implements Reader.
func (r *columnReader) Breakdowns(spans []calendar.Span, dimensions []Dimension, limit int) Promise[map[Dimension]List[Row]] {
	counted := r.countLabels(spans, dimensions, r.labelCap)
	return func(ctx context.Context) (map[Dimension]List[Row], error) {
		sums, err := counted(ctx)
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
}

// CustomEvents implements Reader.
func (r *columnReader) CustomEvents(spans []calendar.Span, limit int) Promise[List[EventCount]] {
	counted := r.countLabels(spans, []Dimension{byEvent}, r.caps.Names)
	return func(ctx context.Context) (List[EventCount], error) {
		sums, err := counted(ctx)
		if err != nil {
			return List[EventCount]{}, err
		}
		ranked, err := r.rank(ctx, byEvent, sums[0], limit)
		out := List[EventCount]{make([]EventCount, len(ranked.Rows)), ranked.Total}
		for i, c := range ranked.Rows {
			out.Rows[i] = EventCount{Name: r.text(c.label), Count: c.pageviews, Visitors: c.visitors}
		}
		return out, err
	}
}

// Props implements Reader.
func (r *columnReader) Props(spans []calendar.Span, name string, limit int) Promise[List[PropCount]] {
	c := &propCounter{name: name, sum: &tally{}, few: min(r.caps.Keys, r.caps.Values)}
	r.ask(r.singles(spans), c)
	return func(ctx context.Context) (List[PropCount], error) {
		if err := r.fetch(ctx); err != nil {
			return List[PropCount]{}, err
		}
		return r.rankProps(ctx, c, limit)
	}
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

// countLabels returns the labels of each dimension, of which labelCap keep their name on
// each day.
func (r *columnReader) countLabels(spans []calendar.Span, dimensions []Dimension, labelCap int) Promise[[]*tally] {
	c := newLabelCounter(dimensions, labelCap)
	r.ask(r.singles(spans), c)
	return func(ctx context.Context) ([]*tally, error) {
		if err := r.fetch(ctx); err != nil {
			return nil, err
		}
		for i, d := range dimensions {
			for _, g := range c.crowded[d] {
				if err := r.countCrowded(ctx, g, d, c.labelCap, c.sums[i]); err != nil {
					return nil, err
				}
			}
		}
		return c.sums, nil
	}
}

// countCrowded adds a day with more labels than the cap to sum.
func (r *columnReader) countCrowded(ctx context.Context, g spanGroup, d Dimension, labelCap int, sum *tally) error {
	kept, err := r.firstLabels(ctx, g, d, labelCap)
	if err != nil {
		return err
	}
	rest := restCounter{labelCounter: newLabelCounter([]Dimension{d}, 0), kept: make(map[int64]bool, len(kept))}
	for _, c := range kept {
		if c.label != otherID {
			rest.kept[c.label] = true
			sum.add(c)
		}
	}
	if err := r.scan(ctx, ask{&rest, []spanGroup{g}}); err != nil {
		return err
	}
	sum.add(labelCount{label: otherID, visitors: rest.sum.visitors, pageviews: rest.sum.pageviews})
	return nil
}

// firstLabels returns the labels of a crowded day that keep their name.
func (r *columnReader) firstLabels(ctx context.Context, g spanGroup, d Dimension, labelCap int) ([]labelCount, error) {
	all := newLabelCounter([]Dimension{d}, 0)
	if err := r.scan(ctx, ask{all, []spanGroup{g}}); err != nil {
		return nil, err
	}
	kept, err := r.rank(ctx, d, all.sums[0], labelCap)
	return kept.Rows, err
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
