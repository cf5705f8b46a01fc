// Package mail tells people things by e-mail. A service composes a Message and
// hands it to a Sender within the transaction that the mail is about.
package mail

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/template"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/text"
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
	// Name is how the mail addresses the person.
	Name string
	// Link is an absolute URL and Code the secret in it, for clients that ask for it
	// instead; both are secret and "" where the kind has none.
	Link string
	Code string
	// Detail is what the kind's text says of what happened, "" where it says nothing.
	Detail string
}

// Kind says what a mail is about.
type Kind string

// The kinds.
const (
	VerifyEmail      Kind = "verify_email"
	SetPassword      Kind = "set_password"
	ResetPassword    Kind = "reset_password"
	PasswordChanged  Kind = "password_changed"
	EmailChanged     Kind = "email_changed"
	TwoFactorChanged Kind = "two_factor_changed"
)

type letter struct{ subject, body string }

// letters are templates over Message. The greeting and the closing are the same in
// all.
var letters = map[Kind]letter{
	VerifyEmail: {"Confirm your e-mail address", `please confirm that this address is yours:

  {{.Link}}

An application may ask you for this code instead:

  {{.Code}}

If you did not open an account, ignore this mail.`},
	SetPassword: {"Your new account", `an administrator created an account for you. Choose your password here:

  {{.Link}}

An application may ask you for this code instead:

  {{.Code}}

The link works once, for seven days. If it has expired, ask for a new password with this address.`},
	ResetPassword: {"Choose a new password", `somebody, hopefully you, asked for a new password for your account. Choose it here:

  {{.Link}}

An application may ask you for this code instead:

  {{.Code}}

The link works once, for one hour. If it was not you, ignore this mail: nothing has changed.`},
	PasswordChanged: {"Your password was changed", `the password of your account was changed, and other sessions were ended.

If it was not you, ask for a new password at once and tell the operator of this service.`},
	EmailChanged: {"Your e-mail address was changed", `your account's e-mail address was changed; you can't sign in with this address any more.

If it was not you, tell the operator of this service.`},
	TwoFactorChanged: {"Your two-factor settings were changed", `{{.Detail}}

If it was not you, ask for a new password at once and tell the operator of this service.`},
}

// Compose returns a message's subject and plain text.
func Compose(m Message) (string, string, error) {
	t, known := letters[m.Kind]
	switch {
	case !known:
		return "", "", fmt.Errorf("mail: no text for kind %q", m.Kind)
	case m.To == "" || strings.ContainsAny(m.To, "\r\n\x00"):
		return "", "", errors.New("mail: the recipient's address is no address")
	}
	body, err := template.New(string(m.Kind)).Parse("Hello {{.Name}},\n\n" + t.body + "\n")
	if err != nil {
		return "", "", fmt.Errorf("mail: %w", err)
	}
	if !text.IsLine(m.Name) { // stored before such names were refused
		m.Name = "there"
	}
	var b strings.Builder
	if err := body.Execute(&b, m); err != nil {
		return "", "", fmt.Errorf("mail: %w", err)
	}
	return t.subject, b.String(), nil
}
