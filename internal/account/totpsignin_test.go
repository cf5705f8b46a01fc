package account_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/token"
)

// Abuse case 6.
func TestCase06AnMFATokenIsUselessElsewhere(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	o.member(t, "ada@example.com", true)
	secret, _ := o.enroll(t, o.signedIn(t, "ada@example.com"))
	s, err := o.SignIn(t.Context(), "ada@example.com", password)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Authenticate(t.Context(), s.MFA.Token); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("as an access token: %v, want ErrInvalid", err)
	}
	whole, err := o.VerifySecondFactor(t.Context(), s.MFA.Token, o.totp(t, secret))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.VerifySecondFactor(t.Context(), whole.AccessToken, o.totp(t, secret)); !errors.Is(err, token.ErrChallenge) {
		t.Errorf("an access token in its place: %v, want ErrChallenge", err)
	}
	*o.now = o.now.Add(5 * time.Minute)
	if _, err := o.VerifySecondFactor(t.Context(), s.MFA.Token, o.totp(t, secret)); !errors.Is(err, token.ErrChallenge) {
		t.Errorf("after its time: %v, want ErrChallenge", err)
	}
}

// Abuse case 20: a new password, however it came, leaves the second factor.
func TestCase20ANewPasswordDoesNotSkipTheSecondFactor(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	o.member(t, "ada@example.com", true)
	secret, _ := o.enroll(t, o.signedIn(t, "ada@example.com"))
	before, err := o.SignIn(t.Context(), "ada@example.com", password)
	if err != nil {
		t.Fatal(err)
	}
	const fresh = "a new battery staple"
	if err := o.SetPassword(t.Context(), "ada@example.com", fresh); err != nil {
		t.Fatal(err)
	}
	s, err := o.SignIn(t.Context(), "ada@example.com", fresh)
	if err != nil || s.MFA == nil || s.AccessToken != "" {
		t.Errorf("signed in without a code: %v", err)
	}
	if _, err := o.VerifySecondFactor(t.Context(), before.MFA.Token, o.totp(t, secret)); !errors.Is(err, token.ErrChallenge) {
		t.Errorf("a sign-in begun with the old password: %v, want ErrChallenge", err)
	}
}

// Abuse case 21.
func TestCase21ACodeWorksOnceAlsoWhenUsedAtOnce(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	u := o.member(t, "ada@example.com", true)
	ctx := o.signedIn(t, "ada@example.com")
	setup, err := o.SetupTOTP(ctx, u.ID)
	if err != nil {
		t.Fatal(err)
	}
	enabling := o.totp(t, setup.Secret)
	if _, err := o.EnableTOTP(ctx, u.ID, enabling); err != nil {
		t.Fatal(err)
	}
	s, err := o.SignIn(t.Context(), "ada@example.com", password)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.VerifySecondFactor(t.Context(), s.MFA.Token, enabling); !errors.Is(err, account.ErrTOTPInvalid) {
		t.Errorf("the code that enabled it: %v, want ErrTOTPInvalid", err)
	}
	*o.now = o.now.Add(30 * time.Second)
	code := o.totp(t, setup.Secret)
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = o.VerifySecondFactor(t.Context(), s.MFA.Token, code) })
	}
	wg.Wait()
	passed := 0
	for _, err := range errs {
		switch {
		case err == nil:
			passed++
		case !errors.Is(err, account.ErrTOTPInvalid):
			t.Error(err)
		}
	}
	if passed != 1 {
		t.Errorf("%d of %d passed", passed, len(errs))
	}
	*o.now = o.now.Add(30 * time.Second) // still within the skew
	if _, err := o.VerifySecondFactor(t.Context(), s.MFA.Token, code); !errors.Is(err, account.ErrTOTPInvalid) {
		t.Errorf("again in the next step: %v, want ErrTOTPInvalid", err)
	}
	// An older code that was never used is below the step too.
	next := o.totp(t, setup.Secret)
	if _, err := o.VerifySecondFactor(t.Context(), s.MFA.Token, next); err != nil {
		t.Errorf("the next code: %v", err)
	}
}

