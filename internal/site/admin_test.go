package site_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/site"
)

func TestOnlyTheFieldsOfAChangeChange(t *testing.T) {
	t.Parallel()
	s, clock, _ := newService(t)
	made := create(t, s, "Example")
	clock.advance(time.Hour)
	name := " Renamed "
	changed, err := s.Update(t.Context(), made.ID, site.Change{Name: &name})
	if err != nil {
		t.Fatal(err)
	}
	if changed.Name != "Renamed" || changed.Domain != made.Domain || changed.Key != made.Key || !changed.UpdatedAt.Equal(made.UpdatedAt.Add(time.Hour)) {
		t.Errorf("%+v", changed)
	}
	domain := "Ünicode.example."
	if changed, err = s.Update(t.Context(), made.ID, site.Change{Domain: &domain}); err != nil || changed.Domain != "xn--nicode-2ya.example" || changed.Name != "Renamed" {
		t.Errorf("%+v, %v", changed, err)
	}
	for field, c := range map[string]site.Change{
		"name": {Name: new("  ")}, "domain": {Domain: new("https://x/")}, "timezone": {Timezone: new("Local")},
	} {
		_, err := s.Update(t.Context(), made.ID, c)
		f, ok := errors.AsType[*fault.Error](err)
		if !ok || f.Kind != fault.Invalid || f.Details[field] == "" {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := s.Update(t.Context(), uuid.Max, site.Change{Name: &name}); !errors.Is(err, site.ErrNoSite) {
		t.Errorf("no site: %v", err)
	}
}

func TestAZoneChangeBeginsAtTheNextMidnightOfTheOldZone(t *testing.T) {
	t.Parallel()
	s, clock, _ := newService(t) // 2024-05-31 12:00 UTC, 13:00 in Lisbon
	made := create(t, s, "Example")
	move := func(zone string) site.Site {
		t.Helper()
		changed, err := s.Update(t.Context(), made.ID, site.Change{Timezone: &zone})
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	move("Asia/Tokyo")
	changed := move("America/New_York") // the last one before the midnight counts
	midnight := time.Date(2024, 5, 31, 23, 0, 0, 0, time.UTC)
	type change struct {
		From time.Time
		Zone string
	}
	changes := func(of site.Site) (list []change) {
		for _, c := range of.Zones {
			list = append(list, change{c.From, c.Zone.String()})
		}
		return list
	}
	want := []change{{time.Time{}, "Europe/Lisbon"}, {midnight, "America/New_York"}}
	if diff := cmp.Diff(want, changes(changed)); diff != "" {
		t.Fatal(diff)
	}
	if changed.Zone.String() != "Europe/Lisbon" || changed.WantedZone().String() != "America/New_York" {
		t.Errorf("zone %s, wanted %s", changed.Zone, changed.WantedZone())
	}
	for at, zone := range map[time.Time]string{midnight.Add(-1): "Europe/Lisbon", midnight: "America/New_York", {}: "Europe/Lisbon"} {
		if got := changed.ZoneAt(at).String(); got != zone {
			t.Errorf("at %v: %s, want %s", at, got, zone)
		}
	}
	clock.advance(12 * time.Hour)
	found, err := s.BySiteKey(t.Context(), made.Key)
	if err != nil || found.Zone.String() != "America/New_York" {
		t.Errorf("after midnight: %v, %v", found.Zone, err)
	}
	// Midnight of New York, not of Lisbon.
	changed = move("UTC")
	want = append(want, change{time.Date(2024, 6, 1, 4, 0, 0, 0, time.UTC), "UTC"})
	if diff := cmp.Diff(want, changes(changed)); diff != "" {
		t.Error(diff)
	}
}

func TestADayStartsWhereTheDayBeforeEnds(t *testing.T) {
	t.Parallel()
	zones := []string{"UTC", "Europe/Lisbon", "America/New_York", "America/Sao_Paulo", "Asia/Beirut", "Pacific/Apia", "Africa/Monrovia", "Asia/Kolkata", "America/St_Johns"}
	rapid.Check(t, func(t *rapid.T) {
		zone, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		day := time.Unix(rapid.Int64Range(0, 2_000_000_000).Draw(t, "second"), 0).UTC().Truncate(24 * time.Hour)
		start := site.DayStart(day, zone)
		if local := start.In(zone); local.Format(time.DateOnly) < day.Format(time.DateOnly) {
			t.Fatalf("%v starts at %v", day, local)
		}
		if before := start.Add(-1).In(zone); before.Format(time.DateOnly) >= day.Format(time.DateOnly) {
			t.Fatalf("%v has started at %v already", day, before)
		}
	})
}

func TestKeysArePagedNewestFirst(t *testing.T) {
	t.Parallel()
	s, clock, _ := newService(t)
	made := create(t, s, "Example")
	var want []uuid.UUID
	for range 5 {
		clock.advance(time.Second)
		key, _, err := s.CreateKey(t.Context(), made.ID, "key", site.ScopeRead)
		if err != nil {
			t.Fatal(err)
		}
		want = append([]uuid.UUID{key.ID}, want...)
	}
	var got []uuid.UUID
	for before := uuid.Nil; ; {
		page, err := s.ListKeysBefore(t.Context(), made.ID, before, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range page {
			got = append(got, k.ID)
		}
		if len(page) < 2 {
			break
		}
		before = got[len(got)-1]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n, err := s.CountKeys(t.Context(), made.ID); n != 5 || err != nil {
		t.Errorf("%d keys, %v", n, err)
	}
	if n, err := s.Count(t.Context()); n != 1 || err != nil {
		t.Errorf("%d sites, %v", n, err)
	}
}
