package mail_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/mail/smtptest"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/seal"
)

// fixture is an outbox on a database of its own, whose jobs the test works.
type fixture struct {
	*mail.Outbox
	db  *db.DB
	now *clock
	o   mail.Options
}

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func newFixture(t *testing.T, change func(*mail.Options)) fixture {
	t.Helper()
	f := fixture{db: dbtest.New(t), now: &clock{at: time.Now().UTC().Truncate(time.Microsecond)}}
	jobs, err := queue.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := seal.New(mail.SealPurpose, []byte("a secret key for tests, longer than 32 bytes"), nil)
	if err != nil {
		t.Fatal(err)
	}
	f.o = mail.Options{DB: f.db, Jobs: jobs, Sealer: key, Composer: composer(t), From: "waypost@sender.example", Transport: &outbound{}, Now: f.now.now}
	if change != nil {
		change(&f.o)
	}
	return f.again(t, nil)
}

// again is another instance on the same database.
func (f fixture) again(t *testing.T, change func(*mail.Options)) fixture {
	t.Helper()
	o := f.o
	if change != nil {
		change(&o)
	}
	var err error
	if f.Outbox, err = mail.New(o); err != nil {
		t.Fatal(err)
	}
	return f
}

// outbound is a Transport that keeps what it gets, and fails as it is told.
type outbound struct {
	mu   sync.Mutex
	got  []mail.Envelope
	fail error
}

func (o *outbound) Deliver(_ context.Context, e mail.Envelope) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fail != nil {
		return o.fail
	}
	o.got = append(o.got, e)
	return nil
}

func (f fixture) in(t *testing.T, do func(ctx context.Context, tx pgx.Tx) error) error {
	t.Helper()
	return f.db.InTx(t.Context(), identity.System("test"), do)
}

// put sends m and returns its row's id.
func (f fixture) put(t *testing.T, m mail.Message) int64 {
	t.Helper()
	if err := f.in(t, func(ctx context.Context, tx pgx.Tx) error { return f.Send(ctx, tx, m) }); err != nil {
		t.Fatal(err)
	}
	return f.list(t, mail.Filter{})[0].ID
}

