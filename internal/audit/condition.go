package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/waypost/waypost/db"
)

// Condition is how the log is at a moment.
type Condition struct {
	// Verifications are the last ones of each kind, of those that there were.
	Verifications []Verification
	// Waiting are the entries without a place in the chain, up to 10,000; the first of them
	// was written at WaitingSince, which is zero when none waits.
	Waiting      int64
	WaitingSince time.Time
}

// maxCounted is how far a Condition counts.
const maxCounted = 10_000

// Condition asks for it in two questions whose work is bounded, whatever is stored.
func (s *Service) Condition(ctx context.Context) (Condition, error) {
	list, err := Verifications(ctx, s.o.DB)
	if err != nil {
		return Condition{}, err
	}
	c := Condition{Verifications: list}
	row, err := s.queries.MeasureAuditPending(ctx, s.o.DB.Direct(), maxCounted)
	if err != nil {
		return c, fmt.Errorf("audit: count what waits: %w", db.Translate(err))
	}
	if c.Waiting = row.Waiting; c.Waiting > 0 {
		c.WaitingSince = row.WaitingSince.UTC()
	}
	return c, nil
}
