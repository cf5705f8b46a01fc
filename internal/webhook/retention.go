package webhook

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
)

// retentionBatch is how many events are emptied, redacted or deleted in one transaction.
const retentionBatch = 500

// ForgetPayloads empties the events that are older than the retention: bodies, headers and
// the texts of errors. What is still to be handled then is emptied once it is settled. The
// events' rows stay, so that duplicates are known. It returns how many it emptied, and does
// nothing without a retention.
func (w *Worker) ForgetPayloads(ctx context.Context) (int, error) {
	if w.o.Retention == 0 {
		return 0, nil
	}
	before := w.o.Now().Add(-w.o.Retention)
	old, err := w.inBatches(ctx, "webhook-retention", func(ctx context.Context, tx pgx.Tx) (int, int, error) {
		return w.emptyOld(ctx, tx, before)
	})
	if err != nil {
		return old, err
	}
	overdue, err := w.inBatches(ctx, "webhook-retention", func(ctx context.Context, tx pgx.Tx) (int, int, error) {
		ids, err := w.store.queries.ListOverdueWebhookEvents(ctx, tx, retentionBatch)
		if err != nil {
			return 0, 0, err
		}
		return w.empty(ctx, tx, ids)
	})
	return old + overdue, err
}

// inBatches makes transactions of do, which returns how many events it changed and how many
// it saw, until it sees less than a batch or ctx is about to end. It returns how many were
// changed.
func (w *Worker) inBatches(ctx context.Context, step string, do func(ctx context.Context, tx pgx.Tx) (int, int, error)) (int, error) {
	for n := 0; ; {
		if w.endsBeforeABatch(ctx) {
			return n, nil
		}
		var changed, seen int
		err := w.o.DB.InTx(ctx, identity.Step(ctx, step), func(ctx context.Context, tx pgx.Tx) error {
			var err error
			changed, seen, err = do(ctx, tx)
			return err
		})
		if err != nil {
			return n, err
		}
		if n += changed; seen < retentionBatch {
			return n, nil
		}
	}
}

// emptyOld empties the next events behind the mark and moves it past them.
func (w *Worker) emptyOld(ctx context.Context, tx pgx.Tx, before time.Time) (int, int, error) {
	if err := w.store.queries.LockWebhookRetention(ctx, tx); err != nil {
		return 0, 0, err
	}
	rows, err := w.store.queries.ListOldWebhookEvents(ctx, tx, before, retentionBatch)
	if err != nil {
		return 0, 0, err
	}
	ids, until := make([]uuid.UUID, len(rows)), before
	for i, r := range rows {
		ids[i] = r.ID
	}
	if len(rows) == retentionBatch {
		until = rows[len(rows)-1].CreatedAt
	}
	n, seen, err := w.empty(ctx, tx, ids)
	if err != nil {
		return 0, 0, err
	}
	return n, seen, w.store.queries.MoveWebhookRetention(ctx, tx, until)
}

// empty empties events, or notes of one that is to be handled, by now, that it is due.
func (w *Worker) empty(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) (int, int, error) {
	if len(ids) == 0 {
		return 0, 0, nil
	}
	q := w.store.queries
	if err := q.LockWebhookEventsToEmpty(ctx, tx, ids); err != nil {
		return 0, 0, err
	}
	emptied, err := q.EmptyWebhookEvents(ctx, tx, ids)
	if err != nil {
		return 0, 0, err
	}
	if len(emptied) < len(ids) {
		if err := q.MarkOverdueWebhookEvents(ctx, tx, ids); err != nil {
			return 0, 0, err
		}
	}
	if err := q.EmptyWebhookAttempts(ctx, tx, emptied); err != nil {
		return 0, 0, err
	}
	return len(emptied), len(ids), q.EmptyWebhookForwards(ctx, tx, emptied)
}

// RedactHeaders takes what may be a secret out of the headers that older programs stored,
// and returns from how many events. Two days after the upgrade there is nothing more to do.
func (w *Worker) RedactHeaders(ctx context.Context) (int, error) {
	return w.inBatches(ctx, "webhook-headers", func(ctx context.Context, tx pgx.Tx) (int, int, error) {
		done, err := w.store.queries.RedactOldWebhookHeaders(ctx, tx, retentionBatch, strings.Join(secretWords[:], "|"))
		return int(done.Redacted), int(done.Seen), err
	})
}

// PruneLedger deletes events that were settled longer ago than the ledger is kept, with
// their attempts and all else that is theirs, and returns how many. From then on a delivery
// with their ids is a new one. It does nothing when the ledger is kept for ever.
func (w *Worker) PruneLedger(ctx context.Context) (int, error) {
	if w.o.Ledger == 0 {
		return 0, nil
	}
	before := w.o.Now().Add(-w.o.Ledger)
	var after Position
	n, err := w.inBatches(ctx, "webhook-ledger", func(ctx context.Context, tx pgx.Tx) (int, int, error) {
		rows, err := w.store.queries.ListWebhookEventsAfter(ctx, tx, dbsqlc.ListWebhookEventsAfterParams{
			AfterAt: after.CreatedAt, AfterID: after.ID, Before: before, MaxRows: retentionBatch,
		})
		if err != nil || len(rows) == 0 {
			return 0, 0, err
		}
		ids := make([]uuid.UUID, len(rows))
		for i, r := range rows {
			ids[i] = r.ID
		}
		last := rows[len(rows)-1]
		deleted, err := w.deleteSettled(ctx, tx, ids, before)
		after = Position{last.CreatedAt, last.ID}
		return deleted, len(rows), err
	})
	if n > 0 {
		w.totals.forget(ctx)
	}
	if err != nil {
		return n, err
	}
	_, err = w.inBatches(ctx, "webhook-ledger", func(ctx context.Context, tx pgx.Tx) (int, int, error) {
		gone, err := w.store.queries.DeleteOldWebhookReplays(ctx, tx, before, retentionBatch)
		return int(gone), int(gone), err
	})
	return n, err
}

// deleteSettled deletes those of the events that were settled before.
func (w *Worker) deleteSettled(ctx context.Context, tx pgx.Tx, ids []uuid.UUID, before time.Time) (int, error) {
	q := w.store.queries
	settled, err := q.LockSettledWebhookEvents(ctx, tx, ids, before)
	if err != nil || len(settled) == 0 {
		return 0, err
	}
	if err := q.DeleteWebhookAttempts(ctx, tx, settled); err != nil {
		return 0, err
	}
	if err := q.DeleteWebhookReplayEvents(ctx, tx, settled); err != nil {
		return 0, err
	}
	return len(settled), q.DeleteWebhookEvents(ctx, tx, settled)
}
