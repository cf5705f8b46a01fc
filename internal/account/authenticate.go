package account

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/throttle"
)

// touchEvery bounds how often the last use of an API token is written down.
const touchEvery = time.Minute

// Authenticator tells who sends a bearer token.
type Authenticator struct {
	*core
	factor *SecondFactor
	// rates are of API tokens, by their ids.
	rates *throttle.Rates
	// foreign are the tokens whose use from elsewhere the audit log has, this minute.
	foreign oncePerMinute
}

// Authenticate returns the principal of an access token or an API token. It reads the
// account, and the session or the API token, each time: the end of either, a
// deactivation, a deletion or another role takes effect with the next request. It
// returns token.ErrExpired, token.ErrInvalid, ErrSessionRevoked, ErrAPIToken,
// ErrAPITokenExpired, ErrTokenNetwork, or throttle.ErrLimited for an API token that was
// used too often.
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
	row, err := s.queries.FindAPIToken(ctx, s.o.DB.Direct(), [][]byte{digest(secret), boundDigest(secret)})
	if err != nil {
		return identity.Principal{}, db.NotFound(err, ErrAPIToken)
	}
	now, edge := s.o.Now(), identity.FromContext(ctx)
	switch {
	case row.RevokedAt != nil || !row.Active:
		return identity.Principal{}, ErrAPIToken
	case row.ExpiresAt != nil && !now.Before(*row.ExpiresAt):
		return identity.Principal{}, ErrAPITokenExpired
	}
	p := identity.Token(row.UserID, identity.Role(row.Role), row.ID, scopesOf(row.Scopes))
	p.Service = row.IsService
	if err := admitsFrom(row.AllowedNetworks, edge.Address); err != nil {
		return identity.Principal{}, errors.Join(err, s.noteForeign(ctx, p.From(edge)))
	}
	if row.Rate != nil {
		if p.Rate, err = s.rates.Take(identity.NewContext(ctx, p.From(edge)), strconv.FormatInt(row.ID, 10), int(*row.Rate)); err != nil {
			return identity.Principal{Rate: p.Rate}, err
		}
	}
	if row.LastUsedAt == nil || now.Sub(*row.LastUsedAt) >= touchEvery {
		s.noteUse(ctx, p.From(edge), now)
	}
	if p.Service {
		return p, nil // nobody signs in to it, so there is nothing to ask a second factor of
	}
	return s.factor.demandSecondFactor(ctx, p)
}

// noteUse writes down when and from where an API token was used. It waits neither for a
// lock nor for the disk, and its failure is no reason to refuse the token.
func (s *Authenticator) noteUse(ctx context.Context, p identity.Principal, now time.Time) {
	use := dbsqlc.TouchAPITokenParams{ID: p.TokenID, Now: &now, Before: new(now.Add(-touchEvery))}
	if p.Address.IsValid() {
		use.Address = p.Address.Unmap().WithZone("").String()
	}
	err := s.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local synchronous_commit = off"); err != nil {
			return err
		}
		return s.queries.TouchAPIToken(ctx, tx, use)
	})
	if err != nil {
		s.o.Logger.WarnContext(ctx, "the last use of an API token was not stored", "token", p.TokenID, "error", err)
	}
}

// tokenRefusal is what the audit log notes of an API token that was sent from a network
// where it may not be used: somebody else may have it.
type tokenRefusal struct {
	Event  string `json:"event"`
	Reason string `json:"reason"`
}

// noteForeign notes the use of a token from where it may not be used, once a minute for each
// token.
func (s *Authenticator) noteForeign(ctx context.Context, p identity.Principal) error {
	id := strconv.FormatInt(p.TokenID, 10)
	if !s.foreign.first(who{token: p.TokenID}, s.o.Now()) {
		return nil
	}
	s.o.Logger.WarnContext(ctx, "an API token was sent from a network where it may not be used", "token", p.TokenID, "address", p.Address)
	return s.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		return audit.Note(ctx, tx, "api_tokens", id, tokenRefusal{Event: "token_refused", Reason: "network"})
	})
}
