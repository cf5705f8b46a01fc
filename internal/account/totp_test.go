package account_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/seal"
	"github.com/waypost/waypost/internal/token"
)

// The vectors of RFC 6238, appendix B, for SHA-1; its codes have eight digits, of
// which ours are the last six.
func TestRFC6238Vectors(t *testing.T) {
	t.Parallel()
	secret := []byte("12345678901234567890")
	for at, code := range map[int64]string{
		59: "94287082", 1111111109: "07081804", 1111111111: "14050471",
		1234567890: "89005924", 2000000000: "69279037", 20000000000: "65353130",
	} {
		for off, want := range map[int64]bool{-60: false, -30: true, 0: true, 30: true, 60: false} {
			if at+off < 0 {
				continue
			}
			step, ok := account.MatchStep(secret, code[2:], time.Unix(at+off, 0))
			if ok != want || ok && step != at/30 {
				t.Errorf("%s of %d at %+d s: step %d, %t", code, at, off, step, ok)
			}
		}
	}
}

func TestTwoFactorAuthenticationTakesEffectOnceACodeWasShown(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	u := o.member(t, "ada@example.com", true)
	ctx := o.signedIn(t, "ada@example.com")
	other := o.signedIn(t, "ada@example.com")
	setup, err := o.SetupTOTP(ctx, u.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(setup.URI, "otpauth://totp/Waypost:ada@example.com?") || !strings.Contains(setup.URI, "secret="+setup.Secret) ||
		!strings.HasPrefix(setup.QRCode, "data:image/png;base64,iVBOR") {
		t.Errorf("%+v", setup)
	}
	o.signedIn(t, "ada@example.com") // set up is not enabled
	codes, err := o.EnableTOTP(ctx, u.ID, o.totp(t, setup.Secret))
	if err != nil {
		t.Fatal(err)
	}
	if len(codes) != 10 || len(codes[0]) != 27 {
		t.Errorf("recovery codes %q", codes)
	}
	s, err := o.SignIn(t.Context(), "ada@example.com", password)
	if err != nil || s.AccessToken != "" || s.RefreshToken != "" || s.MFA == nil || s.MFA.ExpiresIn != 5*time.Minute {
		t.Fatalf("%+v, %v", s, err)
	}
	if diff := cmp.Diff([]string{"totp", "recovery_code"}, s.MFA.Methods); diff != "" {
		t.Error(diff)
	}
	*o.now = o.now.Add(30 * time.Second)
	whole, err := o.VerifySecondFactor(t.Context(), s.MFA.Token, o.totp(t, setup.Secret))
	if err != nil || whole.User.ID != u.ID {
		t.Fatalf("%+v, %v", whole, err)
	}
	o.as(t, whole.AccessToken)
	if n := o.count(t, `select count(*) from auth_sessions where methods = '{pwd,otp}'`); n != 1 {
		t.Errorf("%d sessions by password and code", n)
	}
	live := `select count(*) from auth_sessions where id::text = $1 and revoked_at is null`
	if o.count(t, live, identity.FromContext(ctx).SessionID) != 1 || o.count(t, live, identity.FromContext(other).SessionID) != 0 {
		t.Error("not the acting session alone outlived the change")
	}
}

func TestTheOperatorRemovesASecondFactorThatIsLost(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	u := o.member(t, "ada@example.com", true)
	if err := o.RemoveTOTP(t.Context(), "ada@example.com"); !errors.Is(err, account.ErrTOTPDisabled) {
		t.Errorf("without one: %v, want ErrTOTPDisabled", err)
	}
	if err := o.RemoveTOTP(t.Context(), "eve@example.com"); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("nobody's: %v, want ErrNotFound", err)
	}
	ctx := o.signedIn(t, "ada@example.com")
	setup, err := o.SetupTOTP(ctx, u.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.EnableTOTP(ctx, u.ID, o.totp(t, setup.Secret)); err != nil {
		t.Fatal(err)
	}
	if err := o.RemoveTOTP(t.Context(), "ADA@example.com"); err != nil {
		t.Fatal(err)
	}
	if n := o.count(t, `select count(*) from recovery_codes`) + o.count(t, `select count(*) from totp_factors`) +
		o.count(t, `select count(*) from auth_sessions where revoked_at is null`); n != 0 {
		t.Errorf("%d rows of the factor, its codes and the sessions are left", n)
	}
	if s, err := o.SignIn(t.Context(), "ada@example.com", password); err != nil || s.MFA != nil || s.AccessToken == "" {
		t.Errorf("the password alone: %+v, %v", s, err)
	}
}

// Abuse case 24.
func TestCase24AWrongCodeEnablesNothingAndAnActiveSecretStays(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	u := o.member(t, "ada@example.com", true)
	ctx := o.signedIn(t, "ada@example.com")
	if _, err := o.EnableTOTP(ctx, u.ID, "123456"); !errors.Is(err, account.ErrTOTPNotSetUp) {
		t.Errorf("before setup: %v", err)
	}
	old, err := o.SetupTOTP(ctx, u.ID)
	if err != nil {
		t.Fatal(err)
	}
	setup, err := o.SetupTOTP(ctx, u.ID)
	if err != nil || setup.Secret == old.Secret {
		t.Fatalf("a second setup: %v", err)
	}
	for _, code := range []string{"", "12345", "abcdef", o.totp(t, old.Secret)} {
		if _, err := o.EnableTOTP(ctx, u.ID, code); !errors.Is(err, account.ErrTOTPInvalid) {
			t.Errorf("enable with %q: %v, want ErrTOTPInvalid", code, err)
		}
	}
	o.signedIn(t, "ada@example.com") // still off
	if _, err := o.EnableTOTP(ctx, u.ID, o.totp(t, setup.Secret)); err != nil {
		t.Fatal(err)
	}
	if _, err := o.SetupTOTP(ctx, u.ID); !errors.Is(err, account.ErrTOTPEnabled) {
		t.Errorf("setup over an active secret: %v, want ErrTOTPEnabled", err)
	}
	*o.now = o.now.Add(30 * time.Second)
	if _, err := o.EnableTOTP(ctx, u.ID, o.totp(t, setup.Secret)); !errors.Is(err, account.ErrTOTPEnabled) {
		t.Errorf("enable twice: %v, want ErrTOTPEnabled", err)
	}
}

func TestTurningItOffNeedsPasswordAndCode(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	u := o.member(t, "ada@example.com", true)
	ctx := o.signedIn(t, "ada@example.com")
	if err := o.DisableTOTP(ctx, u.ID, password, "123456"); !errors.Is(err, account.ErrTOTPDisabled) {
		t.Errorf("when off: %v", err)
	}
	if _, err := o.RenewRecoveryCodes(ctx, u.ID, "123456"); !errors.Is(err, account.ErrTOTPDisabled) {
		t.Errorf("recovery codes when off: %v", err)
	}
	secret, _ := o.enroll(t, ctx)
	if err := o.DisableTOTP(ctx, u.ID, "not the password", o.totp(t, secret)); !errors.Is(err, account.ErrReauthenticate) {
		t.Errorf("wrong password: %v, want ErrReauthenticate", err)
	}
	if err := o.DisableTOTP(ctx, u.ID, password, "000000000"); !errors.Is(err, account.ErrTOTPInvalid) {
		t.Errorf("wrong code: %v, want ErrTOTPInvalid", err)
	}
	if s, err := o.SignIn(t.Context(), "ada@example.com", password); err != nil || s.MFA == nil {
		t.Errorf("went off by a wrong try: %v", err)
	}
	if err := o.DisableTOTP(ctx, u.ID, password, o.totp(t, secret)); err != nil {
		t.Fatal(err)
	}
	o.signedIn(t, "ada@example.com")
	if n := o.count(t, `select (select count(*) from totp_factors) + (select count(*) from recovery_codes)`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func TestSettingItUpNeedsARecentSignIn(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	u := o.member(t, "ada@example.com", true)
	ctx := o.signedIn(t, "ada@example.com")
	*o.now = o.now.Add(16 * time.Minute)
	if _, err := o.SetupTOTP(ctx, u.ID); !errors.Is(err, account.ErrReauthenticate) {
		t.Errorf("error is %v, want ErrReauthenticate", err)
	}
}

func TestTheSecretIsSealedForItsAccountAndOutlivesARotation(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	o.member(t, "ada@example.com", true)
	eve := o.member(t, "eve@example.com", true)
	secret, codes := o.enroll(t, o.signedIn(t, "ada@example.com"))
	var stored string
	if err := o.db.Pool().QueryRow(t.Context(), `select f::text || (select string_agg(r::text, '') from recovery_codes r) from totp_factors f`).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	for _, plain := range []string{secret, strings.ReplaceAll(codes[0], "-", "")} {
		if strings.Contains(stored, plain) || strings.Contains(stored, fmt.Sprintf("%x", plain)) {
			t.Error("a secret is readable in the database")
		}
	}
	verify := func(o outside, email string) error {
		s, err := o.SignIn(t.Context(), email, password)
		if err != nil {
			t.Fatal(err)
		}
		*o.now = o.now.Add(30 * time.Second)
		_, err = o.VerifySecondFactor(t.Context(), s.MFA.Token, o.totp(t, secret))
		return err
	}
	// Eve, who can write to the database, gives herself Ada's secret.
	o.exec(t, `insert into totp_factors select $1, secret, secret_key_id, 0, created_at, confirmed_at from totp_factors`, eve.ID)
	if err := verify(o, "eve@example.com"); !errors.Is(err, seal.ErrCorrupt) {
		t.Errorf("moved to another account: %v, want ErrCorrupt", err)
	}
	o.exec(t, `delete from totp_factors where user_id = $1`, eve.ID)

	with := func(current, previous byte) outside {
		other := o
		s, err := account.New(account.Options{
			DB: o.db, PasswordCost: cheapHashes, Now: func() time.Time { return *o.now },
			Tokens:    tokensOf(t, o),
			TwoFactor: account.TwoFactorOptions{Sealer: sealer(t, current, previous)},
		})
		if err != nil {
			t.Fatal(err)
		}
		other.Service = s
		return other
	}
	rotating := with('n', 'k')
	if err := verify(rotating, "ada@example.com"); err != nil {
		t.Errorf("with the previous key: %v", err)
	}
	if err := verify(with('n', 0), "ada@example.com"); !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("without it, too early: %v, want ErrUnknownKey", err)
	}
	if err := rotating.ResealSecrets(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := verify(with('n', 0), "ada@example.com"); err != nil {
		t.Errorf("without it, after sealing anew: %v", err)
	}
}

func tokensOf(t *testing.T, o outside) *token.Service {
	t.Helper()
	s, err := token.New(t.Context(), token.Options{
		DB: o.db, Issuer: "https://waypost.example", SecretKey: bytes.Repeat([]byte{'k'}, token.MinSecretKey), Now: func() time.Time { return *o.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWithoutASealerNobodySlipsPastTheSecondFactor(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	u := o.member(t, "ada@example.com", true)
	secret, _ := o.enroll(t, o.signedIn(t, "ada@example.com"))
	s, err := account.New(account.Options{DB: o.db, Tokens: tokensOf(t, o), PasswordCost: cheapHashes, Now: func() time.Time { return *o.now }})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.SignIn(t.Context(), "ada@example.com", password)
	if err != nil || signed.MFA == nil {
		t.Fatalf("%+v, %v", signed, err)
	}
	if _, err := s.VerifySecondFactor(t.Context(), signed.MFA.Token, o.totp(t, secret)); err == nil {
		t.Error("a code passed that nobody could check")
	}
	recent := identity.Account(u.ID, identity.User, "x")
	recent.SignedInAt = *o.now
	if _, err := s.SetupTOTP(identity.NewContext(context.Background(), recent), u.ID); err == nil {
		t.Error("set up without a sealer")
	}
}
