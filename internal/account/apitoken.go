package account

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/text"
)

// Bounds of API tokens.
const (
	MaxTokenName = 100 // characters
	maxAPITokens = 100 // of one account
	// shownSecret is how much of an API token stays visible, its prefix included.
	shownSecret = 11
)

// Faults of API tokens.
var (
	ErrNoAPIToken    = fault.Missing("API token")
	ErrManyAPITokens = fault.Newf(fault.Conflict, "too_many_tokens", "An account has at most %d API tokens; revoke one first.", maxAPITokens)
)

// APIToken lets a bot act for its owner, within the owner's role and the scopes.
type APIToken struct {
	ID     int64
	Name   string
	Prefix string // the visible beginning of the secret
	Scopes []identity.Scope

	CreatedAt  time.Time
	ExpiresAt  *time.Time // nil for never
	LastUsedAt *time.Time // nil for never; exact to a minute
}

// NewAPIToken is what CreateAPIToken needs.
type NewAPIToken struct {
	Name      string
	Scopes    []identity.Scope
	ExpiresAt *time.Time // nil for never
}

// Tokens keeps API tokens, by which bots act for their owners.
type Tokens struct{ *core }

// CreateAPIToken makes an API token of the acting account, which must have signed
// in of late, and returns its secret, this once. It returns ErrReauthenticate,
// ErrEmailUnverified, ErrManyAPITokens, or a validation fault keyed by field.
func (s *Tokens) CreateAPIToken(ctx context.Context, n NewAPIToken) (APIToken, string, error) {
	p := identity.FromContext(ctx)
	if err := s.checkAPIToken(n, p.Role); err != nil {
		return APIToken{}, "", err
	}
	if err := s.requireRecent(ctx); err != nil {
		return APIToken{}, "", err
	}
	secret, err := s.newPrefixed(APITokenPrefix)
	if err != nil {
		return APIToken{}, "", err
	}
	var row dbsqlc.ApiToken
	err = s.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		owner, err := s.queries.LockUser(ctx, tx, p.UserID) // so that the count holds
		if err != nil {
			return db.NotFound(err, ErrSessionRevoked)
		}
		if owner.EmailVerifiedAt == nil {
			return ErrEmailUnverified
		}
		count, err := s.queries.CountAPITokens(ctx, tx, p.UserID)
		if err != nil {
			return err
		}
		if count >= maxAPITokens {
			return ErrManyAPITokens
		}
		row, err = s.queries.InsertAPIToken(ctx, tx, dbsqlc.InsertAPITokenParams{
			UserID: p.UserID, Name: n.Name, Prefix: secret[:shownSecret], TokenSha256: digest(secret),
			Scopes: texts(identity.NewScopes(n.Scopes...).List()), Now: s.o.Now(), ExpiresAt: n.ExpiresAt,
		})
		if err != nil {
			return err
		}
		return s.tellTokenCreated(ctx, tx, owner, row)
	})
	if err != nil {
		return APIToken{}, "", err
	}
	return toAPIToken(row), secret, nil
}

func (s *Tokens) checkAPIToken(n NewAPIToken, role identity.Role) error {
	details := map[string]string{}
	switch {
	case !text.Within(n.Name, 1, MaxTokenName) || text.Blank(n.Name):
		details["name"] = fmt.Sprintf("Needs 1 to %d characters.", MaxTokenName)
	case !text.IsLine(n.Name):
		details["name"] = text.LineRule
	}
	if len(n.Scopes) == 0 {
		details["scopes"] = "Needs at least one scope."
	}
	for _, scope := range n.Scopes {
		switch {
		case !scope.Valid():
			details["scopes"] = "Has a scope that does not exist."
		case scope == identity.Administer && role != identity.Admin:
			details["scopes"] = "Only an ADMIN can give the scope admin."
		}
	}
	if n.ExpiresAt != nil && !n.ExpiresAt.After(s.o.Now()) {
		details["expires_at"] = "Must be in the future."
	}
	return problems(details)
}

// ListAPITokens returns up to limit of the acting account's API tokens, newest
// first, those older than the token of id before; 0 starts at the newest.
func (s *Tokens) ListAPITokens(ctx context.Context, before int64, limit int) ([]APIToken, error) {
	rows, err := s.queries.ListAPITokens(ctx, s.o.DB.Direct(), identity.FromContext(ctx).UserID, before, int32(limit))
	if err != nil {
		return nil, db.Translate(err)
	}
	list := make([]APIToken, len(rows))
	for i, r := range rows {
		list[i] = toAPIToken(r)
	}
	return list, nil
}

// CountAPITokens returns how many API tokens ListAPITokens has in all.
func (s *Tokens) CountAPITokens(ctx context.Context) (int64, error) {
	n, err := s.queries.CountAPITokens(ctx, s.o.DB.Direct(), identity.FromContext(ctx).UserID)
	return n, db.Translate(err)
}

// RevokeAPIToken ends one of the acting account's API tokens at once. It returns
// ErrNoAPIToken.
func (s *Tokens) RevokeAPIToken(ctx context.Context, id int64) error {
	p := identity.FromContext(ctx)
	return s.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		now := s.o.Now()
		n, err := s.queries.RevokeAPIToken(ctx, tx, &now, id, p.UserID)
		if err == nil && n == 0 {
			return ErrNoAPIToken
		}
		return err
	})
}

func toAPIToken(r dbsqlc.ApiToken) APIToken {
	return APIToken{
		ID: r.ID, Name: r.Name, Prefix: r.Prefix, Scopes: scopesOf(r.Scopes).List(),
		CreatedAt: r.CreatedAt.UTC(), ExpiresAt: utc(r.ExpiresAt), LastUsedAt: utc(r.LastUsedAt),
	}
}

func scopesOf(names []string) identity.Scopes {
	list := make([]identity.Scope, len(names))
	for i, n := range names {
		list[i] = identity.Scope(n)
	}
	return identity.NewScopes(list...)
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}

// tellTokenCreated tells the owner of a new API token.
func (s *Tokens) tellTokenCreated(ctx context.Context, tx pgx.Tx, owner dbsqlc.User, t dbsqlc.ApiToken) error {
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
