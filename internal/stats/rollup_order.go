package stats

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/waypost/waypost/db/dbsqlc"
)

// Which labels of a crowded open day are beyond the cap depends on the order of their
// texts, where they have equal numbers. Texts of a hundred thousand labels are not looked
// up for that: folding keeps them in that order, packed, beside the counts.

// orderPart is the part of such rows in rollup_counts.
const orderPart = -1

// labelOrder is labels in the order of their texts, packed: of each the length that its
// text shares with the one before, the rest of the text with its length, and the id.
type labelOrder struct {
	b    []byte
	text []byte
	id   int64
}

// next goes on to the next label. It returns false at the end, and at what isn't an order.
func (o *labelOrder) next() bool {
	var n [2]uint64 // shared, own
	for i := range n {
		v, size := binary.Uvarint(o.b)
		if size <= 0 {
			return false
		}
		n[i], o.b = v, o.b[size:]
	}
	if n[0] > uint64(len(o.text)) || n[1] > uint64(len(o.b)) {
		return false
	}
	o.text = append(o.text[:n[0]], o.b[:n[1]]...)
	id, size := binary.Uvarint(o.b[n[1]:])
	if size <= 0 {
		return false
	}
	o.id, o.b = int64(id), o.b[int(n[1])+size:]
	return true
}

// appendLabel writes a label behind another.
func appendLabel(to, before, text []byte, id int64) []byte {
	shared := 0
	for shared < min(len(before), len(text)) && before[shared] == text[shared] {
		shared++
	}
	to = binary.AppendUvarint(to, uint64(shared))
	to = binary.AppendUvarint(to, uint64(len(text)-shared))
	to = append(to, text[shared:]...)
	return binary.AppendUvarint(to, uint64(id))
}

// textID is a label by its text.
type textID struct {
	text []byte
	id   int64
}

// merged is o with more labels, which are in order.
func (o labelOrder) merged(more []textID) []byte {
	var out, last []byte
	add := func(text []byte, id int64) {
		out = appendLabel(out, last, text, id)
		last = append(last[:0], text...)
	}
	for o.next() {
		for len(more) > 0 && bytes.Compare(more[0].text, o.text) < 0 {
			add(more[0].text, more[0].id)
			more = more[1:]
		}
		add(o.text, o.id)
	}
	for _, m := range more {
		add(m.text, m.id)
	}
	return out
}

// byText puts labels in the order of their texts, which d is asked for.
func (d *dictionary) byText(ctx context.Context, ids []int64) ([]textID, error) {
	if err := d.name(ctx, slices.Clone(ids)); err != nil {
		return nil, err
	}
	out := make([]textID, len(ids))
	for i, id := range ids {
		out[i] = textID{text: []byte(d.texts[id].label), id: id}
	}
	slices.SortFunc(out, func(a, b textID) int { return bytes.Compare(a.text, b.text) })
	return out, nil
}

// orderLabels writes the orders of the dimensions that have more labels than the cap.
func (w *dayWriter) orderLabels(ctx context.Context, counts map[countKey][]labelCount, orders map[Dimension][]byte, labels *dictionary) error {
	p := dbsqlc.SaveRollupCountsParams{SiteID: w.siteID, FirstDay: w.day.Date}
	for key, of := range counts {
		if !hasCap(key.dimension) || !beyondCap(of, w.events().capOf(key.dimension)) {
			continue
		}
		there := tally{}
		for o := (labelOrder{b: orders[key.dimension]}); o.next(); {
			there.add(labelCount{label: o.id, visitors: 1})
		}
		var missing []int64
		for _, c := range of {
			if c.label != otherID && *there.at(c.label) == (Traffic{}) {
				missing = append(missing, c.label)
			}
		}
		if len(missing) == 0 {
			continue
		}
		more, err := labels.byText(ctx, missing)
		if err != nil {
			return err
		}
		p.Dimensions, p.Parts = append(p.Dimensions, string(key.dimension)), append(p.Parts, orderPart)
		p.Counts = append(p.Counts, labelOrder{b: orders[key.dimension]}.merged(more))
	}
	if len(p.Parts) == 0 {
		return nil
	}
	return w.queries.SaveRollupCounts(ctx, w.tx, p)
}

// keepFirst returns the first labels of an open day with more than the cap, and the others
// as (other), whose visitors aren't counted; false when it doesn't know them. stored are
// the counts that were folded, of which the order is kept.
func (r *rollupReader) keepFirst(ctx context.Context, day time.Time, d Dimension, stored, counts []labelCount) ([]labelCount, bool, error) {
	rows, err := r.queries.FindLabelOrder(ctx, r.tx, r.siteID, string(d), day)
	if err != nil || len(rows) == 0 {
		return nil, false, err
	}
	more, err := r.labels.byText(ctx, notStored(stored, counts))
	if err != nil {
		return nil, false, err
	}
	rank := newRanking(d, 0)
	labels := slices.DeleteFunc(slices.Clone(counts), func(c labelCount) bool { return c.label == otherID })
	labelCap := r.capOf(d)
	kept, ties := partition(labels, labelCap, rank.compare)
	tied := tally{}
	for _, c := range ties {
		tied.add(c)
	}
	take := func(id int64) {
		if c := tied.of(id); len(kept) < labelCap && c != (Traffic{}) {
			kept = append(kept, labelCount{label: id, visitors: c.Visitors, pageviews: c.Pageviews})
		}
	}
	o := labelOrder{b: rows[0]}
	for len(kept) < labelCap && o.next() {
		for len(more) > 0 && bytes.Compare(more[0].text, o.text) < 0 {
			take(more[0].id)
			more = more[1:]
		}
		take(o.id)
	}
	for _, m := range more {
		take(m.id)
	}
	if len(kept) < labelCap {
		return nil, false, nil
	}
	return append(kept, restOf(counts, kept)), true, nil
}

// partition reorders of, which has more than n, and returns those that precede the n-th and
// those that tie with it, neither in any order: Hoare's selection with Dijkstra's three-way
// partition, which reads each several times at most, where a sort reads it for each doubling.
func partition(of []labelCount, n int, compare func(a, b labelCount) int) (before, ties []labelCount) {
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
			return of[:less:less], of[less:more]
		}
	}
}

// notStored returns the labels of counts that stored hasn't, those of visitors who are yet
// to be folded. Both are in the order of their labels.
func notStored(stored, counts []labelCount) []int64 {
	var fresh []int64
	for _, c := range counts {
		for len(stored) > 0 && stored[0].label < c.label {
			stored = stored[1:]
		}
		if len(stored) == 0 || stored[0].label != c.label {
			fresh = append(fresh, c.label)
		}
	}
	return fresh
}

// restOf is what of counts isn't in kept, as (other); its visitors aren't counted.
func restOf(counts, kept []labelCount) labelCount {
	rest := labelCount{label: otherID}
	for _, c := range counts {
		rest.pageviews += c.pageviews
	}
	for _, c := range kept {
		rest.pageviews -= c.pageviews
	}
	rest.pageviews = cmp.Or(rest.pageviews, 1)
	return rest
}