func (f fixture) list(t *testing.T, filter mail.Filter) []mail.Mail {
	t.Helper()
	list, err := f.List(t.Context(), filter, 0, 100, nil)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func (f fixture) find(t *testing.T, id int64) mail.Mail {
	t.Helper()
	m, err := f.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sealed is whether a mail still has its secret.
func (f fixture) sealed(t *testing.T, id int64) bool {
	t.Helper()
	var has bool
	if err := f.db.Direct().QueryRow(t.Context(), "select secret is not null or secret_key_id is not null from mails where id = $1", id).Scan(&has); err != nil {
		t.Fatal(err)
	}
	return has
}

func (f fixture) jobs(t *testing.T) []string {
	t.Helper()
	rows, err := f.db.Direct().Query(t.Context(), "select args::text || ' ' || queue from river_job where kind = 'mails.send' order by id")
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// person makes an account.
func (f fixture) person(t *testing.T, email, role string) int64 {
	t.Helper()
	var id int64
	err := f.in(t, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `insert into users (first_name, last_name, email, email_key, password_hash, role, active, created_at, updated_at)
			values ('Ada', 'Lovelace', $1, lower($1), 'x', $2, true, now(), now()) returning id`, email, role).Scan(&id)
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func anonymous(kind mail.Kind) mail.Message {
	m := message(kind)
	m.UserID = 0
	return m
}

func TestAMailIsARowAndAJobWithItsIDAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.put(t, anonymous(mail.ResetPassword))
	if got := f.jobs(t); !slices.Equal(got, []string{fmt.Sprintf(`{"id": %d} mails`, id)}) {
		t.Errorf("jobs %q", got)
	}
	m := f.find(t, id)
	if m.Status != mail.Queued || !f.sealed(t, id) || strings.Contains(m.Text+m.HTML+m.Subject, "pl4nted") || !strings.Contains(m.Text, "HIDDEN-SECRET") {
		t.Errorf("%+v", m)
	}
	out := f.o.Transport.(*outbound)
	for range 3 { // a job that is retried sends nothing twice
		if err := f.Work(t.Context(), mail.SendJob{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	m = f.find(t, id)
	if m.Status != mail.Sent || m.SentAt == nil || m.Attempts != 1 || f.sealed(t, id) || strings.Contains(m.Text+m.HTML, "pl4nted") {
		t.Errorf("%+v", m)
	}
	if len(out.got) != 1 || strings.Count(out.got[0].Text, "wpml_pl4nted") != 2 || strings.Contains(out.got[0].Text+out.got[0].HTML, "HIDDEN") || out.got[0].Link != message(mail.ResetPassword).Link {
		t.Errorf("%+v", out.got)
	}
}

func TestAMailOfATransactionThatFailsDoesNotExist(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	failed := errors.New("told to fail")
	err := f.in(t, func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(f.Send(ctx, tx, anonymous(mail.VerifyEmail)), failed)
	})
	if !errors.Is(err, failed) || len(f.list(t, mail.Filter{})) != 0 || len(f.jobs(t)) != 0 {
		t.Errorf("%v, %v, %v", err, f.list(t, mail.Filter{}), f.jobs(t))
	}
}

func TestWithoutADriverMailsAreSuppressed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *mail.Options) { o.Transport = nil })
	m := f.find(t, f.put(t, anonymous(mail.ResetPassword)))
	if m.Status != mail.Suppressed || m.Error == "" || f.sealed(t, m.ID) || len(f.jobs(t)) != 0 || f.State(t.Context(), f.db) != "off" {
		t.Errorf("%+v", m)
	}
}

func TestAnInstanceWithoutADriverLeavesMailsToOneThatHasIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.put(t, anonymous(mail.ResetPassword))
	off := f.again(t, func(o *mail.Options) { o.Transport = nil })
	if _, again := queue.AgainIn(off.Work(t.Context(), mail.SendJob{ID: id})); !again || f.find(t, id).Status != mail.Queued {
		t.Errorf("%+v", f.find(t, id))
	}
	if err := f.Work(t.Context(), mail.SendJob{ID: id}); err != nil || f.find(t, id).Status != mail.Sent {
		t.Errorf("%v, %+v", err, f.find(t, id))
	}
}

func TestFailuresAreRetriedForADayAndShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.o.Transport.(*outbound).fail = errors.New("535 wrong password, and the link has wpml_pl4nted in it\x00")
	id := f.put(t, anonymous(mail.ResetPassword))
	start, attempts := f.now.now(), 0
	for {
		attempts++
		err := f.Work(t.Context(), mail.SendJob{ID: id})
		m := f.find(t, id)
		if err == nil || strings.Contains(err.Error()+m.Error, "pl4nted") || !strings.Contains(m.Error, "535 wrong password") || m.Attempts != attempts {
			t.Fatalf("attempt %d: %v, %+v", attempts, err, m)
		}
		if queue.IsGivenUp(err) {
			if m.Status != mail.Failed || f.sealed(t, id) {
				t.Errorf("%+v", m)
			}
			break
		}
		if attempts == 3 && f.State(t.Context(), f.db) != "failing" {
			t.Error("readiness says nothing of it")
		}
		wait := mail.RetryWait(attempts)
		if attempts == 1 && wait > 25*time.Second { // the queue adds up to 5 s
			t.Errorf("the first retry comes after %s", wait)
		}
		f.now.pass(wait)
	}
	if took := f.now.now().Sub(start); took < 22*time.Hour || took > 24*time.Hour || attempts > 24 {
		t.Errorf("given up after %s and %d attempts", took, attempts)
	}
	if f.State(t.Context(), f.db) != "ok" {
		t.Error("still failing")
	}
}

