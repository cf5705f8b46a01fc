package mail

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/seal"
)

// SealPurpose is what seal.New derives the keys of Options.Sealer for.
const SealPurpose = "mailed links"

// Why a mail is suppressed.
const (
	switchedOff = "mail is switched off (WAYPOST_MAIL_DRIVER is none)"
	tooMany     = "the address got 10 such mails within an hour"
)

// Options configure New. All but the last four are mandatory.
type Options struct {
	DB   *db.DB
	Jobs Jobs
	// Sealer encrypts the secrets of links until their mails are final.
	Sealer *seal.Keyring
	// Composer writes the mails.
	Composer *Composer
	// From is the sender's address, alone or behind a name; its domain is that of
	// Message-IDs. "" without a driver that needs it.
	From string
	// Transport sends; nil for nothing, which suppresses every mail.
	Transport Transport
	// Renew makes a mail's link anew for Resend; nil if mails have none.
	Renew func(ctx context.Context, tx pgx.Tx, userID int64, kind Kind, to string) (Message, error)
	// Now is the clock; nil for the system's.
	Now func() time.Time
	// Random is the source of Message-IDs and nonces; nil for the system's.
	Random io.Reader
	// Interrupt is called at each Boundary; an error ends the work there. Only tests
	// set it.
	Interrupt func(Boundary) error
	Logger    *slog.Logger
	// Metrics takes what is counted about mails; nil for nobody.
	Metrics prometheus.Registerer
}

// Jobs inserts jobs, and tells how they ended.
type Jobs interface {
	InsertMany(ctx context.Context, tx pgx.Tx, entries []queue.Entry) ([]int64, error)
	Ended(ctx context.Context, tx pgx.Tx, ids []int64) (map[int64]string, error)
}

// Boundary is a point between two steps of sending a mail.
type Boundary string

// The boundaries.
const (
	BeforeSending   Boundary = "claimed, not sent"
	BeforeRecording Boundary = "sent, not recorded"
)

