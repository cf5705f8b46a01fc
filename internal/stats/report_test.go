package stats

import (
	"fmt"
	"testing"
)

func TestRatiosRoundHalvesAwayFromZero(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n, d, steps int64
		want        float64
	}{
		{1, 3, 1000, 0.333}, {2, 3, 1000, 0.667}, {1, 2000, 1000, 0.001}, {1, 2001, 1000, 0}, {-1, 2000, 1000, -0.001}, {0, 7, 10, 0},
		{1, 1, 100, 1}, {25, 1000, 10, 0}, {50, 1000, 10, 0.1}, {-50, 1000, 10, -0.1}, {3155760000000000000 / 100, 1_000_000, 10, 31557600000},
	} {
		if got := quotient(c.n, c.d, c.steps); got != c.want {
			t.Errorf("quotient(%d, %d, %d) = %v, want %v", c.n, c.d, c.steps, got, c.want)
		}
	}
	if p := percentChange(99_999, 100_000); *p != 0 || fmt.Sprint(*p) != "0" {
		t.Errorf("a change of -0.001 %% is %v, want 0 without a sign", *p)
	}
	if p := percentChange(5, 0); p != nil {
		t.Errorf("a change from nothing is %v, want none", *p)
	}
}
