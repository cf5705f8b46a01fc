package stats_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/naive"
	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/stats/calendar"
)

// TestPeriodsEqualANaiveCountInOddZones asks at instants drawn around what is odd about
// each zone: a half-hour change of clocks, an offset of 45 minutes, a date that was left
// out, midnights that don't exist.
func TestPeriodsEqualANaiveCountInOddZones(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]time.Time{
		"Australia/Lord_Howe": time.Date(2024, 9, 28, 0, 0, 0, 0, time.UTC),
		"Asia/Kathmandu":      time.Date(2023, 12, 25, 0, 0, 0, 0, time.UTC),
		"Pacific/Apia":        time.Date(2011, 12, 24, 0, 0, 0, 0, time.UTC), // without 30 December
		"Africa/Cairo":        time.Date(2024, 4, 20, 0, 0, 0, 0, time.UTC),  // clocks go from 0:00 to 1:00 on 26 April
		"Europe/Berlin":       time.Date(2024, 2, 23, 0, 0, 0, 0, time.UTC),  // the day after a 29 February
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const days = 9
			zone, d := location(t, name), dbtest.New(t)
			hits := randomHits(uint64(len(name)), from, days, zone)
			site := store(t, d, zone, hits)
			count := naive.New(naive.Rules{Zone: zone}, hits)
			rapid.Check(t, func(rt *rapid.T) {
				now := from.Add(time.Duration(rapid.Int64Range(-int64(day), (days+3)*int64(day)).Draw(rt, "now")))
				if rapid.Bool().Draw(rt, "a year on") {
					now = now.AddDate(1, 0, 0)
				}
				period := rapid.SampledFrom(calendar.Periods()).Draw(rt, "period")
				w := count.Period(string(period), now)
				service := newService(t, d, now, 0)
				q := stats.Query{SiteID: site, Zones: calendar.Always(zone), Limit: 500, Compare: true, Period: period}
				summary, err := service.Summary(t.Context(), q)
				if err != nil {
					rt.Fatal(err)
				}
				before := count.Summary(count.Previous(w))
				if diff := cmp.Diff(stats.Metrics(count.Summary(w)), summary.Metrics); diff != "" {
					rt.Fatalf("%s at %s, %s to %s (-naive +product):\n%s", period, now, w.From, w.To, diff)
				}
				if diff := cmp.Diff(stats.Metrics(before), *summary.Previous); diff != "" {
					rt.Fatalf("before %s at %s, %s to %s (-naive +product):\n%s", period, now, w.From, w.To, diff)
				}
				series, err := service.Timeseries(t.Context(), q, calendar.ByDay)
				if diff := cmp.Diff(count.Timeseries(w, "day"), asNaive(series.Buckets)); diff != "" || err != nil {
					rt.Fatalf("%s by day at %s, %v (-naive +product):\n%s", period, now, err, diff)
				}
			})
		})
	}
}

const day = 24 * time.Hour

func TestAPeriodKeepsItsGranularityWhateverTheHour(t *testing.T) {
	t.Parallel()
	zone, d := location(t, "America/New_York"), dbtest.New(t)
	site := store(t, d, zone, randomHits(1, time.Date(2024, 8, 10, 0, 0, 0, 0, time.UTC), 3, zone))
	// 89 days and a half before, clocks were an hour ahead.
	for _, now := range []time.Time{time.Date(2024, 11, 10, 0, 0, 1, 0, zone), time.Date(2024, 11, 10, 23, 59, 59, 0, zone)} {
		for period, want := range map[calendar.Period]calendar.Granularity{
			calendar.Today: calendar.ByHour, calendar.Yesterday: calendar.ByHour, calendar.Last7Days: calendar.ByDay, calendar.Last30Days: calendar.ByDay,
			calendar.Last90Days: calendar.ByDay, calendar.Last12: calendar.ByWeek, calendar.AllTime: calendar.ByWeek,
		} {
			got, err := newService(t, d, now, 0).Timeseries(t.Context(), stats.Query{SiteID: site, Zones: calendar.Always(zone), Limit: 1, Period: period}, "")
			if err != nil || got.Granularity != want {
				t.Errorf("%s at %s: by %s, %v; want %s", period, now, got.Granularity, err, want)
			}
		}
	}
}

