package jobs

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// schedule says when a periodic task is due.
type schedule struct {
	text     string // as people see it
	timezone string

	every time.Duration // 0 with an expression
	at    cron.Schedule // nil without one
	zone  *time.Location
	// again says that a local time that a clock put back brings twice counts twice.
	again bool
}

// newSchedule reads what p says of its times.
func newSchedule(p Periodic) (schedule, error) {
	switch {
	case p.Every > 0 && p.Cron == "" && p.Timezone == "":
		return schedule{text: "every " + plain(p.Every), timezone: "UTC", every: p.Every, zone: time.UTC}, nil
	case p.Every != 0 || p.Cron == "":
		return schedule{}, errors.New("it needs either Every, above 0, or Cron with or without Timezone")
	}
	s := schedule{text: strings.Join(strings.Fields(p.Cron), " "), timezone: p.Timezone}
	if s.timezone == "" {
		s.timezone = "UTC"
	}
	var err error
	if s.zone, err = time.LoadLocation(s.timezone); err != nil || s.timezone == "Local" {
		return schedule{}, fmt.Errorf("time zone %q is none of the IANA database's, such as Europe/Berlin", p.Timezone)
	}
	// The parser would take TZ= in front of the expression, against s.timezone.
	if strings.Contains(s.text, "=") {
		return schedule{}, fmt.Errorf("schedule %q: the time zone belongs in Timezone", p.Cron)
	}
	parser, err := cron.TryNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	if err != nil {
		return schedule{}, err
	}
	if s.at, err = parser.Parse(s.text); err != nil {
		return schedule{}, fmt.Errorf("schedule %q: %w", p.Cron, err)
	}
	s.again = strings.HasPrefix(strings.Fields(s.text)[1], "*")
	if s.at.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return schedule{}, fmt.Errorf("schedule %q: there is no such time", p.Cron)
	}
	return s, nil
}

// plain is d without units of which there are none: 10m, not 10m0s.
func plain(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// next is the first due time after an instant, however many were missed. Intervals are
// counted from midnight UTC or thereabouts, so that tasks of one interval, on all
// instances, are due together and one statement claims them.
//
// Where a clock is put forward, a local time that does not exist is due as if the clock
// had not been put yet: 02:30 at 03:30. Where it is put back, a local time that comes
// twice is due the first time only. Neither holds where the expression's hours begin
// with *: */20 * * * * is due every 20 minutes at all times.
func (s schedule) next(after time.Time) time.Time {
	if s.at == nil {
		return after.UTC().Truncate(s.every).Add(s.every)
	}
	// The parser gets fixed offsets only, one for each stretch between two changes of
	// the clock: it leaves out days where a change is not by whole hours.
	for in := after.In(s.zone); ; {
		start, end := in.ZoneBounds()
		best := s.within(after, in, start, end)
		if missing := s.missing(after, in, start); !missing.IsZero() && (best.IsZero() || missing.Before(best)) {
			best = missing
		}
		if !best.IsZero() || end.IsZero() {
			return best.UTC()
		}
		after, in = end.Add(-1), end
	}
}

// within is the first due time after an instant in the stretch from start to end that
// in lies in, the zero time if there is none.
func (s schedule) within(after, in, start, end time.Time) time.Time {
	_, offset := in.Zone()
	repeated := start // until when local times come for the second time
	if !start.IsZero() && !s.again {
		_, before := start.Add(-1).Zone()
		repeated = start.Add(max(0, time.Duration(before-offset)*time.Second))
	}
	t := s.at.Next(atOffset(after, offset))
	if t.Before(repeated) {
		t = s.at.Next(atOffset(repeated.Add(-1), offset))
	}
	if !end.IsZero() && !t.Before(end) {
		return time.Time{}
	}
	return t
}

// missing is the first due time after an instant among the local times that the change
// of the clock at start left out, the zero time if there is none.
func (s schedule) missing(after, in, start time.Time) time.Time {
	if start.IsZero() || s.again {
		return time.Time{}
	}
	_, offset := in.Zone()
	_, before := start.Add(-1).Zone()
	if after.Before(start.Add(-1)) {
		after = start.Add(-1)
	}
	t := s.at.Next(atOffset(after, before))
	if t.Before(start.Add(time.Duration(offset-before) * time.Second)) {
		return t
	}
	return time.Time{}
}

// atOffset is an instant with the local time of an offset in seconds.
func atOffset(t time.Time, offset int) time.Time { return t.In(time.FixedZone("", offset)) }

// parseSchedule reads a schedule's text and time zone.
func parseSchedule(text, timezone string) (schedule, error) {
	if interval, found := strings.CutPrefix(text, "every "); found {
		every, err := time.ParseDuration(interval)
		if err != nil {
			return schedule{}, err
		}
		return newSchedule(Periodic{Every: every})
	}
	return newSchedule(Periodic{Cron: text, Timezone: timezone})
}
