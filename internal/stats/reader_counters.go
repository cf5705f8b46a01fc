package stats

import (
	"context"
	"slices"
	"time"

	"github.com/waypost/waypost/internal/stats/columns"
)

// trafficCounter counts traffic by span.
type trafficCounter struct {
	traffic  []Traffic
	visitors []int32 // by span of a day: the last visitor counted
}

func (c *trafficCounter) begin(context.Context, *dictionary) error { return nil }

func (c *trafficCounter) want(*columns.Wanted) {}

func (c *trafficCounter) done(spanGroup) {}

func (c *trafficCounter) count(g spanGroup, b *columns.Block, k *marks) {
	if g.whole() {
		c.countWhole(g, b, k)
		return
	}
	c.visitors = c.visitors[:0]
	for range g.spans {
		c.visitors = append(c.visitors, -1)
	}
	within := newInstants(g)
	names := b.Labels[columnOf(byEvent)]
	for _, l := range k.left {
		for e := l.from; e < l.to; e++ {
			if k.events != nil && !k.events[e] {
				continue
			}
			at := within.find(b.At[e])
			if at < 0 {
				continue
			}
			to := &c.traffic[g.first+at]
			if names.Codes[e] == 0 {
				to.Pageviews++
			}
			if c.visitors[at] != l.visitor {
				c.visitors[at] = l.visitor
				to.Visitors++
			}
		}
	}
}

func (c *trafficCounter) countWhole(g spanGroup, b *columns.Block, k *marks) {
	to := &c.traffic[g.first]
	names := b.Labels[columnOf(byEvent)].Codes
	last := int32(0)
	for _, l := range k.left {
		if l.visitor != last {
			to.Visitors++
			last = l.visitor
		}
		if k.events == nil {
			to.Pageviews += int64(b.Views[l.at])
			continue
		}
		for at := l.from; at < l.to; at++ {
			if k.events[at] && names[at] == 0 {
				to.Pageviews++
			}
		}
	}
}

// sessionCounter counts sessions by the span that they start in.
type sessionCounter struct {
	sessions []SessionTotals
}

func (c *sessionCounter) begin(context.Context, *dictionary) error { return nil }

func (c *sessionCounter) want(w *columns.Wanted) { w.Micros = true }

func (c *sessionCounter) done(spanGroup) {}

func (c *sessionCounter) count(g spanGroup, b *columns.Block, k *marks) {
	var within *instants
	if !g.whole() {
		within = newInstants(g)
	}
	for _, l := range k.left {
		at := 0
		if within != nil {
			if at = within.find(b.Starts[l.at]); at < 0 {
				continue
			}
		}
		to := &c.sessions[g.first+at]
		to.Sessions++
		to.Micros += b.Micros[l.at]
		if b.Views[l.at] == 1 && b.Customs[l.at] == 0 {
			to.Bounces++
		}
	}
}

// instants tells which of a day's spans an instant is in.
type instants struct {
	from, to []int64 // microseconds from the start of the day
	last     int
}

func newInstants(g spanGroup) *instants {
	s := &instants{}
	for _, span := range g.spans {
		s.from = append(s.from, micros(span.From.Sub(g.Start)))
		s.to = append(s.to, micros(span.To.Sub(g.Start)))
	}
	return s
}

// micros rounds up, as bounds of windows are.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// find returns the index of the span that holds at, or -1.
func (s *instants) find(at int64) int {
	if s.from[s.last] <= at && at < s.to[s.last] {
		return s.last
	}
	for i := range s.from {
		if s.from[i] <= at && at < s.to[i] {
			s.last = i
			return i
		}
	}
	return -1
}

// labelCounter counts labels of dimensions. Of a day with more labels than the cap it
// counts nothing of that dimension, and remembers it.
type labelCounter struct {
	dimensions []dimension
	columns    []int // of dimensions
	labelCap   int
	otherText  int64 // the id of a label that reads (other)
	sums       []*tally
	ofDay      [][]labelCount
	crowded    map[Dimension][]spanGroup
	counts     []codeCount // by code of a block
}

// codeCount is what a code has.
type codeCount struct {
	pageviews, visitors int64
	last                int32 // of its visitors that was counted
}

func (c *codeCount) add(visitor int32, n int64) {
	c.pageviews += n
	if c.last != visitor {
		c.last = visitor
		c.visitors++
	}
}

func newLabelCounter(names []Dimension, labelCap int) *labelCounter {
	c := &labelCounter{labelCap: labelCap, ofDay: make([][]labelCount, len(names)), crowded: make(map[Dimension][]spanGroup)}
	for _, name := range names {
		c.dimensions, c.columns, c.sums = append(c.dimensions, dimensionOf(name)), append(c.columns, columnOf(name)), append(c.sums, &tally{})
	}
	return c
}

func (c *labelCounter) begin(ctx context.Context, labels *dictionary) error {
	var err error
	c.otherText, err = labels.idOf(ctx, labelText{label: other})
	return err
}

func (c *labelCounter) want(w *columns.Wanted) {
	for i, d := range c.dimensions {
		w.Labels[c.columns[i]] = true
		if d.of == ofEvents {
			w.Labels[columnOf(byEvent)] = true
		}
	}
}

func (c *labelCounter) count(g spanGroup, b *columns.Block, k *marks) {
	for i, d := range c.dimensions {
		dict := c.countBlock(g, b, k, d, c.columns[i])
		if g.alone && (c.labelCap == 0 || len(dict) <= c.labelCap) {
			c.addAll(d, dict, c.sums[i])
			continue
		}
		for code, n := range c.counts {
			if n.pageviews != 0 || n.visitors != 0 {
				c.ofDay[i] = append(c.ofDay[i], labelCount{label: dict[code], pageviews: n.pageviews, visitors: n.visitors})
			}
		}
	}
}

