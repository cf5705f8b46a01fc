package stats_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/naive"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/imports"
)

// TestEveryStageOfADayIsCountedToTheUnit holds all answers against the naive
// count before sealing, after it, with late events, and after all is sealed again, and
// after a crash in the middle of each.
func TestEveryStageOfADayIsCountedToTheUnit(t *testing.T) {
	t.Parallel()
	for zone, caps := range map[string]struct {
		labels, limit int
		events        stats.EventCaps
	}{
		"America/New_York":    {labels: 3, limit: 500, events: stats.EventCaps{Keys: 2, Values: 1}},
		"Asia/Kolkata":        {labels: 3, limit: 2}, // no row (other)
		"Australia/Lord_Howe": {limit: 500},
	} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			s := newStages(t, zone, caps.labels, caps.events)
			s.limit = caps.limit
			s.imports(len(s.lines) * 3 / 4)
			s.agree("open")
			s.crashes("fold", s.fold)
			s.agree("folded")
			s.crashes("seal", s.seal)
			s.agree("sealed")
			s.imports(len(s.lines))
			s.agree("dirty")
			s.crashes("seal again", s.seal)
			s.agree("sealed again")
			s.crashes("seal all again", s.sealAllAgain)
			s.agree("all sealed again")
		})
	}
}

// TestNamesOfEventsBeyondTheCapAreOneRow asks for names alone, at each stage of a day: a
// name that isn't kept loses its properties when the day is sealed.
func TestNamesOfEventsBeyondTheCapAreOneRow(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 500} {
		s := newStages(t, "America/New_York", 0, stats.EventCaps{Names: 2})
		s.imports(len(s.lines))
		agree := func(stage string) {
			t.Helper()
			w := s.all()
			for _, filters := range []stats.Filters{nil, {stats.FilterDevice: {"desktop"}}} {
				got, err := s.service.CustomEvents(t.Context(), stats.Query{SiteID: s.site, Zones: calendar.Always(s.zone), From: w.From, To: w.To, Limit: limit, Filters: filters}, "")
				if err != nil {
					t.Fatal(err)
				}
				var want []stats.EventCount
				for _, e := range s.count.Filtered(asNaiveFilters(filters)).Events(w, limit) {
					want = append(want, stats.EventCount(e))
				}
				if diff := cmp.Diff(want, got.Events); diff != "" || limit > 2 && want[len(want)-1].Name != "(other)" {
					t.Errorf("%s, %v (-naive +product):\n%s", stage, filters, diff)
				}
			}
		}
		agree("open")
		if err := s.fold(s.rollups(s.from, nil)); err != nil {
			t.Fatal(err)
		}
		agree("folded")
		if err := s.seal(s.rollups(time.Now(), nil)); err != nil {
			t.Fatal(err)
		}
		agree("sealed")
	}
}

// stages is a site on its way.
type stages struct {
	counted
	t        *testing.T
	lines    []string
	traffic  naive.Traffic
	sites    *site.Service
	of       site.Site
	importer *imports.Importer
	labelCap int
	caps     stats.EventCaps
	rollups  func(now time.Time, interrupt func(stats.Boundary) error) *stats.Rollups
}

