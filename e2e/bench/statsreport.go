package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// reportKind is a question with one filter that asks for several things at once.
type reportKind struct{ name, path, query string }

var reportKinds = []reportKind{
	{"summary alone", "summary", ""},
	{"a report of 5", "report", "&questions=summary,timeseries,pages,referrers,geo"},
	{"the same, compared", "report", "&questions=summary,timeseries,pages,referrers,geo&compare=true"},
	{"a report of all", "report", "&questions=summary,timeseries,pages,referrers,geo,tech,events"},
	{"referrers", "referrers", ""},
	{"referrers, metrics=", "referrers", "&metrics=sessions,bounce_rate,avg_duration,views_per_visit"},
	{"referrers, metrics= and empty=", "referrers", "&metrics=sessions,bounce_rate,avg_duration,views_per_visit&empty=true"},
	{"timeseries, metrics=", "timeseries", "&metrics=sessions,bounce_rate"},
}

// statsReportFigure asks the large site what takes many columns, each with one common
// filter, in turns. No question is asked twice.
func statsReportFigure(ctx context.Context, w *world) error {
	f, err := w.fill(ctx, yearDays, w.events, w.events/10)
	if err != nil {
		return err
	}
	if err := w.serve(ctx); err != nil {
		return err
	}
	to, random, seen := f.At.UTC(), rand.New(rand.NewPCG(2, 3)), make(map[string]bool)
	times := make([][]time.Duration, len(reportKinds))
	for round := range w.requests + statsWarmups {
		for i, k := range reportKinds {
			query := drawQuestion(random, filteredKinds[0], to, k.query, seen, f.Sites[0].Key)
			took, err := ask(ctx, w.url+"/api/stats/"+k.path+"?"+query, f.Sites[0].Key)
			if err != nil {
				return err
			}
			if round >= statsWarmups {
				times[i] = append(times[i], took)
			}
		}
	}
	for i, k := range reportKinds {
		slices.Sort(times[i])
		fmt.Printf("   %-32s least %v, p10 %v, p50 %v\n", k.name, round(times[i][0]), round(times[i][len(times[i])/10]), round(median(times[i])))
	}
	return nil
}
