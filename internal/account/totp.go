package account

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image/png"
	"io"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pquerna/otp/totp"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/seal"
	"github.com/waypost/waypost/internal/throttle"
)

// Faults of two-factor authentication, beside token.ErrChallenge.
var (
	ErrTOTPInvalid       = fault.New(fault.Unauthenticated, "totp_invalid", "The code is wrong, expired or already used.")
	ErrTOTPEnabled       = fault.New(fault.Conflict, "totp_already_enabled", "Two-factor authentication is already on. Disable it first to set it up again.")
	ErrTOTPDisabled      = fault.New(fault.Conflict, "totp_not_enabled", "Two-factor authentication is not on.")
	ErrTOTPNotSetUp      = fault.New(fault.Conflict, "totp_not_set_up", "Set up two-factor authentication first.")
	ErrTwoFactorRequired = fault.New(fault.Forbidden, "two_factor_required", "Administrators need two-factor authentication here. Set it up first.")
)

// SealPurpose is what seal.New derives the keys of TwoFactorOptions for.
const SealPurpose = "two-factor secrets"

var errNoSealer = errors.New("account: made without TwoFactorOptions.Sealer, so no second factor can be read")

// secondFactorTries counts across sign-ins and sessions: a fresh challenge gives
// no fresh tries.
var secondFactorTries = throttle.Limit{Name: "second_factor", Max: 10, Block: time.Minute, MaxBlock: 15 * time.Minute}

// TwoFactorOptions configure two-factor authentication.
type TwoFactorOptions struct {
	// Sealer encrypts the secrets. Without it, no second factor can be set up or proved,
	// and accounts that have one can't sign in.
	Sealer *seal.Keyring
	// Issuer names the service in authenticator applications; default "Waypost".
	Issuer string
	// RequiredForAdmin lets administrators without it do nothing but set it up.
	RequiredForAdmin bool
}

// TOTPSetup is what an authenticator application needs. It is shown once.
type TOTPSetup struct {
	// Secret is base32 without padding, for typing.
	Secret string
	// URI is otpauth://, for opening; QRCode the same as a PNG in a data: URL.
	URI    string
	QRCode string
}

const (
	// secretLength is in bytes, as RFC 4226 section 4 recommends.
	secretLength = 20
	qrPixels     = 256
)

// SecondFactor keeps the second factors: codes of an authenticator, and recovery codes.
type SecondFactor struct{ *core }

// SetupTOTP creates a secret, which takes effect when EnableTOTP has seen one of its
// codes. It replaces a secret that has not taken effect. It returns ErrReauthenticate,
// ErrEmailUnverified or ErrTOTPEnabled.
func (s *SecondFactor) SetupTOTP(ctx context.Context, userID int64) (TOTPSetup, error) {
	if err := s.requireRecent(ctx); err != nil {
		return TOTPSetup{}, err
	}
	if s.o.TwoFactor.Sealer == nil {
		return TOTPSetup{}, errNoSealer
	}
	row, err := s.queries.FindUserByID(ctx, s.o.DB.Direct(), userID)
	if err != nil {
		return TOTPSetup{}, db.NotFound(err, ErrSessionRevoked)
	}
	if row.EmailVerifiedAt == nil {
		return TOTPSetup{}, ErrEmailUnverified
	}
	secret := make([]byte, secretLength)
	if _, err := io.ReadFull(s.o.Random, secret); err != nil {
		return TOTPSetup{}, fmt.Errorf("account: random: %w", err)
	}
	sealed, err := s.o.TwoFactor.Sealer.Seal(secret, sealName(userID), s.o.Random)
	if err != nil {
		return TOTPSetup{}, err
	}
	err = s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		_, err := s.queries.UpsertTOTPFactor(ctx, tx, dbsqlc.UpsertTOTPFactorParams{
			UserID: userID, Secret: sealed.Box, SecretKeyID: sealed.KeyID, Now: s.o.Now(),
		})
		return db.NotFound(err, ErrTOTPEnabled)
	})
	if err != nil {
		return TOTPSetup{}, err
	}
	return describeSecret(secret, s.o.TwoFactor.Issuer, row.Email)
}

