package calendar

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/site"
)

// trickyZones have, in the years drawn, changes of clocks at midnight, by half an
// hour, of a whole day, or offsets that are no full hours.
var trickyZones = []string{
	"UTC", "America/New_York", "Europe/London", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe", "America/Sao_Paulo",
	"America/Havana", "Asia/Beirut", "Africa/Cairo", "Pacific/Apia", "America/St_Johns", "Africa/Casablanca", "Pacific/Chatham", "America/Asuncion",
}

func zoneNamed(t rapid.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func drawDay(t *rapid.T, label string) time.Time {
	return time.Date(1985, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 365*50).Draw(t, label))
}

func TestADayStartsWhenClocksFirstShowItsDate(t *testing.T) {
	t.Parallel()
	check := func(t rapid.TB, day time.Time, zone *time.Location) {
		start := site.DayStart(day, zone)
		if DateOf(start.In(zone)).Before(day) {
			t.Errorf("%v: the start %v of %v is the day before", zone, start.In(zone), day)
		}
		for back := time.Second; back < 2*time.Hour; back *= 3 {
			if before := start.Add(-back); !DateOf(before.In(zone)).Before(day) {
				t.Errorf("%v: %v, before the start %v of %v, shows its date too", zone, before.In(zone), start.In(zone), day)
			}
		}
	}
	// The days around every change of clocks.
	for _, name := range trickyZones {
		zone := zoneNamed(t, name)
		at := time.Date(1985, 1, 1, 0, 0, 0, 0, time.UTC)
		for {
			_, change := at.In(zone).ZoneBounds()
			if change.IsZero() || change.Year() > 2035 {
				break
			}
			for near := -1; near <= 1; near++ {
				check(t, DateOf(change.In(zone)).AddDate(0, 0, near), zone)
			}
			at = change
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, drawDay(t, "day"), zoneNamed(t, rapid.SampledFrom(trickyZones).Draw(t, "zone")))
	})
}

// drawCalendar is a calendar some of whose days are stored: with the bounds of
// its zone or, before a change of the site's zone, of another one.
func drawCalendar(t *rapid.T, around time.Time) Calendar {
	current := zoneNamed(t, rapid.SampledFrom(trickyZones).Draw(t, "zone"))
	c, former := New(Always(current)), current
	if rapid.Bool().Draw(t, "zone was changed") {
		former = zoneNamed(t, rapid.SampledFrom(trickyZones).Draw(t, "former zone"))
	}
	changed := around.AddDate(0, 0, rapid.IntRange(-20, 40).Draw(t, "change"))
	density := rapid.IntRange(0, 3).Draw(t, "density")
	var reached time.Time
	for day := around.AddDate(0, 0, -20); day.Before(around.AddDate(0, 0, 60)); day = day.AddDate(0, 0, 1) {
		zone := current
		if day.Before(changed) {
			zone = former
		}
		d := Day{Date: day, Start: Later(site.DayStart(day, zone), reached), End: site.DayStart(day.AddDate(0, 0, 1), zone)}
		if d.End.After(d.Start) && rapid.IntRange(0, 3).Draw(t, "stored") <= density {
			c.stored = append(c.stored, d)
			reached = d.End
		}
	}
	return c
}

func drawWindow(t *rapid.T, around time.Time) Window {
	from := around.Add(time.Duration(rapid.IntRange(-86400, 30*86400).Draw(t, "from")) * time.Second)
	return Window{from: from, to: from.Add(time.Duration(rapid.IntRange(1, 40*86400).Draw(t, "seconds")) * time.Second)}
}

func TestAPlanCoversItsWindowOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		around := drawDay(t, "around")
		c, w := drawCalendar(t, around), drawWindow(t, around)
		plans := map[string]Plan{"whole": c.Plan(w)}
		for _, g := range []Granularity{ByHour, ByDay, ByWeek, ByMonth} {
			p, err := c.Series(w, g)
			if err != nil {
				t.Fatal(err)
			}
			plans[string(g)] = p
			checkBuckets(t, c, w, g, p)
		}
		for name, p := range plans {
			var covered, stored time.Duration
			for i, s := range p.Spans {
				if !s.From.Before(s.To) || s.From.Before(w.from) || s.To.After(w.to) || i > 0 && s.From.Before(p.Spans[i-1].To) {
					t.Fatalf("%s: span %d, %v to %v, is empty, outside the window, or overlaps", name, i, s.From, s.To)
				}
				if s.Whole != (s.From.Equal(c.Start(s.Day)) && s.To.Equal(c.Start(s.Day.AddDate(0, 0, 1)))) {
					t.Fatalf("%s: span %v to %v of %v: Whole = %v", name, s.From, s.To, s.Day, s.Whole)
				}
				for _, d := range c.stored {
					if d.Date.Equal(s.Day) {
						covered += max(0, Earlier(s.To, d.End).Sub(Later(s.From, d.Start)))
					}
				}
			}
			for _, d := range c.stored {
				stored += max(0, Earlier(d.End, w.to).Sub(Later(d.Start, w.from)))
			}
			if covered != stored {
				t.Fatalf("%s: the spans cover %v of the %v of stored days in the window", name, covered, stored)
			}
		}
	})
}

func checkBuckets(t *rapid.T, c Calendar, w Window, g Granularity, p Plan) {
	if len(p.Buckets) == 0 || p.Buckets[0].Start.After(w.from) || p.Buckets[0].First != 0 || p.Buckets[len(p.Buckets)-1].End != len(p.Spans) {
		t.Fatalf("%s: the buckets do not hold the whole window", g)
	}
	for i, b := range p.Buckets {
		next := w.to
		if i+1 < len(p.Buckets) {
			next = p.Buckets[i+1].Start
			if b.End != p.Buckets[i+1].First {
				t.Fatalf("%s: bucket %d ends at span %d, the next begins at %d", g, i, b.End, p.Buckets[i+1].First)
			}
		}
		if !b.Start.Before(next) {
			t.Fatalf("%s: bucket %d starts at %v, the next at %v", g, i, b.Start, next)
		}
		for _, s := range p.Spans[b.First:b.End] {
			if s.From.Before(b.Start) || s.To.After(next) {
				t.Fatalf("%s: bucket %v to %v has the span %v to %v", g, b.Start, next, s.From, s.To)
			}
		}
		day := c.DayOf(b.Start)
		switch {
		case g == ByHour:
		case !b.Start.Equal(c.Start(day)),
			g == ByWeek && day.Weekday() != time.Monday && len(c.stored) == 0 && !skips(c, day),
			g == ByMonth && day.Day() != 1 && len(c.stored) == 0:
			t.Fatalf("%s: bucket %d starts at %v on %v", g, i, b.Start, day)
		}
	}
}

// skips reports whether the zone has no day before day, as when it crossed the
// date line.
func skips(c Calendar, day time.Time) bool {
	return c.Start(day.AddDate(0, 0, -1)).Equal(c.Start(day))
}

func TestHoursOfADayWithAChangeOfClocks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone, day   string
		hours       int
		first, last string
	}{
		{"America/New_York", "2024-03-10", 23, "2024-03-10T05:00:00Z", "2024-03-11T03:00:00Z"},
		{"America/New_York", "2024-11-03", 25, "2024-11-03T04:00:00Z", "2024-11-04T04:00:00Z"},
		{"Asia/Kolkata", "2024-11-03", 24, "2024-11-02T18:30:00Z", "2024-11-03T17:30:00Z"},
		{"America/Sao_Paulo", "2018-11-04", 23, "2018-11-04T03:00:00Z", "2018-11-05T01:00:00Z"}, // no midnight
		{"Australia/Lord_Howe", "2024-04-07", 25, "2024-04-06T13:00:00Z", "2024-04-07T12:30:00Z"},
		{"Australia/Lord_Howe", "2024-10-06", 24, "2024-10-05T13:30:00Z", "2024-10-06T12:00:00Z"},
		{"UTC", "2024-02-29", 24, "2024-02-29T00:00:00Z", "2024-02-29T23:00:00Z"},
	} {
		p, err := Parse("", c.day, c.day, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		cal := New(Always(zoneNamed(t, c.zone)))
		w, err := cal.Window(p)
		if err != nil {
			t.Fatal(err)
		}
		s, err := cal.Series(w, ByHour)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(len(s.Buckets), s.Buckets[0].Start.Format(time.RFC3339), s.Buckets[len(s.Buckets)-1].Start.Format(time.RFC3339))
		if want := fmt.Sprint(c.hours, c.first, c.last); got != want {
			t.Errorf("%s in %s: %s, want %s", c.day, c.zone, got, want)
		}
	}
}

