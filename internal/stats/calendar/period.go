package calendar

import (
	"slices"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/fault"
)

// Period names a range that depends on today's date at the site.
type Period string

// The periods. All but Yesterday end now.
const (
	Today      Period = "today"
	Yesterday  Period = "yesterday"
	Last7Days  Period = "7d" // today and the six days before it
	Last30Days Period = "30d"
	Last90Days Period = "90d"
	Last12     Period = "12mo"  // a year up to and including today
	ThisMonth  Period = "month" // from its first day
	ThisYear   Period = "year"
	AllTime    Period = "all" // from the day of the first event
)

// Periods lists them in the order of their description.
func Periods() []Period {
	return []Period{Today, Yesterday, Last7Days, Last30Days, Last90Days, Last12, ThisMonth, ThisYear, AllTime}
}

// Parse reads a named period or, without a name, a pair of bounds, each a date
// (2024-05-31) or an RFC 3339 timestamp; without any of them, the 30 days up to now. It
// returns a fault of kind Invalid whose details name from, to or period.
func Parse(name Period, from, to string, now time.Time) (Range, error) {
	if name == "" {
		return parseBounds(from, to, now)
	}
	if from != "" || to != "" {
		return Range{}, fault.Validation(map[string]string{"period": "Pass either period, or from and to."})
	}
	if !slices.Contains(Periods(), name) {
		var names []string
		for _, p := range Periods() {
			names = append(names, string(p))
		}
		return Range{}, fault.Validation(map[string]string{"period": "Pass one of " + strings.Join(names, ", ") + "."})
	}
	return Range{name: name, now: now}, nil
}

// IsAllTime reports whether p depends on when the site's first event was: see Since.
func (p Range) IsAllTime() bool { return p.name == AllTime }

// Since tells p when the site's first event was; zero without any.
func (p Range) Since(first time.Time) Range {
	p.first = first
	return p
}

// Dates returns the first and the last date that p may touch in these zones.
func (p Range) Dates(zones Zones) (first, last time.Time) {
	const margin = 2 // days between the dates of UTC and of any zone, rounded up
	if p.name != "" {
		p = p.inDays(New(zones))
	}
	return DateOf(p.from.nominal()).AddDate(0, 0, -margin), DateOf(p.to.nominal()).AddDate(0, 0, margin)
}

// inDays gives a named period its bounds.
func (p Range) inDays(c Calendar) Range {
	today := c.DayOf(p.now)
	day := today
	switch p.name {
	case Yesterday:
		day = today.AddDate(0, 0, -1)
		for c.Start(day).Equal(c.Start(day.AddDate(0, 0, 1))) { // a date that the zone skipped
			day = day.AddDate(0, 0, -1)
		}
		p.from, p.to = bound{day: day, isDay: true}, bound{day: day, isDay: true}
		return p
	case Last7Days:
		day = today.AddDate(0, 0, -6)
	case Last30Days:
		day = today.AddDate(0, 0, -29)
	case Last90Days:
		day = today.AddDate(0, 0, -89)
	case Last12:
		day = yearBefore(today).AddDate(0, 0, 1)
	case ThisMonth:
		day = ByMonth.firstDay(today)
	case ThisYear:
		day = time.Date(today.Year(), time.January, 1, 0, 0, 0, 0, time.UTC)
	case AllTime:
		if !p.first.IsZero() && p.first.Before(p.now) {
			day = c.DayOf(p.first)
		}
	}
	p.from, p.to = bound{day: day, isDay: true}, LastUntil(p.now, 0).to
	return p
}

// yearBefore is the same date of the year before; of 29 February, the 28th.
func yearBefore(day time.Time) time.Time {
	at := time.Date(day.Year()-1, day.Month(), day.Day(), 0, 0, 0, 0, time.UTC)
	if at.Month() != day.Month() {
		at = at.AddDate(0, 0, -at.Day())
	}
	return at
}

// namedWindow is Window for a named period, whose bounds are known. What is all there is may be
// longer than any other range.
func (c Calendar) namedWindow(p Range) (Window, error) {
	if p.name == Yesterday {
		return c.boundWindow(p)
	}
	w := Window{from: c.Start(p.from.day), to: p.to.at}
	w.touches = DaysBetween(p.from.day, c.DayOf(p.now)) + 1
	return w, checkOrder(w.from, w.to)
}
