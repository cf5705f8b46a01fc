package stats

import (
	"encoding/binary"
	"errors"
	"slices"
)

// labelCount is what a rollup has of one label. In a difference of two rollups
// the numbers may be negative.
type labelCount struct {
	label               int64 // id in the site's dictionary
	visitors, pageviews int64 // of dimension event, pageviews are the count; prop has no visitors
}

// errPacked says that stored counts are not what packCounts makes.
var errPacked = errors.New("stats: damaged rollup")

// packCounts writes counts, which are in order of their labels, each as three
// base-128 varints (encoding/binary): the distance to the label before, the
// visitors, the pageviews. Equal counts give equal bytes.
func packCounts(counts []labelCount) ([]byte, error) {
	b := make([]byte, 0, 5*len(counts))
	last := int64(-1)
	for _, c := range counts {
		if c.label <= last || c.visitors < 0 || c.pageviews < 0 {
			return nil, errPacked
		}
		b = binary.AppendUvarint(b, uint64(c.label-last))
		b = binary.AppendUvarint(b, uint64(c.visitors))
		b = binary.AppendUvarint(b, uint64(c.pageviews))
		last = c.label
	}
	return b, nil
}

// unpackCounts reads what packCounts wrote.
func unpackCounts(b []byte) ([]labelCount, error) { return unpackInto([]labelCount{}, b) }

// unpackInto is unpackCounts that writes over into, where that is long enough.
func unpackInto(into []labelCount, b []byte) ([]labelCount, error) {
	varints := 0
	for _, c := range b {
		if c < 0x80 {
			varints++
		}
	}
	into = slices.Grow(into[:0], varints/3)
	err := eachPacked(b, func(c labelCount) { into = append(into, c) })
	return into, err
}

// eachPacked calls f for what packCounts wrote, in order.
func eachPacked(b []byte, f func(labelCount)) error {
	const limit = 1 << 62
	last := int64(-1)
	for len(b) > 0 {
		distance, n := binary.Uvarint(b)
		if n <= 0 || distance == 0 || distance > uint64(limit-max(last, 0)) {
			return errPacked
		}
		b = b[n:]
		visitors, n := binary.Uvarint(b)
		if n <= 0 || visitors > limit {
			return errPacked
		}
		b = b[n:]
		pageviews, n := binary.Uvarint(b)
		if n <= 0 || pageviews > limit {
			return errPacked
		}
		b = b[n:]
		last += int64(distance)
		f(labelCount{label: last, visitors: int64(visitors), pageviews: int64(pageviews)})
	}
	return nil
}

// sumCounts adds up lists that are in order of their labels, two by two, so that
// the cost grows with their number's logarithm. Labels whose numbers cancel out
// are left out.
func sumCounts(lists [][]labelCount) []labelCount {
	switch len(lists) {
	case 0:
		return nil
	case 1:
		return lists[0]
	}
	half := len(lists) / 2
	return addCounts(sumCounts(lists[:half]), sumCounts(lists[half:]))
}

func addCounts(a, b []labelCount) []labelCount {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	out := make([]labelCount, 0, max(len(a), len(b))+min(len(a), len(b))/2)
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].label < b[0].label:
			out, a = append(out, a[0]), a[1:]
		case b[0].label < a[0].label:
			out, b = append(out, b[0]), b[1:]
		default:
			sum := labelCount{label: a[0].label, visitors: a[0].visitors + b[0].visitors, pageviews: a[0].pageviews + b[0].pageviews}
			if sum.visitors != 0 || sum.pageviews != 0 {
				out = append(out, sum)
			}
			a, b = a[1:], b[1:]
		}
	}
	out = append(out, a...)
	return append(out, b...)
}

// sortCounts orders counts, whose labels may repeat, and adds up repeated labels.
func sortCounts(counts []labelCount) []labelCount {
	slices.SortFunc(counts, func(a, b labelCount) int {
		switch {
		case a.label < b.label:
			return -1
		case a.label > b.label:
			return 1
		default:
			return 0
		}
	})
	out := counts[:0]
	for _, c := range counts {
		if n := len(out); n > 0 && out[n-1].label == c.label {
			out[n-1].visitors += c.visitors
			out[n-1].pageviews += c.pageviews
			continue
		}
		out = append(out, c)
	}
	return slices.DeleteFunc(out, func(c labelCount) bool { return c.visitors == 0 && c.pageviews == 0 })
}