func TestWhatIsNoRangeIsRefusedByName(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ from, to, field string }{
		{"2026-01-01", "", "to"}, {"", "2026-01-01", "from"},
		{"yesterday", "2026-01-01", "from"}, {"2026-01-01", "2026-02-30", "to"}, {"2026-1-1", "2026-01-02", "from"},
		{"2026-01-01", "2026-01-02T00:00:00", "to"}, {"2026-01-01T00:00:00 02:00", "2026-01-02", "from"}, {"1767225600", "2026-01-02", "from"},
		{"2026-01-01T0:00:00Z", "2026-01-02", "from"}, {"2026-01-01T00:00:00,5Z", "2026-01-02", "from"}, {"2026-01-01T00:00:00+1:00", "2026-01-02", "from"},
		{"2026-01-02", "2026-01-01", "to"}, {"2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "to"}, {"2026-01-02T00:00:00Z", "2026-01-01", "to"},
		{"2016-01-01", "2026-01-01", "to"}, {"2016-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "to"}, {"1900-01-01", "2026-01-01", "to"},
		{"0001-01-01", "0001-01-02", "from"}, {"9998-01-01", "9999-01-01", "to"}, {"2026-01-01T00:00:00.0000001Z", "2026-01-01T00:00:00.0000009Z", "to"},
		{"2011-12-30", "2011-12-30", "to"}, // a day that Apia did not have
	} {
		p, err := Parse("", c.from, c.to, now)
		if err == nil {
			_, err = New(Always(zoneNamed(t, "Pacific/Apia"))).Window(p)
		}
		if f, ok := err.(*fault.Error); !ok || f.Kind != fault.Invalid || f.Details[c.field] == "" {
			t.Errorf("%q to %q: %v, want a validation fault that names %s", c.from, c.to, err, c.field)
		}
	}
}

func TestRangesMeanWhatTheySay(t *testing.T) {
	t.Parallel()
	newYork := New(Always(zoneNamed(t, "America/New_York")))
	now := time.Date(2026, 3, 1, 12, 0, 0, 1500, time.UTC)
	for _, c := range []struct {
		from, to                         string
		wantFrom, wantTo, wantPreviously string
		granularity                      Granularity
	}{
		{"", "", "2026-01-30T12:00:00.000002Z", "2026-03-01T12:00:00.000002Z", "2025-12-31T12:00:00.000002Z", ByDay},
		{"2026-03-01", "2026-03-01", "2026-03-01T05:00:00Z", "2026-03-02T05:00:00Z", "2026-02-28T05:00:00Z", ByHour},
		{"2026-03-07", "2026-03-08", "2026-03-07T05:00:00Z", "2026-03-09T04:00:00Z", "2026-03-05T05:00:00Z", ByHour},
		{"2025-11-01", "2025-11-02", "2025-11-01T04:00:00Z", "2025-11-03T05:00:00Z", "2025-10-30T04:00:00Z", ByHour}, // 49 hours, but two days
		{"2025-11-01", "2025-11-03", "2025-11-01T04:00:00Z", "2025-11-04T05:00:00Z", "2025-10-29T04:00:00Z", ByDay},
		{"2025-10-01", "2025-12-29", "2025-10-01T04:00:00Z", "2025-12-30T05:00:00Z", "2025-07-03T04:00:00Z", ByDay},
		{"2025-10-01", "2025-12-30", "2025-10-01T04:00:00Z", "2025-12-31T05:00:00Z", "2025-07-02T04:00:00Z", ByWeek},
		{"2024-01-01", "2025-12-30", "2024-01-01T05:00:00Z", "2025-12-31T05:00:00Z", "2022-01-01T05:00:00Z", ByWeek},
		{"2024-01-01", "2025-12-31", "2024-01-01T05:00:00Z", "2026-01-01T05:00:00Z", "2021-12-31T05:00:00Z", ByMonth},
		{"2016-03-01", "2026-02-28", "2016-03-01T05:00:00Z", "2026-03-01T05:00:00Z", "2006-03-02T05:00:00Z", ByMonth},
		{"2026-03-01T10:00:00+02:00", "2026-03-03t08:00:00z", "2026-03-01T08:00:00Z", "2026-03-03T08:00:00Z", "2026-02-27T08:00:00Z", ByHour},
		{"2026-03-01T08:00:00Z", "2026-03-03T08:00:00.0000001Z", "2026-03-01T08:00:00Z", "2026-03-03T08:00:00.000001Z", "2026-02-27T07:59:59.999999Z", ByDay},
		{"2026-03-01", "2026-03-02T05:00:00Z", "2026-03-01T05:00:00Z", "2026-03-02T05:00:00Z", "2026-02-28T05:00:00Z", ByHour},
	} {
		p, err := Parse("", c.from, c.to, now)
		if err != nil {
			t.Fatalf("%q to %q: %v", c.from, c.to, err)
		}
		w, err := newYork.Window(p)
		if err != nil {
			t.Fatalf("%q to %q: %v", c.from, c.to, err)
		}
		before := w.Previous(newYork)
		got := []string{w.from.Format(time.RFC3339Nano), w.to.Format(time.RFC3339Nano), before.from.Format(time.RFC3339Nano), before.to.Format(time.RFC3339Nano), string(w.Granularity())}
		want := []string{c.wantFrom, c.wantTo, c.wantPreviously, c.wantFrom, string(c.granularity)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q to %q (from, to, previous from, previous to, granularity):\n%s", c.from, c.to, diff)
		}
	}
}

func TestMoreThanTenThousandBucketsAreRefused(t *testing.T) {
	t.Parallel()
	c := New(Always(time.UTC))
	w := Window{from: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.to = w.from.Add(maxBuckets * time.Hour)
	if p, err := c.Series(w, ByHour); err != nil || len(p.Buckets) != maxBuckets {
		t.Errorf("10,000 hours: %d buckets, %v", len(p.Buckets), err)
	}
	w.to = w.to.Add(time.Microsecond)
	if _, err := c.Series(w, ByHour); fault.KindOf(err) != fault.Invalid {
		t.Errorf("10,000 hours and a microsecond: %v, want a fault of kind Invalid", err)
	}
}

func FuzzParsePeriod(f *testing.F) {
	f.Add("2026-01-01", "2026-01-31")
	f.Add("2026-01-01T00:00:00.5+05:30", "2026-01-31t23:59:60z")
	f.Fuzz(func(t *testing.T, from, to string) {
		p, err := Parse("", from, to, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
		if err == nil && from != "" && !(boundPattern.MatchString(from) && boundPattern.MatchString(to)) {
			t.Errorf("%q to %q are taken, though the pattern forbids one", from, to)
		}
		if err == nil {
			var w Window
			if w, err = New(Always(time.UTC)).Window(p); err == nil && !w.from.Before(w.to) {
				t.Errorf("%q to %q is the empty window %v to %v", from, to, w.from, w.to)
			}
		}
		if err != nil && fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q to %q: %v", from, to, err)
		}
	})
}
