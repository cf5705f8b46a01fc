package account_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

// mailChanges works the jobs of changes that were asked for.
func (f fixture) mailChanges(t *testing.T) {
	t.Helper()
	for _, job := range f.jobs.list {
		if change, ok := job.(account.EmailChangeJob); ok {
			if err := f.MailEmailChange(t.Context(), change); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// ask asks for another address and returns the code that was mailed there.
func (f fixture) ask(t *testing.T, ctx context.Context, email string) string {
	t.Helper()
	if err := f.RequestEmailChange(ctx, email); err != nil {
		t.Fatal(err)
	}
	f.mailChanges(t)
	return f.code(t, email, mail.ConfirmEmail)
}

// moved gives an account, from its own session, another address.
func (f fixture) moved(t *testing.T, ctx context.Context, email string) {
	t.Helper()
	if err := f.ConfirmEmail(t.Context(), f.ask(t, ctx, email)); err != nil {
		t.Fatalf("to %s: %v", email, err)
	}
}

func (f fixture) emailOf(t *testing.T, id int64) string {
	t.Helper()
	u, err := f.FindByID(t.Context(), id)
	if err != nil || !u.EmailVerified {
		t.Errorf("%+v, %v", u, err)
	}
	return u.Email
}

func TestAChangeTakesEffectWhenItsMailboxConfirmsIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	f.forgot(t, "ada@example.com")
	reset := f.code(t, "ada@example.com", mail.ResetPassword)
	code := f.ask(t, f.as(t, s.AccessToken), "Ada@Elsewhere.example")
	f.mailChanges(t) // a job that runs twice mails once
	m := f.mail.Sent("Ada@Elsewhere.example")
	if len(m) != 1 || m[0].Link != "https://waypost.example"+account.ConfirmEmailPath+"?token="+code || m[0].UserID != u.ID {
		t.Errorf("%+v", m)
	}
	if got := f.emailOf(t, u.ID); got != "ada@example.com" || len(f.mail.Sent("ada@example.com")) != 1 {
		t.Errorf("before: %s, %v", got, f.mail.Sent("ada@example.com"))
	}
	if err := errors.Join(f.CheckConfirmEmailLink(t.Context(), code), f.ConfirmEmail(t.Context(), code)); err != nil {
		t.Fatal(err)
	}
	if got := f.emailOf(t, u.ID); got != "Ada@Elsewhere.example" {
		t.Errorf("after: %s", got)
	}
	f.signIn(t, "ada@elsewhere.example")
	if _, err := f.Authenticate(t.Context(), s.AccessToken); err != nil {
		t.Errorf("the session that asked: %v", err)
	}
	if err := f.ResetPassword(t.Context(), reset, "a stranger's own password"); !errors.Is(err, account.ErrLinkInvalid) {
		t.Errorf("a link mailed to the former address: %v, want ErrLinkInvalid", err)
	}
	for what, secret := range map[string]string{"again": code, "made up": "wpml_" + strings.Repeat("A", 43), "empty": "", "no text": "\xff\x00"} {
		for how, err := range map[string]error{
			"confirm": f.ConfirmEmail(t.Context(), secret), "undo": f.UndoEmail(t.Context(), secret),
			"look": f.CheckConfirmEmailLink(t.Context(), secret), "look at undo": f.CheckUndoEmailLink(t.Context(), secret),
		} {
			if !errors.Is(err, account.ErrLinkInvalid) {
				t.Errorf("%s, %s: %v, want ErrLinkInvalid", what, how, err)
			}
		}
	}
}

// Who is in for a moment, or was once, has no pending change to come back by.
func TestAPendingChangeEndsWithWhatItRestsOn(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(f fixture, id int64, ctx context.Context) error{
		"another change": func(f fixture, _ int64, ctx context.Context) error {
			return f.RequestEmailChange(ctx, "third@example.com")
		},
		"asking for what there is": func(f fixture, _ int64, ctx context.Context) error {
			return f.RequestEmailChange(ctx, "ADA@example.com")
		},
		"signing out":            func(f fixture, _ int64, ctx context.Context) error { return f.SignOut(ctx) },
		"signing out everywhere": func(f fixture, _ int64, ctx context.Context) error { return f.EndSessions(ctx) },
		"a password that another session changes": func(f fixture, _ int64, _ context.Context) error {
			return f.ChangePassword(f.as(t, f.signIn(t, "ada@example.com").AccessToken), password, "a new horse battery staple")
		},
		"a reset": func(f fixture, _ int64, _ context.Context) error {
			f.forgot(t, "ada@example.com")
			return f.ResetPassword(t.Context(), f.code(t, "ada@example.com", mail.ResetPassword), "a new horse battery staple")
		},
		"the operator's password": func(f fixture, _ int64, _ context.Context) error {
			return f.SetPassword(t.Context(), "ada@example.com", "a new horse battery staple")
		},
		"an address of an administrator's": func(f fixture, id int64, _ context.Context) error {
			_, err := f.Update(identity.NewContext(t.Context(), identity.System("test")), id, account.Change{Email: new("given@example.com")})
			return err
		},
		"an administrator who takes it back": func(f fixture, id int64, _ context.Context) error {
			system := identity.NewContext(t.Context(), identity.System("test"))
			for _, email := range []string{"given@example.com", "ada@example.com"} {
				if _, err := f.Update(system, id, account.Change{Email: &email}); err != nil {
					return err
				}
			}
			return nil
		},
		"deactivation": func(f fixture, id int64, _ context.Context) error {
			_, err := f.Update(identity.NewContext(t.Context(), identity.System("test")), id, account.Change{Active: new(false)})
			return err
		},
		"a day": func(f fixture, _ int64, _ context.Context) error { *f.now = f.now.Add(24 * time.Hour); return nil },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			u := f.create(t, "ada@example.com", nil)
			ctx := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
			code := f.ask(t, ctx, "second@example.com")
			if err := end(f, u.ID, ctx); err != nil {
				t.Fatal(err)
			}
			if err := f.ConfirmEmail(t.Context(), code); !errors.Is(err, account.ErrLinkInvalid) {
				t.Errorf("%v, want ErrLinkInvalid", err)
			}
		})
	}
}

