package calendar

import (
	"regexp"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/fault"
)

// Limits of a window.
const (
	defaultWindow = 30 * 24 * time.Hour
	maxYears      = 10
	firstYear     = 1900 // nothing was counted before it
)

// LastYear is the last one that can be asked for: every bucket keeps a four-digit year in
// every zone.
const LastYear = 9998

// Resolution is PostgreSQL's: finer bounds are rounded up to it, which neither
// admits nor drops an event, since events have it too.
const Resolution = time.Microsecond

// bound is one end of a requested range: a whole site day, or an instant.
type bound struct {
	day time.Time // midnight UTC of the calendar date, when isDay
	at  time.Time // the instant, otherwise
	// isDay says which of the two was asked for.
	isDay bool
}

// Range is a requested range before the site's calendar has given its days
// their bounds. A day at the end belongs to the range, an instant does not.
type Range struct {
	from, to bound
	// name says that the bounds depend on the day of now; see inDays.
	name  Period
	now   time.Time
	first time.Time // of AllTime, when the site's first event was
}

// Window is a range of instants, from inclusive, to exclusive. days is the
// number of site days when the range was asked for in dates, else 0.
type Window struct {
	from, to time.Time
	firstDay time.Time // when days > 0
	days     int
	touches  int // of a named period, how many site days it touches
}

// parseBounds reads a pair of query parameters, each a date (2024-05-31) or an
// RFC 3339 timestamp; both empty ask for the 30 days up to and including now. It
// returns a fault of kind Invalid whose details name from or to.
func parseBounds(from, to string, now time.Time) (Range, error) {
	switch {
	case from == "" && to == "":
		return LastUntil(now, defaultWindow), nil
	case from == "":
		return Range{}, fault.Validation(map[string]string{"from": "Pass both from and to, or neither."})
	case to == "":
		return Range{}, fault.Validation(map[string]string{"to": "Pass both from and to, or neither."})
	}
	details := map[string]string{}
	p := Range{from: parseBound(from, "from", details), to: parseBound(to, "to", details)}
	if len(details) > 0 {
		return Range{}, fault.Validation(details)
	}
	// A day's bounds need the calendar, which is read for this range: what is too
	// long in every zone is refused before that, the rest by calendar.window.
	const anyZone = 48 * time.Hour
	return p, checkLength(p.from.nominal().Add(anyZone), p.to.nominal())
}

// LastUntil is the stretch of length d that ends with now, now included.
func LastUntil(now time.Time, d time.Duration) Range {
	end := now.UTC().Truncate(Resolution).Add(Resolution)
	return Range{from: bound{at: end.Add(-d)}, to: bound{at: end}}
}

func checkOrder(from, to time.Time) error {
	if !to.After(from) {
		return fault.Validation(map[string]string{"to": "The range must end after it begins."})
	}
	return nil
}

func checkLength(from, to time.Time) error {
	if to.After(from.AddDate(maxYears, 0, 0)) {
		return fault.Validation(map[string]string{"to": "The range may span at most 10 years."})
	}
	return nil
}

// nominal is the bound as if the site's days were those of UTC.
func (b bound) nominal() time.Time {
	if b.isDay {
		return b.day
	}
	return b.at
}

func parseBound(value, field string, details map[string]string) bound {
	var b bound
	if day, err := time.Parse(time.DateOnly, value); err == nil {
		b = bound{day: day, isDay: true}
	} else if at, err := time.Parse(time.RFC3339, strings.ToUpper(value)); err == nil && boundPattern.MatchString(value) {
		b.at = roundUp(at.UTC())
	} else {
		details[field] = "Not a date (2024-05-31) or an RFC 3339 timestamp (2024-05-31T13:00:00Z; write the + of an offset as %2B)."
		return bound{}
	}
	if y := b.nominal().Year(); y < firstYear || y > LastYear {
		details[field] = "The year must be from 1900 to 9998."
	}
	return b
}

// BoundForm is what an end of a range looks like: a date, or a timestamp of RFC 3339,
// section 5.6, of which time.Parse is a laxer reader. It has neither a backslash nor a
// slash, which printers of patterns may forget to escape.
const BoundForm = `^[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2}))?$`

var boundPattern = regexp.MustCompile(BoundForm)

func roundUp(t time.Time) time.Time {
	if r := t.Truncate(Resolution); !r.Equal(t) {
		return r.Add(Resolution)
	}
	return t
}

// Previous is the range of equal length that ends where w begins: as many site
// days, or the same duration.
func (w Window) Previous(c Calendar) Window {
	if w.days == 0 {
		return Window{from: w.from.Add(-w.to.Sub(w.from)), to: w.from}
	}
	first := w.firstDay.AddDate(0, 0, -w.days)
	return Window{from: c.Start(first), to: w.from, firstDay: first, days: w.days}
}

// Granularity is the default for a range of w's length. A range in dates counts
// its days, so that a change of clocks does not coarsen it.
func (w Window) Granularity() Granularity {
	const day = 24 * time.Hour
	span := w.to.Sub(w.from)
	if w.days > 0 {
		span = time.Duration(w.days) * day
	} else if w.touches > 0 {
		span = time.Duration(w.touches) * day
	}
	switch {
	case span <= 2*day:
		return ByHour
	case span <= 90*day:
		return ByDay
	case span <= 730*day:
		return ByWeek
	default:
		return ByMonth
	}
}
