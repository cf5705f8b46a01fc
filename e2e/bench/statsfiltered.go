package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"
)

// Limits of a filtered question at a tenth of the events; the large site's are six times
// that.
const (
	oneFilterLimit  = 30 * time.Millisecond
	twoFiltersLimit = 60 * time.Millisecond
	patternLimit    = 300 * time.Millisecond
	filteredMost    = 6
)

// filterable draws a value of a filter, from among the most frequent or from the long tail.
var filterable = map[string]func(r *rand.Rand, common bool) string{
	"path":    ranked("path", 5, 800, 2900),
	"source":  ranked("source", 3, 150, 600),
	"country": func(r *rand.Rand, common bool) string { return countryOf(drawn(r, common, 2, 30, 90)) },
	"device":  ranked("device", 2, 2, 3),
	"event":   ranked("event", 2, 5, 8),
}

func ranked(name string, top, from, to int) func(*rand.Rand, bool) string {
	return func(r *rand.Rand, common bool) string {
		return fmt.Sprintf(labels[name].text, drawn(r, common, top, from, to))
	}
}

// drawn is a label's number: below top, or of the long tail.
func drawn(r *rand.Rand, common bool, top, from, to int) int {
	if common {
		return r.IntN(top)
	}
	return from + r.IntN(to-from)
}

func countryOf(n int) string { return string([]byte{byte('A' + n%26), byte('A' + n/26)}) }

// filteredKind is a kind of filtered question.
type filteredKind struct {
	name  string
	limit time.Duration
	draw  func(r *rand.Rand) url.Values
}

var filteredKinds = []filteredKind{
	{"one, common", oneFilterLimit, func(r *rand.Rand) url.Values { return filtersOf(r, true, 1) }},
	{"one, rare", oneFilterLimit, func(r *rand.Rand) url.Values { return filtersOf(r, false, 1) }},
	{"two, common", twoFiltersLimit, func(r *rand.Rand) url.Values { return filtersOf(r, true, 2) }},
	{"two, rare", twoFiltersLimit, func(r *rand.Rand) url.Values { return filtersOf(r, false, 2) }},
	{"*", patternLimit, func(r *rand.Rand) url.Values {
		return url.Values{"filter[path]": {fmt.Sprintf("/articles/%d*", 1+r.IntN(99))}}
	}},
	{"prop:", patternLimit, func(r *rand.Rand) url.Values {
		return url.Values{"filter[prop:plan]": {fmt.Sprintf("value-%d", r.IntN(20))}}
	}},
}

// filtersOf draws n filters of different names.
func filtersOf(r *rand.Rand, common bool, n int) url.Values {
	names := []string{"path", "source", "country", "device", "event"}
	values := url.Values{}
	for _, at := range r.Perm(len(names))[:n] {
		values.Set("filter["+names[at]+"]", filterable[names[at]](r, common))
	}
	return values
}

// statsFilteredFigure asks two sites, of which one has a tenth of the other's events, with
// filters. No question is asked twice: its filters, its first day and its limit are drawn.
func statsFilteredFigure(ctx context.Context, w *world) error {
	f, err := w.fill(ctx, yearDays, w.events, w.events/10)
	if err != nil {
		return err
	}
	if err := w.serve(ctx); err != nil {
		return err
	}
	to := f.At.UTC()
	seen := make(map[string]bool)
	for _, kind := range filteredKinds {
		fmt.Printf("   %-12s %-18s %12s %12s %7s   p50 <= %v, and %d x that at %d\n", kind.name, "", fmt.Sprint(f.Sites[1].Events), fmt.Sprint(f.Sites[0].Events), "ratio",
			kind.limit, filteredMost, f.Sites[0].Events)
		random := rand.New(rand.NewPCG(1, uint64(len(kind.name))))
		for _, e := range endpoints {
			if e.path == "realtime" {
				continue
			}
			var times [2][]time.Duration
			for round := range w.requests + statsWarmups {
				for i, s := range f.Sites {
					query := drawQuestion(random, kind, to, e.query, seen, s.Key)
					took, err := ask(ctx, w.url+"/api/stats/"+e.path+"?"+query, s.Key)
					if err != nil {
						return err
					}
					if round >= statsWarmups {
						times[i] = append(times[i], took)
					}
				}
			}
			large, small := median(times[0]), median(times[1])
			fmt.Printf("   %-12s %-18s %12v %12v %7.2f   %s\n", "", e.name, round(small), round(large), float64(large)/float64(small),
				verdict(small <= kind.limit && large <= filteredMost*kind.limit))
		}
	}
	return nil
}

// drawQuestion draws a query that wasn't asked before.
func drawQuestion(r *rand.Rand, kind filteredKind, to time.Time, more string, seen map[string]bool, key string) string {
	for {
		q := kind.draw(r)
		q.Set("from", to.AddDate(0, 0, 1-yearDays+r.IntN(8)).Format(time.DateOnly))
		q.Set("to", to.Format(time.DateOnly))
		q.Set("limit", fmt.Sprint(20+r.IntN(80)))
		query := q.Encode() + more
		if !seen[key+query+more] {
			seen[key+query+more] = true
			return query
		}
	}
}
