package stats

import (
	"cmp"
	"slices"
)

// ranking picks the first labels of a list by its dimension's order: visitors,
// then pageviews, both descending, then label ascending by bytes; of pages,
// pageviews first; of events and properties, their count alone. The row (other)
// is last. Labels have texts only at the end, when few are left.
type ranking struct {
	dimension Dimension
	limit     int
	kept      []labelCount
	pruneAt   int
	floor     *labelCount // the limit-th of those seen; only what ties with it or precedes it counts
	rest      *labelCount // (other)
	total     int64       // of the labels that have anything
}

func newRanking(d Dimension, limit int) *ranking {
	return &ranking{dimension: d, limit: limit, pruneAt: 4*limit + 1024}
}

// compare orders by numbers alone.
func (r *ranking) compare(a, b labelCount) int {
	switch {
	case r.dimension == byEvent || r.dimension == byProp:
		return cmp.Compare(b.pageviews, a.pageviews)
	case r.dimension == ByPage:
		return cmp.Or(cmp.Compare(b.pageviews, a.pageviews), cmp.Compare(b.visitors, a.visitors))
	default:
		return cmp.Or(cmp.Compare(b.visitors, a.visitors), cmp.Compare(b.pageviews, a.pageviews))
	}
}

// leading is the number by which compare orders first.
func (r *ranking) leading(c labelCount) int64 {
	if r.dimension == byEvent || r.dimension == byProp || r.dimension == ByPage {
		return c.pageviews
	}
	return c.visitors
}

// split returns those of counts that precede the n-th by numbers alone, and those that tie
// with it, both in counts' order. counts has at least n besides (other), which is in
// neither; there is room for one more among the first.
func (r *ranking) split(counts []labelCount, n int) (before, ties []labelCount) {
	before = make([]labelCount, 0, n+1)
	// Nearly all labels of a long list have small numbers, so that few are left to select from
	// where those with the same leading number are counted first.
	var with [256]int
	class := func(c labelCount) int { return int(min(max(r.leading(c), 0), int64(len(with)-1))) }
	for _, c := range counts {
		if c.label != otherID {
			with[class(c)]++
		}
	}
	at := len(with) - 1
	for ; n > with[at] && at > 0; at-- {
		n -= with[at]
	}
	among := make([]labelCount, 0, with[at])
	for _, c := range counts {
		if c.label != otherID && class(c) == at {
			among = append(among, c)
		}
	}
	last := nthOf(among, n, r.compare)
	ties = among[:0]
	for _, c := range counts {
		if c.label == otherID {
			continue
		}
		switch order := r.compare(c, last); {
		case order < 0:
			before = append(before, c)
		case order == 0:
			ties = append(ties, c)
		}
	}
	return before, ties
}

// nthOf reorders of, which has at least n, and returns the n-th: Hoare's selection with
// Dijkstra's three-way partition, which reads each several times at most, where a sort
// reads it for each doubling.
func nthOf(of []labelCount, n int, compare func(a, b labelCount) int) labelCount {
	low, high := 0, len(of)
	for {
		pivot := of[low+(high-low)/2]
		less, more := low, high
		for i := low; i < more; {
			switch c := compare(of[i], pivot); {
			case c < 0:
				of[i], of[less] = of[less], of[i]
				less++
				i++
			case c > 0:
				more--
				of[i], of[more] = of[more], of[i]
			default:
				i++
			}
		}
		switch {
		case n <= less:
			high = less
		case n > more:
			low = more
		default:
			return pivot
		}
	}
}

func (r *ranking) add(c labelCount) {
	if c.visitors == 0 && c.pageviews == 0 {
		return
	}
	r.total++
	if c.label == otherID && hasCap(r.dimension) {
		r.rest = &c
		return
	}
	if r.floor != nil && r.compare(c, *r.floor) > 0 {
		return
	}
	r.kept = append(r.kept, c)
	if len(r.kept) >= r.pruneAt {
		r.prune()
		r.pruneAt = 2*len(r.kept) + 1024 // many may tie
	}
}

// prune drops what comes after the limit-th; those that tie with it stay.
func (r *ranking) prune() {
	slices.SortFunc(r.kept, r.compare)
	if len(r.kept) <= r.limit {
		return
	}
	floor := r.kept[r.limit-1]
	r.floor = &floor
	n := r.limit
	for n < len(r.kept) && r.compare(r.kept[n], floor) == 0 {
		n++
	}
	r.kept = r.kept[:n]
}

// candidates are the first labels with all that tie with the last of them.
func (r *ranking) candidates() []labelCount {
	r.prune()
	return r.kept
}

// cut puts the candidates in order by their texts and returns the first limit.
func (r *ranking) cut(texts map[int64]labelText) []labelCount {
	slices.SortFunc(r.kept, func(a, b labelCount) int {
		x, y := texts[a.label], texts[b.label]
		return cmp.Or(r.compare(a, b), cmp.Compare(x.label, y.label), cmp.Compare(x.value, y.value))
	})
	out := r.kept
	if r.rest != nil {
		out = append(out, *r.rest)
	}
	return out[:min(len(out), r.limit)]
}
