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