func describeSecret(secret []byte, issuer, holder string) (TOTPSetup, error) {
	key, err := totp.Generate(totp.GenerateOpts{
		Issuer: issuer, AccountName: holder, Secret: secret,
		Period: uint(period / time.Second), Digits: digits, Algorithm: algorithm,
	})
	if err != nil {
		return TOTPSetup{}, fmt.Errorf("account: otpauth: %w", err)
	}
	picture, err := key.Image(qrPixels, qrPixels)
	if err != nil {
		return TOTPSetup{}, fmt.Errorf("account: QR code: %w", err)
	}
	var file bytes.Buffer
	if err := png.Encode(&file, picture); err != nil {
		return TOTPSetup{}, fmt.Errorf("account: QR code: %w", err)
	}
	return TOTPSetup{
		Secret: key.Secret(), URI: key.URL(),
		QRCode: "data:image/png;base64," + base64.StdEncoding.EncodeToString(file.Bytes()),
	}, nil
}

// EnableTOTP turns two-factor authentication on, ends the account's other
// sessions, which were opened without it, and returns ten recovery codes. It
// returns ErrTOTPNotSetUp, ErrTOTPEnabled, ErrTOTPInvalid or ErrEmailUnverified.
func (s *SecondFactor) EnableTOTP(ctx context.Context, userID int64, code string) ([]string, error) {
	factor, err := s.queries.FindTOTPFactor(ctx, s.o.DB.Direct(), userID)
	if err != nil {
		return nil, db.NotFound(err, ErrTOTPNotSetUp)
	}
	if factor.ConfirmedAt != nil {
		return nil, ErrTOTPEnabled
	}
	secret, err := s.openSecret(factor)
	if err != nil {
		return nil, err
	}
	step, ok := matchStep(secret, plainCode(code), s.o.Now())
	if !ok {
		return nil, ErrTOTPInvalid
	}
	var codes []string
	err = s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		if err := s.lockVerified(ctx, tx, userID); err != nil { // see withoutTOTP
			return err
		}
		_, err := s.queries.ConfirmTOTPFactor(ctx, tx, dbsqlc.ConfirmTOTPFactorParams{
			UserID: userID, Secret: factor.Secret, Step: step, Now: s.o.Now(),
		})
		if err != nil {
			return db.NotFound(err, ErrTOTPEnabled)
		}
		if codes, err = s.replaceRecoveryCodes(ctx, tx, userID); err != nil {
			return err
		}
		if err := s.endOtherSessions(ctx, tx, userID); err != nil {
			return err
		}
		return s.tellTwoFactorChanged(ctx, tx, userID, "Two-factor authentication was turned on.")
	})
	return codes, err
}

// DisableTOTP turns two-factor authentication off. password may be empty for an
// account that has none, after a recent sign-in. It returns ErrTOTPDisabled,
// ErrTwoFactorRequired, ErrReauthenticate, throttle.ErrLimited, ErrBusy or
// ErrTOTPInvalid.
func (s *SecondFactor) DisableTOTP(ctx context.Context, userID int64, password, code string) error {
	row, err := s.withTOTP(ctx, userID)
	if err != nil {
		return err
	}
	if s.o.TwoFactor.RequiredForAdmin && row.Role == string(identity.Admin) {
		return ErrTwoFactorRequired
	}
	if row.PasswordHash == "" {
		err = s.requireRecent(ctx)
	} else {
		err = s.reauthenticate(ctx, row, password)
	}
	if err != nil {
		return err
	}
	return s.prove(ctx, userID, code, func(ctx context.Context, tx pgx.Tx, _ Method) error {
		if err := s.dropTOTP(ctx, tx, userID); err != nil {
			return err
		}
		return s.tellTwoFactorChanged(ctx, tx, userID, "Two-factor authentication was turned off.")
	})
}

// TwoFactorState is how an account's second factor is.
type TwoFactorState struct {
	On bool
	// Pending says that SetupTOTP made a secret of which no code has been seen yet.
	Pending bool
	// RecoveryCodes is how many are left.
	RecoveryCodes int64
	// Required says that the account may not do without.
	Required bool
	// Password says that the account has one, which turning it off asks for.
	Password bool
}

