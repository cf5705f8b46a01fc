package stats

import (
	"context"

	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/columns"
)

// visitCounter counts whole sessions by the label of a dimension of sessions; under 0 are
// those without one. Of a day with more labels than the cap it counts nothing.
type visitCounter struct {
	dimension
	column    int
	labelCap  int
	otherText int64
	sums      map[int64]LabelVisits
	ofDay     map[int64]LabelVisits
	crowded   []spanGroup
	kept      map[int64]bool // of a crowded day that is counted all the same
	unlabeled Row
	byCode    []LabelVisits
}

// otherVisits is the key of (other), since 0 is no label.
const otherVisits int64 = -1 << 62

func (c *visitCounter) want(w *columns.Wanted) { w.Labels[c.column], w.Micros = true, true }

func (c *visitCounter) count(g spanGroup, b *columns.Block, k *marks) {
	of := b.Labels[c.column]
	c.byCode = append(c.byCode[:0], make([]LabelVisits, len(of.Dict))...)
	last := int32(0)
	eachSession(g, b, k, func(i, visitor int32) {
		to := &c.byCode[of.Codes[i]]
		to.Sessions++
		to.Micros += b.Micros[i]
		to.Pageviews += int64(b.Views[i])
		if b.Views[i] == 1 && b.Customs[i] == 0 {
			to.Bounces++
		}
		if of.Codes[i] != 0 {
			return
		}
		if c.perSession {
			c.unlabeled.Pageviews++
		} else {
			c.unlabeled.Pageviews += int64(b.Views[i])
		}
		if last != visitor {
			last = visitor
			c.unlabeled.Visitors++
		}
	})
	for code, v := range c.byCode {
		if v.Sessions > 0 {
			c.ofDay[of.Dict[code]] = c.ofDay[of.Dict[code]].plus(v)
		}
	}
}

func (v LabelVisits) plus(u LabelVisits) LabelVisits {
	return LabelVisits{SessionTotals: v.SessionTotals.plus(u.SessionTotals, 1), Pageviews: v.Pageviews + u.Pageviews}
}

func (c *visitCounter) done(g spanGroup) {
	labels := len(c.ofDay)
	for _, none := range []int64{0, c.otherText} {
		if _, there := c.ofDay[none]; there {
			labels--
		}
	}
	if labels > c.labelCap && c.kept == nil {
		c.crowded = append(c.crowded, g)
		clear(c.ofDay)
		return
	}
	for id, v := range c.ofDay {
		if id == c.otherText || c.kept != nil && id != 0 && !c.kept[id] {
			id = otherVisits
		}
		c.sums[id] = c.sums[id].plus(v)
	}
	clear(c.ofDay)
}

// countVisits counts sessions by label, each span by itself.
func (r *columnReader) countVisits(ctx context.Context, spans []calendar.Span, d Dimension) (*visitCounter, error) {
	literal := labelText{label: other}
	if err := r.labels.find(ctx, []labelText{literal}); err != nil {
		return nil, err
	}
	c := &visitCounter{
		dimension: dimensionOf(d), column: columnOf(d), labelCap: r.labelCap, otherText: r.labels.ids[literal],
		sums: make(map[int64]LabelVisits), ofDay: make(map[int64]LabelVisits),
	}
	if err := r.scan(ctx, r.singles(spans), c); err != nil {
		return nil, err
	}
	unlabeled := c.unlabeled
	for _, g := range c.crowded {
		all := newLabelCounter([]Dimension{d}, 0, c.otherText)
		if err := r.scan(ctx, []spanGroup{g}, all); err != nil {
			return nil, err
		}
		kept, err := r.rank(ctx, d, all.sums[0], r.labelCap)
		if err != nil {
			return nil, err
		}
		c.kept = make(map[int64]bool, len(kept.Rows))
		for _, row := range kept.Rows {
			c.kept[row.label] = true
		}
		if err := r.scan(ctx, []spanGroup{g}, c); err != nil {
			return nil, err
		}
	}
	c.unlabeled = unlabeled // crowded days were scanned twice
	return c, nil
}

// Visits implements Reader.
func (r *columnReader) Visits(ctx context.Context, spans []calendar.Span, d Dimension, labels []string) (map[string]LabelVisits, error) {
	out := make(map[string]LabelVisits, len(labels))
	if len(labels) == 0 || dimensionOf(d).of != ofSessions {
		return out, nil
	}
	c, err := r.countVisits(ctx, spans, d)
	if err != nil {
		return nil, err
	}
	// A text may have an id of the dictionary on one day and be stored itself on another.
	byText := make(map[string]LabelVisits, len(c.sums))
	texts := make([]labelText, 0, len(labels))
	for _, l := range labels {
		if l != "" && l != other {
			texts = append(texts, labelText{label: l})
		}
	}
	ids, err := r.labels.look(ctx, texts)
	if err != nil {
		return nil, err
	}
	for id, v := range c.sums {
		switch {
		case id == 0:
			byText[""] = byText[""].plus(v)
		case id == otherVisits:
			byText[other] = byText[other].plus(v)
		case id < 0:
			text := r.labels.texts[id].label
			byText[text] = byText[text].plus(v)
		}
	}
	for text, id := range ids {
		byText[text.label] = byText[text.label].plus(c.sums[id])
	}
	for _, l := range labels {
		if v, found := byText[l]; found && v.Sessions > 0 {
			out[l] = v
		}
	}
	return out, nil
}

// Unlabelled implements Reader.
func (r *columnReader) Unlabelled(ctx context.Context, spans []calendar.Span, dimensions []Dimension) (map[Dimension]Row, error) {
	out := make(map[Dimension]Row, len(dimensions))
	for _, d := range dimensions {
		if dimensionOf(d).of != ofSessions {
			continue
		}
		c, err := r.countVisits(ctx, spans, d)
		if err != nil {
			return nil, err
		}
		out[d] = c.unlabeled
	}
	return out, nil
}

// columns reads the same without a filter.
func (r *rollupReader) columns(spans []calendar.Span) (*columnReader, error) {
	if _, err := r.events(spans); err != nil {
		return nil, err
	}
	return &columnReader{
		queries: r.queries, tx: r.tx, siteID: r.siteID, labelCap: r.labelCap, caps: r.caps, days: r.days, labels: r.labels, window: r.window,
		match: &matcher{labels: r.labels}, schema: schema(),
	}, nil
}

// Visits implements Reader: rollups have no sessions by label.
func (r *rollupReader) Visits(ctx context.Context, spans []calendar.Span, d Dimension, labels []string) (map[string]LabelVisits, error) {
	reader, err := r.columns(spans)
	if err != nil {
		return nil, err
	}
	return reader.Visits(ctx, spans, d, labels)
}

// Unlabelled implements Reader: nor those without one.
func (r *rollupReader) Unlabelled(ctx context.Context, spans []calendar.Span, dimensions []Dimension) (map[Dimension]Row, error) {
	reader, err := r.columns(spans)
	if err != nil {
		return nil, err
	}
	return reader.Unlabelled(ctx, spans, dimensions)
}
