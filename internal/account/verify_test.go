package account_test

import (
	"context"
	"errors"
	"testing"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

func TestVerificationNeedsWhoMadeTheAccountOrTakesItOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.register(t, "ada@example.com")
	f.create(t, "eve@example.com", nil)
	eve := f.as(t, f.signIn(t, "eve@example.com").AccessToken)
	code := f.code(t, "ada@example.com", mail.VerifyEmail)
	for what, tc := range map[string]struct {
		ctx  context.Context
		v    account.Verification
		want error
	}{
		"nothing":                         {t.Context(), account.Verification{}, account.ErrPasswordRequired},
		"another account":                 {eve, account.Verification{}, account.ErrPasswordRequired},
		"a wrong one":                     {t.Context(), account.Verification{Password: "not the password"}, account.ErrInvalidCredentials},
		"a wrong one, by another account": {eve, account.Verification{Password: "not the password"}, account.ErrInvalidCredentials},
	} {
		tc.v.Secret = code
		if err := f.VerifyEmail(tc.ctx, tc.v); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", what, err, tc.want)
		}
	}
	for _, v := range []account.Verification{{NewPassword: "password1"}, {NewPassword: "ada@example.com"}, {NewPassword: "a new horse battery staple", Password: password}} {
		v.Secret = code
		if err := f.VerifyEmail(t.Context(), v); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v, want a validation fault", v, err)
		}
	}
	for range 8 {
		if err := f.VerifyEmail(t.Context(), account.Verification{Secret: code, Password: "not the password"}); !errors.Is(err, account.ErrInvalidCredentials) {
			t.Fatal(err)
		}
	}
	if err := f.VerifyEmail(t.Context(), account.Verification{Secret: code, Password: password}); fault.KindOf(err) != fault.RateLimited {
		t.Errorf("after ten guesses: %v, want a limit", err)
	}
	if got, err := f.FindByID(t.Context(), u.ID); err != nil || got.EmailVerified {
		t.Errorf("%+v, %v", got, err)
	}
	// None of it used the link up.
	if err := f.VerifyEmail(f.as(t, f.signIn(t, "ada@example.com").AccessToken), account.Verification{Secret: code}); err != nil {
		t.Error(err)
	}
}

func TestWhoMadeTheAccountKeepsAllOfIt(t *testing.T) {
	t.Parallel()
	for what, how := range map[string]func(f fixture, s account.SignedIn) (context.Context, account.Verification){
		"signed in": func(f fixture, s account.SignedIn) (context.Context, account.Verification) {
			return f.as(t, s.AccessToken), account.Verification{}
		},
		"with the password": func(_ fixture, _ account.SignedIn) (context.Context, account.Verification) {
			return t.Context(), account.Verification{Password: password}
		},
	} {
		f := newFixture(t)
		u := f.register(t, "ada@example.com")
		s := f.signIn(t, "ada@example.com")
		bot := f.tokenFromBefore(t, u.ID)
		f.exec(t, `insert into totp_factors (user_id, secret, secret_key_id, created_at, unproven) values ($1, '', '', now(), true)`, u.ID)
		ctx, v := how(f, s)
		v.Secret = f.code(t, "ada@example.com", mail.VerifyEmail)
		if err := f.VerifyEmail(ctx, v); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for credential, bearer := range map[string]string{"session": s.AccessToken, "API token": bot} {
			if _, err := f.Authenticate(t.Context(), bearer); err != nil {
				t.Errorf("%s, %s: %v", what, credential, err)
			}
		}
		f.exec(t, `update totp_factors set last_step = 1 where user_id = $1 and not unproven`, u.ID)
		f.signIn(t, "ada@example.com")
	}
}

