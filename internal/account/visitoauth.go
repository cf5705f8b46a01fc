package account

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
)

// ErrOutsider is the one answer to an identity at a provider that opens no session of
// the pages, whatever the reason: nobody learns there who has an account.
var ErrOutsider = fault.New(fault.Forbidden, fault.CodeForbidden, "No account can be signed in with that identity. Sign in with your password, or link the identity to your account first.")

// visitState begins the state of sign-ins to the pages, so that an answer of which
// nothing else is known any more still leads to a page. It proves nothing.
const visitState = "visit."

// StartVisit begins a sign-in to the pages at a provider. The outcome comes to the path
// to on this service, as the parameter code or error, and an answer that nothing is
// known of to VisitOptions.Lost. browser is the secret of an
// earlier start in the same browser, "" for none. It returns ErrProvider,
// oauth.ErrExchange or throttle.ErrLimited.
func (s *Visits) StartVisit(ctx context.Context, provider, browser, to string) (OAuthStarted, error) {
	p, err := s.identities.provider(provider)
	if err != nil {
		return OAuthStarted{}, err
	}
	return s.identities.leave(ctx, p, browser, func(f *dbsqlc.InsertOAuthFlowParams, secret string) string {
		f.ReturnUrl, f.CodeChallenge = new(s.o.URL+to), new(challengeOf(visitVerifier(secret)))
		return visitState
	})
}

// FinishVisit is CollectOAuth for the pages: code came to the path of StartVisit, in the
// browser whose secret browser is. It makes no account. It returns oauth.ErrCode,
// ErrOutsider, ErrBusy, or what opening a session does.
func (s *Visits) FinishVisit(ctx context.Context, code, browser string) (Visit, error) {
	visit, err := visitOf(s.identities.signInAs(ctx, s.identities.known, func(ctx context.Context, tx pgx.Tx) (outsider, error) {
		return s.identities.spendOutcome(ctx, tx, code, visitVerifier(browser))
	}))
	for _, refused := range []error{ErrInactive, ErrLinkRequired, ErrUnverifiedOutside, ErrNoAddress} {
		if errors.Is(err, refused) {
			err = ErrOutsider.Because(err)
		}
	}
	return visit, err
}

// known is accountOf for outsiders who have an account, or one with their address.
func (s *Identities) known(ctx context.Context, tx pgx.Tx, o outsider) (dbsqlc.User, error) {
	known, err := s.queries.HasAccountFor(ctx, tx, o.provider, o.subject, emailKey(o.email))
	if err != nil {
		return dbsqlc.User{}, err
	}
	if !known {
		return dbsqlc.User{}, ErrOutsider
	}
	return s.accountOf(ctx, tx, o)
}

// visitVerifier is the secret that collects what comes back for the pages: only this
// browser has what it is made of.
func visitVerifier(browser string) string { return derive(browser, "pages") }

// lostVisit is where an answer goes that came too late, twice or to another browser, and
// that a sign-in to the pages asked for; false for any other.
func (s *Identities) lostVisit(a OAuthAnswer, err error) (string, bool) {
	if !errors.Is(err, ErrOAuthState) || !strings.HasPrefix(a.State, visitState) || s.o.Visits.Lost == "" {
		return "", false
	}
	return s.o.URL + s.o.Visits.Lost, true
}
