package account

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

// Registration lets people in: who registers, and whom an ADMIN invites. It knows when
// their address is verified.
type Registration struct {
	*core
	users *Users
}

// Register creates an account with role USER for anybody who asks, and mails a link
// that verifies its address. The account can sign in before that. It returns
// ErrEmailTaken, throttle.ErrLimited, ErrBusy, or a validation fault keyed by field.
func (s *Registration) Register(ctx context.Context, n NewUser) (User, error) {
	n.Role = identity.User
	if err := n.normalized().validate(); err != nil {
		return User{}, err
	}
	if err := s.perAddress(ctx, registrations); err != nil {
		return User{}, err
	}
	return s.users.create(ctx, n, nil, func(ctx context.Context, tx pgx.Tx, row dbsqlc.User) error {
		return s.sendLink(ctx, tx, row, mail.VerifyEmail)
	})
}

// Invite makes an account without a password and mails a link to set one. It
// returns ErrEmailTaken or a validation fault keyed by field.
func (s *Registration) Invite(ctx context.Context, n NewUser, active bool) (User, error) {
	n = n.normalized()
	if err := problems(n.profileProblems()); err != nil {
		return User{}, err
	}
	return s.users.insert(ctx, n, func(row *dbsqlc.InsertUserParams) { row.Active = active }, func(ctx context.Context, tx pgx.Tx, row dbsqlc.User) error {
		return s.sendLink(ctx, tx, row, mail.SetPassword)
	})
}
