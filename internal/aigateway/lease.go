package aigateway

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
)

// hold begins to renew a call's lease, and letGo ends it.
func (s *Service) hold(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[id] = struct{}{}
}

func (s *Service) letGo(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, id)
}

// renew says three times in each lease that the calls of this process are on.
func (s *Service) renew(ctx context.Context) {
	tick := time.NewTicker(s.o.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		ids := slices.Collect(maps.Keys(s.live))
		s.mu.Unlock()
		if len(ids) == 0 {
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, s.o.Lease/3)
		if err := s.queries.RenewAICalls(bounded, s.o.DB.Single(identity.System("ai.renew")), s.o.Lease.Seconds(), ids); err != nil && ctx.Err() == nil {
			s.o.Logger.WarnContext(ctx, "the leases of AI calls could not be renewed", "calls", len(ids), "error", err)
		}
		cancel()
	}
}

// sweepAtOnce is how many calls one sweep books.
const sweepAtOnce = 1000

// Sweep books calls that a crash left, at their worst, and returns how many.
func (s *Service) Sweep(ctx context.Context) (int, error) {
	ids, err := s.queries.ListExpiredAICalls(ctx, s.o.DB.Direct(), sweepAtOnce)
	if err != nil {
		return 0, db.Translate(err)
	}
	swept := 0
	for _, id := range ids {
		now := s.o.Now()
		since, _ := s.o.Declared.Limits.Period.bounds(now)
		// One by one, so that no two sweeps wait for each other's accounts.
		n, err := s.queries.SettleAICall(ctx, s.o.DB.Single(identity.Step(ctx, "ai.sweep")), dbsqlc.SettleAICallParams{
			Durable: true, ID: id, Expired: true, Worst: true, Reached: true, Since: since, Now: now, Cost: Money(0).numeric(), Outcome: string(Lost), Estimated: true,
		})
		if err != nil {
			return swept, db.Translate(err)
		}
		swept += int(n)
	}
	if swept > 0 {
		s.metrics.lost.Add(float64(swept))
		s.o.Logger.WarnContext(ctx, "AI calls that a crash left are booked at their worst case", "calls", swept)
	}
	return swept, nil
}

// Forget deletes what was counted for API tokens that are gone.
func (s *Service) Forget(ctx context.Context) (int, error) {
	n, err := s.queries.ForgetAIMeters(ctx, s.o.DB.Single(identity.Step(ctx, "ai.forget")), s.o.Now().Add(-24*time.Hour))
	return int(n), db.Translate(err)
}
