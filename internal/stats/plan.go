package stats

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

// DaySpan is a site day or a piece of one: [From, To). What is distinct within a
// day may be summed over spans, because a visitor's hash lasts one site day.
type DaySpan struct {
	Day      time.Time // the site's date, as midnight UTC
	From, To time.Time
	Whole    bool // From and To are the day's own bounds
}

// plan is a window cut into spans, in order. A span without a calendar row is
// left out: a day gets its row before its first event, so it has no traffic.
type plan struct {
	spans []DaySpan
	// buckets hold, in order, what of spans belongs to each; nil unless the plan
	// is for a timeseries.
	buckets []bucketSpans
}

// bucketSpans is one bucket of a timeseries: spans [first, end) of its plan.
type bucketSpans struct {
	start      time.Time
	first, end int
}

// plan cuts w into its days.
func (c calendar) plan(w window) plan {
	var p plan
	c.eachDay(w, func(day, start, end time.Time) bool {
		p.add(c, w, day, start, end, start, end)
		return true
	})
	return p
}

// series cuts w into buckets of g, aligned in the site's zone; the first and the
// last hold only what lies inside w. It returns a fault of kind Invalid when
// there would be more than 10,000.
func (c calendar) series(w window, g Granularity) (plan, error) {
	p := plan{buckets: []bucketSpans{}}
	var current time.Time // the date that the open bucket starts with
	c.eachDay(w, func(day, start, end time.Time) bool {
		if g == ByHour {
			hours := hoursOf(start, end, c.zoneOf(start))
			for i, from := range hours {
				to := end
				if i+1 < len(hours) {
					to = hours[i+1]
				}
				if to.After(w.from) && from.Before(w.to) {
					p.open(from)
					p.add(c, w, day, start, end, from, to)
				}
			}
		} else {
			if first := g.firstDay(day); len(p.buckets) == 0 || !first.Equal(current) {
				current = first
				p.open(c.start(first))
			}
			p.add(c, w, day, start, end, start, end)
		}
		return len(p.buckets) <= maxBuckets
	})
	if len(p.buckets) > maxBuckets {
		return plan{}, fault.Validation(map[string]string{
			"granularity": "The range has more than 10,000 buckets of this granularity; ask for a coarser one or a shorter range.",
		})
	}
	return p, nil
}

func (p *plan) open(start time.Time) {
	p.buckets = append(p.buckets, bucketSpans{start: start, first: len(p.spans), end: len(p.spans)})
}

// add appends the piece [from, to) of day [start, end), clipped to w, to the
// plan and to its open bucket.
func (p *plan) add(c calendar, w window, day, start, end, from, to time.Time) {
	if _, known := c.find(day); !known {
		return
	}
	s := DaySpan{Day: day, From: later(from, w.from), To: earlier(to, w.to)}
	s.Whole = s.From.Equal(start) && s.To.Equal(end)
	p.spans = append(p.spans, s)
	if n := len(p.buckets); n > 0 {
		p.buckets[n-1].end = len(p.spans)
	}
}

// eachDay calls f for the days that overlap w, in order, until it returns false.
func (c calendar) eachDay(w window, f func(day, start, end time.Time) bool) {
	day := c.dayOf(w.from)
	for start := c.start(day); start.Before(w.to); {
		next := day.AddDate(0, 0, 1)
		end := c.start(next)
		if end.After(start) && !f(day, start, end) {
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

// hoursOf returns the starts of the hours of the day [start, end), as zone's
// clocks have them.
func hoursOf(start, end time.Time, zone *time.Location) []time.Time {
	hours := make([]time.Time, 0, 25)
	for at := start; at.Before(end); at = nextHour(at, zone) {
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

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
