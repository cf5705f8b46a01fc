package account

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/text"
)

// Passwords changes passwords: by their owner, by a link, by an operator.
type Passwords struct{ *core }

// SetPassword replaces an account's password, ends its sessions and API tokens, voids its
// reset links and lifts blocks of its sign-in, on an operator's word: even a common
// password is taken. It returns ErrNotFound, ErrBusy, or a validation fault whose
// details are keyed by field.
func (s *Passwords) SetPassword(ctx context.Context, email, password string) error {
	if !text.Within(password, MinPassword, MaxPassword) {
		return fault.Validation(map[string]string{"password": passwordRule})
	}
	hash, err := s.hasher.hash(ctx, password, payersOf(ctx, email))
	if err != nil {
		return err
	}
	return s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		row, err := s.queries.FindUserByEmailKey(ctx, tx, emailKey(email))
		if err != nil {
			return db.NotFound(err, ErrNotFound)
		}
		now := s.o.Now()
		if _, err := s.queries.SetUserPassword(ctx, tx, hash, now, row.ID); err != nil {
			return db.NotFound(err, ErrNotFound)
		}
		if _, err := s.queries.RevokeUserSessions(ctx, tx, now, row.ID); err != nil {
			return err
		}
		if err := s.queries.RevokeUserAPITokens(ctx, tx, &now, row.ID); err != nil {
			return err
		}
		if err := s.queries.VoidMailTokens(ctx, tx, &now, row.ID, string(forPassword)); err != nil {
			return err
		}
		return s.forgiveSignIns(ctx, tx, row.Email)
	})
}

// ChangePassword replaces the acting account's password, given the current one,
// and ends its other sessions. It returns ErrReauthenticate, throttle.ErrLimited,
// ErrBusy, or a validation fault keyed by new_password.
func (s *Passwords) ChangePassword(ctx context.Context, current, next string) error {
	p := identity.FromContext(ctx)
	row, err := s.queries.FindUserByID(ctx, s.o.DB.Direct(), p.UserID)
	if err != nil {
		return db.NotFound(err, ErrSessionRevoked)
	}
	if rule := passwordProblem(next, row.Email); rule != "" {
		return fault.Validation(map[string]string{"new_password": rule})
	}
	if err := s.reauthenticate(ctx, row, current); err != nil {
		return err
	}
	hash, err := s.hasher.hash(ctx, next, payersOf(ctx, row.Email))
	if err != nil {
		return err
	}
	return s.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		changed, err := s.queries.SetUserPasswordIf(ctx, tx, dbsqlc.SetUserPasswordIfParams{
			PasswordHash: hash, Now: s.o.Now(), ID: row.ID, CheckedHash: row.PasswordHash,
		})
		if err != nil {
			return db.NotFound(err, ErrReauthenticate)
		}
		if err := s.endOtherSessions(ctx, tx, row.ID); err != nil {
			return err
		}
		return s.passwordChanged(ctx, tx, changed)
	})
}

// passwordChanged voids links that would set another password, and tells the
// account.
func (s *core) passwordChanged(ctx context.Context, tx pgx.Tx, row dbsqlc.User) error {
	now := s.o.Now()
	if err := s.queries.VoidMailTokens(ctx, tx, &now, row.ID, string(forPassword)); err != nil {
		return err
	}
	return s.send(ctx, tx, row, mail.Message{Kind: mail.PasswordChanged})
}
