package account

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/text"
)

// Bounds of API tokens.
const (
	MaxTokenName     = 100 // characters
	MaxTokenNetworks = 50
	MaxTokenRate     = 100_000 // requests a minute
	maxAPITokens     = 100     // of one account, that work
	// shownSecret is how much of an API token stays visible, its prefix included.
	shownSecret = 11
)

// Lives of API tokens.
const (
	// DefaultTokenLife is that of a token that is made without an expiry.
	DefaultTokenLife = 90 * 24 * time.Hour
	// MaxTokenGrace is how long a token can still work after its rotation.
	MaxTokenGrace = 30 * 24 * time.Hour
)

// Faults of API tokens.
var (
	ErrNoAPIToken    = fault.Missing("API token")
	ErrManyAPITokens = fault.Newf(fault.Conflict, "too_many_tokens", "An account has at most %d API tokens; revoke one first.", maxAPITokens)
	ErrTokenReplaced = fault.New(fault.Conflict, "token_replaced", "The API token was already rotated.")
)

// APIToken lets a bot act for its owner, within the owner's role and the scopes.
type APIToken struct {
	ID     int64
	Name   string
	Prefix string // the visible beginning of the secret
	Scopes []identity.Scope
	// Networks are those from which it may be used, in the form of RFC 4632 or RFC 4291;
	// empty for all.
	Networks []string
	Rate     int // requests a minute; 0 for no limit

	CreatedAt  time.Time
	ExpiresAt  *time.Time // nil for never
	ReplacedAt *time.Time // when a rotation made its successor; nil for not
	LastUsedAt *time.Time // nil for never; exact to a minute
	// LastAddress is from where it was used at LastUsedAt; "" if that is not known.
	LastAddress string
}

// NewAPIToken is what CreateAPIToken needs.
type NewAPIToken struct {
	Name   string
	Scopes []identity.Scope
	// ExpiresAt is nil for DefaultTokenLife from now, or for never with Never.
	ExpiresAt *time.Time
	Never     bool
	// Networks are addresses and networks in CIDR notation; none for all.
	Networks []string
	Rate     int // requests a minute; 0 for no limit
}

// Tokens keeps people's API tokens, by which bots act for them.
type Tokens struct{ *core }

// CreateAPIToken makes an API token of the acting account, which must have signed
// in of late, and returns its secret, this once. It returns ErrReauthenticate,
// ErrEmailUnverified, ErrManyAPITokens, or a validation fault keyed by field.
func (s *Tokens) CreateAPIToken(ctx context.Context, n NewAPIToken) (APIToken, string, error) {
	p := identity.FromContext(ctx)
	n.Name = text.Trim(n.Name)
	return s.issue(ctx, func() error { return s.checkAPIToken(n, p.Role) }, func(ctx context.Context, tx pgx.Tx) (dbsqlc.ApiToken, string, error) {
		owner, err := s.queries.LockUser(ctx, tx, p.UserID) // so that the count holds
		if err != nil {
			return dbsqlc.ApiToken{}, "", db.NotFound(err, ErrSessionRevoked)
		}
		if owner.EmailVerifiedAt == nil {
			return dbsqlc.ApiToken{}, "", ErrEmailUnverified
		}
		row, secret, err := s.insertAPIToken(ctx, tx, p.UserID, n)
		if err != nil {
			return dbsqlc.ApiToken{}, "", err
		}
		return row, secret, s.tellTokenCreated(ctx, tx, owner, row, "created for your account")
	})
}

