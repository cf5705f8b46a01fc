package db

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/identity"
)

// Act says who acts in tx from here on, so that one transaction can hold the changes of
// several principals, each with its own name in the audit log.
func Act(ctx context.Context, tx pgx.Tx, p identity.Principal) error {
	_, err := tx.Exec(ctx, open, actor(p)...)
	return err
}
