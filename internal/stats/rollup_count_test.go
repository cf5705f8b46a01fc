package stats_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/naive"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
)

// TestEveryStageOfADayIsCountedToTheUnit holds all answers against the naive
// count before sealing, after it, with late events, and after all is sealed again, and
// after a crash in the middle of each.
func TestEveryStageOfADayIsCountedToTheUnit(t *testing.T) {
	t.Parallel()
	for zone, labelCap := range map[string]int{"America/New_York": 3, "Australia/Lord_Howe": 10_000} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			s := newStages(t, zone, labelCap)
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

// stages is a site on its way.
type stages struct {
	counted
	t        *testing.T
	lines    []string
	traffic  naive.Traffic
	sites    *site.Service
	of       site.Site
	importer *stats.Importer
	labelCap int
	rollups  func(now time.Time, interrupt func(stats.Boundary) error) *stats.Rollups
}

func newStages(t *testing.T, zone string, labelCap int) *stages {
	t.Helper()
	traffic := season(t, zone)
	traffic.Visitors = 20
	content := generated(t, func(b *bytes.Buffer) error { return traffic.Events(b) })
	d := dbtest.New(t)
	s := &stages{t: t, traffic: traffic, lines: strings.SplitAfter(strings.TrimSpace(string(content))+"\n", "\n"), labelCap: labelCap}
	s.lines = s.lines[:len(s.lines)-1]
	var err error
	if s.sites, err = site.New(site.Options{DB: d, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	if s.of, err = s.sites.Create(t.Context(), "Counted", traffic.Domain, zone); err != nil {
		t.Fatal(err)
	}
	if s.importer, err = stats.NewImporter(stats.ImporterOptions{DB: d, Secrets: s.sites}); err != nil {
		t.Fatal(err)
	}
	s.comparison = comparison{service: newService(t, d, time.Now(), labelCap), site: s.of.ID, zone: s.of.Zone, limit: 500, events: []string{"signup", "Play"}}
	s.rollups = func(now time.Time, interrupt func(stats.Boundary) error) *stats.Rollups {
		r, err := stats.NewRollups(stats.RollupsOptions{
			DB: d, Sites: s.sites, Now: func() time.Time { return now }, LabelCap: labelCap, FoldFrom: 1, Interrupt: interrupt,
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
	if _, err := s.importer.Import(s.t.Context(), s.of, strings.NewReader(content), stats.NDJSON, nil); err != nil {
		s.t.Fatal(err)
	}
	log := naive.Log{Domain: s.traffic.Domain, Classify: classifier(s.t)}
	hits := log.ReadEvents(strings.NewReader(content))
	s.count = naive.New(naive.Rules{Zone: s.of.Zone, LabelCap: s.labelCap}, hits)
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
			importer, err := stats.NewImporter(stats.ImporterOptions{DB: d, Secrets: sites, Now: clock})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := importer.Import(t.Context(), s, bytes.NewReader(content), stats.NDJSON, nil); err != nil {
				t.Fatal(err)
			}
			log := naive.Log{Domain: traffic.Domain, Classify: classifier(t)}
			hits := log.ReadEvents(bytes.NewReader(content))
			from := traffic.Start
			c := comparison{
				service: newService(t, d, clock(), 0), site: s.ID, zone: s.Zone, zones: s.Zones, limit: 500, events: []string{"signup"},
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
