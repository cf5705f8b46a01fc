package account

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// FindByEmail returns ErrNotFound when no account has that address.
func (s *Service) FindByEmail(ctx context.Context, email string) (User, error) {
	row, err := s.findByEmail(ctx, email)
	if err != nil {
		return User{}, db.NotFound(err, ErrNotFound)
	}
	return fromRow(row), nil
}

// SetPassword replaces an account's password and ends its sessions. It returns
// ErrNotFound, ErrBusy, or a validation fault whose details are keyed by field.
func (s *Service) SetPassword(ctx context.Context, email, password string) error {
	if !within(password, MinPassword, MaxPassword) {
		return fault.Validation(map[string]string{"password": passwordRule})
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return err
	}
	return s.opts.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		now := s.opts.Now()
		row, err := s.q.SetUserPassword(ctx, tx, hash, now, emailKey(email))
		if err != nil {
			return db.NotFound(err, ErrNotFound)
		}
		return s.q.RevokeUserSessions(ctx, tx, &now, row.ID)
	})
}
