package stats

import (
	"slices"
	"time"

	"github.com/waypost/waypost/internal/site"
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
	zones  []site.ZoneChange // instead of zone, when the site has changed it
	stored []calendarDay     // by day
}

// zoneOf returns the zone whose clocks the day has that starts at t.
func (c calendar) zoneOf(t time.Time) *time.Location {
	return site.Site{Zone: c.zone, Zones: c.zones}.ZoneAt(t)
}

// zoneStart is where day starts by the zones alone. A change of zone is at a
// midnight of the zone before: the day that begins there lasts until the new
// zone's next midnight, and a date that the new zone has already left is empty.
func (c calendar) zoneStart(day time.Time) time.Time {
	if len(c.zones) == 0 {
		return zoneDayStart(day, c.zone)
	}
	zone := c.zones[0].Zone
	var since, until time.Time
	for _, change := range c.zones[1:] {
		first := dateOf(change.From.In(zone))
		if day.Before(first) {
			until = change.From
			break
		}
		if since, zone = change.From, change.Zone; day.Equal(first) {
			return since
		}
	}
	at := later(zoneDayStart(day, zone), since)
	if !until.IsZero() {
		at = earlier(at, until)
	}
	return at
}

// start returns the first instant of day. Days follow one another without a gap
// or an overlap: day d is [start(d), start(d+1)), which is empty for a date that
// the zone skipped.
func (c calendar) start(day time.Time) time.Time {
	i, found := c.find(day)
	if found {
		return c.stored[i].start
	}
	at := c.zoneStart(day)
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
	day := dateOf(t.In(c.zoneOf(t)))
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

func zoneDayStart(day time.Time, zone *time.Location) time.Time { return site.DayStart(day, zone) }
