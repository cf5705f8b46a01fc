package stats

// tallyChunk is how many labels of consecutive ids share memory.
const tallyChunk = 256

// tally adds up counts by label. Ids count up from 1 in each site, and what is
// frequent has got its id early, so that they are used as indices.
type tally struct {
	chunks  []*[tallyChunk]Traffic
	unknown map[int64]Traffic // of labels without an id of the dictionary
}

func (t *tally) add(c labelCount) {
	if c.label < 0 {
		if t.unknown == nil {
			t.unknown = make(map[int64]Traffic)
		}
		t.unknown[c.label] = t.unknown[c.label].plus(Traffic{Pageviews: c.pageviews, Visitors: c.visitors}, 1)
		return
	}
	at := int(c.label / tallyChunk)
	for at >= len(t.chunks) {
		t.chunks = append(t.chunks, nil)
	}
	if t.chunks[at] == nil {
		t.chunks[at] = new([tallyChunk]Traffic)
	}
	sum := &t.chunks[at][c.label%tallyChunk]
	sum.Pageviews += c.pageviews
	sum.Visitors += c.visitors
}

// each calls f for every label that has anything.
func (t *tally) each(f func(labelCount)) {
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
