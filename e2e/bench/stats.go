package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// endpoints are the questions that are timed, with their own parameters.
var endpoints = []struct{ name, path, query string }{
	{"summary", "summary", ""},
	{"summary, compared", "summary", "&compare=true"},
	{"timeseries", "timeseries", ""},
	{"timeseries by day", "timeseries", "&granularity=day"},
	{"pages", "pages", ""},
	{"referrers", "referrers", ""},
	{"geo", "geo", ""},
	{"tech", "tech", ""},
	{"events", "events", ""},
	{"events of a name", "events", "&name=event-1"},
	{"realtime", "realtime", ""},
}

const (
	yearDays     = 365
	statsLimit   = 5 * time.Millisecond
	statsMost    = 1.3
	statsWarmups = 10
)

// statsFigure loads two sites, one with a tenth of the other's events, and asks
// both the same in turns.
func statsFigure(ctx context.Context, w *world) error {
	f, err := w.fill(ctx, yearDays, w.events, w.events/10)
	if err != nil {
		return err
	}
	if err := w.serve(ctx); err != nil {
		return err
	}
	of, today := [2]loadedSite(f.Sites), f.At.UTC()
	from, to := today.AddDate(0, 0, 1-yearDays).Format(time.DateOnly), today.Format(time.DateOnly)
	if err := w.compareSites(ctx, of, "?from="+from+"&to="+to); err != nil || !w.explains {
		return err
	}
	return w.explain(ctx, of[0], from, to)
}

func (w *world) compareSites(ctx context.Context, of [2]loadedSite, window string) error {
	fmt.Printf("   %-20s %10s %10s %7s   p50 <= %v and <= %.1f x\n", "p50", fmt.Sprint(of[0].Events), fmt.Sprint(of[1].Events), "ratio", statsLimit, statsMost)
	for _, e := range endpoints {
		var times [2][]time.Duration
		for round := range w.requests + statsWarmups {
			for i, s := range of {
				took, err := ask(ctx, w.url+"/api/stats/"+e.path+window+e.query, s.Key)
				if err != nil {
					return err
				}
				if round >= statsWarmups {
					times[i] = append(times[i], took)
				}
			}
		}
		large, small := median(times[0]), median(times[1])
		ratio := float64(large) / float64(small)
		fmt.Printf("   %-20s %10v %10v %7.2f   %s\n", e.name, round(large), round(small), ratio, verdict(large <= statsLimit && ratio <= statsMost))
	}
	return nil
}

const (
	openDayPaths = 100_000
	manyLimit    = 50 * time.Millisecond
)

// openDayFigure asks about a day that goes on, whose rollups are kept up to date
// as events come: of a site with as many paths as sites have, and of one with many.
func openDayFigure(ctx context.Context, w *world) error {
	f, err := w.fill(ctx, 1, w.openDay)
	if err != nil {
		return err
	}
	many, err := w.newSite(ctx, "many paths")
	if err != nil {
		return err
	}
	paths := newTraffic(many.ID, 2)
	paths.paths = openDayPaths
	if err := w.load(ctx, &many, paths, w.openDay, 1, f.At); err != nil {
		return err
	}
	if err := w.serve(ctx); err != nil {
		return err
	}
	today := f.At.UTC().Format(time.DateOnly)
	for limit, s := range map[time.Duration]loadedSite{statsLimit: f.Sites[0], manyLimit: many} {
		var paths int
		if err := w.owner.QueryRow(ctx, `select count(distinct path) from events where site_id = $1`, s.ID).Scan(&paths); err != nil {
			return err
		}
		fmt.Printf("   %d paths, limit %v\n", paths, limit)
		for _, e := range endpoints {
			var times []time.Duration
			for round := range w.requests + statsWarmups {
				took, err := ask(ctx, fmt.Sprintf("%s/api/stats/%s?from=%s&to=%s%s", w.url, e.path, today, today, e.query), s.Key)
				if err != nil {
					return err
				}
				if round >= statsWarmups {
					times = append(times, took)
				}
			}
			fmt.Printf("   %-20s %10v   %s\n", e.name, round(median(times)), verdict(median(times) <= limit))
		}
	}
	return nil
}

func ask(ctx context.Context, url, key string) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("X-Analytics-API-Key", key)
	started := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	body, err := io.ReadAll(resp.Body)
	took := time.Since(started)
	if err != nil {
		return 0, err
	}
	if err := resp.Body.Close(); err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %d %s", url, resp.StatusCode, body)
	}
	return took, nil
}

func median[T cmp.Ordered](of []T) T {
	return slices.Sorted(slices.Values(of))[len(of)/2]
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

func verdict(kept bool) string {
	if kept {
		return "kept"
	}
	return "MISSED"
}
