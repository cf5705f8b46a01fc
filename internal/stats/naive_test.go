package stats_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/e2e/naive"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/stats/calendar"
)

// comparison holds a service's answers about one site against a naive count.
type comparison struct {
	service *stats.Service
	site    uuid.UUID
	zone    *time.Location
	zones   calendar.Zones // when there was more than zone
	count   *naive.Site
	filters stats.Filters // that count has been through
	limit   int
	offset  int      // of the lists with all that can be asked for
	events  []string // names whose properties are compared
	// rollupsOnly leaves out what is counted from single visits: sessions by label, and rows
	// without one.
	rollupsOnly bool
}

var (
	granularities = []calendar.Granularity{calendar.ByHour, calendar.ByDay, calendar.ByWeek, calendar.ByMonth}
	dimensions    = []stats.Dimension{
		stats.ByPage, stats.ByEntry, stats.ByExit, stats.BySource,
		stats.ByUTMSource, stats.ByUTMMedium, stats.ByUTMCampaign, stats.ByUTMTerm, stats.ByUTMContent,
		stats.ByCountry, stats.ByDevice, stats.ByBrowser, stats.ByOS,
	}
)

// differences asks everything that can be asked about w and returns what differs.
func (c comparison) differences(ctx context.Context, w naive.Window) (string, error) {
	var report string
	note := func(what string, want, got any) {
		if diff := cmp.Diff(want, got); diff != "" {
			report += fmt.Sprintf("%s over %s to %s (-naive +product):\n%s", what, w.From, w.To, diff)
		}
	}
	zones := c.zones
	if zones == nil {
		zones = calendar.Always(c.zone)
	}
	q := stats.Query{SiteID: c.site, Zones: zones, From: w.From, To: w.To, Limit: c.limit, Filters: c.filters, Compare: true}
	previous := c.count.Previous(w)

	summary, err := c.service.Summary(ctx, q)
	if err != nil {
		return "", err
	}
	now, before := c.count.Summary(w), c.count.Summary(previous)
	note("summary", stats.Metrics(now), summary.Metrics)
	note("previous summary", stats.Metrics(before), *summary.Previous)
	note("change", stats.Change{
		Pageviews: naive.Change(now.Pageviews, before.Pageviews),
		Visitors:  naive.Change(now.Visitors, before.Visitors),
		Sessions:  naive.Change(now.Sessions, before.Sessions),
	}, *summary.Change)

	for _, g := range granularities {
		series, err := c.service.Timeseries(ctx, q, g)
		if err != nil {
			return "", err
		}
		note(string(g), c.count.Timeseries(w, string(g)), asNaive(series.Buckets))
		note("previous "+string(g), c.count.Timeseries(previous, string(g)), asNaive(series.Previous))
	}

	rows, err := c.service.Breakdowns(ctx, q, dimensions...)
	if err != nil {
		return "", err
	}
	for _, d := range dimensions {
		want := c.count.Breakdown(w, string(d), allRows)
		note(string(d), firstRows(want, 0, c.limit), plainRows(rows[d].Rows))
		note("rows of "+string(d), len(want), int(rows[d].Total))
	}
	if !c.rollupsOnly {
		if err := c.compareVisits(ctx, q, w, note); err != nil {
			return "", err
		}
	}

	for _, name := range c.events {
		if err := c.compareEvents(ctx, q, w, name, note); err != nil {
			return "", err
		}
	}
	return report, nil
}