func TestATakenAddressIsToldAndNothingElseHappens(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, holder := f.create(t, "ada@example.com", nil), f.create(t, "Taken@example.com", nil)
	if err := f.RequestEmailChange(f.as(t, f.signIn(t, "ada@example.com").AccessToken), "taken@example.com"); err != nil {
		t.Fatal(err)
	}
	f.mailChanges(t)
	m := f.mail.Sent("")
	if len(m) != 1 || m[0].Kind != mail.EmailInUse || m[0].To != "taken@example.com" || m[0].UserID != holder.ID || m[0].Code != "" {
		t.Errorf("%+v", m)
	}
	if got := f.emailOf(t, u.ID); got != "ada@example.com" {
		t.Errorf("the account has %s", got)
	}
}

func TestAnAddressTakenMeanwhileIsRefusedAndTheLinkStaysGood(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	code := f.ask(t, f.as(t, f.signIn(t, "ada@example.com").AccessToken), "second@example.com")
	eve := f.create(t, "SECOND@example.com", nil)
	if err := f.ConfirmEmail(t.Context(), code); !errors.Is(err, account.ErrEmailTaken) {
		t.Errorf("%v, want ErrEmailTaken", err)
	}
	if err := f.Delete(identity.NewContext(t.Context(), identity.System("test")), eve.ID); err != nil {
		t.Fatal(err)
	}
	if err := f.ConfirmEmail(t.Context(), code); err != nil || f.emailOf(t, u.ID) != "second@example.com" {
		t.Errorf("free again: %v", err)
	}
}

