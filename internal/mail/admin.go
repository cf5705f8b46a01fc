package mail

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/db/where"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/text"
)

// Faults of the outbox.
var (
	ErrMail          = fault.Missing("mail")
	ErrQueued        = fault.New(fault.Conflict, "mail_queued", "This mail is still on its way: it will be sent or fail on its own.")
	ErrNotResendable = fault.New(fault.Conflict, "mail_not_resendable", "This mail's link would no longer work: the account has another address, is deactivated, or does not need it any more.")
	ErrLimited       = fault.Newf(fault.RateLimited, fault.CodeRateLimited, "An address gets at most %d such mails an hour. Try again later.", allowed).After(allowedWithin / allowed)
)

// Mail is a mail of the outbox. Its secret is not in it.
type Mail struct {
	ID       int64
	To       string
	Subject  string
	Kind     Kind
	Status   Status
	Attempts int // since it was queued last
	// Error is why it is suppressed or has failed, or why the last attempt did; "" for
	// none.
	Error     string
	CreatedAt time.Time
	SentAt    *time.Time // nil until it is sent
	// Text and HTML have a placeholder where the secret was. A list leaves both out.
	Text, HTML string
}

// Filter narrows a list; zero fields don't.
type Filter struct {
	To     string // whatever its case
	Status Status
	Kind   Kind
}

func (f Filter) matching() *where.Clause {
	c := where.New()
	if f.To != "" {
		c.Add("lower(recipient) = ?", strings.ToLower(f.To))
	}
	if f.Status != "" {
		c.Add("status = ?", string(f.Status))
	}
	if f.Kind != "" {
		c.Add("template = ?", string(f.Kind))
	}
	return c
}

// List returns up to limit mails that match f, newest first, those before an id if that
// is not 0, and sets total, if it is not nil, to how many match. It returns a
// validation fault keyed by to.
func (b *Outbox) List(ctx context.Context, f Filter, before int64, limit int, total *int64) ([]Mail, error) {
	if !text.Storable(f.To) {
		return nil, fault.Validation(map[string]string{"to": "It holds U+0000 or is not valid UTF-8."})
	}
	if total != nil {
		c := f.matching()
		if err := b.o.DB.Direct().QueryRow(ctx, "select count(*) from mails"+c.SQL(), c.Args()...).Scan(total); err != nil {
			return nil, db.Translate(err)
		}
	}
	c := f.matching()
	if before != 0 {
		c.Add("id < ?", before)
	}
	rows, err := b.o.DB.Direct().Query(ctx, `select id, recipient, subject, template, status, attempts, error, created_at, sent_at from mails`+
		c.SQL()+fmt.Sprintf(" order by id desc limit %d", limit), c.Fresh()...)
	if err != nil {
		return nil, db.Translate(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Mail, error) {
		var m Mail
		err := row.Scan(&m.ID, &m.To, &m.Subject, &m.Kind, &m.Status, &m.Attempts, &m.Error, &m.CreatedAt, &m.SentAt)
		return m, err
	})
	return list, db.Translate(err)
}

// Find returns one mail, or ErrMail.
func (b *Outbox) Find(ctx context.Context, id int64) (Mail, error) {
	row, err := b.queries.FindMail(ctx, b.o.DB.Direct(), id)
	if err != nil {
		return Mail{}, db.NotFound(err, ErrMail)
	}
	return fromRow(row), nil
}

func fromRow(r dbsqlc.Mail) Mail {
	return Mail{
		ID: r.ID, To: r.Recipient, Subject: r.Subject, Kind: Kind(r.Template), Status: Status(r.Status), Attempts: int(r.Attempts),
		Error: r.Error, CreatedAt: r.CreatedAt, SentAt: r.SentAt, Text: r.Text, HTML: r.Html,
	}
}