// addAll adds c.counts to sum: of a day with one block, whose labels are within the cap.
func (c *labelCounter) addAll(d dimension, dict []int64, sum *tally) {
	for code, n := range c.counts {
		if n.pageviews != 0 || n.visitors != 0 {
			label := dict[code]
			if label == c.otherText && hasCap(d.name) {
				label = otherID
			}
			sum.add(labelCount{label: label, pageviews: n.pageviews, visitors: n.visitors})
		}
	}
}

// countBlock fills in c.counts by the codes of the dictionary that it returns.
func (c *labelCounter) countBlock(g spanGroup, b *columns.Block, k *marks, d dimension, column int) []int64 {
	of := b.Labels[column]
	if cap(c.counts) < len(of.Dict) {
		c.counts = make([]codeCount, len(of.Dict))
	}
	c.counts = c.counts[:len(of.Dict)]
	clear(c.counts)
	codes, counts := of.Codes, c.counts
	switch {
	case d.of == ofEvents && g.whole() && k.events == nil:
		names, isCustom := b.Labels[columnOf(byEvent)].Codes, d.name == byEvent
		for _, l := range k.left {
			for e := l.from; e < l.to; e++ {
				if (names[e] != 0) == isCustom {
					counts[codes[e]].add(l.visitor, 1)
				}
			}
		}
	case d.of == ofEvents:
		eachEvent(g, b, k, func(e, visitor int32, isView bool) {
			if isView == (d.name != byEvent) {
				counts[codes[e]].add(visitor, 1)
			}
		})
	default:
		eachSession(g, b, k, func(i, visitor int32) {
			n := int64(1)
			if !d.perSession {
				n = int64(b.Views[i])
			}
			counts[codes[i]].add(visitor, n)
		})
	}
	c.counts[0] = codeCount{} // what has no label
	return of.Dict
}

func (c *labelCounter) done(g spanGroup) {
	for i, d := range c.dimensions {
		counts := c.ofDay[i]
		if c.labelCap > 0 && len(counts) > c.labelCap { // blocks have some labels in common
			counts = sortCounts(counts)
		}
		c.ofDay[i] = counts[:0]
		labels := 0
		for _, n := range counts {
			if n.label != c.otherText {
				labels++
			}
		}
		if c.labelCap > 0 && labels > c.labelCap {
			c.crowded[d.name] = append(c.crowded[d.name], g)
			continue
		}
		for _, n := range counts {
			if n.label == c.otherText && hasCap(d.name) {
				n.label = otherID
			}
			c.sums[i].add(n)
		}
	}
}

// eachSession calls f for the sessions that are left and start inside g, with a number
// of their visitor within the block.
func eachSession(g spanGroup, b *columns.Block, k *marks, f func(i, visitor int32)) {
	whole := g.whole()
	var within *instants
	if !whole {
		within = newInstants(g)
	}
	for _, l := range k.left {
		if whole || within.find(b.Starts[l.at]) >= 0 {
			f(l.at, l.visitor)
		}
	}
}

// eachEvent calls f for the events that are left and happened inside g. b has the events'
// names.
func eachEvent(g spanGroup, b *columns.Block, k *marks, f func(e, visitor int32, isView bool)) {
	whole := g.whole()
	names := b.Labels[columnOf(byEvent)].Codes
	var within *instants
	if !whole {
		within = newInstants(g)
	}
	for _, l := range k.left {
		for e := l.from; e < l.to; e++ {
			if (k.events == nil || k.events[e]) && (whole || within.find(b.At[e]) >= 0) {
				f(e, l.visitor, names[e] == 0)
			}
		}
	}
}

// propCounter counts the properties of an event.
type propCounter struct {
	name    string
	event   int64 // the name's label id
	sum     *tally
	few     int // pairs of a day, which are within all caps
	ofDay   []labelCount
	many    [][]labelCount // of days with more
	pending int
	tooMany bool
}

// maxPairs is how many pairs, of days that have many, are held at once.
const maxPairs = 2_000_000

func (c *propCounter) begin(ctx context.Context, labels *dictionary) error {
	var err error
	c.event, err = labels.idOf(ctx, labelText{label: c.name})
	return err
}

func (c *propCounter) want(w *columns.Wanted) { w.Props, w.Labels[columnOf(byEvent)] = true, true }

func (c *propCounter) done(spanGroup) {
	counts := sortCounts(c.ofDay)
	if len(counts) > c.few {
		c.pending += len(counts)
		if c.tooMany = c.tooMany || c.pending > maxPairs; !c.tooMany {
			c.many = append(c.many, slices.Clone(counts))
		}
	} else {
		for _, n := range counts {
			c.sum.add(n)
		}
	}
	c.ofDay = counts[:0]
}

func (c *propCounter) count(g spanGroup, b *columns.Block, k *marks) {
	names, p, next := b.Labels[columnOf(byEvent)], b.Props, 0
	eachEvent(g, b, k, func(e, _ int32, isView bool) {
		for next < len(p.At) && p.At[next] < int(e) {
			next++
		}
		if isView || next == len(p.At) || p.At[next] != int(e) || names.Dict[names.Codes[e]] != c.event {
			return
		}
		from := 0
		if next > 0 {
			from = p.Ends[next-1]
		}
		for _, code := range p.Codes[from:p.Ends[next]] {
			c.ofDay = append(c.ofDay, labelCount{label: p.Dict[code], pageviews: 1})
		}
	})
}
