package stats

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
	firstYear     = 1900 // nothing was counted before it, and every bucket keeps a
	lastYear      = 9998 // four-digit year in every zone
)

// resolution is PostgreSQL's: finer bounds are rounded up to it, which neither
// admits nor drops an event, since events have it too.
const resolution = time.Microsecond

// bound is one end of a requested range: a whole site day, or an instant.
type bound struct {
	day time.Time // midnight UTC of the calendar date, when isDay
	at  time.Time // the instant, otherwise
	// isDay says which of the two was asked for.
	isDay bool
}

// period is a requested range before the site's calendar has given its days
// their bounds. A day at the end belongs to the range, an instant does not.
type period struct {
	from, to bound
}

// window is a range of instants, from inclusive, to exclusive. days is the
// number of site days when the range was asked for in dates, else 0.
type window struct {
	from, to time.Time
	firstDay time.Time // when days > 0
	days     int
}

// parsePeriod reads a pair of query parameters, each a date (2024-05-31) or an
// RFC 3339 timestamp; both empty ask for the 30 days up to and including now. It
// returns a fault of kind Invalid whose details name from or to.
func parsePeriod(from, to string, now time.Time) (period, error) {
	switch {
	case from == "" && to == "":
		return lastUntil(now, defaultWindow), nil
	case from == "":
		return period{}, fault.Validation(map[string]string{"from": "Pass both from and to, or neither."})
	case to == "":
		return period{}, fault.Validation(map[string]string{"to": "Pass both from and to, or neither."})
	}
	details := map[string]string{}
	p := period{from: parseBound(from, "from", details), to: parseBound(to, "to", details)}
	if len(details) > 0 {
		return period{}, fault.Validation(details)
	}
	// A day's bounds need the calendar, which is read for this range: what is too
	// long in every zone is refused before that, the rest by calendar.window.
	const anyZone = 48 * time.Hour
	return p, checkLength(p.from.nominal().Add(anyZone), p.to.nominal())
}

// lastUntil is the stretch of length d that ends with now, now included.
func lastUntil(now time.Time, d time.Duration) period {
	end := now.UTC().Truncate(resolution).Add(resolution)
	return period{from: bound{at: end.Add(-d)}, to: bound{at: end}}
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
	} else if at, err := time.Parse(time.RFC3339, strings.ToUpper(value)); err == nil && timestamp.MatchString(value) {
		b.at = roundUp(at.UTC())
	} else {
		details[field] = "Not a date (2024-05-31) or an RFC 3339 timestamp (2024-05-31T13:00:00Z; write the + of an offset as %2B)."
		return bound{}
	}
	if y := b.nominal().Year(); y < firstYear || y > lastYear {
		details[field] = "The year must be from 1900 to 9998."
	}
	return b
}

// timestamp is RFC 3339, section 5.6, of which time.Parse is a laxer reader.
var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$`)

func roundUp(t time.Time) time.Time {
	if r := t.Truncate(resolution); !r.Equal(t) {
		return r.Add(resolution)
	}
	return t
}

// previous is the range of equal length that ends where w begins: as many site
// days, or the same duration.
func (w window) previous(c calendar) window {
	if w.days == 0 {
		return window{from: w.from.Add(-w.to.Sub(w.from)), to: w.from}
	}
	first := w.firstDay.AddDate(0, 0, -w.days)
	return window{from: c.start(first), to: w.from, firstDay: first, days: w.days}
}

// granularity is the default for a range of w's length. A range in dates counts
// its days, so that a change of clocks does not coarsen it.
func (w window) granularity() Granularity {
	const day = 24 * time.Hour
	span := w.to.Sub(w.from)
	if w.days > 0 {
		span = time.Duration(w.days) * day
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
