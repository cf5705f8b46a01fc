package truth_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/identity"
)

// makeMail puts a mail into the outbox, in a state that no request can bring it to at
// once. Nobody tries to send it.
func (w *world) makeMail(t *testing.T, to, template, status string) map[string]string {
	t.Helper()
	var id int64
	err := w.db.InTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `insert into mails (recipient, template, subject, text, html, message_id, status, claimed_until, created_at, queued_at)
			values ($1 || '@example.com', $2, 'Subject', 'Text', '<p>Text</p>', 'id@example.com', $3, now() + interval '1 hour', now(), now()) returning id`,
			to, template, status).Scan(&id)
	})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"id": strconv.FormatInt(id, 10)}
}
