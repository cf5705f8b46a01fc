package mail

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
)

// Retention is how long mails stay in the outbox.
const Retention = 90 * 24 * time.Hour

// ends say how a job ended without its mail.
var ends = map[string]string{
	"completed": "its job ended without it",
	"cancelled": "its job was cancelled",
	"discarded": "its job failed too often",
	"deleted":   "its job was deleted",
}

// EndLost ends mails that no job will send any more: somebody cancelled or deleted
// it, or no instance has a driver that sends. It returns how many.
func (b *Outbox) EndLost(ctx context.Context) (int, error) {
	n := 0
	err := b.o.DB.InTx(ctx, identity.Step(ctx, "mails"), func(ctx context.Context, tx pgx.Tx) error {
		n = 0
		now := b.o.Now()
		waiting, err := b.queries.ListWaitingMails(ctx, tx, now)
		if err != nil || len(waiting) == 0 {
			return err
		}
		ids := make([]int64, 0, len(waiting))
		for _, w := range waiting {
			ids = append(ids, jobOf(w))
		}
		ended, err := b.o.Jobs.Ended(ctx, tx, ids)
		if err != nil {
			return err
		}
		for _, w := range waiting {
			reason := ends[ended[jobOf(w)]]
			if reason == "" && now.After(w.QueuedAt.Add(giveUpAfter+time.Hour)) {
				reason = "not sent within a day"
			}
			if reason == "" {
				continue
			}
			if w.Error != "" {
				reason += ": " + w.Error
			}
			ended, err := b.queries.EndLostMail(ctx, tx, dbsqlc.EndLostMailParams{ID: w.ID, MessageID: w.MessageID, Error: reason, Now: now})
			if err != nil {
				return err
			}
			n += int(ended)
		}
		return nil
	})
	return n, err
}

// jobOf is the job of a mail; 0, which is nobody's, for none.
func jobOf(w dbsqlc.ListWaitingMailsRow) int64 {
	if w.JobID == nil {
		return 0
	}
	return *w.JobID
}

// Sweep deletes mails whose retention is over and counts that expired. It returns how
// many rows.
func (b *Outbox) Sweep(ctx context.Context) (int, error) {
	var mails, counts int64
	err := b.o.DB.InTx(ctx, identity.Step(ctx, "mails"), func(ctx context.Context, tx pgx.Tx) error {
		now := b.o.Now()
		var err error
		if mails, err = b.queries.DeleteOldMails(ctx, tx, now.Add(-Retention)); err != nil {
			return err
		}
		counts, err = b.queries.SweepMailAllowances(ctx, tx, now)
		return err
	})
	return int(mails + counts), err
}

// State is what readiness tells of mail, asked over d: off, failing when mails wait
// that several attempts could not send, or ok.
func (b *Outbox) State(ctx context.Context, d *db.DB) string {
	if b.o.Transport == nil {
		return "off"
	}
	stuck, err := b.queries.AnyStuckMails(ctx, d.Direct())
	switch {
	case err != nil:
		return "unknown"
	case stuck:
		return "failing"
	}
	return "ok"
}
