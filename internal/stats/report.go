package stats

import (
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/stats/calendar"
)

// Query says what is asked of one site's traffic.
type Query struct {
	SiteID uuid.UUID
	// Zones are the site's; the days without traffic yet take their bounds from them.
	Zones calendar.Zones
	// From and To are dates (2024-05-31, whole days of the site) or RFC 3339
	// timestamps (From inclusive, To exclusive). Both empty mean the last 30 days.
	From, To string
	// Period is a range by its name, in place of From and To.
	Period calendar.Period
	// Limit is the greatest number of rows in each list of an answer, 1 or more.
	Limit int
	// Offset is how many rows of each list to leave out before the first.
	Offset int
	// Visits adds what is known of whole sessions to the rows of their dimensions and to
	// buckets.
	Visits bool
	// Empty adds to each list of a dimension of sessions those without a label, as Unlabelled.
	Empty bool
	// Filters restrict what is counted; none count everything.
	Filters Filters
	// Compare adds the preceding period of equal length, where an answer has one.
	Compare bool
}

// period reads the range that q asks for; see parsePeriod for its errors.
func (q Query) period(now time.Time) (calendar.Range, error) {
	return calendar.Parse(q.Period, q.From, q.To, now)
}

// Metrics are a window's totals. Pageviews and visitors are those inside the
// window; the rest is of whole sessions that start inside it. All ratios are 0
// without sessions, and rounded with halves away from zero.
type Metrics struct {
	Pageviews, Visitors, Sessions int64
	// BounceRate is the share of sessions with exactly one pageview and no custom
	// event, 0 to 1, to 0.001.
	BounceRate float64
	// AvgDuration is the mean time from first to last event in seconds, to 0.1.
	AvgDuration float64
	// ViewsPerVisit is Pageviews / Sessions, to 0.01.
	ViewsPerVisit float64
}

// Visits are what is known of whole sessions, as Metrics has it. ViewsPerVisit is of the
// pageviews of these sessions; of a bucket, of those inside it.
type Visits struct {
	Sessions                               int64
	BounceRate, AvgDuration, ViewsPerVisit float64
}

// Change is how much a period differs from the one before, in percent to 0.1;
// nil where there was nothing before.
type Change struct {
	Pageviews, Visitors, Sessions *float64
}

// Summary is a window's totals. Previous and Change are nil unless asked for.
type Summary struct {
	Metrics
	Previous *Metrics
	Change   *Change
}

// Bucket is one step of a timeseries; an edge bucket counts only what lies
// inside the window.
type Bucket struct {
	Start               time.Time // by the site's clocks; of the whole bucket, even where the window begins later
	Pageviews, Visitors int64
	Visits              *Visits // of the sessions that start in it; nil unless asked for
}

// Timeseries is a window in steps, without gaps. Previous is nil unless asked for.
type Timeseries struct {
	Granularity calendar.Granularity
	Buckets     []Bucket
	Previous    []Bucket
}

// Unlabelled is the label of the row of those without one.
const Unlabelled = "(none)"

// Row is one label of a breakdown.
type Row struct {
	Label               string
	Visitors, Pageviews int64
	Visits              *Visits // of the sessions with that label; nil unless asked for
}

// EventCount is one custom event's name.
type EventCount struct {
	Name            string
	Count, Visitors int64
}

// PropCount is one property of a custom event and one value of it.
type PropCount struct {
	Key, Value string
	Count      int64
}

// CustomEvents are the custom events of a window. Props is nil unless one
// event's name was asked for.
type CustomEvents struct {
	Events []EventCount
	Props  []PropCount
	// Total is how many rows the longer of both has in all.
	Total int64
}

// RealtimeWindow is how far Realtime looks back.
const RealtimeWindow = 300 * time.Second

func newMetrics(traffic []Traffic, sessions []SessionTotals) Metrics {
	var m Metrics
	for _, t := range traffic {
		m.Pageviews += t.Pageviews
		m.Visitors += t.Visitors
	}
	var all SessionTotals
	for _, s := range sessions {
		all.Sessions += s.Sessions
		all.Bounces += s.Bounces
		all.Micros += s.Micros
	}
	v := newVisits(all, m.Pageviews)
	m.Sessions, m.BounceRate, m.AvgDuration, m.ViewsPerVisit = v.Sessions, v.BounceRate, v.AvgDuration, v.ViewsPerVisit
	return m
}

func newVisits(t SessionTotals, pageviews int64) Visits {
	v := Visits{Sessions: t.Sessions}
	if t.Sessions > 0 {
		v.BounceRate = quotient(t.Bounces, t.Sessions, 1000)
		v.AvgDuration = quotient(t.Micros, t.Sessions*1_000_000, 10)
		v.ViewsPerVisit = quotient(pageviews, t.Sessions, 100)
	}
	return v
}

func newChange(now, before Metrics) *Change {
	return &Change{
		Pageviews: percentChange(now.Pageviews, before.Pageviews),
		Visitors:  percentChange(now.Visitors, before.Visitors),
		Sessions:  percentChange(now.Sessions, before.Sessions),
	}
}

func percentChange(now, before int64) *float64 {
	if before == 0 {
		return nil
	}
	q := quotient((now-before)*100, before, 10)
	return &q
}

// quotient is n/d to the nearest 1/steps, halves away from zero (as math.Round),
// in integers so that a half is one exactly. d and steps are positive.
func quotient(n, d, steps int64) float64 {
	sign := int64(1)
	if n < 0 {
		n, sign = -n, -1
	}
	return float64(sign*((2*n*steps+d)/(2*d))) / float64(steps)
}
