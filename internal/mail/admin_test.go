package mail_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

func TestAnAddressGetsTenMailsAnHourAndNoticesAllTheSame(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			m := anonymous([]mail.Kind{mail.ResetPassword, mail.VerifyEmail, mail.SetPassword}[i%3])
			m.To = []string{"ada@example.com", "Ada@Example.COM"}[i%2]
			if err := f.in(t, func(ctx context.Context, tx pgx.Tx) error { return f.Send(ctx, tx, m) }); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if queued, rest := f.list(t, mail.Filter{Status: mail.Queued, To: "ADA@example.com"}), f.list(t, mail.Filter{Status: mail.Suppressed}); len(queued) != 10 || len(rest) != 20 || len(f.jobs(t)) != 10 {
		t.Errorf("%d queued, %d suppressed", len(queued), len(rest))
	}
	for _, kind := range []mail.Kind{mail.NewSignIn, mail.PasswordChanged, mail.AlertKind} {
		if m := f.find(t, f.put(t, anonymous(kind))); m.Status != mail.Queued {
			t.Errorf("%s: %+v", kind, m)
		}
	}
	f.now.pass(time.Hour + time.Second)
	if m := f.find(t, f.put(t, anonymous(mail.ResetPassword))); m.Status != mail.Queued {
		t.Errorf("an hour later: %+v", m)
	}
}

func TestTheHourOfAnAllowanceIsAnyHour(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for i := range 10 { // one every six minutes
		if m := f.find(t, f.put(t, anonymous(mail.ResetPassword))); m.Status != mail.Queued {
			t.Errorf("mail %d: %+v", i, m)
		}
		f.now.pass(6*time.Minute - time.Second)
	}
	if m := f.find(t, f.put(t, anonymous(mail.ResetPassword))); m.Status != mail.Suppressed {
		t.Errorf("the eleventh: %+v", m)
	}
	f.now.pass(time.Minute)
	if m := f.find(t, f.put(t, anonymous(mail.ResetPassword))); m.Status != mail.Queued {
		t.Errorf("once the first is an hour old: %+v", m)
	}
}

func TestAMailWhoseJobEndsWithoutItHasFailed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for state, want := range map[string]string{
		"deleted": "its job was deleted", "cancelled": "its job was cancelled", "discarded": "its job failed too often",
	} {
		id := f.put(t, anonymous(mail.NewSignIn))
		statement := "update river_job set state = '" + state + "', finalized_at = now() where (args->>'id')::bigint = $1"
		if state == "deleted" {
			statement = "delete from river_job where (args->>'id')::bigint = $1"
		}
		if err := f.in(t, func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, statement, id); return err }); err != nil {
			t.Fatal(err)
		}
		if n, err := f.EndLost(t.Context()); n != 1 || err != nil {
			t.Errorf("%s: ended %d, %v", state, n, err)
		}
		if m := f.find(t, id); m.Status != mail.Failed || m.Error != want {
			t.Errorf("%s: %+v", state, m)
		}
	}
	id := f.put(t, anonymous(mail.ResetPassword))
	if n, err := f.EndLost(t.Context()); n != 0 || err != nil {
		t.Errorf("ended %d that wait, %v", n, err)
	}
	f.now.pass(26 * time.Hour) // no instance has a driver
	if n, err := f.EndLost(t.Context()); n != 1 || err != nil || f.find(t, id).Error != "not sent within a day" || f.sealed(t, id) {
		t.Errorf("ended %d, %v, %+v", n, err, f.find(t, id))
	}
}

func TestOldMailsAndCountsAreSwept(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.put(t, anonymous(mail.NewSignIn))
	if err := f.Work(t.Context(), mail.SendJob{ID: id}); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	f.now.pass(mail.Retention + time.Hour)
	if n, err := f.Sweep(t.Context()); n != 2 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if _, err := f.Find(t.Context(), id); !errors.Is(err, mail.ErrMail) {
		t.Error(err)
	}
}

