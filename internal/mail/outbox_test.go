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

	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/mail/smtptest"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/seal"
)

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

// panicking is a Transport with a defect.
type panicking struct{}

func (panicking) Deliver(context.Context, mail.Envelope) error { panic("index out of range") }

func TestATransportThatPanicsIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *mail.Options) { o.Transport = panicking{} })
	id := f.put(t, anonymous(mail.NewSignIn))
	if err := f.Work(t.Context(), mail.SendJob{ID: id}); err == nil || f.find(t, id).Status != mail.Queued {
		t.Errorf("%v, %+v", err, f.find(t, id))
	}
}

// hanging is a Transport whose server never answers.
type hanging struct{ reached chan struct{} }

func (h hanging) Deliver(context.Context, mail.Envelope) error {
	close(h.reached)
	select {}
}

func TestAStopDoesNotWaitForAServerThatHangs(t *testing.T) {
	t.Parallel()
	h := hanging{make(chan struct{})}
	f := newFixture(t, func(o *mail.Options) { o.Transport = h })
	id := f.put(t, anonymous(mail.NewSignIn))
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		<-h.reached
		stop()
	}()
	if err := f.Work(ctx, mail.SendJob{ID: id}); err == nil {
		t.Error("sent")
	}
	if m := f.find(t, id); m.Status != mail.Queued || !strings.Contains(m.Error, "broken off") {
		t.Errorf("%+v", m)
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
