package account

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/account/oauth"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// OAuthCodeTTL is how long an outcome waits to be collected: enough to sign in
// with a password first, where an account has the address already.
const OAuthCodeTTL = 5 * time.Minute

// OAuthAnswer is what a provider sent back through the browser.
type OAuthAnswer struct {
	State  string
	Code   string // on success
	Error  string // on failure, the provider's code for it
	Issuer string // RFC 9207, "" where the provider tells none
	// Browser is the secret of StartOAuth, from the browser that came back.
	Browser string
}

// OAuthOutcome is either where to send the browser or, for a sign-in without a
// URL to return to, the sign-in itself.
type OAuthOutcome struct {
	ReturnURL string
	SignedIn  SignedIn
}

// FinishOAuth takes a provider's answer, once. It returns ErrProvider;
// ErrOAuthState for an answer that this browser did not ask this provider for, or
// too long ago; and, for a sign-in without a URL to return to, also ErrDenied, the
// faults of package oauth and those of CollectOAuth. With such a URL, they travel
// there as the parameter error.
func (s *Identities) FinishOAuth(ctx context.Context, provider string, a OAuthAnswer) (OAuthOutcome, error) {
	p, err := s.provider(provider)
	if err != nil {
		return OAuthOutcome{}, err
	}
	flow, err := s.spendFlow(ctx, provider, a)
	if lost, ok := s.lostVisit(a, err); ok {
		return OAuthOutcome{ReturnURL: lost}, nil
	}
	if err != nil {
		return OAuthOutcome{}, err
	}
	id, err := ask(ctx, p, a)
	if flow.ReturnUrl == nil {
		if err != nil {
			return OAuthOutcome{}, err
		}
		signed, err := s.signInAs(ctx, s.accountOf, func(context.Context, pgx.Tx) (outsider, error) { return outsiderOf(id), nil })
		return OAuthOutcome{SignedIn: signed}, err
	}
	name, value := "code", ""
	if err == nil {
		value, err = s.keepOutcome(ctx, id, *flow.CodeChallenge)
	}
	if problem, ok := errors.AsType[*fault.Error](err); ok {
		name, value = "error", problem.Code
	} else if err != nil {
		return OAuthOutcome{}, err
	}
	address, err := withParameter(*flow.ReturnUrl, name, value)
	return OAuthOutcome{ReturnURL: address}, err
}

// CollectOAuth turns an outcome's code into a sign-in. verifier is the secret of
// the code_challenge. It returns oauth.ErrCode, ErrInactive, ErrLinkRequired,
// ErrUnverifiedOutside or ErrNoAddress; after the last three the code is still good,
// for LinkIdentity.
func (s *Identities) CollectOAuth(ctx context.Context, code, verifier string) (SignedIn, error) {
	return s.signInAs(ctx, s.accountOf, func(ctx context.Context, tx pgx.Tx) (outsider, error) {
		return s.spendOutcome(ctx, tx, code, verifier)
	})
}

func (s *Identities) spendFlow(ctx context.Context, provider string, a OAuthAnswer) (dbsqlc.OauthFlow, error) {
	var flow dbsqlc.OauthFlow
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		flow, err = s.queries.SpendOAuthFlow(ctx, tx, dbsqlc.SpendOAuthFlowParams{
			StateSha256: digest(a.State), Provider: provider, BrowserSha256: digest(a.Browser), Now: s.o.Now(),
		})
		return db.NotFound(err, ErrOAuthState)
	})
	return flow, err
}

// ask redeems the answer's code at p.
func ask(ctx context.Context, p *oauth.Provider, a OAuthAnswer) (oauth.Identity, error) {
	if err := p.CheckIssuer(ctx, a.Issuer); err != nil {
		return oauth.Identity{}, err
	}
	switch {
	case a.Error == "access_denied":
		return oauth.Identity{}, ErrDenied
	case a.Error != "":
		return oauth.Identity{}, oauth.ErrExchange.Because(errors.New("the provider answered an error"))
	case a.Code == "":
		return oauth.Identity{}, oauth.ErrCode
	}
	return p.Redeem(ctx, a.Code, flowSecrets(a.Browser, a.State))
}

func (s *Identities) keepOutcome(ctx context.Context, id oauth.Identity, challenge string) (string, error) {
	code, err := s.newSecret()
	if err != nil {
		return "", err
	}
	o := outsiderOf(id)
	now := s.o.Now()
	return code, s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		return s.queries.InsertOAuthCode(ctx, tx, dbsqlc.InsertOAuthCodeParams{
			CodeSha256: digest(code), CodeChallenge: challenge, Provider: o.provider, Subject: o.subject,
			Email: o.email, EmailVerified: o.verified, FirstName: o.firstName, LastName: o.lastName,
			Now: now, ExpiresAt: now.Add(OAuthCodeTTL),
		})
	})
}

// spendOutcome gives the code back when the transaction fails.
func (s *Identities) spendOutcome(ctx context.Context, tx pgx.Tx, code, verifier string) (outsider, error) {
	row, err := s.queries.SpendOAuthCode(ctx, tx, digest(code), challengeOf(verifier), s.o.Now())
	if err != nil {
		return outsider{}, db.NotFound(err, oauth.ErrCode)
	}
	return outsider{
		provider: row.Provider, subject: row.Subject, email: row.Email, verified: row.EmailVerified,
		firstName: row.FirstName, lastName: row.LastName,
	}, nil
}

// signInAs signs in the account that find has for who who names.
func (s *Identities) signInAs(ctx context.Context, find func(context.Context, pgx.Tx, outsider) (dbsqlc.User, error), who func(context.Context, pgx.Tx) (outsider, error)) (signed SignedIn, err error) {
	defer func() { s.tell(signed, true, err) }()
	if err := s.readyToSign(ctx); err != nil {
		return SignedIn{}, err
	}
	var row dbsqlc.User
	err = s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		o, err := who(ctx, tx)
		if err != nil {
			return err
		}
		if row, err = find(ctx, tx, o); err != nil {
			return err
		}
		if !row.Active {
			return ErrInactive
		}
		return nil
	})
	if err != nil {
		return SignedIn{}, err
	}
	return s.signIns.firstFactorPassed(ctx, row, ByOAuth)
}
