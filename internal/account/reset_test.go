package account_test

import (
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

// code returns the secret of the last mail of that kind to an address.
func (f fixture) code(t *testing.T, to string, kind mail.Kind) string {
	t.Helper()
	code := ""
	for _, m := range f.mail.Sent(to) {
		if m.Kind == kind {
			code = m.Code
		}
	}
	if code == "" {
		t.Fatalf("no mail of kind %s to %s", kind, to)
	}
	return code
}

func (f fixture) count(t *testing.T, to string, kind mail.Kind) int {
	t.Helper()
	n := 0
	for _, m := range f.mail.Sent(to) {
		if m.Kind == kind {
			n++
		}
	}
	return n
}

// forgot asks for a reset and works the job.
func (f fixture) forgot(t *testing.T, email string) {
	t.Helper()
	if err := f.RequestPasswordReset(t.Context(), email); err != nil {
		t.Fatal(err)
	}
	job := f.jobs.list[len(f.jobs.list)-1].(account.LinkJob)
	if err := f.MailLink(t.Context(), job); err != nil {
		t.Fatal(err)
	}
}

// verify follows the last link to verify an address, with the account's password.
func (f fixture) verify(t *testing.T, email string) error {
	t.Helper()
	return f.VerifyEmail(t.Context(), account.Verification{Secret: f.code(t, email, mail.VerifyEmail), Password: password})
}

// tokenFromBefore is an API token that an account got when it needed no verified address.
func (f fixture) tokenFromBefore(t *testing.T, userID int64) string {
	t.Helper()
	secret := account.APITokenPrefix + strings.Repeat("x", 43)
	digest := sha256.Sum256([]byte(secret))
	f.exec(t, `insert into api_tokens (user_id, name, prefix, token_sha256, scopes, created_at) values ($1, 'bot', 'wp_xxxxxxxx', $2, '{read}', $3)`, userID, digest[:], *f.now)
	return secret
}

func (f fixture) register(t *testing.T, email string) account.User {
	t.Helper()
	u, err := f.Register(t.Context(), account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: email, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestARegistrationMakesAUserWhoseAddressALinkVerifies(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, err := f.Register(t.Context(), account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com", Password: password, Role: identity.Admin})
	if err != nil || u.Role != identity.User || u.EmailVerified {
		t.Fatalf("%+v, %v", u, err)
	}
	f.signIn(t, "ada@example.com") // before it is verified
	code := f.code(t, "ada@example.com", mail.VerifyEmail)
	if link := f.mail.Sent("ada@example.com")[0].Link; link != "https://waypost.example"+account.VerifyEmailPath+"?token="+code {
		t.Errorf("link %s", link)
	}
	if err := f.VerifyEmail(t.Context(), account.Verification{Secret: code, Password: password}); err != nil {
		t.Fatal(err)
	}
	if u, err = f.FindByID(t.Context(), u.ID); err != nil || !u.EmailVerified {
		t.Errorf("%+v, %v", u, err)
	}
	for what, secret := range map[string]string{"used twice": code, "made up": "wpml_x", "empty": ""} {
		if err := f.VerifyEmail(t.Context(), account.Verification{Secret: secret, Password: password}); !errors.Is(err, account.ErrLinkInvalid) {
			t.Errorf("%s: %v, want ErrLinkInvalid", what, err)
		}
	}
}

func TestCommonPasswordsAreRefusedWhereverOneIsChosen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.register(t, "ada@example.com")
	f.forgot(t, "ada@example.com")
	code := f.code(t, "ada@example.com", mail.ResetPassword)
	ctx := identity.NewContext(t.Context(), identity.Account(u.ID, u.Role, "3f2c8a4e-51d7-4a0b-9c1e-6d2b7f8a9c10"))
	for _, bad := range []string{"password1", "PASSWORD1", "12345678", "Ada@example.com"} {
		_, register := f.Register(t.Context(), account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com", Password: bad})
		for what, err := range map[string]error{
			"register": register, "reset": f.ResetPassword(t.Context(), code, bad), "change": f.ChangePassword(ctx, password, bad),
		} {
			if fault.KindOf(err) != fault.Invalid {
				t.Errorf("%s %q: %v, want a validation fault", what, bad, err)
			}
		}
	}
	if err := f.ResetPassword(t.Context(), code, "a new horse battery staple"); err != nil {
		t.Errorf("a refused password used the link up: %v", err)
	}
}

func TestAResetEndsSessionsLiftsBlocksAndVerifies(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.register(t, "ada@example.com")
	s := f.signIn(t, "ada@example.com")
	apiToken := f.tokenFromBefore(t, u.ID)
	f.fail(t, from(t, "203.0.113.7"), "ada@example.com", 10)
	f.forgot(t, " ADA@example.com")
	if err := f.ResetPassword(t.Context(), f.code(t, "ada@example.com", mail.ResetPassword), "a new horse battery staple"); err != nil {
		t.Fatal(err)
	}
	f.wantRevoked(t, "a session from before", s.AccessToken)
	// Abuse case 30: the address was not verified before, so whoever registered it
	// may have been a stranger.
	if _, err := f.Authenticate(t.Context(), apiToken); !errors.Is(err, account.ErrAPIToken) {
		t.Errorf("an API token from before: %v, want ErrAPIToken", err)
	}
	if _, err := f.SignIn(from(t, "203.0.113.7"), "ada@example.com", "a new horse battery staple"); err != nil {
		t.Errorf("the new password: %v", err)
	}
	if _, err := f.SignIn(t.Context(), "ada@example.com", password); !errors.Is(err, account.ErrInvalidCredentials) {
		t.Errorf("the old password: %v", err)
	}
	if u, err := f.FindByID(t.Context(), u.ID); err != nil || !u.EmailVerified {
		t.Errorf("%+v, %v", u, err)
	}
	if f.count(t, "ada@example.com", mail.PasswordChanged) != 1 {
		t.Error("the account was not told")
	}
}

func TestAResetRevokesAPITokens(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register(t, "ada@example.com")
	f.create(t, "eve@example.com", nil)
	if err := f.verify(t, "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	for what, reset := range map[string]func(){
		"by its owner": func() {
			f.forgot(t, "ada@example.com")
			if err := f.ResetPassword(t.Context(), f.code(t, "ada@example.com", mail.ResetPassword), password); err != nil {
				t.Fatal(err)
			}
		},
		"by the operator": func() {
			if err := f.SetPassword(identity.NewContext(t.Context(), identity.Command("root", "user set-password")), "ada@example.com", password); err != nil {
				t.Fatal(err)
			}
		},
	} {
		_, own := f.apiToken(t, f.signIn(t, "ada@example.com"), identity.Read)
		_, foreign := f.apiToken(t, f.signIn(t, "eve@example.com"), identity.Read)
		reset()
		if _, err := f.Authenticate(t.Context(), own); !errors.Is(err, account.ErrAPIToken) {
			t.Errorf("%s: its token: %v, want ErrAPIToken", what, err)
		}
		if _, err := f.Authenticate(t.Context(), foreign); err != nil {
			t.Errorf("%s: another's token: %v", what, err)
		}
	}
}

// Abuse case 18; the request itself never looks the address up.
func TestCase18ARequestForAnUnknownAddressIsTheSameWork(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register(t, "ada@example.com")
	f.create(t, "off@example.com", nil)
	f.exec(t, `update users set active = false where email = 'off@example.com'`)
	for _, email := range []string{"eve@example.com", "off@example.com"} {
		f.forgot(t, email)
		if got := f.mail.Sent(email); len(got) != 0 {
			t.Errorf("%q got %v", email, got)
		}
	}
	f.forgot(t, "ada@example.com")
	if len(f.jobs.list) != 3 || f.count(t, "ada@example.com", mail.ResetPassword) != 1 {
		t.Errorf("%d jobs", len(f.jobs.list))
	}
	for range 10 {
		f.forgot(t, "ada@example.com")
	}
	if n := f.count(t, "ada@example.com", mail.ResetPassword); n != 5 {
		t.Errorf("%d mails in an hour, want 5", n)
	}
}

// Abuse case 19.
func TestCase19AResetLinkIsGoodOnceAndForItsAddressAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.register(t, "ada@example.com")
	f.forgot(t, "ada@example.com")
	older := f.code(t, "ada@example.com", mail.ResetPassword)
	f.forgot(t, "ada@example.com")
	code := f.code(t, "ada@example.com", mail.ResetPassword)
	if err := f.ResetPassword(t.Context(), code, "a new horse battery staple"); err != nil {
		t.Fatal(err)
	}
	f.forgot(t, "ada@example.com")
	expired := f.code(t, "ada@example.com", mail.ResetPassword)
	*f.now = f.now.Add(time.Hour)
	f.forgot(t, "ada@example.com")
	moved := f.code(t, "ada@example.com", mail.ResetPassword)
	address := "ada@elsewhere.example"
	if _, err := f.Update(identity.NewContext(t.Context(), identity.System("test")), u.ID, account.Change{Email: &address}); err != nil {
		t.Fatal(err)
	}
	for what, secret := range map[string]string{
		"used twice": code, "an older one": older, "expired": expired, "after another address": moved,
		"of another purpose": f.code(t, "ada@example.com", mail.VerifyEmail), "made up": "wpml_" + strings.Repeat("A", 43), "empty": "", "no text": "\xff\x00",
	} {
		if err := f.ResetPassword(t.Context(), secret, "an evil horse battery staple"); !errors.Is(err, account.ErrLinkInvalid) || fault.KindOf(err) != fault.Malformed {
			t.Errorf("%s: %v, want ErrLinkInvalid", what, err)
		}
	}
}

func TestAnInvitedAccountSetsItsPasswordByLink(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, err := f.Invite(t.Context(), account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com", Role: identity.Editor}, true)
	if err != nil || u.Role != identity.Editor {
		t.Fatalf("%+v, %v", u, err)
	}
	for _, guess := range []string{"", "password", password} {
		if _, err := f.SignIn(t.Context(), "ada@example.com", guess); !errors.Is(err, account.ErrInvalidCredentials) {
			t.Errorf("%q: %v", guess, err)
		}
	}
	if err := f.ResetPassword(t.Context(), f.code(t, "ada@example.com", mail.SetPassword), password); err != nil {
		t.Fatal(err)
	}
	f.signIn(t, "ada@example.com")
}

func TestAChangeOfThePasswordNeedsTheCurrentOneAndEndsOtherSessions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	other, here := f.signIn(t, "ada@example.com"), f.signIn(t, "ada@example.com")
	ctx := f.as(t, here.AccessToken)
	if err := f.ChangePassword(ctx, "wrong password", "a new horse battery staple"); !errors.Is(err, account.ErrReauthenticate) {
		t.Errorf("wrong password: %v, want ErrReauthenticate", err)
	}
	if err := f.ChangePassword(ctx, password, "a new horse battery staple"); err != nil {
		t.Fatal(err)
	}
	f.wantRevoked(t, "another session", other.AccessToken)
	if _, err := f.Authenticate(t.Context(), here.AccessToken); err != nil {
		t.Errorf("the acting session: %v", err)
	}
	if _, err := f.SignIn(t.Context(), "ada@example.com", "a new horse battery staple"); err != nil {
		t.Errorf("new password: %v", err)
	}
	for range 10 {
		if err := f.ChangePassword(ctx, "wrong password", password); !errors.Is(err, account.ErrReauthenticate) {
			t.Fatal(err)
		}
	}
	if err := f.ChangePassword(ctx, "a new horse battery staple", password); fault.KindOf(err) != fault.RateLimited {
		t.Errorf("after ten failures: %v, want a limit", err)
	}
}
