package account

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

// notify mails row a notice. Who has no mail, such as a command, or an account whose
// address can't be mailed to, gets none: what the notice is about happens all the
// same.
func (s *Service) notify(ctx context.Context, tx pgx.Tx, row dbsqlc.User, m mail.Message) error {
	if s.o.Mail == nil || !mail.IsAddress(row.Email) {
		return nil
	}
	return s.send(ctx, tx, row, m)
}

// circumstances are what the holder of an account may want to know of what was done
// to it. Where an administrator or an operator was is none of it.
func (s *Service) circumstances(ctx context.Context, userID int64) []mail.Fact {
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

// isUnseen reports whether a sign-in comes from a network or with a program that none
// of the account's sessions that are kept has together. Without any such session it
// is false: that is the first sign-in, or the first for a long time.
func (s *Service) isUnseen(ctx context.Context, tx pgx.Tx, userID int64, edge identity.Principal) (bool, error) {
	if s.o.Mail == nil || !edge.Address.IsValid() && edge.UserAgent == "" {
		return false, nil
	}
	address, network, device := "", "", deviceOf(edge.UserAgent)
	if edge.Address.IsValid() {
		address, network = edge.Address.String(), networkOf(edge.Address)
	}
	// Most sign-ins are from where the last one was, and cost no more than this.
	same, err := s.queries.SignedInWith(ctx, tx, userID, address, edge.UserAgent)
	if err != nil || same {
		return false, err
	}
	places, err := s.queries.ListSignInPlaces(ctx, tx, userID, maxPlaces)
	if err != nil || len(places) == 0 {
		return false, err
	}
	for _, p := range places {
		known := ""
		if a, err := netip.ParseAddr(p.Address); err == nil {
			known = networkOf(a)
		}
		if known == network && deviceOf(p.UserAgent) == device {
			return false, nil
		}
	}
	return true, nil
}

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

// tellTokenCreated tells the owner of a new API token.
func (s *Service) tellTokenCreated(ctx context.Context, tx pgx.Tx, owner dbsqlc.User, t dbsqlc.ApiToken) error {
	what := "An API token was created for your account"
	if mail.Presentable(t.Name) {
		what = fmt.Sprintf("The API token %q was created for your account", t.Name)
	}
	ends := "It never expires."
	if t.ExpiresAt != nil {
		ends = "It expires on " + mail.Instant(*t.ExpiresAt) + "."
	}
	return s.notify(ctx, tx, owner, mail.Message{
		Kind: mail.TokenCreated, Detail: what + ". " + ends,
		Facts: []mail.Fact{{Label: "Scopes", Value: strings.Join(t.Scopes, ", ")}},
	})
}

// providerNames are how people know the providers.
var providerNames = map[string]string{"google": "Google", "github": "GitHub"}

// tellIdentity tells an account's holder what was done with an identity of a provider.
func (s *Service) tellIdentity(ctx context.Context, tx pgx.Tx, row dbsqlc.User, provider, what string) error {
	name := providerNames[provider]
	if name == "" {
		name = "an outside provider"
	}
	return s.notify(ctx, tx, row, mail.Message{Kind: mail.IdentityChanged, Detail: "A sign-in through " + name + " was " + what + "."})
}

func (s *Service) tellIdentityOf(ctx context.Context, tx pgx.Tx, userID int64, provider, what string) error {
	row, err := s.queries.FindUserByID(ctx, tx, userID)
	if err != nil {
		return err
	}
	return s.tellIdentity(ctx, tx, row, provider, what)
}
