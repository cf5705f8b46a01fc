package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/waypost/waypost/db"
)

func mustSchedule(t interface {
	Helper()
	Fatal(...any)
}, expression, zone string,
) schedule {
	t.Helper()
	s, err := newSchedule(Periodic{Cron: expression, Timezone: zone})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Zones whose clocks are put by an hour, by half an hour, at midnight, and not at all.
var zones = []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Africa/Cairo", "Asia/Kathmandu", "UTC"}

func TestADailyTaskRunsOnceOnEveryLocalDayWhateverTheClockDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom(zones).Draw(t, "zone")
		hour, minute := rapid.IntRange(0, 23).Draw(t, "hour"), rapid.IntRange(0, 59).Draw(t, "minute")
		s := mustSchedule(t, fmt.Sprintf("%d %d * * *", minute, hour), zone)
		year := rapid.IntRange(2005, 2030).Draw(t, "year")
		at := s.next(time.Date(year, 1, 1, 12, 0, 0, 0, s.zone))
		for range 366 {
			next := s.next(at)
			day := func(t time.Time) string { return t.In(s.zone).Format(time.DateOnly) }
			if want := day(time.Date(at.In(s.zone).Year(), at.In(s.zone).Month(), at.In(s.zone).Day()+1, 12, 0, 0, 0, s.zone)); day(next) != want {
				t.Fatalf("after %s comes %s, not a time of %s", at.In(s.zone), next.In(s.zone), want)
			}
			local := next.In(s.zone)
			exists := time.Date(local.Year(), local.Month(), local.Day(), hour, minute, 0, 0, s.zone)
			if exists.Hour() == hour && exists.Minute() == minute && (local.Hour() != hour || local.Minute() != minute) {
				t.Fatalf("%s is not at %02d:%02d, though there is such a time", local, hour, minute)
			}
			at = next
		}
	})
}

func TestATaskOfEveryHourGoesOnThroughChangesOfTheClock(t *testing.T) {
	t.Parallel()
	s := mustSchedule(t, "*/20 * * * *", "Europe/Berlin")
	for _, day := range []string{"2026-03-28T12:00:00Z", "2026-10-24T12:00:00Z"} {
		at, err := time.Parse(time.RFC3339, day)
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			next := s.next(at)
			if next.Sub(at) != 20*time.Minute {
				t.Fatalf("after %s comes %s", at, next)
			}
			at = next
		}
	}
}

func TestTheNextRunIsAlwaysLaterAndNoneIsLeftOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := schedule{}
		if rapid.Bool().Draw(t, "interval") {
			s = schedule{every: time.Duration(rapid.Int64Range(1, int64(48*time.Hour)).Draw(t, "every"))}
		} else {
			s = mustSchedule(t, rapid.SampledFrom([]string{"0 3 * * *", "30 2 * * *", "*/7 1-3 * * *", "15 */2 * * 1-5", "0 0 1 * *", "59 23 31 12 *"}).Draw(t, "expression"), rapid.SampledFrom(zones).Draw(t, "zone"))
		}
		after := time.Unix(rapid.Int64Range(1e9, 2e9).Draw(t, "after"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns"))
		next := s.next(after)
		if !next.After(after) {
			t.Fatalf("after %s comes %s", after, next)
		}
		between := after.Add(time.Duration(rapid.Int64Range(0, int64(next.Sub(after))-1).Draw(t, "between")))
		if again := s.next(between); !again.Equal(next) {
			t.Fatalf("after %s comes %s, but after %s comes %s", after, next, between, again)
		}
	})
}

func TestChangesOfTheClock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expression, after, want string }{
		{"30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T03:30:00+02:00"}, // 02:30 does not exist
		{"30 2 * * *", "2026-03-29T12:00:00Z", "2026-03-30T02:30:00+02:00"},
		{"30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T02:30:00+02:00"},
		{"30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-26T02:30:00+01:00"}, // not at the second 02:30
		{"30 * * * *", "2026-10-25T00:30:00Z", "2026-10-25T02:30:00+01:00"}, // but every hour is
		{"15 2,3 * * *", "2026-03-28T12:00:00Z", "2026-03-29T03:15:00+02:00"},
		{"15 2,3 * * *", "2026-03-29T01:15:00Z", "2026-03-30T02:15:00+02:00"}, // two in one
		{"0 3 * * *", "2026-10-24T12:00:00Z", "2026-10-25T03:00:00+01:00"},
	} {
		s := mustSchedule(t, c.expression, "Europe/Berlin")
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.next(after).In(s.zone).Format(time.RFC3339); got != c.want {
			t.Errorf("%s after %s: %s, want %s", c.expression, c.after, got, c.want)
		}
	}
}

func TestAScheduleThatCannotBeReadFailsTheStartAndNamesTheTask(t *testing.T) {
	t.Parallel()
	for _, p := range []Periodic{
		{},
		{Every: -time.Second},
		{Every: time.Second, Cron: "* * * * *"},
		{Every: time.Second, Timezone: "Europe/Berlin"},
		{Timezone: "Europe/Berlin"},
		{Cron: "every day"},
		{Cron: "* * * *"},
		{Cron: "0 * * * * *"},
		{Cron: "60 * * * *"},
		{Cron: "@daily"},
		{Cron: "@every 1s"},
		{Cron: "TZ=Europe/Berlin 0 3 * * *"},
		{Cron: "0 0 31 2 *"},
		{Cron: "0 3 * * *", Timezone: "Mars/Olympus"},
		{Cron: "0 3 * * *", Timezone: "Local"},
		{Cron: "0 3 * * *", Timezone: "../../etc/passwd"},
	} {
		p.Name, p.Run = "orders.forget", func(context.Context) (int, error) { return 0, nil }
		_, err := New(Options{DB: new(db.DB), Logger: slog.New(slog.DiscardHandler), Periodic: []Periodic{p}})
		if err == nil || !strings.Contains(err.Error(), `"orders.forget"`) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestASchedulesTextIsWhatItWasMadeOf(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]Periodic{
		"every 5s UTC":            {Every: 5 * time.Second},
		"every 1m30s UTC":         {Every: 90 * time.Second},
		"every 10m UTC":           {Every: 10 * time.Minute},
		"every 1h UTC":            {Every: time.Hour},
		"every 1h0m1s UTC":        {Every: time.Hour + time.Second},
		"every 24h UTC":           {Every: 24 * time.Hour},
		"0 3 * * * UTC":           {Cron: " 0  3 * * *"},
		"0 3 * * 1 Europe/Berlin": {Cron: "0 3 * * 1", Timezone: "Europe/Berlin"},
		"0 3 1 jan * Asia/Tokyo":  {Cron: "0 3 1 jan *", Timezone: "Asia/Tokyo"},
	} {
		s, err := newSchedule(p)
		if got := s.text + " " + s.timezone; got != want || err != nil {
			t.Errorf("%+v: %q, %v", p, got, err)
			continue
		}
		again, err := parseSchedule(s.text, s.timezone)
		if now := time.Now(); err != nil || !again.next(now).Equal(s.next(now)) {
			t.Errorf("%q read again: %v", s.text, err)
		}
	}
}