// compareVisits asks for all that can be added to rows and buckets.
func (c comparison) compareVisits(ctx context.Context, q stats.Query, w naive.Window, note func(what string, want, got any)) error {
	q.Visits, q.Empty, q.Offset = true, true, c.offset
	for _, g := range granularities {
		series, err := c.service.Timeseries(ctx, q, g)
		if err != nil {
			return err
		}
		got := make([]naive.Visits, len(series.Buckets))
		for i, b := range series.Buckets {
			got[i] = naive.Visits(*b.Visits)
		}
		note("visits by "+string(g), c.count.SeriesVisits(w, string(g)), got)
	}
	rows, err := c.service.Breakdowns(ctx, q, dimensions...)
	if err != nil {
		return err
	}
	for _, d := range dimensions {
		want, of := c.count.BreakdownWithNone(w, string(d)), c.count.RowVisits(w, string(d))
		note(string(d)+" with all", firstRows(want, c.offset, c.limit), plainRows(rows[d].Rows))
		note("rows of "+string(d)+" with all", len(want), int(rows[d].Total))
		for _, r := range rows[d].Rows {
			if d == stats.ByPage {
				note("visits of a page", (*stats.Visits)(nil), r.Visits)
				continue
			}
			note("visits of "+string(d)+" "+r.Label, of[r.Label], naive.Visits(*r.Visits))
		}
	}
	return nil
}

// allRows asks for the whole of a list.
const allRows = 1 << 30

func firstRows(rows []naive.Row, offset, limit int) []naive.Row {
	return append([]naive.Row{}, rows[min(offset, len(rows)):min(offset+limit, len(rows))]...)
}

func plainRows(rows []stats.Row) []naive.Row {
	out := make([]naive.Row, len(rows))
	for i, r := range rows {
		out[i] = naive.Row{Label: r.Label, Visitors: r.Visitors, Pageviews: r.Pageviews}
	}
	return out
}

func (c comparison) compareEvents(ctx context.Context, q stats.Query, w naive.Window, name string, note func(what string, want, got any)) error {
	events, err := c.service.CustomEvents(ctx, q, name)
	if err != nil {
		return err
	}
	wantEvents, wantProps := []stats.EventCount{}, []stats.PropCount{}
	for _, e := range c.count.Events(w, c.limit) {
		wantEvents = append(wantEvents, stats.EventCount(e))
	}
	for _, p := range c.count.Props(w, name, c.limit) {
		wantProps = append(wantProps, stats.PropCount(p))
	}
	note("events", wantEvents, append([]stats.EventCount{}, events.Events...))
	note("props of "+name, wantProps, events.Props)
	return nil
}

// mustAgree fails the test on the first window that the product counts otherwise.
func (c comparison) mustAgree(ctx context.Context, t rapid.TB, w naive.Window) {
	t.Helper()
	report, err := c.differences(ctx, w)
	if c.count.Empty(w) {
		if fault.KindOf(err) != fault.Invalid {
			t.Fatalf("the empty range %s to %s: %v, want a fault of kind Invalid", w.From, w.To, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("%s to %s: %v", w.From, w.To, err)
	}
	if report != "" {
		t.Fatal(report)
	}
}

func asNaive(buckets []stats.Bucket) []naive.Bucket {
	out := make([]naive.Bucket, len(buckets))
	for i, b := range buckets {
		out[i] = naive.Bucket{Start: b.Start, Pageviews: b.Pageviews, Visitors: b.Visitors}
	}
	return out
}

// windows draws ranges around [from, to): dates, seconds, or one of each.
func windows(from, to time.Time, zone *time.Location) *rapid.Generator[naive.Window] {
	return rapid.Custom(func(t *rapid.T) naive.Window {
		span := int(to.Sub(from) / time.Second)
		a := rapid.IntRange(-span/8, span).Draw(t, "from")
		b := rapid.IntRange(a+1, span+span/8+1).Draw(t, "to")
		if rapid.Bool().Draw(t, "short") {
			b = a + 1 + (b-a)%7200
		}
		write := func(offset int, kind string) string {
			at := from.Add(time.Duration(offset) * time.Second)
			switch rapid.SampledFrom([]string{"date", "utc", "local"}).Draw(t, kind) {
			case "date":
				return at.In(zone).Format(time.DateOnly)
			case "local":
				return at.In(zone).Format(time.RFC3339)
			default:
				return at.UTC().Format(time.RFC3339)
			}
		}
		return naive.Window{From: write(a, "kind of from"), To: write(b, "kind of to")}
	})
}

func location(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}
