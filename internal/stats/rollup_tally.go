package stats

import "encoding/binary"

// tallyChunk is how many labels of consecutive ids share memory.
const tallyChunk = 256

// tally adds up counts by label. Ids count up from 1 in each site, and what is
// frequent has got its id early, so that they are used as indices.
type tally struct {
	chunks  []*[tallyChunk]Traffic
	unknown map[int64]Traffic // of labels without an id of the dictionary
	only    []labelCount      // all there is, as it came, until more is added
}

// addList adds counts, of different labels, which then are t's.
func (t *tally) addList(counts []labelCount) {
	if t.chunks == nil && t.unknown == nil && t.only == nil {
		t.only = counts
		return
	}
	for _, c := range counts {
		t.add(c)
	}
}

// spread makes room for more than one list.
func (t *tally) spread() {
	counts := t.only
	t.only = nil
	for _, c := range counts {
		t.add(c)
	}
}

func (t *tally) add(c labelCount) {
	if t.only != nil {
		t.spread()
	}
	if c.label < 0 {
		if t.unknown == nil {
			t.unknown = make(map[int64]Traffic)
		}
		t.unknown[c.label] = t.unknown[c.label].plus(Traffic{Pageviews: c.pageviews, Visitors: c.visitors}, 1)
		return
	}
	sum := t.at(c.label)
	sum.Pageviews += c.pageviews
	sum.Visitors += c.visitors
}

// addPacked adds what packCounts wrote. A year of pages is a hundred thousand
// counts, so this is eachPacked without its calls.
func (t *tally) addPacked(b []byte) error {
	const limit = 1 << 62
	if t.only != nil {
		t.spread()
	}
	label := int64(-1)
	for len(b) > 0 {
		var numbers [3]uint64 // distance to the label before, visitors, pageviews
		for i := range numbers {
			if len(b) > 0 && b[0] < 0x80 {
				numbers[i], b = uint64(b[0]), b[1:]
				continue
			}
			v, n := binary.Uvarint(b)
			if n <= 0 {
				return errPacked
			}
			numbers[i], b = v, b[n:]
		}
		if numbers[0] == 0 || numbers[0] > uint64(limit-max(label, 0)) || numbers[1] > limit || numbers[2] > limit {
			return errPacked
		}
		label += int64(numbers[0])
		sum := t.at(label)
		sum.Visitors += int64(numbers[1])
		sum.Pageviews += int64(numbers[2])
	}
	return nil
}

// at is where a label of the dictionary is added up.
func (t *tally) at(label int64) *Traffic {
	at := int(label / tallyChunk)
	if at >= len(t.chunks) {
		t.chunks = append(t.chunks, make([]*[tallyChunk]Traffic, at+1-len(t.chunks))...)
	}
	chunk := t.chunks[at]
	if chunk == nil {
		chunk = new([tallyChunk]Traffic)
		t.chunks[at] = chunk
	}
	return &chunk[label%tallyChunk]
}

// each calls f for every label that has anything.
func (t *tally) each(f func(labelCount)) {
	for _, c := range t.only {
		f(c)
	}
	for at, chunk := range t.chunks {
		if chunk == nil {
			continue
		}
		for i, sum := range chunk {
			if sum != (Traffic{}) {
				f(labelCount{label: int64(at*tallyChunk + i), visitors: sum.Visitors, pageviews: sum.Pageviews})
			}
		}
	}
	for label, sum := range t.unknown {
		if sum != (Traffic{}) {
			f(labelCount{label: label, visitors: sum.Visitors, pageviews: sum.Pageviews})
		}
	}
}
