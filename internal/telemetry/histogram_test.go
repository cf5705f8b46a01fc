package telemetry

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// durations are of all magnitudes, bounds of buckets among them.
func durations() *rapid.Generator[time.Duration] {
	return rapid.OneOf(
		rapid.Map(rapid.Int64Range(0, int64(3*time.Minute)), func(n int64) time.Duration { return time.Duration(n) }),
		rapid.Map(rapid.Int64Range(0, int64(20*time.Millisecond)), func(n int64) time.Duration { return time.Duration(n) }),
		rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.SampledFrom(bounds[:]).Draw(t, "bound")) + time.Duration(rapid.IntRange(-1, 1).Draw(t, "beside"))
		}),
	)
}

func TestADurationFallsIntoTheBucketWhoseBoundsHoldIt(t *testing.T) {
	t.Parallel()
	if !slices.IsSorted(bounds[:]) || bounds[0] != 100_000 || bounds[len(bounds)-1] != 100e9 {
		t.Fatalf("%v", bounds)
	}
	for _, b := range shownBounds {
		if !slices.Contains(bounds[:], b) {
			t.Errorf("%d is shown, and no bucket ends there", b)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := durations().Draw(t, "duration")
		i := bucketOf(d)
		if i < len(bounds) && uint64(d) > bounds[i] || i > 0 && uint64(d) <= bounds[i-1] {
			t.Fatalf("%v is in bucket %d", d, i)
		}
	})
	if bucketOf(-time.Second) != 0 || bucketOf(1<<62) != bucketCount-1 {
		t.Error("an impossible duration")
	}
}

func TestAQuantileIsRightToASeventh(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(durations(), 1, 300).Draw(t, "durations")
		var h Histogram
		for _, d := range list {
			h[bucketOf(d)]++
		}
		slices.Sort(list)
		for _, q := range []float64{.5, .95, .99, 1} {
			exact := list[max(0, min(len(list)-1, int(q*float64(len(list))+.999999)-1))]
			exact = min(exact, 100*time.Second)
			got := h.Quantile(q)
			if diff := (got - exact).Abs(); diff > exact/7+time.Duration(bounds[0]) {
				t.Fatalf("q %v of %v: %v, exactly %v", q, list, got, exact)
			}
		}
	})
	if (&Histogram{}).Quantile(.5) != 0 {
		t.Error("a quantile of nothing")
	}
}