// TwoFactorOf tells how the second factor of an account is.
func (s *SecondFactor) TwoFactorOf(ctx context.Context, userID int64) (TwoFactorState, error) {
	row, err := s.queries.FindUserByID(ctx, s.o.DB.Direct(), userID)
	if err != nil {
		return TwoFactorState{}, db.NotFound(err, ErrSessionRevoked)
	}
	state := TwoFactorState{Required: s.o.TwoFactor.RequiredForAdmin && row.Role == string(identity.Admin), Password: row.PasswordHash != ""}
	factor, err := s.queries.FindTOTPFactor(ctx, s.o.DB.Direct(), userID)
	if errors.Is(err, pgx.ErrNoRows) {
		return state, nil
	}
	if err != nil {
		return TwoFactorState{}, db.Translate(err)
	}
	state.On, state.Pending = factor.ConfirmedAt != nil, factor.ConfirmedAt == nil
	state.RecoveryCodes, err = s.queries.CountRecoveryCodes(ctx, s.o.DB.Direct(), userID)
	return state, db.Translate(err)
}

// RemoveTOTP turns two-factor authentication off and ends the account's sessions,
// on an operator's word: for somebody who lost the device and the recovery codes.
// It returns ErrNotFound or ErrTOTPDisabled.
func (s *SecondFactor) RemoveTOTP(ctx context.Context, email string) error {
	u, err := s.findByEmail(ctx, email)
	if err != nil {
		return db.NotFound(err, ErrNotFound)
	}
	if _, err := s.withTOTP(ctx, u.ID); err != nil {
		return err
	}
	return s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		if err := s.dropTOTP(ctx, tx, u.ID); err != nil {
			return err
		}
		if _, err := s.queries.RevokeUserSessions(ctx, tx, s.o.Now(), u.ID); err != nil {
			return err
		}
		if err := s.limits.Forgive(ctx, tx, secondFactorKey(u.ID)); err != nil {
			return err
		}
		return s.tellTwoFactorChanged(ctx, tx, u.ID, "Two-factor authentication was turned off by the operator.")
	})
}

func (s *SecondFactor) dropTOTP(ctx context.Context, tx pgx.Tx, userID int64) error {
	if err := s.queries.DeleteTOTPFactor(ctx, tx, userID); err != nil {
		return err
	}
	return s.queries.DeleteRecoveryCodes(ctx, tx, userID)
}

// RenewRecoveryCodes replaces all recovery codes. It returns ErrTOTPDisabled,
// throttle.ErrLimited or ErrTOTPInvalid.
func (s *SecondFactor) RenewRecoveryCodes(ctx context.Context, userID int64, code string) ([]string, error) {
	if _, err := s.withTOTP(ctx, userID); err != nil {
		return nil, err
	}
	var codes []string
	err := s.prove(ctx, userID, code, func(ctx context.Context, tx pgx.Tx, _ Method) error {
		var err error
		if codes, err = s.replaceRecoveryCodes(ctx, tx, userID); err != nil {
			return err
		}
		return s.tellTwoFactorChanged(ctx, tx, userID, "New recovery codes were made.")
	})
	return codes, err
}

// withTOTP returns an account that has two-factor authentication on, else
// ErrTOTPDisabled.
func (s *SecondFactor) withTOTP(ctx context.Context, userID int64) (dbsqlc.User, error) {
	row, err := s.queries.FindUserByID(ctx, s.o.DB.Direct(), userID)
	if err != nil {
		return dbsqlc.User{}, db.NotFound(err, ErrSessionRevoked)
	}
	on, err := s.queries.HasTOTP(ctx, s.o.DB.Direct(), userID)
	if err != nil {
		return dbsqlc.User{}, db.Translate(err)
	}
	if !on {
		return dbsqlc.User{}, ErrTOTPDisabled
	}
	return row, nil
}

func (s *SecondFactor) tellTwoFactorChanged(ctx context.Context, tx pgx.Tx, userID int64, what string) error {
	row, err := s.queries.FindUserByID(ctx, tx, userID)
	if err != nil {
		return err
	}
	return s.notify(ctx, tx, row, mail.Message{Kind: mail.TwoFactorChanged, Detail: what})
}

// sealName binds a sealed secret to its account.
func sealName(userID int64) string { return "totp of user " + strconv.FormatInt(userID, 10) }
