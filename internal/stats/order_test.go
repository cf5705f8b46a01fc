package stats

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestASplitHasWhatASortPutsBeforeTheCapAndWhatTiesThere(t *testing.T) {
	t.Parallel()
	for _, d := range []Dimension{ByPage, BySource, byEvent} {
		rank := newRanking(d, 0)
		rapid.Check(t, func(t *rapid.T) {
			number := rapid.OneOf(rapid.Int64Range(1, 3), rapid.Int64Range(250, 260), rapid.Int64Range(1, 1000))
			counts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) labelCount {
				return labelCount{pageviews: number.Draw(t, "pageviews"), visitors: number.Draw(t, "visitors")}
			}), 2, 40).Draw(t, "counts")
			for i := range counts {
				counts[i].label = int64(i + 1)
			}
			n := rapid.IntRange(1, len(counts)).Draw(t, "n")
			last := slices.SortedFunc(slices.Values(counts), rank.compare)[n-1]
			want := [2][]labelCount{{}, {}}
			for _, c := range counts {
				if order := rank.compare(c, last); order <= 0 {
					want[1+order] = append(want[1+order], c)
				}
			}
			before, ties := rank.split(append([]labelCount{{label: otherID, pageviews: 1000, visitors: 1000}}, counts...), n)
			if diff := cmp.Diff(want, [2][]labelCount{before, ties}, cmp.AllowUnexported(labelCount{})); diff != "" {
				t.Fatalf("before and ties of %v at %d, by %s: %s", counts, n, d, diff)
			}
		})
	}
}

func TestAsManyTextsAreAmongTheFirstAsASortPutsThere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfNDistinct(rapid.IntRange(0, 100), 2, 12, rapid.ID[int]).Draw(t, "texts")
		split := rapid.IntRange(0, len(texts)).Draw(t, "split")
		a, b := slices.Sorted(slices.Values(texts[:split])), slices.Sorted(slices.Values(texts[split:]))
		n := rapid.IntRange(1, len(texts)-1).Draw(t, "n")
		first, want := slices.Sorted(slices.Values(texts))[:n], 0
		for _, text := range b {
			if slices.Contains(first, text) {
				want++
			}
		}
		got := amongFirst(n, len(a), len(b), func(ofA, ofB int) bool {
			if ofA < n-len(b) || ofA >= n {
				t.Fatalf("asked about the text at %d", ofA)
			}
			return a[ofA] < b[ofB]
		})
		if got != want {
			t.Fatalf("%d of %v are among the first %d of these and %v, not %d", want, b, n, a, got)
		}
	})
}
