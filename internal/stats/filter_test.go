package stats_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/naive"
	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/stats/calendar"
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
	stats.FilterEntry:       {"/", "/a", "/b", "/é", "(other)", "/nowhere"},
	stats.FilterExit:        {"/", "/c", "/d", "/Z"},
	stats.FilterHostname:    {"example.com", "blog.example.com", "shop!.example.com"},
	"prop:plan":             {"free", "team", "fr(ee"},
	"prop:a":                {"1", "2", "3"},
	"prop:nothing":          {"x"},
}

// filterableOfEvents are values that naive.Traffic gives, or nearly.
var filterableOfEvents = map[stats.Filter][]string{
	stats.FilterPath: {"/", "/pricing", "/blog/1", "/über", "/a%20b"}, stats.FilterEntry: {"/", "/pricing"}, stats.FilterExit: {"/", "/v1.2"},
	stats.FilterEvent: {"signup", "play", "Play"}, stats.FilterHostname: {"www.example.com", "blog.example.com"},
	stats.FilterSource: {"google.com", "example.org", "notexample.com"}, stats.FilterDevice: {"desktop", "mobile"}, stats.FilterBrowser: {"Chrome", "Safari"},
	stats.FilterUTMSource: {"news", "ads", "(other)"}, stats.FilterUTMTerm: {"a b"}, "prop:plan": {"free", "team"}, "prop:a": {"0", "1"},
}

// asNaiveFilters are the same for the naive count.
func asNaiveFilters(filters stats.Filters) map[string][]string {
	plain := map[string][]string{}
	for name, values := range filters {
		plain[string(name)] = values
	}
	return plain
}

// pattern draws a value with stars in it: for what it stands for, or beside that; or one
// with a backslash before what it takes literally, or (none), or the exclusion of any.
func pattern(values []string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		excluded := rapid.SampledFrom([]string{"", "", "!"}).Draw(t, "excluded")
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			return excluded + "(none)"
		case 1:
			literal := strings.NewReplacer("*", `\*`, "!", `\!`, "(", `\(`)
			return excluded + literal.Replace(rapid.SampledFrom(values).Draw(t, "literal"))
		}
		text := []rune(rapid.SampledFrom(values).Draw(t, "value"))
		for range rapid.IntRange(0, 2).Draw(t, "stars") {
			from := rapid.IntRange(0, len(text)).Draw(t, "star from")
			to := rapid.IntRange(from, len(text)).Draw(t, "star to")
			text = append(append(append([]rune{}, text[:from]...), '*'), text[to:]...)
		}
		return excluded + string(text)
	})
}

// filtersOf draws filters with values of those that each has.
func filtersOf(values map[stats.Filter][]string) *rapid.Generator[stats.Filters] {
	return rapid.Custom(func(t *rapid.T) stats.Filters {
		filters := stats.Filters{}
		most := rapid.SampledFrom([]int{1, 1, 2, 2, 3}).Draw(t, "most")
		names := rapid.SliceOfNDistinct(rapid.SampledFrom(slices.Sorted(maps.Keys(values))), 1, most, rapid.ID).Draw(t, "filters")
		for _, name := range names {
			filters[name] = rapid.SliceOfN(pattern(values[name]), 1, 4).Draw(t, string(name))
		}
		return filters
	})
}

// TestAClickOnALabelFindsThatLabel, whatever it is made of.
func TestAClickOnALabelFindsThatLabel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		label := rapid.StringOfN(rapid.RuneFrom([]rune(`a!*(\)none`)), 1, 12, -1).Draw(t, "label")
		if rapid.Bool().Draw(t, "none") {
			label = stats.Unlabelled
		}
		filter := map[string][]string{"source": {stats.Exactly(label, false)}}
		site := naive.New(naive.Rules{Zone: time.UTC}, []naive.Hit{{At: time.Unix(0, 0), Visitor: "a", Path: "/", Labels: map[string]string{"source": label}}})
		if n := site.Filtered(filter).Summary(naive.Window{From: "1970-01-01", To: "1970-01-01"}).Sessions; n != 1 {
			t.Fatalf("%q finds %d sessions with the source %q", stats.Exactly(label, false), n, label)
		}
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
				filters := filtersOf(filterable).Draw(rt, "filters")
				c := comparison{
					service: newService(t, d, from.AddDate(0, 0, days), labelCap), site: site, zone: zone, filters: filters,
					count: all.Filtered(asNaiveFilters(filters)), limit: rapid.SampledFrom([]int{2, 500}).Draw(rt, "limit"), offset: rapid.SampledFrom([]int{0, 0, 1, 4}).Draw(rt, "offset"), events: []string{"signup"},
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
				got, err := newService(t, d, now, 0).Realtime(t.Context(), stats.Query{SiteID: site, Zones: calendar.Always(zone), Filters: filters})
				if want := c.count.Realtime(now); err != nil || got != want {
					rt.Fatalf("%d visitors at %v, %v; want %d", got, now, err, want)
				}
			})
			t.Logf("%d of %d answers held something", some, some+none)
			if some == 0 {
				t.Errorf("none of %d answers held anything: the test shows nothing", none)
			}
		})
	}
}