// Abuse case 22.
func TestCase22GuessesAreLimitedOverFreshTokens(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	o.member(t, "ada@example.com", true)
	secret, recovery := o.enroll(t, o.signedIn(t, "ada@example.com"))
	guess := func(code string) error {
		t.Helper()
		s, err := o.SignIn(t.Context(), "ada@example.com", password)
		if err != nil {
			t.Fatal(err)
		}
		_, err = o.VerifySecondFactor(t.Context(), s.MFA.Token, code)
		return err
	}
	wrong := "000000"
	if wrong == o.totp(t, secret) {
		wrong = "000001"
	}
	for i := range 10 {
		if err := guess(wrong); !errors.Is(err, account.ErrTOTPInvalid) {
			t.Fatalf("guess %d: %v, want ErrTOTPInvalid", i+1, err)
		}
	}
	for _, code := range []string{wrong, o.totp(t, secret), recovery[0]} {
		err := guess(code)
		problem, ok := errors.AsType[*fault.Error](err)
		if !ok || problem.Kind != fault.RateLimited || problem.RetryAfter <= 0 {
			t.Errorf("%s after ten guesses: %v, want a rate limit", code, err)
		}
	}
	*o.now = o.now.Add(15 * time.Minute)
	if err := guess(o.totp(t, secret)); err != nil {
		t.Errorf("the owner after the block: %v", err)
	}
	if err := guess(wrong); !errors.Is(err, account.ErrTOTPInvalid) {
		t.Errorf("the streak outlived a success: %v", err)
	}
}

func TestCase22GuessesAtOnceAreLimitedToo(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	o.member(t, "ada@example.com", true)
	o.enroll(t, o.signedIn(t, "ada@example.com"))
	s, err := o.SignIn(t.Context(), "ada@example.com", password)
	if err != nil {
		t.Fatal(err)
	}
	errs := make([]error, 40)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = o.VerifySecondFactor(t.Context(), s.MFA.Token, fmt.Sprintf("not a code %d", i)) })
	}
	wg.Wait()
	invalid := 0
	for _, err := range errs {
		if errors.Is(err, account.ErrTOTPInvalid) {
			invalid++
		} else if fault.KindOf(err) != fault.RateLimited {
			t.Error(err)
		}
	}
	if invalid != 10 {
		t.Errorf("%d guesses were answered, want 10", invalid)
	}
}

// Abuse case 23.
func TestCase23ARecoveryCodeWorksOnce(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	u := o.member(t, "ada@example.com", true)
	secret, codes := o.enroll(t, o.signedIn(t, "ada@example.com"))
	s, err := o.SignIn(t.Context(), "ada@example.com", password)
	if err != nil {
		t.Fatal(err)
	}
	errs := make([]error, 6)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = o.VerifySecondFactor(t.Context(), s.MFA.Token, " "+strings.ToLower(codes[3])+" ")
		})
	}
	wg.Wait()
	passed := 0
	for _, err := range errs {
		if err == nil {
			passed++
		} else if !errors.Is(err, account.ErrTOTPInvalid) {
			t.Error(err)
		}
	}
	if passed != 1 {
		t.Errorf("%d of %d passed", passed, len(errs))
	}
	if _, err := o.VerifySecondFactor(t.Context(), s.MFA.Token, codes[3]); !errors.Is(err, account.ErrTOTPInvalid) {
		t.Errorf("again: %v, want ErrTOTPInvalid", err)
	}
	fresh, err := o.RenewRecoveryCodes(t.Context(), u.ID, o.totp(t, secret))
	if err != nil || len(fresh) != 10 {
		t.Fatalf("%d codes, %v", len(fresh), err)
	}
	if _, err := o.VerifySecondFactor(t.Context(), s.MFA.Token, codes[4]); !errors.Is(err, account.ErrTOTPInvalid) {
		t.Errorf("a code of before: %v, want ErrTOTPInvalid", err)
	}
	if _, err := o.VerifySecondFactor(t.Context(), s.MFA.Token, fresh[4]); err != nil {
		t.Errorf("a new code: %v", err)
	}
}

func TestNoSessionOpensBesideTheTurningOn(t *testing.T) {
	t.Parallel()
	for range 8 {
		o := newOutside(t, nil)
		u := o.member(t, "ada@example.com", true)
		ctx := o.signedIn(t, "ada@example.com")
		setup, err := o.SetupTOTP(ctx, u.ID)
		if err != nil {
			t.Fatal(err)
		}
		code := o.totp(t, setup.Secret)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := o.EnableTOTP(ctx, u.ID, code); err != nil {
				t.Error(err)
			}
		})
		for range 3 {
			wg.Go(func() {
				if _, err := o.SignIn(t.Context(), "ada@example.com", password); err != nil && !errors.Is(err, account.ErrBusy) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		own := identity.FromContext(ctx).SessionID
		if n := o.count(t, `select count(*) from auth_sessions where revoked_at is null and id::text <> $1`, own); n != 0 {
			t.Fatalf("%d sessions without the second factor are open", n)
		}
	}
}
