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

func (c *visitCounter) begin(ctx context.Context, labels *dictionary) error {
	var err error
	c.otherText, err = labels.idOf(ctx, labelText{label: other})
	return err
}

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

// Visits implements Reader.
func (r *columnReader) Visits(spans []calendar.Span, dimensions []Dimension) Promise[map[Dimension]VisitsByLabel] {
	out := make(map[Dimension]VisitsByLabel, len(dimensions))
	for _, d := range dimensions {
		c := visitCounter{
			dimension: dimensionOf(d), column: columnOf(d), labelCap: r.labelCap,
			sums: make(map[int64]LabelVisits), ofDay: make(map[int64]LabelVisits),
		}
		r.ask(r.singles(spans), &c)
		out[d] = &countedVisits{&c, r}
	}
	return func(ctx context.Context) (map[Dimension]VisitsByLabel, error) { return out, r.fetch(ctx) }
}

// countedVisits is what a visitCounter has counted.
type countedVisits struct {
	*visitCounter
	reader *columnReader
}

// Unlabelled implements VisitsByLabel.
func (v *countedVisits) Unlabelled() Row { return v.unlabeled }

// countCrowded counts the days that were left out because they have more labels than the cap.
func (v *countedVisits) countCrowded(ctx context.Context) error {
	unlabeled := v.unlabeled // of these days as well
	defer func() { v.unlabeled = unlabeled }()
	for ; len(v.crowded) > 0; v.crowded = v.crowded[1:] {
		g := v.crowded[0]
		kept, err := v.reader.firstLabels(ctx, g, v.name, v.labelCap)
		if err != nil {
			return err
		}
		v.kept = make(map[int64]bool, len(kept))
		for _, row := range kept {
			v.kept[row.label] = true
		}
		if err := v.reader.scan(ctx, ask{v.visitCounter, []spanGroup{g}}); err != nil {
			return err
		}
	}
	return nil
}

// Of implements VisitsByLabel.
func (v *countedVisits) Of(ctx context.Context, labels []string) (map[string]LabelVisits, error) {
	if err := v.countCrowded(ctx); err != nil {
		return nil, err
	}
	// A text may have an id of the dictionary on one day and be stored itself on another.
	byText := make(map[string]LabelVisits, len(v.sums))
	texts := make([]labelText, 0, len(labels))
	for _, l := range labels {
		if l != "" && l != other {
			texts = append(texts, labelText{label: l})
		}
	}
	ids, err := v.reader.labels.look(ctx, texts)
	if err != nil {
		return nil, err
	}
	for id, of := range v.sums {
		switch {
		case id == 0:
			byText[""] = byText[""].plus(of)
		case id == otherVisits:
			byText[other] = byText[other].plus(of)
		case id < 0:
			text := v.reader.labels.texts[id].label
			byText[text] = byText[text].plus(of)
		}
	}
	for text, id := range ids {
		byText[text.label] = byText[text.label].plus(v.sums[id])
	}
	out := make(map[string]LabelVisits, len(labels))
	for _, l := range labels {
		if of, found := byText[l]; found && of.Sessions > 0 {
			out[l] = of
		}
	}
	return out, nil
}
