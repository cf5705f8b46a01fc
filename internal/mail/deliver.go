package mail

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/text"
)

// Transport hands a mail to a server.
type Transport interface {
	// Deliver returns nil once the server took the mail over, a Refusal when it will
	// never take it, and any other error when it is worth another try. An error shows
	// neither a password nor the mail's secret.
	Deliver(ctx context.Context, e Envelope) error
}

// Envelope is a mail as it is sent, with its secret.
type Envelope struct {
	Content
	Kind Kind
	To   string
	// MessageID is the same at every attempt, without angle brackets.
	MessageID string
	Date      time.Time
	// Link is the secret link, "" for none. A log may show it to developers only.
	Link string
}

// Refusal is the error of a server that will never take a mail.
type Refusal struct{ Reason string }

// Error implements error.
func (r Refusal) Error() string { return r.Reason }

const (
	// giveUpAfter is how long a mail is tried.
	giveUpAfter = 24 * time.Hour
	// sendTimeout bounds one attempt, all phases together.
	sendTimeout = 50 * time.Second
	// recordTimeout bounds the storing of its outcome.
	recordTimeout = 20 * time.Second
	// claim is how long nobody else tries while one does. It is longer than an attempt
	// with its record, and shorter than the queue waits until it takes up the job of a
	// process that died.
	claim = 110 * time.Second
	// maxError bounds the error that is stored, in bytes.
	maxError = 500
	// stopGap is how often the database is asked to record an attempt, a second apart.
	stopGap = 5
)

// WorkTimeout bounds one run of Work.
const WorkTimeout = sendTimeout + recordTimeout + 10*time.Second

// RetryWait is how long to wait after that many failures. With it a job has some 22
// attempts in a day.
func RetryWait(failures int) time.Duration {
	waits := []time.Duration{20 * time.Second, time.Minute, 3 * time.Minute, 8 * time.Minute, 20 * time.Minute, 45 * time.Minute}
	if failures <= len(waits) {
		return waits[max(failures, 1)-1]
	}
	return 90 * time.Minute
}

// Work works a SendJob. An error means that it should be tried again, unless it is
// queue.GiveUp's.
func (b *Outbox) Work(ctx context.Context, job SendJob) error {
	if b.o.Transport == nil {
		// Another instance may send it. If none does, Sweep ends it.
		return queue.Again(time.Minute)
	}
	row, err := b.claim(ctx, job.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		queued, err := b.queries.IsMailQueued(ctx, b.o.DB.Direct(), job.ID)
		if err == nil && queued { // a job of another process, which may have died, is at it
			return queue.Again(15 * time.Second)
		}
		return db.Translate(err)
	}
	if err != nil {
		return err
	}
	if err := b.o.Interrupt(BeforeSending); err != nil {
		return err
	}
	failure := b.deliver(ctx, row)
	if err := b.o.Interrupt(BeforeRecording); err != nil {
		return err
	}
	// The outcome is recorded even if the job's time is over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	return b.record(ctx, row, failure)
}

// claim returns the mail if it is queued and nobody else is sending it, else
// pgx.ErrNoRows.
func (b *Outbox) claim(ctx context.Context, id int64) (dbsqlc.Mail, error) {
	var row dbsqlc.Mail
	err := b.o.DB.InTx(ctx, identity.Step(ctx, "mails"), func(ctx context.Context, tx pgx.Tx) error {
		now := b.o.Now()
		until := now.Add(claim)
		var err error
		row, err = b.queries.ClaimMail(ctx, tx, &until, id, &now)
		return err
	})
	return row, err
}

// errSealed is a Refusal: no later attempt can open what is sealed.
var errSealed = Refusal{"the link's secret can't be decrypted: WAYPOST_SECRET_KEY was changed without WAYPOST_SECRET_KEY_PREVIOUS; resend the mail for a new link"}