// TestAllTimeMayBeLongerThanAnyOtherRange: of 15 years of logs, all is an answer.
func TestAllTimeMayBeLongerThanAnyOtherRange(t *testing.T) {
	t.Parallel()
	d, zone := dbtest.New(t), location(t, "Europe/Berlin")
	old := randomHits(1, time.Date(2009, 3, 1, 0, 0, 0, 0, time.UTC), 2, zone)
	site := store(t, d, zone, old)
	now := time.Date(2024, 7, 1, 12, 0, 0, 0, time.UTC)
	q := stats.Query{SiteID: site, Zones: calendar.Always(zone), Limit: 1, Period: calendar.AllTime}
	got, err := newService(t, d, now, 0).Summary(t.Context(), q)
	want := naive.New(naive.Rules{Zone: zone}, old).Summary(naive.Window{From: "2009-01-01", To: "2010-01-01"})
	if diff := cmp.Diff(stats.Metrics(want), got.Metrics); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	facts, err := newService(t, d, now, 0).Facts(t.Context(), q)
	first := old[0].At
	for _, h := range old {
		if h.At.Before(first) {
			first = h.At
		}
	}
	if err != nil || !facts.FirstEvent.Equal(first) || !facts.Now.Equal(now) {
		t.Errorf("%+v, %v; the first event was %s", facts, err, first)
	}
}

// TestAGermanFirstOfJulyIsTheFirstOfJuly: buckets say the site's clocks.
func TestAGermanFirstOfJulyIsTheFirstOfJuly(t *testing.T) {
	t.Parallel()
	d, zone := dbtest.New(t), location(t, "Europe/Berlin")
	site := store(t, d, zone, randomHits(1, time.Date(2024, 7, 1, 0, 0, 0, 0, time.UTC), 2, zone))
	q := stats.Query{SiteID: site, Zones: calendar.Always(zone), Limit: 1, From: "2024-07-01", To: "2024-07-02"}
	got, err := newService(t, d, time.Date(2024, 7, 9, 0, 0, 0, 0, time.UTC), 0).Timeseries(t.Context(), q, calendar.ByDay)
	if err != nil || len(got.Buckets) != 2 {
		t.Fatal(got, err)
	}
	if at := got.Buckets[0].Start.Format(time.RFC3339); at != "2024-07-01T00:00:00+02:00" {
		t.Errorf("the first bucket begins at %s", at)
	}
}

// TestAReportSaysWhatItsQuestionsWouldSay asks all at once, and one by one.
func TestAReportSaysWhatItsQuestionsWouldSay(t *testing.T) {
	t.Parallel()
	d, zone := dbtest.New(t), location(t, "Asia/Kolkata")
	from := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
	hits := randomHits(3, from, 4, zone)
	site := store(t, d, zone, hits)
	service := newService(t, d, hits[0].At.Add(time.Second), 0)
	for _, filters := range []stats.Filters{nil, {stats.FilterCountry: {"DE"}}} {
		q := stats.Query{SiteID: site, Zones: calendar.Always(zone), From: "2024-05-01", To: "2024-05-04", Limit: 5, Offset: 1, Compare: true, Visits: true, Empty: true, Filters: filters}
		got, err := service.Report(t.Context(), stats.Questions{
			Query: q, Summary: true, Timeseries: true, Events: true, Realtime: true, Granularity: calendar.ByHour, EventName: "signup", Dimensions: dimensions,
		})
		if err != nil {
			t.Fatal(err)
		}
		var want stats.Answers
		for _, ask := range []func() (err error){
			func() (err error) { want.Summary, err = service.Summary(t.Context(), q); return },
			func() (err error) { want.Timeseries, err = service.Timeseries(t.Context(), q, calendar.ByHour); return },
			func() (err error) { want.Breakdowns, err = service.Breakdowns(t.Context(), q, dimensions...); return },
			func() (err error) { want.Events, err = service.CustomEvents(t.Context(), q, "signup"); return },
			func() (err error) { want.Realtime, err = service.Realtime(t.Context(), q); return },
		} {
			if err := ask(); err != nil {
				t.Fatal(err)
			}
		}
		if want.Summary.Pageviews == 0 || want.Realtime == 0 && filters == nil {
			t.Fatalf("%+v: the test shows little", want)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with filters %v (-alone +reported):\n%s", filters, diff)
		}
	}
}
