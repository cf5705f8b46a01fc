package calendar

import (
	"time"

	"github.com/waypost/waypost/internal/fault"
)

// Granularity is the width of a timeseries' buckets.
type Granularity string

// The granularities. Weeks start on Monday (ISO 8601).
const (
	ByHour  Granularity = "hour"
	ByDay   Granularity = "day"
	ByWeek  Granularity = "week"
	ByMonth Granularity = "month"
)

// maxBuckets is the longest timeseries that is answered.
const maxBuckets = 10_000

// Span is a site day or a piece of one: [From, To). What is distinct within a
// day may be summed over spans, because a visitor's hash lasts one site day.
type Span struct {
	Day      time.Time // the site's date, as midnight UTC
	From, To time.Time
	Whole    bool // From and To are the day's own bounds
}

// Plan is a window cut into spans, in order. A span without a calendar row is
// left out: a day gets its row before its first event, so it has no traffic.
type Plan struct {
	Spans []Span
	// Buckets hold, in order, what of Spans belongs to each; nil unless the plan
	// is for a timeseries.
	Buckets []Bucket
}

// Bucket is one bucket of a timeseries: spans [First, End) of its plan.
type Bucket struct {
	Start      time.Time
	First, End int
}

// Plan cuts w into its days.
func (c Calendar) Plan(w Window) Plan {
	var p Plan
	c.eachDay(w, func(d Day) bool {
		p.add(c, w.clip(d, d.Start, d.End))
		return true
	})
	return p
}

// Series cuts w into buckets of g, aligned in the site's zone; the first and the
// last hold only what lies inside w. It returns a fault of kind Invalid when
// there would be more than 10,000.
func (c Calendar) Series(w Window, g Granularity) (Plan, error) {
	p := Plan{Buckets: []Bucket{}}
	var current time.Time // the date that the open bucket starts with
	c.eachDay(w, func(d Day) bool {
		if g == ByHour {
			p.addHours(c, w, d)
			return len(p.Buckets) <= maxBuckets
		}
		if first := g.firstDay(d.Date); len(p.Buckets) == 0 || !first.Equal(current) {
			current = first
			p.open(c.Start(first))
		}
		p.add(c, w.clip(d, d.Start, d.End))
		return len(p.Buckets) <= maxBuckets
	})
	if len(p.Buckets) > maxBuckets {
		return Plan{}, fault.Validation(map[string]string{
			"granularity": "The range has more than 10,000 buckets of this granularity; ask for a coarser one or a shorter range.",
		})
	}
	return p, nil
}

func (p *Plan) open(start time.Time) {
	p.Buckets = append(p.Buckets, Bucket{Start: start, First: len(p.Spans), End: len(p.Spans)})
}

// addHours opens a bucket for each hour of d that overlaps w.
func (p *Plan) addHours(c Calendar, w Window, d Day) {
	hours := d.Hours(c.ZoneOf(d.Start))
	for i, from := range hours {
		to := d.End
		if i+1 < len(hours) {
			to = hours[i+1]
		}
		if to.After(w.from) && from.Before(w.to) {
			p.open(from)
			p.add(c, w.clip(d, from, to))
		}
	}
}

// clip is what of the piece [from, to) of d lies in w.
func (w Window) clip(d Day, from, to time.Time) Span {
	s := Span{Day: d.Date, From: Later(from, w.from), To: Earlier(to, w.to)}
	s.Whole = s.From.Equal(d.Start) && s.To.Equal(d.End)
	return s
}

// add appends s to the plan and to its open bucket, if c knows its day.
func (p *Plan) add(c Calendar, s Span) {
	if _, known := c.find(s.Day); !known {
		return
	}
	p.Spans = append(p.Spans, s)
	if n := len(p.Buckets); n > 0 {
		p.Buckets[n-1].End = len(p.Spans)
	}
}

// eachDay calls f for the days that overlap w, in order, until it returns false.
func (c Calendar) eachDay(w Window, f func(d Day) bool) {
	day := c.DayOf(w.from)
	for start := c.Start(day); start.Before(w.to); {
		next := day.AddDate(0, 0, 1)
		end := c.Start(next)
		if end.After(start) && !f(Day{Date: day, Start: start, End: end}) {
			return
		}
		day, start = next, end
	}
}

// firstDay is the date with which the bucket of day starts.
func (g Granularity) firstDay(day time.Time) time.Time {
	switch g {
	case ByWeek:
		sinceMonday := (int(day.Weekday()) + 6) % 7
		return day.AddDate(0, 0, -sinceMonday)
	case ByMonth:
		return day.AddDate(0, 0, 1-day.Day())
	default:
		return day
	}
}

// Hours returns the starts of the day's hours, as zone's clocks have them.
func (d Day) Hours(zone *time.Location) []time.Time {
	hours := make([]time.Time, 0, 25)
	for at := d.Start; at.Before(d.End); at = nextHour(at, zone) {
		hours = append(hours, at)
	}
	return hours
}

// nextHour returns the end of the hour that zone's clocks show at t, as if they
// were not moved before it. Where they are, by part of an hour, the bucket that
// follows is the shorter one that ends with a full hour again.
func nextHour(t time.Time, zone *time.Location) time.Time {
	local := t.In(zone)
	past := time.Duration(local.Minute())*time.Minute + time.Duration(local.Second())*time.Second + time.Duration(local.Nanosecond())
	return t.Add(time.Hour - past)
}

// Later returns the later of two instants.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Earlier returns the earlier of two instants.
func Earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
