package account

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// Verification is what VerifyEmail needs.
type Verification struct {
	// Secret is that of the mailed link.
	Secret string
	// Password is the account's, and keeps all as it is.
	Password string
	// NewPassword is set instead, and ends everything that is older: for who gets mail
	// at the address and did not register the account.
	NewPassword string
}

// VerifyEmail spends the secret of a link that was mailed to an account's address.
// The account may have been made by somebody else than who reads the mail there, so
// whoever is not signed in to it proves to have made it, by its password, or takes it
// over with another one. It returns ErrLinkInvalid, ErrPasswordRequired,
// ErrInvalidCredentials, throttle.ErrLimited, ErrBusy, or a validation fault keyed by
// new_password. Failures leave the link as it was.
func (s *Registration) VerifyEmail(ctx context.Context, v Verification) error {
	id, err := s.peekLink(ctx, v.Secret, forEmail)
	if err != nil {
		return err
	}
	p := identity.FromContext(ctx)
	switch {
	case v.NewPassword != "" && v.Password != "":
		return fault.Validation(map[string]string{"new_password": "Send this or password, not both."})
	case v.NewPassword != "":
		return s.takeOver(ctx, id, v)
	case p.Kind == identity.KindUser && p.UserID == id:
		return s.verify(ctx, v.Secret, nil)
	case v.Password == "":
		return ErrPasswordRequired
	}
	row, err := s.queries.FindUserByID(ctx, s.o.DB.Direct(), id)
	if err != nil {
		return db.NotFound(err, ErrLinkInvalid)
	}
	if err := s.reauthenticate(ctx, row, v.Password); err != nil {
		if errors.Is(err, ErrReauthenticate) {
			err = ErrInvalidCredentials
		}
		return err
	}
	return s.verify(ctx, v.Secret, &row.PasswordHash)
}

// verify spends a link and leaves all else as it is. checked, unless nil, is the hash
// that the password was compared with.
func (s *Registration) verify(ctx context.Context, secret string, checked *string) error {
	return s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		row, err := s.spendLink(ctx, tx, secret, forEmail)
		if err != nil {
			return err
		}
		if checked != nil && row.PasswordHash != *checked {
			return ErrInvalidCredentials
		}
		return s.markVerified(ctx, tx, row)
	})
}

// takeOver spends a link, sets another password and ends everything older.
func (s *Registration) takeOver(ctx context.Context, id int64, v Verification) error {
	row, err := s.queries.FindUserByID(ctx, s.o.DB.Direct(), id)
	if err != nil {
		return db.NotFound(err, ErrLinkInvalid)
	}
	if rule := passwordProblem(v.NewPassword, row.Email); rule != "" {
		return fault.Validation(map[string]string{"new_password": rule})
	}
	hash, err := s.hasher.hash(ctx, v.NewPassword, payersOf(ctx, row.Email))
	if err != nil {
		return err
	}
	return s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		row, err := s.spendLink(ctx, tx, v.Secret, forEmail)
		if err != nil {
			return err
		}
		return s.recover(ctx, tx, row, hash)
	})
}

// Vouch verifies the address of an account on an operator's word, and leaves all else
// as it is. It returns ErrNotFound.
func (s *Registration) Vouch(ctx context.Context, email string) error {
	return s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		row, err := s.queries.LockUserByEmailKey(ctx, tx, emailKey(email))
		if err != nil {
			return db.NotFound(err, ErrNotFound)
		}
		return s.markVerified(ctx, tx, row)
	})
}

// markVerified writes down that the holder of an account, which is locked, receives
// mail at its address.
func (s *Registration) markVerified(ctx context.Context, tx pgx.Tx, row dbsqlc.User) error {
	now := s.o.Now()
	if err := s.queries.VoidMailTokens(ctx, tx, &now, row.ID, string(forEmail)); err != nil {
		return err
	}
	if err := s.queries.ProveTOTPFactor(ctx, tx, row.ID); err != nil {
		return err
	}
	return s.queries.VerifyUserEmail(ctx, tx, &now, row.ID)
}