func TestWhoTakesTheAccountOverEndsAllThatIsOlder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.register(t, "victim@example.com")
	s := f.signIn(t, "victim@example.com")
	attacker := f.as(t, s.AccessToken)
	bot := f.tokenFromBefore(t, u.ID)
	f.exec(t, `insert into identities (user_id, provider, subject, email, created_at, last_used_at) values ($1, 'github', 'the attacker', '', $2, $2)`, u.ID, *f.now)
	pending := f.ask(t, attacker, "attacker@example.com")
	f.forgot(t, "victim@example.com")
	code := f.code(t, "victim@example.com", mail.VerifyEmail)
	if err := f.VerifyEmail(t.Context(), account.Verification{Secret: code, NewPassword: "the victim's own password"}); err != nil {
		t.Fatal(err)
	}
	f.wantRevoked(t, "the attacker's session", s.AccessToken)
	if _, err := f.Authenticate(t.Context(), bot); !errors.Is(err, account.ErrAPIToken) {
		t.Errorf("the attacker's API token: %v", err)
	}
	if _, err := f.SignIn(t.Context(), "victim@example.com", password); !errors.Is(err, account.ErrInvalidCredentials) {
		t.Errorf("the attacker's password: %v", err)
	}
	if list, err := f.ListIdentities(t.Context(), u.ID); err != nil || len(list) != 0 {
		t.Errorf("identities %+v, %v", list, err)
	}
	for what, err := range map[string]error{
		"the attacker's change of the address": f.ConfirmEmail(t.Context(), pending),
		"the link again":                       f.VerifyEmail(t.Context(), account.Verification{Secret: code, NewPassword: "yet another password"}),
		"an older reset":                       f.ResetPassword(t.Context(), f.code(t, "victim@example.com", mail.ResetPassword), "yet another password"),
	} {
		if !errors.Is(err, account.ErrLinkInvalid) {
			t.Errorf("%s: %v, want ErrLinkInvalid", what, err)
		}
	}
	if _, err := f.SignIn(t.Context(), "victim@example.com", "the victim's own password"); err != nil {
		t.Errorf("the victim: %v", err)
	}
}

// A link to verify lasts a week, one for another password an hour. Nobody may use the one
// for the other once the address is verified.
func TestALinkToVerifySetsNoPasswordOfAVerifiedAccount(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register(t, "ada@example.com")
	code := f.code(t, "ada@example.com", mail.VerifyEmail)
	f.forgot(t, "ada@example.com")
	if err := f.ResetPassword(t.Context(), f.code(t, "ada@example.com", mail.ResetPassword), "a new horse battery staple"); err != nil {
		t.Fatal(err)
	}
	err := errors.Join(f.CheckVerifyLink(t.Context(), code))
	if again := f.VerifyEmail(t.Context(), account.Verification{Secret: code, NewPassword: "yet another password"}); !errors.Is(err, account.ErrLinkInvalid) || !errors.Is(again, account.ErrLinkInvalid) {
		t.Errorf("%v, %v, want ErrLinkInvalid", err, again)
	}
}

func TestOfLinksToVerifyUsedAtOnceOneHolds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.register(t, "ada@example.com")
	first := f.code(t, "ada@example.com", mail.VerifyEmail)
	f.again(t, "ada@example.com")
	second := f.code(t, "ada@example.com", mail.VerifyEmail)
	use := func(code string) func() error {
		return func() error {
			return f.VerifyEmail(t.Context(), account.Verification{Secret: code, NewPassword: "a password from " + code[:20]})
		}
	}
	errs := together(use(first), use(second), use(first), use(second))
	if count(errs, nil) != 1 || count(errs, account.ErrLinkInvalid) != 3 {
		t.Errorf("%v", errs)
	}
	if got, err := f.FindByID(t.Context(), u.ID); err != nil || !got.EmailVerified {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestBeforeItsAddressIsVerifiedAnAccountGetsNoOtherWayIn(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	u := o.member(t, "ada@example.com", false)
	ctx := o.signedIn(t, "ada@example.com")
	o.google.Person = ada
	code := o.code(t, "google")
	_, _, token := o.CreateAPIToken(ctx, account.NewAPIToken{Name: "bot", Scopes: []identity.Scope{identity.Read}})
	_, factor := o.SetupTOTP(ctx, u.ID)
	_, linked := o.LinkIdentity(ctx, u.ID, code, verifier)
	for what, err := range map[string]error{"API token": token, "second factor": factor, "identity": linked} {
		if !errors.Is(err, account.ErrEmailUnverified) {
			t.Errorf("%s: %v, want ErrEmailUnverified", what, err)
		}
	}
	if err := o.Vouch(t.Context(), "ADA@example.com"); err != nil {
		t.Fatal(err)
	}
	if _, err := o.LinkIdentity(ctx, u.ID, code, verifier); err != nil {
		t.Errorf("the code, once the address is verified: %v", err)
	}
	setup, err := o.SetupTOTP(ctx, u.ID)
	if err != nil {
		t.Fatal(err)
	}
	o.exec(t, `update users set email_verified_at = null where id = $1`, u.ID)
	if _, err := o.EnableTOTP(ctx, u.ID, o.totp(t, setup.Secret)); !errors.Is(err, account.ErrEmailUnverified) {
		t.Errorf("moved in between: %v, want ErrEmailUnverified", err)
	}
	if err := o.Vouch(t.Context(), "nobody@example.com"); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("nobody's address: %v", err)
	}
}
