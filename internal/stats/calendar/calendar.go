// Package calendar knows when the days of a site begin and end, reads the ranges that
// are asked for, and cuts them into spans of these days and into buckets of a timeseries.
// It knows neither a database nor what is counted.
package calendar

import (
	"slices"
	"time"

	"github.com/waypost/waypost/internal/site"
)

// Day is a day of a site: [start, end).
type Day struct {
	Date       time.Time // midnight UTC of the calendar date
	Start, End time.Time
}

// States of a day that is stored. An event that comes to a sealed day makes it dirty.
const (
	StateOpen   = "open"
	StateSealed = "sealed"
	StateDirty  = "dirty"
)

// Calendar gives a site's days their bounds: those stored when the day first had
// traffic, since a site may change its zone later, and the zone's for all others.
type Calendar struct {
	zones  Zones
	stored []Day // by day
}

// New makes the calendar of a site that had these zones, some of whose days are stored,
// in order.
func New(zones Zones, stored ...Day) Calendar {
	return Calendar{zones: zones, stored: stored}
}

// ZoneOf returns the zone whose clocks the day has that starts at t.
func (c Calendar) ZoneOf(t time.Time) *time.Location { return c.zones.At(t) }

// zoneStart is where day starts by the zones alone. A change of zone is at a
// midnight of the zone before: the day that begins there lasts until the new
// zone's next midnight, and a date that the new zone has already left is empty.
func (c Calendar) zoneStart(day time.Time) time.Time {
	zone := c.zones[0].Location
	var since, until time.Time
	for _, change := range c.zones[1:] {
		first := DateOf(change.From.In(zone))
		if day.Before(first) {
			until = change.From
			break
		}
		if since, zone = change.From, change.Location; day.Equal(first) {
			return since
		}
	}
	at := Later(site.DayStart(day, zone), since)
	if !until.IsZero() {
		at = Earlier(at, until)
	}
	return at
}

// Start returns the first instant of day. Days follow one another without a gap
// or an overlap: day d is [Start(d), Start(d+1)), which is empty for a date that
// the zone skipped.
func (c Calendar) Start(day time.Time) time.Time {
	i, found := c.find(day)
	if found {
		return c.stored[i].Start
	}
	at := c.zoneStart(day)
	if i > 0 {
		before := c.stored[i-1]
		if before.Date.AddDate(0, 0, 1).Equal(day) || at.Before(before.End) {
			at = before.End
		}
	}
	if i < len(c.stored) && at.After(c.stored[i].Start) {
		at = c.stored[i].Start
	}
	return at
}

func (c Calendar) find(day time.Time) (int, bool) {
	return slices.BinarySearchFunc(c.stored, day, func(d Day, day time.Time) int { return d.Date.Compare(day) })
}

// DayOf returns the day that holds the instant t.
func (c Calendar) DayOf(t time.Time) time.Time {
	day := DateOf(t.In(c.ZoneOf(t)))
	for c.Start(day).After(t) {
		day = day.AddDate(0, 0, -1)
	}
	for next := day.AddDate(0, 0, 1); !c.Start(next).After(t); next = day.AddDate(0, 0, 1) {
		day = next
	}
	return day
}

// Known reports whether the day is stored.
func (c Calendar) Known(day time.Time) bool {
	_, found := c.find(day)
	return found
}

// Window gives p, which knows the site's first event if it has to, its instants. It returns a fault of kind Invalid for a range that is
// empty or longer than 10 years, what is all there is excepted.
func (c Calendar) Window(p Range) (Window, error) {
	if p.name != "" {
		return c.namedWindow(p.inDays(c))
	}
	return c.boundWindow(p)
}

// boundWindow is Window for a range whose bounds are known.
func (c Calendar) boundWindow(p Range) (Window, error) {
	w := Window{from: p.from.at, to: p.to.at}
	from, to := w.from, w.to
	if p.from.isDay {
		from, w.from = p.from.day, c.Start(p.from.day)
	}
	if p.to.isDay {
		after := p.to.day.AddDate(0, 0, 1)
		to, w.to = after, c.Start(after)
	}
	if err := checkOrder(w.from, w.to); err != nil {
		return Window{}, err
	}
	if p.from.isDay && p.to.isDay {
		w.firstDay, w.days = from, DaysBetween(from, to)
	} else {
		from, to = w.from, w.to
	}
	return w, checkLength(from, to)
}

// DateOf returns the calendar date that t's clock shows, as midnight UTC.
func DateOf(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// MonthOf returns the first day of a date's month.
func MonthOf(day time.Time) time.Time {
	return time.Date(day.Year(), day.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// DaysBetween is how many days the date b is after the date a.
func DaysBetween(a, b time.Time) int { return int(b.Sub(a) / (24 * time.Hour)) }
