package stats

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"

	"github.com/waypost/waypost/db/dbsqlc"
)

// Which labels of a crowded open day are beyond the cap depends on the order of their
// texts, where they have equal numbers. Texts of a hundred thousand labels are not looked
// up for that: folding keeps them in that order, packed, beside the counts. Answers, which
// would have to read all of these texts, find each label's place in it beside that.
const (
	// orderPart is the part of rollup_counts with the order, a labelOrder.
	orderPart = -1
	// placesPart is that with the places, packed as counts are, of which they take the
	// visitors' place: versions that know nothing of them read over them.
	placesPart = -2
)

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

// placesIn are the places of the labels of an order, from 1 on, in the order of their ids;
// (other) has the one behind the last.
func placesIn(order []byte) []labelCount {
	places, last := tally{}, int64(0)
	for o := (labelOrder{b: order}); o.next(); {
		last++
		places.add(labelCount{label: o.id, visitors: last})
	}
	places.add(labelCount{label: otherID, visitors: last + 1})
	out := make([]labelCount, 0, last+1)
	places.each(func(c labelCount) { out = append(out, c) })
	return out
}

// storedOrder is what an open day has of one dimension's order.
type storedOrder struct {
	texts  []byte // a labelOrder
	places int    // how many labels have one
}

// orderLabels writes the orders of the dimensions that have more labels than the cap.
func (w *dayWriter) orderLabels(ctx context.Context, counts map[countKey][]labelCount, orders map[Dimension]storedOrder, labels *dictionary) error {
	p := dbsqlc.SaveRollupCountsParams{SiteID: w.siteID, FirstDay: w.day.Date}
	for key, of := range counts {
		if !hasCap(key.dimension) || !beyondCap(of, w.events().capOf(key.dimension)) {
			continue
		}
		add := func(part int64, counts []byte) {
			p.Dimensions, p.Parts, p.Counts = append(p.Dimensions, string(key.dimension)), append(p.Parts, part), append(p.Counts, counts)
		}
		order := orders[key.dimension].texts
		places := placesIn(order)
		if missing := lacking(places, of); len(missing) > 0 {
			more, err := labels.byText(ctx, missing)
			if err != nil {
				return err
			}
			order = labelOrder{b: order}.merged(more)
			places = placesIn(order)
			add(orderPart, order)
		} else if orders[key.dimension].places == len(places)-1 {
			continue
		}
		packed, err := packCounts(places)
		if err != nil {
			return err
		}
		add(placesPart, packed)
	}
	if len(p.Parts) == 0 {
		return nil
	}
	return w.queries.SaveRollupCounts(ctx, w.tx, p)
}

// lacking returns the labels of counts that have no place. Both are in the order of their
// labels.
func lacking(places, counts []labelCount) []int64 {
	var out []int64
	for _, c := range counts {
		for len(places) > 0 && places[0].label < c.label {
			places = places[1:]
		}
		if len(places) == 0 || places[0].label != c.label {
			out = append(out, c.label)
		}
	}
	return out
}