func (o Options) validate() error {
	if o.DB == nil || o.Jobs == nil || o.Sealer == nil || o.Composer == nil {
		return errors.New("mail: the outbox needs a database, a queue, a keyring and a composer")
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Interrupt == nil {
		o.Interrupt = func(Boundary) error { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Outbox keeps every mail, and sends it. Any number of instances may share the
// database.
type Outbox struct {
	o       Options
	queries dbsqlc.Queries
	domain  string // of Message-IDs
	sent    *prometheus.CounterVec
}

// New makes an Outbox.
func New(o Options) (*Outbox, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	b := &Outbox{o: o, domain: o.Composer.host, sent: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "waypost_mails_total",
		Help: "Attempts to send a mail by outcome: sent, refused by the server for good, failed and to be tried again, given up after a day.",
	}, []string{"outcome"})}
	for _, outcome := range []string{"sent", "refused", "failed", "given_up"} {
		b.sent.WithLabelValues(outcome)
	}
	if o.Metrics != nil {
		if err := o.Metrics.Register(b.sent); err != nil {
			return nil, fmt.Errorf("mail: metrics: %w", err)
		}
	}
	if at := strings.LastIndexByte(o.From, '@'); at >= 0 {
		b.domain = strings.TrimRight(o.From[at+1:], "> ")
	}
	return b, nil
}

// SendJob is the job that sends a mail.
type SendJob struct {
	ID int64 `json:"id"` // the mail's
}

// Kind implements queue.Job.
func (SendJob) Kind() string { return "mails.send" }

// secret is what is sealed of a mail.
type secret struct {
	Code string `json:"code"`
	Link string `json:"link"`
}

// Send implements Sender: it writes m into the outbox, with a job unless the mail is
// suppressed.
func (b *Outbox) Send(ctx context.Context, tx pgx.Tx, m Message) error {
	_, err := b.put(ctx, tx, m)
	return err
}

// put is Send, and returns the row; there is none if there was a mail for m.Cause.
func (b *Outbox) put(ctx context.Context, tx pgx.Tx, m Message) (dbsqlc.Mail, error) {
	c, err := b.o.Composer.Compose(m)
	if err != nil {
		return dbsqlc.Mail{}, err
	}
	id, err := b.newMessageID()
	if err != nil {
		return dbsqlc.Mail{}, err
	}
	status, reason, err := b.admit(ctx, tx, m)
	if err != nil {
		return dbsqlc.Mail{}, err
	}
	row := dbsqlc.InsertMailParams{
		Recipient: m.To, Template: string(m.Kind), Subject: c.Subject, Text: c.Text, Html: c.HTML,
		MessageID: id, Status: string(status), Error: reason, Now: b.o.Now(),
	}
	if m.UserID != 0 {
		row.UserID = &m.UserID
	}
	if m.Cause != "" {
		row.Cause = &m.Cause
	}
	if status == Queued {
		if row.Secret, row.SecretKeyID, err = b.seal(m, id); err != nil {
			return dbsqlc.Mail{}, err
		}
	}
	mail, err := b.queries.InsertMail(ctx, tx, row)
	if errors.Is(err, pgx.ErrNoRows) {
		return dbsqlc.Mail{}, nil
	}
	if err != nil || status != Queued {
		return mail, err
	}
	return mail, b.enqueue(ctx, tx, mail.ID)
}

// admit says whether a mail is to be sent now, and otherwise why not. It locks the
// allowance of the address until tx ends.
func (b *Outbox) admit(ctx context.Context, tx pgx.Tx, m Message) (Status, string, error) {
	if b.o.Transport == nil {
		return Suppressed, switchedOff, nil
	}
	within, err := b.takeAllowance(ctx, tx, m.To, m.Kind, allowed)
	if err != nil {
		return "", "", err
	}
	if !within {
		return Suppressed, tooMany, nil
	}
	return Queued, "", nil
}

// takeAllowance counts a mail of that kind to an address, "" for all, and reports whether
// it is among the first most of the last hour.
func (b *Outbox) takeAllowance(ctx context.Context, tx pgx.Tx, to string, kind Kind, most int) (bool, error) {
	now := b.o.Now()
	digest := sha256.Sum256([]byte(strings.ToLower(strings.TrimSpace(to))))
	n, err := b.queries.TakeMailAllowance(ctx, tx, dbsqlc.TakeMailAllowanceParams{
		Address: digest[:], Allowance: kind.allowance(), Now: now, Since: now.Add(-allowedWithin), ForgetAt: now.Add(allowedWithin), Most: int32(most),
	})
	return n == 1, err
}

// seal encrypts the secret of m, nil when it has none, for the mail with that
// Message-ID.
func (b *Outbox) seal(m Message, messageID string) ([]byte, *string, error) {
	if m.Code == "" {
		return nil, nil, nil
	}
	plain, err := json.Marshal(secret{Code: m.Code, Link: m.Link})
	if err != nil {
		return nil, nil, fmt.Errorf("mail: %w", err)
	}
	sealed, err := b.o.Sealer.Seal(plain, sealName(messageID), b.o.Random)
	if err != nil {
		return nil, nil, err
	}
	return sealed.Box, &sealed.KeyID, nil
}

// open decrypts the secret of a mail; it is empty when the mail has none.
func (b *Outbox) open(row dbsqlc.Mail) (secret, error) {
	if row.SecretKeyID == nil {
		return secret{}, nil
	}
	plain, err := b.o.Sealer.Open(seal.Sealed{KeyID: *row.SecretKeyID, Box: row.Secret}, sealName(row.MessageID))
	if err != nil {
		return secret{}, err
	}
	var s secret
	if err := json.Unmarshal(plain, &s); err != nil {
		return secret{}, errors.New("mail: the sealed secret is none")
	}
	return s, nil
}

// enqueue gives a mail its job.
func (b *Outbox) enqueue(ctx context.Context, tx pgx.Tx, id int64) error {
	jobs, err := b.o.Jobs.InsertMany(ctx, tx, []queue.Entry{{Job: SendJob{ID: id}, Lane: queue.Mails}})
	if err != nil {
		return err
	}
	return b.queries.SetMailJob(ctx, tx, &jobs[0], id)
}

// newMessageID is the value of Message-ID, without angle brackets.
func (b *Outbox) newMessageID() (string, error) {
	raw := make([]byte, 15)
	if _, err := io.ReadFull(b.o.Random, raw); err != nil {
		return "", fmt.Errorf("mail: random: %w", err)
	}
	return strings.ToLower(base32.StdEncoding.EncodeToString(raw)) + "@" + b.domain, nil
}

// sealName binds a sealed secret to its mail.
func sealName(messageID string) string { return "secret of mail " + messageID }

// Alert tells every active ADMIN of something, once for each cause. title and detail
// are our own sentences. It returns to how many.
func (b *Outbox) Alert(ctx context.Context, tx pgx.Tx, cause, title, detail string) (int, error) {
	admins, err := b.queries.ListMailAdmins(ctx, tx)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, a := range admins {
		row, err := b.put(ctx, tx, Message{
			Kind: AlertKind, To: a.Email, UserID: a.ID, Name: a.FirstName, Title: title, Detail: detail,
			Facts: []Fact{{Label: "When", Value: Instant(b.o.Now())}}, Cause: fmt.Sprintf("%s to %d", cause, a.ID),
		})
		if err != nil {
			return n, err
		}
		if row.ID != 0 {
			n++
		}
	}
	return n, nil
}

// Instant is a time as mails say it.
func Instant(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") }
