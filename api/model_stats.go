package api

import (
	"time"

	"github.com/waypost/waypost/internal/stats"
)

// StatsMetrics are a period's totals. It is exported because Huma leaves an
// unexported embedded struct out of the schema.
type StatsMetrics struct {
	Pageviews     int64   `json:"pageviews" minimum:"0" example:"3920"`
	Visitors      int64   `json:"visitors" minimum:"0" example:"1467" doc:"Each visitor counts once per day of the site."`
	Sessions      int64   `json:"sessions" minimum:"0" example:"2277"`
	BounceRate    float64 `json:"bounce_rate" minimum:"0" maximum:"1" example:"0.705" doc:"Sessions of exactly one pageview and no custom event / sessions."`
	AvgDuration   float64 `json:"avg_duration" minimum:"0" example:"241.3" doc:"Mean duration of a session in seconds, from its first to its last event."`
	ViewsPerVisit float64 `json:"views_per_visit" minimum:"0" example:"1.72" doc:"Pageviews / sessions."`
}

// statsChange is percent against the previous period.
type statsChange struct {
	Pageviews *float64 `json:"pageviews" example:"25" doc:"Change in percent; null when the previous value is 0."`
	Visitors  *float64 `json:"visitors" example:"12.5" doc:"Change in percent; null when the previous value is 0."`
	Sessions  *float64 `json:"sessions" example:"-3.1" doc:"Change in percent; null when the previous value is 0."`
}

type statsSummary struct {
	StatsMetrics
	Previous *StatsMetrics `json:"previous,omitempty" doc:"Only with compare=true."`
	Change   *statsChange  `json:"change,omitempty" doc:"Only with compare=true."`
}

type statsBucket struct {
	TS        time.Time `json:"ts" example:"2026-01-01T00:00:00Z" doc:"Start of the bucket, in UTC."`
	Pageviews int64     `json:"pageviews" minimum:"0" example:"130"`
	Visitors  int64     `json:"visitors" minimum:"0" example:"48"`
}

type statsTimeseries struct {
	Granularity string        `json:"granularity" enum:"hour,day,week,month" example:"day"`
	Buckets     []statsBucket `json:"buckets" nullable:"false"`
	Previous    []statsBucket `json:"previous,omitempty" nullable:"false" doc:"Only with compare=true."`
}

type statsRow struct {
	Label     string `json:"label" example:"/pricing"`
	Visitors  int64  `json:"visitors" minimum:"0" example:"31"`
	Pageviews int64  `json:"pageviews" minimum:"0" example:"57"`
}

type statsPages struct {
	Top   []statsRow `json:"top" nullable:"false"`
	Entry []statsRow `json:"entry" nullable:"false"`
	Exit  []statsRow `json:"exit" nullable:"false"`
}

type statsReferrers struct {
	Sources []statsRow `json:"sources" nullable:"false"`
	UTM     statsUTM   `json:"utm"`
}

type statsUTM struct {
	Source   []statsRow `json:"source" nullable:"false"`
	Medium   []statsRow `json:"medium" nullable:"false"`
	Campaign []statsRow `json:"campaign" nullable:"false"`
	Term     []statsRow `json:"term" nullable:"false"`
	Content  []statsRow `json:"content" nullable:"false"`
}

type statsGeo struct {
	Countries []statsRow `json:"countries" nullable:"false"`
}

type statsTech struct {
	Devices  []statsRow `json:"devices" nullable:"false"`
	Browsers []statsRow `json:"browsers" nullable:"false"`
	OS       []statsRow `json:"os" nullable:"false"`
}

type statsEventCount struct {
	Name     string `json:"name" example:"signup"`
	Count    int64  `json:"count" minimum:"1" example:"12"`
	Visitors int64  `json:"visitors" minimum:"1" example:"11"`
}

type statsEventProp struct {
	Key   string `json:"key" example:"plan"`
	Value string `json:"value" example:"team"`
	Count int64  `json:"count" minimum:"1" example:"7"`
}

type statsEvents struct {
	Events []statsEventCount `json:"events" nullable:"false"`
	// A pointer, so that an event without properties shows an empty list.
	Props *[]statsEventProp `json:"props,omitempty" nullable:"false" doc:"Only with the parameter name."`
}

type statsRealtime struct {
	Visitors      int64 `json:"visitors" minimum:"0" example:"4"`
	WindowSeconds int   `json:"window_seconds" example:"300"`
}

func newStatsMetrics(m stats.Metrics) StatsMetrics {
	return StatsMetrics{
		Pageviews: m.Pageviews, Visitors: m.Visitors, Sessions: m.Sessions,
		BounceRate: m.BounceRate, AvgDuration: m.AvgDuration, ViewsPerVisit: m.ViewsPerVisit,
	}
}

func newStatsSummary(s stats.Summary) statsSummary {
	out := statsSummary{StatsMetrics: newStatsMetrics(s.Metrics)}
	if s.Previous != nil {
		m := newStatsMetrics(*s.Previous)
		out.Previous = &m
	}
	if s.Change != nil {
		out.Change = &statsChange{Pageviews: s.Change.Pageviews, Visitors: s.Change.Visitors, Sessions: s.Change.Sessions}
	}
	return out
}

func newStatsTimeseries(t stats.Timeseries) statsTimeseries {
	return statsTimeseries{Granularity: string(t.Granularity), Buckets: newStatsBuckets(t.Buckets), Previous: newStatsBuckets(t.Previous)}
}

func newStatsBuckets(buckets []stats.Bucket) []statsBucket {
	out := make([]statsBucket, len(buckets))
	for i, b := range buckets {
		out[i] = statsBucket{TS: b.Start, Pageviews: b.Pageviews, Visitors: b.Visitors}
	}
	return out
}

func newStatsRows(rows []stats.Row) []statsRow {
	out := make([]statsRow, len(rows))
	for i, r := range rows {
		out[i] = statsRow{Label: r.Label, Visitors: r.Visitors, Pageviews: r.Pageviews}
	}
	return out
}

func newStatsEvents(e stats.CustomEvents) statsEvents {
	out := statsEvents{Events: make([]statsEventCount, len(e.Events))}
	for i, c := range e.Events {
		out.Events[i] = statsEventCount{Name: c.Name, Count: c.Count, Visitors: c.Visitors}
	}
	if e.Props != nil {
		props := make([]statsEventProp, len(e.Props))
		for i, p := range e.Props {
			props[i] = statsEventProp{Key: p.Key, Value: p.Value, Count: p.Count}
		}
		out.Props = &props
	}
	return out
}
