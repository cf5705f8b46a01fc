package account

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/identity"
)

// touchEvery bounds how often the last use of an API token is written down.
const touchEvery = time.Minute

// Authenticator tells who sends a bearer token.
type Authenticator struct {
	*core
	factor *SecondFactor
}

// Authenticate returns the principal of an access token or an API token. It reads the
// account, and the session or the API token, each time: the end of either, a
// deactivation, a deletion or another role takes effect with the next request. It
// returns token.ErrExpired, token.ErrInvalid, ErrSessionRevoked, ErrAPIToken or
// ErrAPITokenExpired.
func (s *Authenticator) Authenticate(ctx context.Context, bearer string) (identity.Principal, error) {
	if strings.HasPrefix(bearer, APITokenPrefix) {
		return s.authenticateAPIToken(ctx, bearer)
	}
	if s.o.Tokens == nil {
		return identity.Principal{}, errNoTokens
	}
	claims, err := s.o.Tokens.VerifyAccess(ctx, bearer)
	if err != nil {
		return identity.Principal{}, err
	}
	row, err := s.queries.FindAuthSession(ctx, s.o.DB.Direct(), claims.SessionID, claims.UserID)
	if err != nil {
		return identity.Principal{}, db.NotFound(err, ErrSessionRevoked)
	}
	if row.RevokedAt != nil || !s.o.Now().Before(row.ExpiresAt) || !row.Active {
		return identity.Principal{}, ErrSessionRevoked
	}
	p := identity.Account(claims.UserID, identity.Role(row.Role), claims.SessionID.String())
	p.SignedInAt = row.AuthenticatedAt.UTC()
	return s.factor.demandSecondFactor(ctx, p)
}

func (s *Authenticator) authenticateAPIToken(ctx context.Context, secret string) (identity.Principal, error) {
	if len(secret) != len(APITokenPrefix)+randomLength {
		return identity.Principal{}, ErrAPIToken
	}
	row, err := s.queries.FindAPIToken(ctx, s.o.DB.Direct(), digest(secret))
	if err != nil {
		return identity.Principal{}, db.NotFound(err, ErrAPIToken)
	}
	now := s.o.Now()
	switch {
	case row.RevokedAt != nil || !row.Active:
		return identity.Principal{}, ErrAPIToken
	case row.ExpiresAt != nil && !now.Before(*row.ExpiresAt):
		return identity.Principal{}, ErrAPITokenExpired
	}
	p := identity.Token(row.UserID, identity.Role(row.Role), row.ID, scopesOf(row.Scopes))
	if row.LastUsedAt == nil || now.Sub(*row.LastUsedAt) >= touchEvery {
		err := s.o.DB.InTx(ctx, p.From(identity.FromContext(ctx)), func(ctx context.Context, tx pgx.Tx) error {
			return s.queries.TouchAPIToken(ctx, tx, &now, row.ID, new(now.Add(-touchEvery)))
		})
		if err != nil {
			return identity.Principal{}, err
		}
	}
	return s.factor.demandSecondFactor(ctx, p)
}
