package webhook

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/identity"
)

// retentionBatch is how many events are emptied in one transaction.
const retentionBatch = 500

// ForgetPayloads empties the bodies of events that are older than the retention and
// need no more handling; their rows stay, so that duplicates are known for ever. It
// returns how many it emptied, and does nothing without a retention.
func (r *Receiver) ForgetPayloads(ctx context.Context) (int, error) {
	if r.o.Retention == 0 {
		return 0, nil
	}
	before := r.o.Now().Add(-r.o.Retention)
	for n := 0; ; {
		seen := int64(0)
		err := r.o.DB.InTx(ctx, identity.Step(ctx, "webhook-retention"), func(ctx context.Context, tx pgx.Tx) error {
			batch, err := r.store.queries.EmptyOldWebhookEvents(ctx, tx, before, retentionBatch)
			n += int(batch.Emptied)
			seen = batch.Seen
			return err
		})
		if err != nil || seen < retentionBatch {
			return n, err
		}
	}
}
