package api

import (
	"time"

	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
)

// StatsMetrics are a period's totals. It is exported because Huma leaves an
// unexported embedded struct out of the schema.
type StatsMetrics struct {
	Pageviews     int64   `json:"pageviews" minimum:"0" example:"3920" doc:"The number of pageviews."`
	Visitors      int64   `json:"visitors" minimum:"0" example:"1467" doc:"Each visitor counts once per day of the site."`
	Sessions      int64   `json:"sessions" minimum:"0" example:"2277" doc:"The number of sessions."`
	BounceRate    float64 `json:"bounce_rate" minimum:"0" maximum:"1" example:"0.705" doc:"The share of sessions with exactly one pageview and no custom event, from 0 to 1."`
	AvgDuration   float64 `json:"avg_duration" minimum:"0" example:"241.3" doc:"Mean duration of a session in seconds, from its first to its last event."`
	ViewsPerVisit float64 `json:"views_per_visit" minimum:"0" example:"1.72" doc:"Pageviews divided by sessions."`
}

// statsChange is percent against the previous period.
type statsChange struct {
	Pageviews *float64 `json:"pageviews" example:"25" doc:"Change in percent; null when the previous value is 0."`
	Visitors  *float64 `json:"visitors" example:"12.5" doc:"Change in percent; null when the previous value is 0."`
	Sessions  *float64 `json:"sessions" example:"-3.1" doc:"Change in percent; null when the previous value is 0."`
}

type statsSummary struct {
	StatsMetrics
	Previous *StatsMetrics `json:"previous,omitempty" doc:"The preceding period of equal length; only with compare=true."`
	Change   *statsChange  `json:"change,omitempty" doc:"From the previous period to this one; only with compare=true."`
}

type statsBucket struct {
	TS        time.Time `json:"ts" example:"2026-01-01T00:00:00+01:00" doc:"Start of the bucket, by the site's clocks."`
	Pageviews int64     `json:"pageviews" minimum:"0" example:"130" doc:"Pageviews in the bucket."`
	Visitors  int64     `json:"visitors" minimum:"0" example:"48" doc:"Visitors in the bucket; each counts once per day of the site."`
	StatsVisits
}

// StatsVisits are what metrics adds.
type StatsVisits struct {
	Sessions      *int64   `json:"sessions,omitempty" minimum:"0" example:"51" doc:"The number of sessions. Only with metrics."`
	BounceRate    *float64 `json:"bounce_rate,omitempty" minimum:"0" maximum:"1" example:"0.62" doc:"The share of sessions with exactly one pageview and no custom event, from 0 to 1. Only with metrics."`
	AvgDuration   *float64 `json:"avg_duration,omitempty" minimum:"0" example:"198.4" doc:"The mean duration of a session in seconds. Only with metrics."`
	ViewsPerVisit *float64 `json:"views_per_visit,omitempty" minimum:"0" example:"2.55" doc:"Pageviews of these sessions (in a bucket, those inside it) divided by sessions. Only with metrics."`
}

// statsMetrics are the names of what metrics adds, in the order of their columns.
var statsMetrics = []string{"sessions", "bounce_rate", "avg_duration", "views_per_visit"}

// newStatsVisits has those that were asked for.
func newStatsVisits(v *stats.Visits, asked []string) StatsVisits {
	var out StatsVisits
	if v == nil {
		return out
	}
	for _, name := range asked {
		switch name {
		case "sessions":
			out.Sessions = &v.Sessions
		case "bounce_rate":
			out.BounceRate = &v.BounceRate
		case "avg_duration":
			out.AvgDuration = &v.AvgDuration
		case "views_per_visit":
			out.ViewsPerVisit = &v.ViewsPerVisit
		}
	}
	return out
}

