package demo

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestTrafficIsLifelikeAndTheSameForTheSameSeed(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 3, 31, 15, 0, 0, 0, time.UTC)
	run := func() []hit { return traffic(rand.New(rand.NewChaCha8([32]byte{1})), "demo.example", until, 90) }
	hits := run()
	if diff := cmp.Diff(hits, run(), cmp.AllowUnexported(hit{}), cmpopts.EquateComparable(hits[0].address)); diff != "" {
		t.Fatal("two runs differ")
	}
	if n := len(hits); n < 20_000 || n > 80_000 {
		t.Errorf("%d hits", n)
	}
	if !slices.IsSortedFunc(hits, func(a, b hit) int { return a.at.Compare(b.at) }) {
		t.Error("hits are out of order")
	}
	days, events := map[string]int{}, 0
	for _, h := range hits {
		days[h.at.Format(time.DateOnly)]++
		if h.at.After(until) || !strings.HasPrefix(h.url, "https://demo.example/") {
			t.Fatalf("%+v", h)
		}
		if h.name != "" {
			events++
		}
	}
	if len(days) != 91 || events == 0 {
		t.Errorf("%d days, %d custom events", len(days), events)
	}
}

func TestEveryVisitorComesFromACountry(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	seen := map[string]int{}
	for range 3000 {
		seen[Country(address(rng))]++
	}
	for _, c := range countries {
		if share := float64(seen[c.value]) / 3000; math.Abs(share-c.weight/networks) > 0.05 {
			t.Errorf("%s: %.3f of the visitors, want %.3f", c.value, share, c.weight/networks)
		}
	}
	if len(seen) != len(countries) {
		t.Errorf("countries: %v", seen)
	}
}