func (b *Outbox) deliver(ctx context.Context, row dbsqlc.Mail) error {
	s, err := b.open(row)
	if err != nil {
		return errSealed
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	content := Content{Subject: row.Subject, Text: row.Text, HTML: row.Html}
	if s.Code != "" {
		content = content.revealed(s.Code)
	}
	e := Envelope{
		Content: content, Kind: Kind(row.Template), To: row.Recipient, MessageID: row.MessageID, Date: row.QueuedAt, Link: s.Link,
	}
	return without(b.handOver(ctx, e), s.Code)
}

// handOver is the transport's Deliver, except that it does not wait for a server that
// hangs when the process stops: then nobody knows whether the mail was taken over.
func (b *Outbox) handOver(ctx context.Context, e Envelope) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil { // a library that a server's answer surprised
				done <- fmt.Errorf("panic: %v", v)
			}
		}()
		done <- b.o.Transport.Deliver(ctx, e)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("broken off: %w", context.Cause(ctx))
	}
}

// without returns err as text for operators, that has no secret in it: a server may
// answer with what it was sent.
func without(err error, secret string) error {
	if err == nil {
		return nil
	}
	said := text.MakeStorable(err.Error(), "\uFFFD")
	if secret != "" {
		said = strings.ReplaceAll(said, secret, hidden)
	}
	said = strings.Join(strings.Fields(said), " ")
	if len(said) > maxError {
		said = text.MakeStorable(said[:maxError], "") + "..."
	}
	if _, refused := errors.AsType[Refusal](err); refused {
		return Refusal{said}
	}
	return errors.New(said)
}

// record stores what became of an attempt, and returns how the job ends.
func (b *Outbox) record(ctx context.Context, row dbsqlc.Mail, failure error) error {
	_, refused := errors.AsType[Refusal](failure)
	now := b.o.Now()
	last := !now.Add(RetryWait(int(row.Attempts))).Before(row.QueuedAt.Add(giveUpAfter))
	var store func(ctx context.Context, tx pgx.Tx) error
	switch {
	case failure == nil:
		store = b.end(row, Sent, "", &now)
	case refused:
		store = b.end(row, Failed, failure.Error(), nil)
	case last:
		store = b.end(row, Failed, "given up after a day: "+failure.Error(), nil)
	default:
		store = func(ctx context.Context, tx pgx.Tx) error {
			return b.queries.ReleaseMail(ctx, tx, failure.Error(), row.ID, row.MessageID)
		}
	}
	if err := b.persist(ctx, store); err != nil {
		return fmt.Errorf("mail: record what became of mail %d: %w", row.ID, err)
	}
	outcome := "failed"
	switch {
	case failure == nil:
		outcome = "sent"
	case refused:
		outcome = "refused"
	case last:
		outcome = "given_up"
	}
	b.sent.WithLabelValues(outcome).Inc()
	switch {
	case failure == nil || refused: // an address that does not exist is no failure of ours
		return nil
	case last:
		// The queue says it in the log.
		return queue.GiveUp(fmt.Errorf("mail %d: %w", row.ID, failure))
	}
	b.o.Logger.WarnContext(ctx, "a mail could not be sent and will be tried again", "mail", row.ID, "attempts", row.Attempts, "error", failure.Error())
	return fmt.Errorf("mail %d: %w", row.ID, failure)
}

func (b *Outbox) end(row dbsqlc.Mail, status Status, reason string, sentAt *time.Time) func(ctx context.Context, tx pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		_, err := b.queries.EndMail(ctx, tx, dbsqlc.EndMailParams{
			ID: row.ID, MessageID: row.MessageID, Status: string(status), Error: reason, SentAt: sentAt,
		})
		return err
	}
}

// persist outlasts a restart of the database: a mail that was sent and not recorded
// would be sent once more.
func (b *Outbox) persist(ctx context.Context, store func(ctx context.Context, tx pgx.Tx) error) error {
	var err error
	for range stopGap {
		err = b.o.DB.InTx(ctx, identity.Step(ctx, "mails"), store)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
	}
	return err
}
