package account

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

// notify mails row a notice. Who has no mail, such as a command, or an account whose
// address can't be mailed to, gets none: what the notice is about happens all the
// same.
func (s *core) notify(ctx context.Context, tx pgx.Tx, row dbsqlc.User, m mail.Message) error {
	if s.o.Mail == nil || !mail.IsAddress(row.Email) {
		return nil
	}
	return s.send(ctx, tx, row, m)
}

// circumstances are what the holder of an account may want to know of what was done
// to it. Where an administrator or an operator was is none of it.
func (s *core) circumstances(ctx context.Context, userID int64) []mail.Fact {
	facts := []mail.Fact{{Label: "When", Value: mail.Instant(s.o.Now())}}
	p := identity.FromContext(ctx)
	switch {
	case p.Kind == identity.KindUser && p.UserID != userID:
		return append(facts, mail.Fact{Label: "By", Value: "an administrator of this service"})
	case p.Kind == identity.KindCommand:
		return append(facts, mail.Fact{Label: "By", Value: "the operator of this service"})
	}
	if p.Address.IsValid() {
		facts = append(facts, mail.Fact{Label: "From", Value: p.Address.Unmap().WithZone("").String()})
	}
	if p.UserAgent != "" {
		facts = append(facts, mail.Fact{Label: "With", Value: mail.Program(p.UserAgent)})
	}
	return facts
}

// maxPlaces is how many of an account's sessions are compared with a new one.
const maxPlaces = 500

// deviceOf is a user agent without its digits and dots, which are other ones after
// each update.
func deviceOf(userAgent string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, userAgent)
}

// providerNames are how people know the providers.
var providerNames = map[string]string{"google": "Google", "github": "GitHub"}

// tellIdentity tells an account's holder what was done with an identity of a provider.
func (s *Identities) tellIdentity(ctx context.Context, tx pgx.Tx, row dbsqlc.User, provider, what string) error {
	name := providerNames[provider]
	if name == "" {
		name = "an outside provider"
	}
	return s.notify(ctx, tx, row, mail.Message{Kind: mail.IdentityChanged, Detail: "A sign-in through " + name + " was " + what + "."})
}

func (s *Identities) tellIdentityOf(ctx context.Context, tx pgx.Tx, userID int64, provider, what string) error {
	row, err := s.queries.FindUserByID(ctx, tx, userID)
	if err != nil {
		return err
	}
	return s.tellIdentity(ctx, tx, row, provider, what)
}
