package stats

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/waypost/waypost/db/dbsqlc"
)

// keepFirst returns the first labels of an open day with more than the cap, and the others
// as (other), whose visitors aren't counted. counts are in the order of their labels.
func (r *rollupReader) keepFirst(ctx context.Context, day time.Time, d Dimension, counts []labelCount) ([]labelCount, error) {
	labelCap := r.capOf(d)
	kept, ties := newRanking(d, 0).split(counts, labelCap)
	if n := labelCap - len(kept); n < len(ties) {
		var err error
		if ties, err = r.firstByText(ctx, day, d, ties, n); err != nil {
			return nil, err
		}
	}
	kept = append(kept, ties...)
	rest := labelCount{label: otherID}
	for _, c := range counts {
		rest.pageviews += c.pageviews
	}
	for _, c := range kept {
		rest.pageviews -= c.pageviews
	}
	rest.pageviews = cmp.Or(rest.pageviews, 1)
	return append(kept, rest), nil
}

// firstByText returns the n of counts, which are more, whose texts come first.
func (r *rollupReader) firstByText(ctx context.Context, day time.Time, d Dimension, counts []labelCount, n int) ([]labelCount, error) {
	placed, fresh, err := r.byPlace(ctx, day, d, counts)
	if err != nil {
		return nil, err
	}
	texts, err := r.labels.byText(ctx, fresh)
	if err != nil {
		return nil, err
	}
	// Only the placed labels that one of these may push out need a text.
	var rivals []int64
	for _, c := range placed[min(max(0, n-len(texts)), len(placed)):min(n, len(placed))] {
		rivals = append(rivals, c.label)
	}
	if err := r.labels.name(ctx, rivals); err != nil {
		return nil, err
	}
	taken := amongFirst(n, len(placed), len(texts), func(place, text int) bool {
		return r.labels.texts[placed[place].label].label < string(texts[text].text)
	})
	out := placed[:n-taken]
	for _, t := range texts[:taken] {
		at, _ := slices.BinarySearchFunc(counts, t.id, func(c labelCount, id int64) int { return cmp.Compare(c.label, id) })
		out = append(out, counts[at])
	}
	return out, nil
}

// amongFirst returns how many of b texts in order are among the first n of these and a
// others, which are in order too; precedes reports whether one of the others comes first.
// It is asked about the last of the first n, and as many before it as there are texts.
func amongFirst(n, a, b int, precedes func(ofA, ofB int) bool) int {
	for i := range min(n, b) {
		if last := n - i - 1; last < a && precedes(last, i) {
			return i
		}
	}
	return min(n, b)
}

// byPlace returns counts, which are in the order of their labels, in the order of their
// texts, and apart the labels whose place folding didn't write: those of visitors who are
// yet to be folded, or were folded by an older version.
func (r *rollupReader) byPlace(ctx context.Context, day time.Time, d Dimension, counts []labelCount) ([]labelCount, []int64, error) {
	var places []int32 // of counts, each plus 1
	var fresh []int64
	next := 0
	err := r.eachPlace(ctx, day, d, func(c labelCount, most int) {
		if c.label == otherID {
			places = make([]int32, min(c.visitors, int64(most)))
			return
		}
		for ; next < len(counts) && counts[next].label < c.label; next++ {
			fresh = append(fresh, counts[next].label)
		}
		if next < len(counts) && counts[next].label == c.label && c.visitors < int64(len(places)) {
			next++
			places[c.visitors] = int32(next)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	for _, c := range counts[next:] {
		fresh = append(fresh, c.label)
	}
	placed := make([]labelCount, 0, len(counts)-len(fresh))
	for _, at := range places {
		if at > 0 {
			placed = append(placed, counts[at-1])
		}
	}
	return placed, fresh, nil
}

// eachPlace calls f for the places of an open day's labels, as placesIn has them, of which
// there are at most so many.
func (r *rollupReader) eachPlace(ctx context.Context, day time.Time, d Dimension, f func(place labelCount, most int)) error {
	p := dbsqlc.FindLabelOrderParams{SiteID: r.siteID, Dimension: string(d), Part: placesPart, Day: day}
	rows, err := r.queries.FindLabelOrder(ctx, r.tx, p)
	if err != nil {
		return err
	}
	if len(rows) > 0 {
		return eachPacked(rows[0], func(c labelCount) { f(c, len(rows[0])) })
	}
	// Of a day that was last folded by a version without places.
	p.Part = orderPart
	if rows, err = r.queries.FindLabelOrder(ctx, r.tx, p); err != nil || len(rows) == 0 {
		return err
	}
	places := placesIn(rows[0])
	for _, c := range places {
		f(c, len(places))
	}
	return nil
}