func TestARefusalIsFinal(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.o.Transport.(*outbound).fail = mail.Refusal{Reason: "550 no such user"}
	id := f.put(t, anonymous(mail.ResetPassword))
	if err := f.Work(t.Context(), mail.SendJob{ID: id}); err != nil {
		t.Errorf("%v: an address that does not exist is no failure of the job", err)
	}
	if m := f.find(t, id); m.Status != mail.Failed || m.Error != "550 no such user" || f.sealed(t, id) {
		t.Errorf("%+v", m)
	}
}

func TestAnotherSecretKeyEndsAMailWithAReason(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.put(t, anonymous(mail.ResetPassword))
	key, err := seal.New(mail.SealPurpose, []byte("another secret key for tests, longer than 32 bytes"), nil)
	if err != nil {
		t.Fatal(err)
	}
	other := f.again(t, func(o *mail.Options) { o.Sealer = key })
	if err := other.Work(t.Context(), mail.SendJob{ID: id}); err != nil {
		t.Error(err)
	}
	if m := f.find(t, id); m.Status != mail.Failed || !strings.Contains(m.Error, "WAYPOST_SECRET_KEY") || len(f.o.Transport.(*outbound).got) != 0 {
		t.Errorf("%+v", m)
	}
}

func TestACrashSendsAtMostOnceMoreWithTheSameMessageID(t *testing.T) {
	t.Parallel()
	sink := smtptest.Start(t, smtptest.Options{})
	crash := errors.New("crash")
	for at, sent := range map[mail.Boundary]int{mail.BeforeSending: 1, mail.BeforeRecording: 2} {
		f := newFixture(t, func(o *mail.Options) { o.Transport = smtpTo(t, sink.Addr, mail.TLSNone, nil) })
		m := anonymous(mail.ResetPassword)
		m.To = fmt.Sprintf("ada-%d@example.com", sent)
		id := f.put(t, m)
		dying := f.again(t, func(o *mail.Options) {
			o.Interrupt = func(b mail.Boundary) error {
				if b == at {
					return crash
				}
				return nil
			}
		})
		if err := dying.Work(t.Context(), mail.SendJob{ID: id}); !errors.Is(err, crash) {
			t.Fatal(err)
		}
		// Whoever is given the job too early leaves it alone.
		if _, again := queue.AgainIn(f.Work(t.Context(), mail.SendJob{ID: id})); !again {
			t.Errorf("%s: a mail that somebody may be sending was taken", at)
		}
		f.now.pass(2 * time.Minute)
		for range 2 {
			if err := f.Work(t.Context(), mail.SendJob{ID: id}); err != nil {
				t.Fatal(err)
			}
		}
		got := sink.Mails(m.To)
		if len(got) != sent || f.find(t, id).Status != mail.Sent {
			t.Errorf("%s: sent %d times, want %d", at, len(got), sent)
		}
		for _, g := range got {
			if g.Header.Get("Message-Id") != got[0].Header.Get("Message-Id") || !strings.HasSuffix(g.Header.Get("Message-Id"), "@sender.example>") {
				t.Errorf("%s: Message-ID %s", at, g.Header.Get("Message-Id"))
			}
		}
	}
}

func TestTwoInstancesSendAMailOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	other := f.again(t, nil)
	for range 5 {
		id := f.put(t, anonymous(mail.NewSignIn))
		var both sync.WaitGroup
		for _, instance := range []fixture{f, other} {
			both.Go(func() {
				if err := instance.Work(t.Context(), mail.SendJob{ID: id}); err != nil {
					if _, again := queue.AgainIn(err); !again {
						t.Error(err)
					}
				}
			})
		}
		both.Wait()
	}
	if got := len(f.o.Transport.(*outbound).got); got != 5 {
		t.Errorf("sent %d, want 5", got)
	}
}

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
