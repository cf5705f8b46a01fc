package security

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
)

const (
	// maxOutcomes bounds the outcomes that a process tells apart in an hour, maxHours the
	// hours that wait in memory while the database is away; the oldest go first.
	maxOutcomes = 32
	maxHours    = 24
)

// signIns are one process's sums of the hours that are not over or not stored.
type signIns struct {
	instance uuid.UUID

	mu    sync.Mutex
	hours map[time.Time]map[string]int64
	dirty bool
}

func newSignIns(instance uuid.UUID) *signIns {
	return &signIns{instance: instance, hours: map[time.Time]map[string]int64{}}
}

// CountSignIn counts how one try to sign in ended, in a word. It takes nanoseconds and
// asks nobody, so that a flood of tries costs nothing.
func (s *Service) CountSignIn(outcome string) {
	hour := s.o.Now().UTC().Truncate(time.Hour)
	c := s.signIns
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.hours[hour]
	if counts == nil {
		if len(c.hours) >= maxHours {
			delete(c.hours, slices.MinFunc(slices.Collect(maps.Keys(c.hours)), time.Time.Compare))
		}
		counts = map[string]int64{}
		c.hours[hour] = counts
	}
	if _, known := counts[outcome]; !known && len(counts) >= maxOutcomes {
		return
	}
	counts[outcome]++
	c.dirty = true
}

// take returns the sums to store, none where nothing changed.
func (c *signIns) take() (p dbsqlc.SetSignInCountsParams) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dirty {
		return p
	}
	c.dirty = false
	p.Instance = c.instance
	for hour, counts := range c.hours {
		for outcome, n := range counts {
			p.Hours, p.Outcomes, p.Counts = append(p.Hours, hour), append(p.Outcomes, outcome), append(p.Counts, n)
		}
	}
	return p
}

// stored forgets the hours of p before now's. Those that were counted since stay.
func (c *signIns) stored(p dbsqlc.SetSignInCountsParams, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, hour := range p.Hours {
		counts := c.hours[hour]
		if hour.Before(now.UTC().Truncate(time.Hour)) && counts[p.Outcomes[i]] == p.Counts[i] && now.Sub(hour) > 2*time.Hour {
			delete(counts, p.Outcomes[i])
		}
		if len(counts) == 0 {
			delete(c.hours, hour)
		}
	}
}

// flushSignIns stores sums, not what was added to them, so that an unknown outcome is
// no matter.
func (s *Service) flushSignIns(ctx context.Context) error {
	p := s.signIns.take()
	if len(p.Hours) == 0 {
		return nil
	}
	err := s.o.DB.InTx(ctx, identity.System("security"), func(ctx context.Context, tx pgx.Tx) error {
		return s.queries.SetSignInCounts(ctx, tx, p)
	})
	if err != nil {
		s.signIns.mu.Lock()
		s.signIns.dirty = true
		s.signIns.mu.Unlock()
		return fmt.Errorf("security: store counts of sign-ins: %w", err)
	}
	s.signIns.stored(p, s.o.Now())
	return nil
}

func (s *Service) sweepSignIns(ctx context.Context) (int, error) {
	var n int64
	err := s.o.DB.InTx(ctx, identity.Step(ctx, "security"), func(ctx context.Context, tx pgx.Tx) error {
		now := s.o.Now()
		var err error
		n, err = s.queries.DeleteSignInCounts(ctx, tx, now.Add(-Kept-24*time.Hour), now.Add(2*time.Hour))
		return err
	})
	return int(n), err
}

// SignIns are how tries to sign in ended, by outcome, in steps of equal length.
type SignIns struct {
	Since  time.Time
	Step   time.Duration
	Counts map[string][]int64
}

// Sum is all of one outcome.
func (c SignIns) Sum(outcome string) int64 {
	var n int64
	for _, v := range c.Counts[outcome] {
		n += v
	}
	return n
}

// signInsOf reads the hours and days until now.
func (s *Service) signInsOf(ctx context.Context, now time.Time) (hours, days SignIns, err error) {
	until := now.UTC().Truncate(time.Hour).Add(time.Hour)
	midnight := now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	hours = SignIns{Since: until.Add(-24 * time.Hour), Step: time.Hour, Counts: map[string][]int64{}}
	days = SignIns{Since: midnight.Add(-Kept), Step: 24 * time.Hour, Counts: map[string][]int64{}}
	rows, err := s.queries.SumSignInCounts(ctx, s.o.DB.Direct(), days.Since, midnight)
	if err != nil {
		return hours, days, fmt.Errorf("security: read sign-ins: %w", db.Translate(err))
	}
	for _, row := range rows {
		for _, of := range []struct {
			SignIns
			steps int
		}{{hours, 24}, {days, 30}} {
			if row.Hour.Before(of.Since) {
				continue
			}
			i := int(row.Hour.Sub(of.Since) / of.Step)
			if i >= of.steps {
				continue
			}
			if of.Counts[row.Outcome] == nil {
				of.Counts[row.Outcome] = make([]int64, of.steps)
			}
			of.Counts[row.Outcome][i] += row.Count
		}
	}
	return hours, days, nil
}
