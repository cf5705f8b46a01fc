package session

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/identity"
)

// Receipt is an event that Write stored in a shard, by which Settle learns whether its
// transaction was committed. The zero value is none.
type Receipt struct {
	Key Visitor
	At  time.Time
	ID  int64
}

// settleWithin bounds the question for a receipt.
const settleWithin = 2 * time.Second

// Settle learns what became of a transaction whose COMMIT met unknown, a
// db.ErrUnknownOutcome: nil when the event of its receipt is stored, db.ErrNotCommitted
// when it isn't and never will be, and otherwise unknown. So it is where tables are
// sharded, since the server that is asked about transactions isn't the one that stores.
//
// It first waits for all who write into the event's day: afterward that transaction is
// over, wherever it ran.
func (s Store) Settle(ctx context.Context, d *db.DB, r Receipt, unknown error) error {
	if r.ID == 0 {
		return unknown // it stored no event
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	stored := false
	err := d.InTx(ctx, identity.System("collect"), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := s.queries.LockSiteDay(ctx, tx, r.Key.Site, r.Key.Day); err != nil {
			return err
		}
		var err error
		stored, err = s.queries.ShardEventExists(ctx, tx, r.Key.Site, r.At, r.ID)
		return err
	})
	switch {
	case err != nil:
		return unknown
	case stored:
		return nil
	default:
		return db.ErrNotCommitted.Because(unknown)
	}
}
