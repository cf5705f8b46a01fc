package audit

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/identity"
)

// emptiedAtOnce is how many entries one transaction empties, while sealing waits.
const emptiedAtOnce = 2000

// Erase empties what the log keeps of one row, and returns in how many entries. Their
// digests stay, so that the chain holds, and a note names them. It returns ErrNothing
// when nothing is kept.
func (s *Service) Erase(ctx context.Context, table, rowID string) (int, error) {
	if _, err := s.Seal(ctx); err != nil {
		return 0, err
	}
	var n int32
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if n, err = s.queries.EraseAudit(ctx, tx, table, rowID); err == nil && n == 0 {
			err = ErrNothing
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("audit: erase: %w", err)
	}
	return int(n), nil
}

// Empty empties entries that are older than the retention, and returns how many. It
// does nothing without one.
func (s *Service) Empty(ctx context.Context) (int, error) {
	if s.o.Retention == 0 {
		return 0, nil
	}
	total := 0
	for {
		var n int32
		err := s.o.BackgroundDB.InTx(ctx, identity.Step(ctx, "audit-retention"), func(ctx context.Context, tx pgx.Tx) error {
			var err error
			n, err = s.queries.EmptyAudit(ctx, tx, s.o.Now().Add(-s.o.Retention), emptiedAtOnce)
			return err
		})
		if err != nil {
			return total, fmt.Errorf("audit: empty old entries: %w", err)
		}
		total += int(n)
		if n < emptiedAtOnce {
			return total, nil
		}
	}
}
