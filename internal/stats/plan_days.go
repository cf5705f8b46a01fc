package stats

import (
	"slices"
	"time"
)

// calendarDay is a site day that the calendar has a row for.
type calendarDay struct {
	day        time.Time // midnight UTC of the calendar date
	start, end time.Time
}

// calendar gives a site's days their bounds: those stored when the day first had
// traffic, since a site may change its zone later, and the zone's for all others.
type calendar struct {
	zone   *time.Location
	stored []calendarDay // by day
}

// start returns the first instant of day. Days follow one another without a gap
// or an overlap: day d is [start(d), start(d+1)), which is empty for a date that
// the zone skipped.
func (c calendar) start(day time.Time) time.Time {
	i, found := c.find(day)
	if found {
		return c.stored[i].start
	}
	at := zoneDayStart(day, c.zone)
	if i > 0 {
		before := c.stored[i-1]
		if before.day.AddDate(0, 0, 1).Equal(day) || at.Before(before.end) {
			at = before.end
		}
	}
	if i < len(c.stored) && at.After(c.stored[i].start) {
		at = c.stored[i].start
	}
	return at
}

func (c calendar) find(day time.Time) (int, bool) {
	return slices.BinarySearchFunc(c.stored, day, func(d calendarDay, day time.Time) int { return d.day.Compare(day) })
}

// dayOf returns the day that holds the instant t.
func (c calendar) dayOf(t time.Time) time.Time {
	day := dateOf(t.In(c.zone))
	for c.start(day).After(t) {
		day = day.AddDate(0, 0, -1)
	}
	for next := day.AddDate(0, 0, 1); !c.start(next).After(t); next = day.AddDate(0, 0, 1) {
		day = next
	}
	return day
}

// window gives p its instants. It returns a fault of kind Invalid for a range
// that is empty or longer than 10 years.
func (c calendar) window(p period) (window, error) {
	w := window{from: p.from.at, to: p.to.at}
	from, to := w.from, w.to
	if p.from.isDay {
		from, w.from = p.from.day, c.start(p.from.day)
	}
	if p.to.isDay {
		after := p.to.day.AddDate(0, 0, 1)
		to, w.to = after, c.start(after)
	}
	if err := checkOrder(w.from, w.to); err != nil {
		return window{}, err
	}
	if p.from.isDay && p.to.isDay {
		w.firstDay, w.days = from, daysBetween(from, to)
	} else {
		from, to = w.from, w.to
	}
	return w, checkLength(from, to)
}

// dateOf returns the calendar date that t's clock shows, as midnight UTC.
func dateOf(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

func daysBetween(a, b time.Time) int { return int(b.Sub(a) / (24 * time.Hour)) }

// zoneDayStart returns the first instant at which clocks in zone show day or a
// later date. Midnight may occur twice (the first counts), or never (the change
// of clocks that skips it counts); time.Date promises nothing for either.
func zoneDayStart(day time.Time, zone *time.Location) time.Time {
	const around = 36 * time.Hour // farther than any offset or change of clocks reaches
	reached := func(t time.Time) bool { return !dateOf(t.In(zone)).Before(day) }
	var first time.Time
	for _, probe := range []time.Time{day.Add(-around), day.Add(around)} {
		_, offset := probe.In(zone).Zone()
		t := day.Add(-time.Duration(offset) * time.Second)
		if reached(t) && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	// Past a change of clocks that skipped midnight, the change itself is the start.
	if change, _ := first.In(zone).ZoneBounds(); !change.IsZero() && change.Before(first) && reached(change) && !reached(change.Add(-1)) {
		first = change
	}
	return first.UTC()
}
