package account

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// ResetPassword spends the secret of a mailed link, sets the account's password
// and ends all of its sessions and API tokens; it signs nobody in, so a second factor still
// stands. Who gets mail at the address is its owner: the address counts as
// verified, blocks of its sign-in are lifted and, when it was not verified
// before, the other ways in that a stranger may have added are void. It returns
// ErrLinkInvalid, ErrBusy, or a validation fault keyed by password.
func (s *Passwords) ResetPassword(ctx context.Context, secret, password string) error {
	// Looked at first, so that a made-up secret costs no hash and a password that
	// breaks a rule does not use the link up.
	id, err := s.peekLink(ctx, secret, forPassword)
	if err != nil {
		return err
	}
	row, err := s.queries.FindUserByID(ctx, s.o.DB.Direct(), id)
	if err != nil {
		return db.NotFound(err, ErrLinkInvalid)
	}
	if rule := passwordProblem(password, row.Email); rule != "" {
		return fault.Validation(map[string]string{"password": rule})
	}
	hash, err := s.hasher.hash(ctx, password, payersOf(ctx, row.Email))
	if err != nil {
		return err
	}
	return s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		row, err := s.spendLink(ctx, tx, secret, forPassword)
		if err != nil {
			return err
		}
		return s.recover(ctx, tx, row, hash)
	})
}

// recover sets the password of an account, which is locked, for whoever reads its mail,
// and ends what was signed in. The address counts as verified; if it was not verified
// before, other ways in are void.
func (s *core) recover(ctx context.Context, tx pgx.Tx, row dbsqlc.User, hash string) error {
	now := s.o.Now()
	if _, err := s.queries.SetUserPassword(ctx, tx, hash, now, row.ID); err != nil {
		return err
	}
	if _, err := s.queries.RevokeUserSessions(ctx, tx, now, row.ID); err != nil {
		return err
	}
	if err := s.queries.RevokeUserAPITokens(ctx, tx, &now, row.ID); err != nil {
		return err
	}
	if row.EmailVerifiedAt == nil {
		if err := s.voidCredentials(ctx, tx, row.ID); err != nil {
			return err
		}
		if err := s.queries.VerifyUserEmail(ctx, tx, &now, row.ID); err != nil {
			return err
		}
	}
	if err := s.forgiveSignIns(ctx, tx, row.Email); err != nil {
		return err
	}
	// The neighbours' failures must not keep out who has just proved who they are.
	if err := s.rememberHome(ctx, tx, row.ID); err != nil {
		return err
	}
	return s.passwordChanged(ctx, tx, row)
}
