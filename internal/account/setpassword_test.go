package account_test

import (
	"errors"
	"testing"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/mail"
)

func TestANewPasswordReplacesTheOldOneAndEndsTheSessions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	f.create(t, "eve@example.com", nil)
	ada, eve := f.signIn(t, "ada@example.com"), f.signIn(t, "eve@example.com")
	if err := f.SetPassword(t.Context(), "ADA@example.com", "another password"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.SignIn(t.Context(), "ada@example.com", password); !errors.Is(err, account.ErrInvalidCredentials) {
		t.Errorf("old password: %v", err)
	}
	if _, err := f.SignIn(t.Context(), "ada@example.com", "another password"); err != nil {
		t.Errorf("new password: %v", err)
	}
	if _, err := f.Authenticate(t.Context(), ada.AccessToken); !errors.Is(err, account.ErrSessionRevoked) {
		t.Errorf("a session from before: %v, want ErrSessionRevoked", err)
	}
	if _, err := f.Authenticate(t.Context(), eve.AccessToken); err != nil {
		t.Errorf("another account's session: %v", err)
	}
	if err := f.SetPassword(t.Context(), "nobody@example.com", "another password"); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("unknown address: %v", err)
	}
	if err := f.SetPassword(t.Context(), "eve@example.com", "short"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("short password: %v", err)
	}
}

func TestAPasswordSetByTheOperatorLetsTheOwnerBackIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	f.forgot(t, "ada@example.com")
	link := f.code(t, "ada@example.com", mail.ResetPassword)
	ctx := from(t, "203.0.113.7")
	f.fail(t, ctx, "ada@example.com", 10)
	f.wantLimited(t, ctx, "before", "ada@example.com", password)
	if err := f.SetPassword(t.Context(), "ada@example.com", "another password"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.SignIn(ctx, "ada@example.com", "another password"); err != nil {
		t.Errorf("after: %v", err)
	}
	if err := f.ResetPassword(t.Context(), link, "a stranger's own password"); !errors.Is(err, account.ErrLinkInvalid) {
		t.Errorf("a link from before: %v, want ErrLinkInvalid", err)
	}
}
