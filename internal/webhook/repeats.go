package webhook

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
)

const (
	// repeatsBatch is how many events are looked at in one transaction.
	repeatsBatch = 5000
	// repeatsSettled is how long after its arrival an event is surely stored, if it ever is:
	// until then what was looked at is looked at again.
	repeatsSettled = 30 * time.Second
)

// FindRepeats finds the events whose body an earlier event of their provider has, among those
// that came since it did so last, and returns how many it found. It is called
// periodically; what an older program stored is found too.
func (w *Worker) FindRepeats(ctx context.Context) (int, error) {
	// What came just now is passed, though the mark stays before it: otherwise a batch of it
	// would be looked at again and again, until it is settled.
	var after Position
	settled := w.o.Now().Add(-repeatsSettled)
	for n := 0; ; {
		step, err := w.lookForRepeats(ctx, w.o.DB, after, settled)
		n += int(step.Repeats)
		after = Position{step.LastAt, step.LastID}
		if err != nil || step.LookedAt < repeatsBatch || ctx.Err() != nil {
			return n, err
		}
	}
}

// findRepeats is one step of FindRepeats, for a filter that asks for them: what has just come is
// found too.
func (a *Admin) findRepeats(ctx context.Context, f Filter) error {
	if !f.Repeated {
		return nil
	}
	newer, err := a.store.queries.HasUncheckedWebhookEvents(ctx, a.o.AdminDB.Direct())
	if err != nil || !newer {
		return db.Translate(err)
	}
	_, err = a.lookForRepeats(ctx, a.o.AdminDB, Position{}, a.o.Now().Add(-repeatsSettled))
	return err
}

// lookForRepeats looks at the next events behind after; the mark moves to none that came
// after settled. Where somebody else is at it, it looks at none.
func (r *core) lookForRepeats(ctx context.Context, d *db.DB, after Position, settled time.Time) (dbsqlc.MarkWebhookRepeatsRow, error) {
	var step dbsqlc.MarkWebhookRepeatsRow
	err := d.InTx(ctx, identity.Step(ctx, "webhook-repeats"), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		step, err = r.store.queries.MarkWebhookRepeats(ctx, tx, dbsqlc.MarkWebhookRepeatsParams{AfterAt: after.CreatedAt, AfterID: after.ID, MaxRows: repeatsBatch, SettledAt: settled})
		if err != nil || step.LookedAt == repeatsBatch {
			return err
		}
		_, err = r.store.queries.DeleteLostWebhookRepeats(ctx, tx)
		return err
	})
	return step, err
}
