package account_test

import (
	"testing"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/mail"
)

// again asks for another verification link and works the job.
func (f fixture) again(t *testing.T, email string) {
	t.Helper()
	if err := f.RequestVerification(t.Context(), email); err != nil {
		t.Fatal(err)
	}
	job := f.jobs.list[len(f.jobs.list)-1].(account.LinkJob)
	if err := f.MailLink(t.Context(), job); err != nil {
		t.Fatal(err)
	}
}

func TestAVerificationMailGoesOnceMoreToWhoHasUseForIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register(t, "ada@example.com")
	f.register(t, "off@example.com")
	f.exec(t, `update users set active = false where email = 'off@example.com'`)
	for _, email := range []string{"eve@example.com", "off@example.com", " Ada@example.com"} {
		f.again(t, email)
	}
	if nobody, off := len(f.mail.Sent("eve@example.com")), len(f.mail.Sent("off@example.com")); nobody != 0 || off != 1 {
		t.Errorf("%d mails to nobody, %d to the deactivated", nobody, off)
	}
	if n := f.count(t, "ada@example.com", mail.VerifyEmail); n != 2 {
		t.Fatalf("%d verification mails, want 2", n)
	}
	if err := f.verify(t, "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	f.again(t, "ada@example.com")
	if n := f.count(t, "ada@example.com", mail.VerifyEmail); n != 2 {
		t.Errorf("%d verification mails: one went to who is verified", n)
	}
}

func TestVerificationMailsAreFewAnHour(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register(t, "ada@example.com")
	for range 10 {
		f.again(t, "ada@example.com")
	}
	if n := f.count(t, "ada@example.com", mail.VerifyEmail); n != 1+5 {
		t.Errorf("%d mails in an hour, want the first and 5", n)
	}
	ctx := from(t, "203.0.113.7")
	for i := range 60 {
		if err := f.RequestVerification(ctx, "eve@example.com"); err != nil {
			t.Fatalf("request %d: %v", i+1, err)
		}
	}
	if err := f.RequestVerification(ctx, "ada@example.com"); fault.KindOf(err) != fault.RateLimited {
		t.Errorf("request 61 of an address: %v", err)
	}
}

func TestALinkIsRequestedForAnAddressAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, email := range []string{"", "ada", "nul\x00@example.com", "ada@example.com\r\nBcc: eve@example.com"} {
		for what, err := range map[string]error{"verify": f.RequestVerification(t.Context(), email), "reset": f.RequestPasswordReset(t.Context(), email)} {
			if fault.KindOf(err) != fault.Invalid {
				t.Errorf("%s %q: %v, want a validation fault", what, email, err)
			}
		}
	}
	if len(f.jobs.list) != 0 {
		t.Errorf("jobs %v", f.jobs.list)
	}
}