// Resend queues a mail again that is final, with another Message-ID. If it has a link,
// that is made anew and the old one is void. It returns ErrMail, ErrQueued,
// ErrNotResendable or ErrLimited.
func (b *Outbox) Resend(ctx context.Context, id int64) (Mail, error) {
	var row dbsqlc.Mail
	err := b.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		old, err := b.peek(ctx, tx, id)
		if err != nil {
			return err
		}
		message, content, err := b.again(ctx, tx, old)
		if err != nil {
			return err
		}
		// After the account, which whoever sends it a mail locks first, too.
		if old, err = b.queries.LockMail(ctx, tx, id); err != nil {
			return db.NotFound(err, ErrMail)
		}
		if old.Status == string(Queued) {
			return ErrQueued
		}
		row, err = b.requeue(ctx, tx, old, message, content)
		return err
	})
	if err != nil {
		return Mail{}, err
	}
	return fromRow(row), nil
}

// peek returns a mail that seems to be final.
func (b *Outbox) peek(ctx context.Context, tx pgx.Tx, id int64) (dbsqlc.Mail, error) {
	old, err := b.queries.FindMail(ctx, tx, id)
	if err != nil {
		return dbsqlc.Mail{}, db.NotFound(err, ErrMail)
	}
	if old.Status == string(Queued) {
		return dbsqlc.Mail{}, ErrQueued
	}
	return old, nil
}

// again is what a mail says when it is sent again.
func (b *Outbox) again(ctx context.Context, tx pgx.Tx, old dbsqlc.Mail) (Message, Content, error) {
	kind := Kind(old.Template)
	if !kind.Linked() {
		return Message{Kind: kind, To: old.Recipient}, Content{Subject: old.Subject, Text: old.Text, HTML: old.Html}, nil
	}
	if b.o.Renew == nil || old.UserID == nil {
		return Message{}, Content{}, ErrNotResendable
	}
	m, err := b.o.Renew(ctx, tx, *old.UserID, kind, old.Recipient)
	if err != nil {
		return Message{}, Content{}, err
	}
	c, err := b.o.Composer.Compose(m)
	return m, c, err
}

func (b *Outbox) requeue(ctx context.Context, tx pgx.Tx, old dbsqlc.Mail, m Message, c Content) (dbsqlc.Mail, error) {
	status, reason, err := b.admit(ctx, tx, m)
	if err != nil {
		return dbsqlc.Mail{}, err
	}
	if reason == tooMany {
		return dbsqlc.Mail{}, ErrLimited
	}
	p := dbsqlc.QueueMailAgainParams{
		ID: old.ID, Subject: c.Subject, Text: c.Text, Html: c.HTML, Status: string(status), Error: reason, Now: b.o.Now(),
	}
	if p.MessageID, err = b.newMessageID(); err != nil {
		return dbsqlc.Mail{}, err
	}
	if status != Queued {
		return b.queries.QueueMailAgain(ctx, tx, p)
	}
	if p.Secret, p.SecretKeyID, err = b.seal(m, p.MessageID); err != nil {
		return dbsqlc.Mail{}, err
	}
	row, err := b.queries.QueueMailAgain(ctx, tx, p)
	if err != nil {
		return dbsqlc.Mail{}, err
	}
	return row, b.enqueue(ctx, tx, row.ID)
}

// allowedTests is how many test mails leave in an hour, whatever their addresses.
const allowedTests = 60

// SendTest sends a test mail to an address. It returns ErrLimited, or a validation
// fault keyed by to.
func (b *Outbox) SendTest(ctx context.Context, to string) (Mail, error) {
	to = strings.TrimSpace(to)
	if !IsAddress(to) {
		return Mail{}, fault.Validation(map[string]string{"to": "Must be one e-mail address of at most 254 characters."})
	}
	var row dbsqlc.Mail
	err := b.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		within, err := b.takeAllowance(ctx, tx, "", Test, allowedTests)
		if err != nil {
			return err
		}
		if !within {
			return ErrLimited
		}
		row, err = b.put(ctx, tx, Message{Kind: Test, To: to, Facts: []Fact{{Label: "When", Value: Instant(b.o.Now())}}})
		if err == nil && row.Error == tooMany {
			return ErrLimited // and no row that says so: who asked is told
		}
		return err
	})
	if err != nil {
		return Mail{}, err
	}
	return fromRow(row), nil
}