// RotateAPIToken makes an API token like another of the acting account, which must have
// signed in of late, and lets the other expire after grace (0: at once), or earlier if
// it would have. The new one lives as long as the other was made for. It returns the new
// token and its secret, this once; ErrReauthenticate, ErrEmailUnverified, ErrNoAPIToken, ErrManyAPITokens, a
// validation fault keyed by grace; or ErrTokenReplaced, so that of two rotations at once
// only one makes a token.
func (s *Tokens) RotateAPIToken(ctx context.Context, id int64, grace time.Duration) (APIToken, string, error) {
	p := identity.FromContext(ctx)
	return s.issue(ctx, func() error { return checkGrace(grace) }, func(ctx context.Context, tx pgx.Tx) (dbsqlc.ApiToken, string, error) {
		owner, err := s.queries.LockUser(ctx, tx, p.UserID)
		if err != nil {
			return dbsqlc.ApiToken{}, "", db.NotFound(err, ErrSessionRevoked)
		}
		if owner.EmailVerifiedAt == nil {
			return dbsqlc.ApiToken{}, "", ErrEmailUnverified
		}
		row, secret, err := s.replaceAPIToken(ctx, tx, p.UserID, id, grace)
		if err != nil {
			return dbsqlc.ApiToken{}, "", err
		}
		return row, secret, s.tellTokenCreated(ctx, tx, owner, row, "created for your account, in the place of another")
	})
}

// ListAPITokens returns up to limit of the acting account's API tokens that were not
// revoked, newest first, those older than the token of id before; 0 starts at the newest.
func (s *Tokens) ListAPITokens(ctx context.Context, before int64, limit int) ([]APIToken, error) {
	return s.listTokensOf(ctx, identity.FromContext(ctx).UserID, before, limit)
}

// CountAPITokens returns how many API tokens ListAPITokens has in all.
func (s *Tokens) CountAPITokens(ctx context.Context) (int64, error) {
	n, err := s.queries.CountAPITokens(ctx, s.o.DB.Direct(), identity.FromContext(ctx).UserID)
	return n, db.Translate(err)
}

// RevokeAPIToken ends one of the acting account's API tokens at once. It returns
// ErrNoAPIToken.
func (s *Tokens) RevokeAPIToken(ctx context.Context, id int64) error {
	return s.revokeTokenOf(ctx, identity.FromContext(ctx).UserID, id)
}

// checkAPIToken returns a validation fault keyed by field. role is the owner's.
func (s *core) checkAPIToken(n NewAPIToken, role identity.Role) error {
	details := map[string]string{}
	if rule := tokenNameProblem(n.Name); rule != "" {
		details["name"] = rule
	}
	if len(n.Scopes) == 0 {
		details["scopes"] = "Needs at least one scope."
	}
	for _, scope := range n.Scopes {
		switch {
		case !scope.Valid():
			details["scopes"] = "Has a scope that does not exist."
		case scope == identity.Administer && role != identity.Admin:
			details["scopes"] = "Only an ADMIN can have the scope admin."
		}
	}
	if n.ExpiresAt != nil && !n.ExpiresAt.After(s.o.Now()) {
		details["expires_at"] = "Must be in the future."
	}
	if _, rule := parseNetworks(n.Networks); rule != "" {
		details["allowed_networks"] = rule
	}
	if n.Rate < 0 || n.Rate > MaxTokenRate {
		details["rate"] = fmt.Sprintf("Must be from 1 to %d requests a minute; leave it out for no limit.", MaxTokenRate)
	}
	return problems(details)
}

// tokenNameProblem says what is wrong with the name of a token or of a service account,
// "" when nothing is.
func tokenNameProblem(name string) string {
	switch {
	case !text.Within(name, 1, MaxTokenName) || text.Blank(name):
		return fmt.Sprintf("Needs 1 to %d characters.", MaxTokenName)
	case !text.IsLine(name):
		return text.LineRule
	}
	return ""
}

func checkGrace(grace time.Duration) error {
	if grace < 0 || grace > MaxTokenGrace {
		return fault.Validation(map[string]string{"grace": fmt.Sprintf("Must be from 0 to %d seconds.", MaxTokenGrace/time.Second)})
	}
	return nil
}

func toAPIToken(r dbsqlc.ApiToken) APIToken {
	t := APIToken{
		ID: r.ID, Name: r.Name, Prefix: r.Prefix, Scopes: scopesOf(r.Scopes).List(), Networks: r.AllowedNetworks,
		CreatedAt: r.CreatedAt.UTC(), ExpiresAt: utc(r.ExpiresAt), ReplacedAt: utc(r.ReplacedAt),
		LastUsedAt: utc(r.LastUsedAt), LastAddress: r.LastAddress,
	}
	if r.Rate != nil {
		t.Rate = int(*r.Rate)
	}
	return t
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