func TestAChangeNeedsAnAddressAndARecentSignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	for _, bad := range []string{"", "ada", "nul\x00@example.com", "ada@example.com\r\nBcc: eve@example.com", "\uff41da@example.com"} {
		if err := f.RequestEmailChange(f.as(t, s.AccessToken), bad); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v, want a validation fault", bad, err)
		}
	}
	_, bot := f.apiToken(t, s, identity.Read, identity.Write)
	*f.now = f.now.Add(16 * time.Minute)
	for who, bearer := range map[string]string{"long after the sign-in": f.refresh(t, s.RefreshToken).AccessToken, "an API token": bot} {
		for range 12 { // and it is not counted
			if err := f.RequestEmailChange(f.as(t, bearer), "second@example.com"); !errors.Is(err, account.ErrReauthenticate) {
				t.Errorf("%s: %v, want ErrReauthenticate", who, err)
			}
		}
	}
}

// The job of a change whose account is gone, or that was replaced, has nothing to do.
func TestAMailThatIsOfNoUseIsNotSent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	ctx := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
	for _, email := range []string{"second@example.com", "third@example.com"} {
		if err := f.RequestEmailChange(ctx, email); err != nil {
			t.Fatal(err)
		}
	}
	f.mailChanges(t)
	if len(f.mail.Sent("")) != 1 || f.count(t, "third@example.com", mail.ConfirmEmail) != 1 {
		t.Errorf("%v", f.mail.Sent(""))
	}
	if err := f.RequestEmailChange(ctx, "fourth@example.com"); err != nil {
		t.Fatal(err)
	}
	if err := f.Delete(identity.NewContext(t.Context(), identity.System("test")), u.ID); err != nil {
		t.Fatal(err)
	}
	f.mailChanges(t)
	if len(f.mail.Sent("")) != 1 {
		t.Errorf("%v", f.mail.Sent(""))
	}
}

// An ADMIN may have such a mail sent again, with another link.
func TestTheLinksOfAChangeAreMadeAnew(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	ctx := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
	first := f.ask(t, ctx, "second@example.com")
	anew := func(kind mail.Kind, to string) (string, error) {
		m, err := f.renew(t, u.ID, kind, to)
		if err == nil && (m.To != to || m.Kind != kind) {
			t.Errorf("%+v", m)
		}
		return m.Code, err
	}
	second, err := anew(mail.ConfirmEmail, "second@example.com")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.ConfirmEmail(t.Context(), first); !errors.Is(err, account.ErrLinkInvalid) {
		t.Errorf("the first link: %v, want ErrLinkInvalid", err)
	}
	if err := f.ConfirmEmail(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	lost := f.code(t, "ada@example.com", mail.UndoEmail)
	undo, err := anew(mail.UndoEmail, "ada@example.com")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []mail.Kind{mail.ConfirmEmail, mail.UndoEmail} {
		if _, err := anew(kind, "second@example.com"); !errors.Is(err, mail.ErrNotResendable) {
			t.Errorf("%s: %v, want ErrNotResendable", kind, err)
		}
	}
	if err := f.UndoEmail(t.Context(), lost); !errors.Is(err, account.ErrLinkInvalid) {
		t.Errorf("the lost link: %v, want ErrLinkInvalid", err)
	}
	if err := f.UndoEmail(t.Context(), undo); err != nil || f.emailOf(t, u.ID) != "ada@example.com" {
		t.Error(err)
	}
}

func TestTheMailThatTakesAChangeBackSaysFromWhereItWasMade(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	code := f.ask(t, f.as(t, f.signIn(t, "ada@example.com").AccessToken), "second@example.com")
	if err := f.ConfirmEmail(browsing(t, "203.0.113.1", firefox), code); err != nil {
		t.Fatal(err)
	}
	m := f.mail.Sent("ada@example.com")
	if want := (mail.Fact{Label: "From", Value: "203.0.113.1"}); len(m) != 1 || m[0].Kind != mail.UndoEmail || !slices.Contains(m[0].Facts, want) {
		t.Errorf("%+v", m)
	}
}
