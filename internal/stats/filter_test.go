package stats_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/naive"
	"github.com/waypost/waypost/internal/stats"
)

// filterable are values that randomHits gives, or nearly.
var filterable = map[stats.Filter][]string{
	stats.FilterPath:        {"/", "/a", "/b", "/é", "/Z", "/z", "(other)", "/nowhere", "%", "/_", `\`},
	stats.FilterEvent:       {"signup", "play", "Play", "save", "sign_p", "(other)"},
	stats.FilterSource:      {"a.example", "b.example", "c.example", "(other)", "_.example", "A.example"},
	stats.FilterCountry:     {"DE", "US", "IN", "ZZ"},
	stats.FilterDevice:      {"desktop", "mobile", "tablet"},
	stats.FilterBrowser:     {"A", "B", "C", "D"},
	stats.FilterOS:          {"L", "M"},
	stats.FilterUTMSource:   {"x", "y", "(other)"},
	stats.FilterUTMMedium:   {"mail", "m%l"},
	stats.FilterUTMCampaign: {"spring", "été", "1"},
	stats.FilterUTMTerm:     {"t", "[t]"},
	stats.FilterUTMContent:  {"c", "c+"},
}

// pattern draws a value with stars in it: for what it stands for, or beside that.
func pattern(values []string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		text := []rune(rapid.SampledFrom(values).Draw(t, "value"))
		for range rapid.IntRange(0, 2).Draw(t, "stars") {
			from := rapid.IntRange(0, len(text)).Draw(t, "star from")
			to := rapid.IntRange(from, len(text)).Draw(t, "star to")
			text = append(append(append([]rune{}, text[:from]...), '*'), text[to:]...)
		}
		return string(text)
	})
}

func someFilters() *rapid.Generator[stats.Filters] {
	return rapid.Custom(func(t *rapid.T) stats.Filters {
		filters := stats.Filters{}
		most := rapid.SampledFrom([]int{1, 1, 2, 2, 3}).Draw(t, "most")
		names := rapid.SliceOfNDistinct(rapid.SampledFrom(stats.AllFilters()), 1, most, rapid.ID).Draw(t, "filters")
		for _, name := range names {
			filters[name] = rapid.SliceOfN(pattern(filterable[name]), 1, 4).Draw(t, string(name))
		}
		return filters
	})
}

func TestFilteredAnswersEqualANaiveCount(t *testing.T) {
	t.Parallel()
	const days, labelCap = 8, 3
	for name, from := range map[string]time.Time{
		"America/New_York":    time.Date(2024, 10, 29, 0, 0, 0, 0, time.UTC), // clocks go back on 3 November
		"Australia/Lord_Howe": time.Date(2024, 10, 1, 0, 0, 0, 0, time.UTC),  // clocks go forward by half an hour on 6 October
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone, d := location(t, name), dbtest.New(t)
			hits := randomHits(uint64(len(name)), from, days, zone)
			site := store(t, d, zone, hits)
			store(t, d, zone, hits[:len(hits)/2]) // another site's, to be left alone
			all := naive.New(naive.Rules{Zone: zone, LabelCap: labelCap}, hits)
			some, none := 0, 0
			rapid.Check(t, func(rt *rapid.T) {
				filters := someFilters().Draw(rt, "filters")
				plain := map[string][]string{}
				for name, patterns := range filters {
					plain[string(name)] = patterns
				}
				c := comparison{
					service: newService(t, d, from.AddDate(0, 0, days), labelCap), site: site, zone: zone, filters: filters,
					count: all.Filtered(plain), limit: rapid.SampledFrom([]int{2, 500}).Draw(rt, "limit"), events: []string{"signup"},
				}
				w := naive.Window{From: from.Format(time.DateOnly), To: from.AddDate(0, 0, days).Format(time.DateOnly)}
				if rapid.Bool().Draw(rt, "part") {
					w = windows(from, from.AddDate(0, 0, days), zone).Draw(rt, "window")
				}
				c.mustAgree(t.Context(), rt, w)
				if !c.count.Empty(w) && c.count.Summary(w).Sessions > 0 {
					some++
				} else {
					none++
				}
				now := rapid.SampledFrom(hits).Draw(rt, "now").At
				got, err := newService(t, d, now, 0).Realtime(t.Context(), stats.Query{SiteID: site, Zone: zone, Filters: filters})
				if want := c.count.Realtime(now); err != nil || got != want {
					rt.Fatalf("%d visitors at %v, %v; want %d", got, now, err, want)
				}
			})
			t.Logf("%d of %d answers held something", some, some+none)
			if some < 15 {
				t.Errorf("only %d of %d answers held anything: the test shows little", some, some+none)
			}
		})
	}
}