func TestAResentMailIsTheSameRowWithAnotherMessageIDAndLink(t *testing.T) {
	t.Parallel()
	renewed := message(mail.VerifyEmail)
	f := newFixture(t, func(o *mail.Options) {
		o.Renew = func(_ context.Context, _ pgx.Tx, userID int64, kind mail.Kind, to string) (mail.Message, error) {
			if to != "ada@example.com" {
				return mail.Message{}, mail.ErrNotResendable
			}
			renewed.UserID, renewed.Code, renewed.Link = userID, "wpml_another", base+"/x?token=wpml_another"
			return renewed, nil
		}
	})
	out := f.o.Transport.(*outbound)
	first := message(mail.VerifyEmail)
	first.UserID = f.person(t, "ada@example.com", "USER")
	id := f.put(t, first)
	resend := func() (mail.Mail, error) {
		return f.Resend(identity.NewContext(t.Context(), identity.System("test")), id)
	}
	if _, err := resend(); !errors.Is(err, mail.ErrQueued) {
		t.Errorf("one on its way: %v", err)
	}
	for range 2 {
		if err := f.Work(t.Context(), mail.SendJob{ID: id}); err != nil {
			t.Fatal(err)
		}
		m, err := resend()
		if err != nil || m.ID != id || m.Status != mail.Queued || m.Attempts != 0 || m.SentAt != nil || !f.sealed(t, id) {
			t.Fatalf("%+v, %v", m, err)
		}
	}
	if err := f.Work(t.Context(), mail.SendJob{ID: id}); err != nil {
		t.Fatal(err)
	}
	if len(out.got) != 3 || out.got[0].MessageID == out.got[1].MessageID || !strings.Contains(out.got[1].Text, "wpml_another") || strings.Contains(out.got[1].Text, "pl4nted") {
		t.Errorf("%+v", out.got)
	}
	for range 7 {
		f.put(t, first)
	}
	if _, err := resend(); !errors.Is(err, mail.ErrLimited) {
		t.Errorf("the eleventh within an hour: %v", err)
	}
}

func TestAlertsGoToEveryActiveAdministratorOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for email, role := range map[string]string{"one@example.com": "ADMIN", "two@example.com": "ADMIN", "user@example.com": "USER", "gone@example.com": "ADMIN"} {
		f.person(t, email, role)
	}
	if err := f.in(t, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "update users set active = false where email = 'gone@example.com'")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cause string
		sent  int
	}{{"first", 2}, {"first", 0}, {"second", 2}} {
		err := f.in(t, func(ctx context.Context, tx pgx.Tx) error {
			n, err := f.Alert(ctx, tx, c.cause, "Something is broken", "It is.")
			if n != c.sent {
				t.Errorf("%s: to %d, want %d", c.cause, n, c.sent)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if list := f.list(t, mail.Filter{Kind: mail.AlertKind, Status: mail.Queued}); len(list) != 4 || list[0].Subject != "Something is broken (waypost.example)" {
		t.Errorf("%+v", list)
	}
}

func TestTestMailsHaveALimitOfTheirOwn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	ctx := identity.NewContext(t.Context(), identity.System("test"))
	for range 10 {
		if m, err := f.SendTest(ctx, " ada@example.com "); err != nil || m.Status != mail.Queued || m.To != "ada@example.com" {
			t.Fatalf("%+v, %v", m, err)
		}
	}
	if _, err := f.SendTest(ctx, "ADA@example.com"); !errors.Is(err, mail.ErrLimited) {
		t.Error(err)
	}
	for _, to := range []string{"", "nobody", "a@example.com\r\nBcc: b@example.com", "a@example.com,b@example.com"} {
		if _, err := f.SendTest(ctx, to); err == nil {
			t.Errorf("%q is taken", to)
		} else if problem, ok := errors.AsType[*fault.Error](err); !ok || problem.Details["to"] == "" {
			t.Errorf("%q: %v", to, err)
		}
	}
	if n := len(f.list(t, mail.Filter{})); n != 10 {
		t.Errorf("%d mails", n)
	}
}
