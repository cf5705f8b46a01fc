package account

import (
	"context"
	"encoding/base64"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/throttle"
	"github.com/waypost/waypost/internal/token"
)

// Second factors, as Challenge.Methods names them.
const (
	MethodTOTP         = "totp"
	MethodRecoveryCode = "recovery_code"
)

// challenge returns nil for an account that wants no second factor. first is how it
// was proved so far, which the challenge carries for openSessionTx. Whoever proves
// the second factor calls that in the transaction that spends the code, so that a
// code is spent if and only if a session exists.
func (s *SecondFactor) challenge(ctx context.Context, row dbsqlc.User, first Method) (*Challenge, error) {
	on, err := s.queries.HasTOTP(ctx, s.o.DB.Direct(), row.ID)
	if err != nil {
		return nil, db.Translate(err)
	}
	if !on {
		return nil, nil
	}
	left, err := s.queries.CountRecoveryCodes(ctx, s.o.DB.Direct(), row.ID)
	if err != nil {
		return nil, db.Translate(err)
	}
	signed, err := s.o.Tokens.IssueChallenge(token.Challenge{UserID: row.ID, First: string(first), Version: credentialVersion(row)})
	if err != nil {
		return nil, err
	}
	c := &Challenge{Token: signed, ExpiresIn: token.ChallengeTTL, Methods: []string{MethodTOTP}}
	if left > 0 {
		c.Methods = append(c.Methods, MethodRecoveryCode)
	}
	return c, nil
}

// withoutTOTP closes the gap between challenge and the session: the new session
// locks the account's row, which EnableTOTP locks too, so that either this sees
// the factor or EnableTOTP sees, and ends, the session. It returns ErrBusy.
func (s *SecondFactor) withoutTOTP(ctx context.Context, tx pgx.Tx, userID int64) error {
	on, err := s.queries.HasTOTP(ctx, tx, userID)
	if err == nil && on {
		return ErrBusy
	}
	return err
}

// VerifySecondFactor ends a sign-in that SignedIn.MFA began, with a TOTP or a
// recovery code. It returns token.ErrChallenge, ErrTOTPInvalid,
// throttle.ErrLimited or ErrInactive.
func (s *SignIns) VerifySecondFactor(ctx context.Context, challenge, code string) (SignedIn, error) {
	signed, err := s.verifySecondFactor(ctx, challenge, code)
	s.tell(signed, true, err)
	return signed, err
}

func (s *SignIns) verifySecondFactor(ctx context.Context, challenge, code string) (SignedIn, error) {
	if err := s.readyToSign(ctx); err != nil {
		return SignedIn{}, err
	}
	c, err := s.o.Tokens.VerifyChallenge(ctx, challenge)
	if err != nil {
		return SignedIn{}, err
	}
	row, err := s.queries.FindUserByID(ctx, s.o.DB.Direct(), c.UserID)
	switch {
	case err != nil:
		return SignedIn{}, db.NotFound(err, token.ErrChallenge)
	case credentialVersion(row) != c.Version:
		return SignedIn{}, token.ErrChallenge
	case !row.Active:
		return SignedIn{}, ErrInactive
	}
	var signed SignedIn
	err = s.factor.prove(ctx, row.ID, code, func(ctx context.Context, tx pgx.Tx, second Method) error {
		var err error
		signed, err = s.open(ctx, tx, row, Method(c.First), second)
		return err
	})
	if errors.Is(err, ErrInvalidCredentials) { // they changed since row was read
		err = token.ErrChallenge
	}
	if err != nil {
		return SignedIn{}, err
	}
	return signed, nil
}

// credentialVersion is another one after each change of the password.
func credentialVersion(row dbsqlc.User) string {
	return base64.RawURLEncoding.EncodeToString(digest("challenge " + row.PasswordHash)[:12])
}

func secondFactorKey(userID int64) throttle.Key {
	return throttle.Key{Limit: secondFactorTries, Subject: strconv.FormatInt(userID, 10)}
}

// demandSecondFactor marks an administrator without two-factor authentication
// where it is required.
func (s *SecondFactor) demandSecondFactor(ctx context.Context, p identity.Principal) (identity.Principal, error) {
	if !s.o.TwoFactor.RequiredForAdmin || p.Role != identity.Admin {
		return p, nil
	}
	on, err := s.queries.HasTOTP(ctx, s.o.DB.Direct(), p.UserID)
	if err != nil {
		return identity.Principal{}, db.Translate(err)
	}
	p.MustEnroll = !on
	return p, nil
}