func newStages(t *testing.T, zone string, labelCap int, caps stats.EventCaps) *stages {
	t.Helper()
	traffic := season(t, zone)
	traffic.Visitors = 20
	content := generated(t, func(b *bytes.Buffer) error { return traffic.Events(b) })
	d := dbtest.New(t)
	s := &stages{t: t, traffic: traffic, lines: strings.SplitAfter(strings.TrimSpace(string(content))+"\n", "\n"), labelCap: labelCap, caps: caps}
	s.lines = s.lines[:len(s.lines)-1]
	var err error
	if s.sites, err = site.New(site.Options{DB: d, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	if s.of, err = s.sites.Create(t.Context(), "Counted", traffic.Domain, zone); err != nil {
		t.Fatal(err)
	}
	if s.importer, err = imports.New(imports.Options{DB: d, Keys: stats.Keys(t)}); err != nil {
		t.Fatal(err)
	}
	service, err := stats.NewService(stats.ServiceOptions{DB: d, LabelCap: labelCap, EventCaps: caps, Window: 64})
	if err != nil {
		t.Fatal(err)
	}
	s.comparison = comparison{service: service, site: s.of.ID, zone: s.of.Zone, limit: 500, events: []string{"signup", "Play"}}
	s.rollups = func(now time.Time, interrupt func(stats.Boundary) error) *stats.Rollups {
		r, err := stats.NewRollups(stats.RollupsOptions{
			DB: d, Sites: s.sites, Now: func() time.Time { return now }, LabelCap: labelCap, EventCaps: caps, FoldFrom: 1, BlockEvents: 8, Interrupt: interrupt,
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	return s
}

// imports brings the first n lines in, as a file that grows, and counts them anew.
func (s *stages) imports(n int) {
	s.t.Helper()
	content := strings.Join(s.lines[:n], "")
	if _, err := s.importer.Import(s.t.Context(), s.of, strings.NewReader(content), imports.NDJSON, nil); err != nil {
		s.t.Fatal(err)
	}
	log := naive.Log{Domain: s.traffic.Domain, Classify: classifier(s.t)}
	hits := log.ReadEvents(strings.NewReader(content))
	s.count = naive.New(naive.Rules{
		Zone: s.of.Zone, LabelCap: s.labelCap, NameCap: s.caps.Names, KeyCap: s.caps.Keys, ValueCap: s.caps.Values,
	}, hits)
	s.from, s.to = hits[0].At, hits[0].At
	for _, h := range hits {
		if h.At.Before(s.from) {
			s.from = h.At
		}
		if h.At.After(s.to) {
			s.to = h.At
		}
	}
}

func (s *stages) fold(r *stats.Rollups) error {
	_, err := r.FoldBusy(s.t.Context())
	return err
}

func (s *stages) seal(r *stats.Rollups) error {
	_, err := r.SealDue(s.t.Context())
	return err
}

func (s *stages) sealAllAgain(r *stats.Rollups) error {
	for day := s.from.AddDate(0, 0, -1).Truncate(24 * time.Hour); !day.After(s.to); day = day.AddDate(0, 0, 1) {
		if err := r.SealAgain(s.t.Context(), s.of.ID, day); err != nil {
			return err
		}
	}
	return nil
}

// crashes lets act crash at each of its boundaries in turn, asking everything each
// time, until it gets through. Days are open at the time of the traffic.
func (s *stages) crashes(stage string, act func(*stats.Rollups) error) {
	s.t.Helper()
	errCrash := errors.New("crash")
	now := time.Now()
	if stage == "fold" {
		now = s.from
	}
	for at := 1; ; at++ {
		n := 0
		err := act(s.rollups(now, func(stats.Boundary) error {
			if n++; n == at {
				return errCrash
			}
			return nil
		}))
		if err == nil {
			if at < 5 {
				s.t.Fatalf("%s passes only %d boundaries: nothing was done", stage, at-1)
			}
			return
		}
		if !errors.Is(err, errCrash) {
			s.t.Fatal(err)
		}
		s.mustAgree(s.t.Context(), s.t, s.all())
	}
}

func (s *stages) agree(stage string) {
	s.t.Helper()
	s.mustAgree(s.t.Context(), s.t, s.all())
	for seed := range 6 {
		w := windows(s.from, s.to, s.zone).Example(seed)
		if report, err := s.differences(s.t.Context(), w); !s.count.Empty(w) && (err != nil || report != "") {
			s.t.Fatalf("%s: %v %s", stage, err, report)
		}
	}
	filtered := s.comparison
	for seed := range 12 {
		filtered.filters = filtersOf(filterableOfEvents).Example(seed)
		filtered.count = s.count.Filtered(asNaiveFilters(filtered.filters))
		w := s.all()
		if seed%2 == 1 {
			w = windows(s.from, s.to, s.zone).Example(seed)
		}
		if report, err := filtered.differences(s.t.Context(), w); !s.count.Empty(w) && (err != nil || report != "") {
			s.t.Fatalf("%s, %v: %v %s", stage, filtered.filters, err, report)
		}
	}
}

func TestAChangeOfZoneBeginsAtTheNextMidnight(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"America/Los_Angeles", "Asia/Kolkata", "Pacific/Kiritimati"} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			const zone = "America/New_York"
			d, old, moved := dbtest.New(t), location(t, zone), location(t, to)
			var mu sync.Mutex
			now := time.Date(2024, 11, 2, 15, 0, 0, 0, time.UTC)
			clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
			sites, err := site.New(site.Options{DB: d, Logger: slog.New(slog.DiscardHandler), Now: clock})
			if err != nil {
				t.Fatal(err)
			}
			s, err := sites.Create(t.Context(), "Moving", "example.com", zone)
			if err != nil {
				t.Fatal(err)
			}
			if s, err = sites.Update(t.Context(), s.ID, site.Change{Timezone: &to}); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			now = time.Date(2025, 2, 1, 0, 0, 0, 0, time.UTC)
			mu.Unlock()
			if s, err = sites.Find(t.Context(), s.ID); err != nil || s.Zone.String() != to {
				t.Fatalf("zone %v, %v", s.Zone, err)
			}
			traffic := season(t, zone)
			traffic.Visitors = 20
			content := generated(t, func(b *bytes.Buffer) error { return traffic.Events(b) })
			importer, err := imports.New(imports.Options{DB: d, Keys: stats.Keys(t), Now: clock})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := importer.Import(t.Context(), s, bytes.NewReader(content), imports.NDJSON, nil); err != nil {
				t.Fatal(err)
			}
			log := naive.Log{Domain: traffic.Domain, Classify: classifier(t)}
			hits := log.ReadEvents(bytes.NewReader(content))
			from := traffic.Start
			c := comparison{
				service: newService(t, d, clock(), 0), site: s.ID, zone: s.Zone, zones: calendar.ZonesOf(s), limit: 500, events: []string{"signup"},
				count: naive.New(naive.Rules{Zone: old, Moves: []naive.Move{{At: time.Date(2024, 11, 3, 0, 0, 0, 0, old), Zone: moved}}}, hits),
			}
			rollups, err := stats.NewRollups(stats.RollupsOptions{DB: d, Sites: sites, Now: clock})
			if err != nil {
				t.Fatal(err)
			}
			for _, stage := range []string{"open", "sealed"} {
				c.mustAgree(t.Context(), t, naive.Window{From: "2024-10-30", To: "2024-11-07"})
				c.mustAgree(t.Context(), t, naive.Window{From: "2024-11-03", To: "2024-11-03"})
				for seed := range 15 {
					c.mustAgree(t.Context(), t, windows(from, from.AddDate(0, 0, 6), old).Example(seed))
				}
				if n, err := rollups.SealDue(t.Context()); err != nil || stage == "open" && n == 0 {
					t.Fatalf("%d sealed, %v", n, err)
				}
			}
		})
	}
}