// statsSite is what there is to know of a site itself.
type statsSite struct {
	Name         string     `json:"name" example:"Our blog" doc:"The site's name for people."`
	Domain       string     `json:"domain" example:"blog.example.com" doc:"The host name whose visits count, including subdomains."`
	Timezone     string     `json:"timezone" example:"Europe/Berlin" doc:"The IANA time zone in which dates are read and buckets are aligned."`
	FirstEventAt *time.Time `json:"first_event_at" nullable:"true" example:"2025-11-03T08:14:02Z" doc:"When the first event happened; null before any."`
	Now          time.Time  `json:"now" example:"2026-01-31T12:00:00Z" doc:"The current time at the server."`
}

func newStatsSite(s site.Site, facts stats.Facts) statsSite {
	out := statsSite{Name: s.Name, Domain: s.Domain, Now: facts.Now.UTC()}
	if s.Zone != nil {
		out.Timezone = s.Zone.String()
	}
	if !facts.FirstEvent.IsZero() {
		at := facts.FirstEvent.UTC()
		out.FirstEventAt = &at
	}
	return out
}

type statsTimeseries struct {
	Granularity string        `json:"granularity" enum:"hour,day,week,month" example:"day" doc:"The width of each bucket."`
	Buckets     []statsBucket `json:"buckets" nullable:"false" doc:"All buckets of the range, oldest first; those without visits have zeros."`
	Previous    []statsBucket `json:"previous,omitempty" nullable:"false" doc:"The buckets of the preceding period of equal length; only with compare=true."`

	metrics []string
}

type statsRow struct {
	Label     string `json:"label" example:"/pricing" doc:"What the row counts, such as a path, a source or a country."`
	Visitors  int64  `json:"visitors" minimum:"0" example:"31" doc:"Visitors of this row; each counts once per day of the site."`
	Pageviews int64  `json:"pageviews" minimum:"0" example:"57" doc:"Pageviews of this row."`
	StatsVisits
}

// statsLists are lists of rows, with the metrics that were asked for.
type statsLists struct {
	of      map[stats.Dimension]stats.List[stats.Row]
	metrics []string
}

func (l statsLists) rows(d stats.Dimension) []statsRow {
	rows := l.of[d].Rows
	out := make([]statsRow, len(rows))
	for i, r := range rows {
		out[i] = statsRow{Label: r.Label, Visitors: r.Visitors, Pageviews: r.Pageviews, StatsVisits: newStatsVisits(r.Visits, l.metrics)}
	}
	return out
}

// The dimensions of breakdowns.
var (
	pageDimensions     = []stats.Dimension{stats.ByPage, stats.ByEntry, stats.ByExit}
	referrerDimensions = []stats.Dimension{stats.BySource, stats.ByUTMSource, stats.ByUTMMedium, stats.ByUTMCampaign, stats.ByUTMTerm, stats.ByUTMContent}
	geoDimensions      = []stats.Dimension{stats.ByCountry}
	techDimensions     = []stats.Dimension{stats.ByDevice, stats.ByBrowser, stats.ByOS}
)

type statsPages struct {
	Top   []statsRow `json:"top" nullable:"false" doc:"Pages by pageviews, highest first."`
	Entry []statsRow `json:"entry" nullable:"false" doc:"First pages of sessions, by visitors."`
	Exit  []statsRow `json:"exit" nullable:"false" doc:"Last pages of sessions, by visitors."`

	metrics []string
}

func newStatsPages(l statsLists) statsPages {
	return statsPages{Top: l.rows(stats.ByPage), Entry: l.rows(stats.ByEntry), Exit: l.rows(stats.ByExit), metrics: l.metrics}
}

type statsReferrers struct {
	Sources []statsRow `json:"sources" nullable:"false" doc:"Where sessions came from, by visitors."`
	UTM     statsUTM   `json:"utm" doc:"Campaigns, by the utm_ parameters of the first page's URL."`

	metrics []string
}

func newStatsReferrers(l statsLists) statsReferrers {
	return statsReferrers{Sources: l.rows(stats.BySource), UTM: statsUTM{
		Source: l.rows(stats.ByUTMSource), Medium: l.rows(stats.ByUTMMedium), Campaign: l.rows(stats.ByUTMCampaign),
		Term: l.rows(stats.ByUTMTerm), Content: l.rows(stats.ByUTMContent),
	}, metrics: l.metrics}
}

