package stats

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestAPartitionHasWhatASortPutsBeforeTheCapAndWhatTiesThere(t *testing.T) {
	t.Parallel()
	rank := newRanking(ByPage, 0)
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) labelCount {
			return labelCount{pageviews: rapid.Int64Range(1, 4).Draw(t, "pageviews"), visitors: rapid.Int64Range(1, 3).Draw(t, "visitors")}
		}), 2, 40).Draw(t, "counts")
		for i := range counts {
			counts[i].label = int64(i + 1)
		}
		n := rapid.IntRange(1, len(counts)-1).Draw(t, "cap")
		sorted := slices.Clone(counts)
		slices.SortFunc(sorted, rank.compare)
		var before, ties []labelCount
		for _, c := range sorted {
			switch order := rank.compare(c, sorted[n-1]); {
			case order < 0:
				before = append(before, c)
			case order == 0:
				ties = append(ties, c)
			}
		}
		gotBefore, gotTies := partition(counts, n, rank.compare)
		byLabel := func(of []labelCount) map[int64]bool {
			out := map[int64]bool{}
			for _, c := range of {
				out[c.label] = true
			}
			return out
		}
		if diff := cmp.Diff([]map[int64]bool{byLabel(before), byLabel(ties)}, []map[int64]bool{byLabel(gotBefore), byLabel(gotTies)}); diff != "" {
			t.Fatalf("before and ties of %v at %d: %s", sorted, n, diff)
		}
	})
}
