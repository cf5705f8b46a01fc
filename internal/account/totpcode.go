package account

import (
	"context"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/seal"
	"github.com/waypost/waypost/internal/throttle"
)

// The parameters of RFC 6238 that every authenticator application understands.
const (
	period    = 30 * time.Second
	digits    = otp.DigitsSix
	algorithm = otp.AlgorithmSHA1
	// skew is how many steps a code may be off, either way.
	skew = 1
)

const (
	recoveryCodes = 10
	// recoveryBytes are 120 bits: from 112 on a plain hash will do (OWASP ASVS 5,
	// requirement 6.5.2). Their base32 is 24 characters, shown in groups.
	recoveryBytes = 15
	recoveryGroup = 6
)

var base32Text = base32.StdEncoding.WithPadding(base32.NoPadding)

// matchStep returns the time step whose code that is, the latest of several
// (RFC 6238 section 4.2), looking at every step whether or not one has matched.
func matchStep(secret []byte, code string, now time.Time) (int64, bool) {
	var found int64
	matched := false
	current := now.Unix() / int64(period/time.Second)
	for step := current - skew; step <= current+skew; step++ {
		want, err := totp.GenerateCodeCustom(base32Text.EncodeToString(secret), time.Unix(step*int64(period/time.Second), 0), totp.ValidateOpts{
			Period: uint(period / time.Second), Digits: digits, Algorithm: algorithm,
		})
		if err == nil && subtle.ConstantTimeCompare([]byte(want), []byte(code)) == 1 {
			found, matched = step, true
		}
	}
	return found, matched
}

// plainCode takes out what people put into codes for reading.
func plainCode(code string) string {
	return strings.ToUpper(strings.NewReplacer(" ", "", "-", "", "\t", "").Replace(code))
}

// prove spends a second factor of the account, a TOTP or a recovery code, and
// does then in the same transaction. It returns ErrTOTPInvalid,
// throttle.ErrLimited, and what then returns.
func (s *SecondFactor) prove(ctx context.Context, userID int64, code string, then func(context.Context, pgx.Tx, Method) error) error {
	key := secondFactorKey(userID)
	if err := s.limits.Check(ctx, key); err != nil {
		return err
	}
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		method, err := s.spendCode(ctx, tx, userID, plainCode(code))
		if err != nil {
			return err
		}
		if err := s.limits.Pass(ctx, tx, key); err != nil {
			return err
		}
		return then(ctx, tx, method)
	})
	if errors.Is(err, ErrTOTPInvalid) {
		if limited := s.countRefusal(ctx, userID, wrongCode, []throttle.Key{key}); limited != nil {
			return limited
		}
	}
	return err
}

// spendCode returns how the code proved its bearer, or ErrTOTPInvalid.
func (s *SecondFactor) spendCode(ctx context.Context, tx pgx.Tx, userID int64, code string) (Method, error) {
	if len(code) != int(digits) {
		_, err := s.queries.SpendRecoveryCode(ctx, tx, s.o.Now(), userID, digest(code))
		return ByRecovery, db.NotFound(err, ErrTOTPInvalid)
	}
	factor, err := s.queries.FindTOTPFactor(ctx, tx, userID)
	if err != nil {
		return "", db.NotFound(err, ErrTOTPInvalid)
	}
	secret, err := s.openSecret(factor)
	if err != nil {
		return "", err
	}
	step, ok := matchStep(secret, code, s.o.Now())
	if !ok {
		return "", ErrTOTPInvalid
	}
	_, err = s.queries.SpendTOTPStep(ctx, tx, step, userID)
	return ByTOTP, db.NotFound(err, ErrTOTPInvalid)
}

func (s *SecondFactor) openSecret(f dbsqlc.TotpFactor) ([]byte, error) {
	if s.o.TwoFactor.Sealer == nil {
		return nil, errNoSealer
	}
	secret, err := s.o.TwoFactor.Sealer.Open(seal.Sealed{KeyID: f.SecretKeyID, Box: f.Secret}, sealName(f.UserID))
	if err != nil {
		return nil, fmt.Errorf("account: two-factor secret of user %d: %w", f.UserID, err)
	}
	return secret, nil
}

// ResealSecrets encrypts anew what the previous secret key encrypted, so that the
// operator can drop that one. Secrets that can't be read don't keep it from the
// others; they are in the error, by their accounts' ids.
func (s *SecondFactor) ResealSecrets(ctx context.Context) error {
	sealer := s.o.TwoFactor.Sealer
	if sealer == nil {
		return nil
	}
	var unread []error
	for after := int64(0); ; {
		rows, err := s.queries.ListStaleTOTPFactors(ctx, s.o.DB.Direct(), sealer.KeyID(), after)
		if err != nil || len(rows) == 0 {
			return errors.Join(append(unread, db.Translate(err))...)
		}
		for _, f := range rows {
			after = f.UserID
			err := s.reseal(ctx, sealer, f)
			if err != nil && !errors.Is(err, seal.ErrUnknownKey) && !errors.Is(err, seal.ErrCorrupt) {
				return err
			}
			if err != nil {
				unread = append(unread, err)
			}
		}
	}
}

func (s *SecondFactor) reseal(ctx context.Context, sealer *seal.Keyring, f dbsqlc.TotpFactor) error {
	secret, err := s.openSecret(f)
	if err != nil {
		return err
	}
	sealed, err := sealer.Seal(secret, sealName(f.UserID), s.o.Random)
	if err != nil {
		return err
	}
	return s.o.DB.InTx(ctx, identity.Step(ctx, "two-factor-secrets"), func(ctx context.Context, tx pgx.Tx) error {
		return s.queries.ResealTOTPFactor(ctx, tx, dbsqlc.ResealTOTPFactorParams{
			UserID: f.UserID, OldSecret: f.Secret, Secret: sealed.Box, SecretKeyID: sealed.KeyID,
		})
	})
}

// replaceRecoveryCodes voids the account's recovery codes and returns new ones,
// of which only digests are stored.
func (s *SecondFactor) replaceRecoveryCodes(ctx context.Context, tx pgx.Tx, userID int64) ([]string, error) {
	if err := s.queries.DeleteRecoveryCodes(ctx, tx, userID); err != nil {
		return nil, err
	}
	codes := make([]string, recoveryCodes)
	digests := make([][]byte, recoveryCodes)
	for i := range codes {
		var b [recoveryBytes]byte
		if _, err := io.ReadFull(s.o.Random, b[:]); err != nil {
			return nil, fmt.Errorf("account: random: %w", err)
		}
		text := base32Text.EncodeToString(b[:])
		digests[i] = digest(text)
		groups := make([]string, 0, len(text)/recoveryGroup)
		for ; text != ""; text = text[recoveryGroup:] {
			groups = append(groups, text[:recoveryGroup])
		}
		codes[i] = strings.Join(groups, "-")
	}
	return codes, s.queries.InsertRecoveryCodes(ctx, tx, userID, digests)
}