type statsUTM struct {
	Source   []statsRow `json:"source" nullable:"false" doc:"Values of utm_source."`
	Medium   []statsRow `json:"medium" nullable:"false" doc:"Values of utm_medium."`
	Campaign []statsRow `json:"campaign" nullable:"false" doc:"Values of utm_campaign."`
	Term     []statsRow `json:"term" nullable:"false" doc:"Values of utm_term."`
	Content  []statsRow `json:"content" nullable:"false" doc:"Values of utm_content."`
}

type statsGeo struct {
	Countries []statsRow `json:"countries" nullable:"false" doc:"Countries, as two-letter codes (ISO 3166-1), by visitors."`

	metrics []string
}

func newStatsGeo(l statsLists) statsGeo {
	return statsGeo{Countries: l.rows(stats.ByCountry), metrics: l.metrics}
}

type statsTech struct {
	Devices  []statsRow `json:"devices" nullable:"false" doc:"Kinds of devices, by visitors."`
	Browsers []statsRow `json:"browsers" nullable:"false" doc:"Browsers, by visitors."`
	OS       []statsRow `json:"os" nullable:"false" doc:"Operating systems, by visitors."`

	metrics []string
}

func newStatsTech(l statsLists) statsTech {
	return statsTech{Devices: l.rows(stats.ByDevice), Browsers: l.rows(stats.ByBrowser), OS: l.rows(stats.ByOS), metrics: l.metrics}
}

type statsEventCount struct {
	Name     string `json:"name" example:"signup" doc:"The event's name."`
	Count    int64  `json:"count" minimum:"1" example:"12" doc:"How often the event happened."`
	Visitors int64  `json:"visitors" minimum:"1" example:"11" doc:"Visitors with the event; each counts once per day of the site."`
}

type statsEventProp struct {
	Key   string `json:"key" example:"plan" doc:"The property's name."`
	Value string `json:"value" example:"team" doc:"The property's value, as text."`
	Count int64  `json:"count" minimum:"1" example:"7" doc:"How often the event had this value."`
}

type statsEvents struct {
	Events []statsEventCount `json:"events" nullable:"false" doc:"Custom events by name, the most frequent first."`
	// A pointer, so that an event without properties shows an empty list.
	Props *[]statsEventProp `json:"props,omitempty" nullable:"false" doc:"The values of the event's properties, the most frequent first; only with the parameter name."`
}

type statsRealtime struct {
	Visitors      int64 `json:"visitors" minimum:"0" example:"4" doc:"Visitors with an event in the window."`
	WindowSeconds int   `json:"window_seconds" example:"300" doc:"How many seconds back from now the window reaches."`
}

func newStatsRealtime(visitors int64) statsRealtime {
	return statsRealtime{Visitors: visitors, WindowSeconds: int(stats.RealtimeWindow / time.Second)}
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

func newStatsTimeseries(t stats.Timeseries, metrics []string) statsTimeseries {
	return statsTimeseries{
		Granularity: string(t.Granularity), Buckets: newStatsBuckets(t.Buckets, metrics), Previous: newStatsBuckets(t.Previous, metrics), metrics: metrics,
	}
}

func newStatsBuckets(buckets []stats.Bucket, metrics []string) []statsBucket {
	out := make([]statsBucket, len(buckets))
	for i, b := range buckets {
		out[i] = statsBucket{TS: onTheMinute(b.Start), Pageviews: b.Pageviews, Visitors: b.Visitors, StatsVisits: newStatsVisits(b.Visits, metrics)}
	}
	return out
}

// onTheMinute is t in UTC where its offset has seconds, which RFC 3339 can't say: those
// of before about 1940, by the sun.
func onTheMinute(t time.Time) time.Time {
	if _, offset := t.Zone(); offset%60 != 0 {
		return t.UTC()
	}
	return t
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
