// Package mail tells people things by e-mail. A service composes a Message and
// hands it to a Sender within the transaction that the mail is about. The Outbox is
// the Sender that keeps it in the database, from where a job sends it.
package mail

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Sender takes a message within tx. A driver that keeps messages in the database
// sends it if and only if tx commits; so call Send last. It returns errors of the
// database and of a message that can't be composed.
type Sender interface {
	Send(ctx context.Context, tx pgx.Tx, m Message) error
}

// Message is one mail to one person.
type Message struct {
	Kind Kind
	// To is a bare address that was validated.
	To string
	// UserID is the account that the mail is about; 0 for none. The mail goes with it.
	UserID int64
	// Name is how the mail addresses the person.
	Name string
	// Link is an absolute URL below the service's own and Code the secret in it, for
	// clients that ask for it instead; both are secret and "" where the kind has none.
	Link string
	Code string
	// Title is an alert's subject, "" for other kinds.
	Title string
	// Detail is what the kind's text says of what happened, "" where it says nothing.
	Detail string
	// Facts are what else its reader may want to know of it.
	Facts []Fact
	// Cause is set for a mail that is to be sent once, however often it is handed over.
	Cause string
}

// Fact is a line such as "When: 2026-01-02 15:04 UTC".
type Fact struct{ Label, Value string }

// Kind says what a mail is about. It is the name of its template.
type Kind string

// The kinds.
const (
	VerifyEmail      Kind = "verify"
	ResetPassword    Kind = "reset"
	SetPassword      Kind = "set_password"
	NewSignIn        Kind = "new_sign_in"
	PasswordChanged  Kind = "password_changed"
	EmailChanged     Kind = "email_changed"
	ConfirmEmail     Kind = "confirm_email"
	UndoEmail        Kind = "undo_email"
	EmailInUse       Kind = "email_in_use"
	TwoFactorChanged Kind = "two_factor_changed"
	TokenCreated     Kind = "token_created"
	IdentityChanged  Kind = "identity_changed"
	AlertKind        Kind = "alert"
	Test             Kind = "test"
)

// Kinds are all kinds, by name.
func Kinds() []Kind { return slices.Sorted(maps.Keys(letters)) }

// Linked reports whether mails of that kind have a secret link.
func (k Kind) Linked() bool {
	switch k {
	case VerifyEmail, ResetPassword, SetPassword, ConfirmEmail, UndoEmail:
		return true
	}
	return false
}

// Tells reports whether mails of that kind tell what was done, and so by whom.
func (k Kind) Tells() bool { return !k.Linked() || k == UndoEmail }

// How many mails of one allowance an address gets, in the time before.
const (
	allowed       = 10
	allowedWithin = time.Hour
)

// allowance names what mails of that kind use up. Whoever can have mails sent to
// somebody, by asking for links, can't keep notices from them; and no number of notices
// keeps the link from them that takes a theft back.
func (k Kind) allowance() string {
	switch {
	case k == UndoEmail:
		return "undo"
	case k.Linked(), k == EmailInUse:
		return "requested"
	case k == AlertKind:
		return "alerts"
	case k == Test:
		return "tests"
	}
	return "notices"
}

// Status is what became of a mail.
type Status string

// The states. Only a queued mail will be sent.
const (
	Queued     Status = "queued"
	Sent       Status = "sent"
	Failed     Status = "failed"
	Suppressed Status = "suppressed"
)
