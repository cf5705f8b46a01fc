package site

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/text"
)

// DefaultGrace is how long a rotated key still works unless told otherwise.
const DefaultGrace = 24 * time.Hour

// ErrRetired says that a key was rotated or revoked before.
var ErrRetired = fault.New(fault.Conflict, "key_retired", "The key was already rotated or revoked.")

// Scope is what a secret key may do.
type Scope string

// The scopes.
const (
	ScopeRead   Scope = "read"   // read all of the site's statistics
	ScopeIngest Scope = "ingest" // report visits from a server
)

// Key is what is known of a secret key: everything but the secret.
type Key struct {
	SiteID    uuid.UUID
	ID        uuid.UUID // version 7
	Name      string
	Scope     Scope
	Prefix    string // the secret's first characters, to recognise it by
	CreatedAt time.Time
	ExpiresAt *time.Time // set by rotation
	RevokedAt *time.Time
	// LastUsedAt is exact to a minute.
	LastUsedAt *time.Time
}

// CreateKey makes a secret key and returns it with its secret, which is shown
// this once and not stored. It returns ErrNoSite, or a fault of kind Invalid.
func (s *Service) CreateKey(ctx context.Context, siteID uuid.UUID, name string, scope Scope) (Key, string, error) {
	name = text.Trim(name)
	details := map[string]string{}
	if !validName(name) {
		details["name"] = nameRule
	}
	if secretPrefixes[scope] == "" {
		details["scope"] = "One of read, ingest."
	}
	if len(details) > 0 {
		return Key{}, "", fault.Validation(details)
	}
	var key Key
	var secret string
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		key, secret, err = s.insertKey(ctx, tx, siteID, name, scope)
		return err
	})
	return key, secret, err
}

// RotateKey makes a key with the name and scope of another and lets the other
// expire after grace (0: at once). It returns the new key and its secret, which
// is shown this once; ErrNoKey; or ErrRetired, so that of two rotations at the
// same time only one makes a key.
func (s *Service) RotateKey(ctx context.Context, siteID, keyID uuid.UUID, grace time.Duration) (Key, string, error) {
	if grace < 0 {
		return Key{}, "", fault.Validation(map[string]string{"grace": "A period of grace can't be negative."})
	}
	var key Key
	var secret string
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		expires := s.o.Now().Add(grace)
		old, err := s.queries.RetireSiteAPIKey(ctx, tx, &expires, siteID, keyID)
		if errors.Is(err, pgx.ErrNoRows) {
			return s.whyNotRetired(ctx, tx, siteID, keyID)
		}
		if err != nil {
			return err
		}
		key, secret, err = s.insertKey(ctx, tx, siteID, old.Name, Scope(old.Scope))
		return err
	})
	return key, secret, err
}

// RevokeKey ends a key at once. Revoking it again changes nothing. It returns
// ErrNoKey.
func (s *Service) RevokeKey(ctx context.Context, siteID, keyID uuid.UUID) (Key, error) {
	var row dbsqlc.SiteApiKey
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		now := s.o.Now()
		var err error
		row, err = s.queries.RevokeSiteAPIKey(ctx, tx, &now, siteID, keyID)
		return db.NotFound(err, ErrNoKey)
	})
	return keyOf(row), err
}

// ListKeys returns a site's keys, retired ones included, newest first.
func (s *Service) ListKeys(ctx context.Context, siteID uuid.UUID) ([]Key, error) {
	rows, err := s.queries.ListSiteAPIKeys(ctx, s.o.DB.Direct(), siteID)
	if err != nil {
		return nil, db.Translate(err)
	}
	keys := make([]Key, len(rows))
	for i, row := range rows {
		keys[i] = keyOf(row)
	}
	return keys, nil
}

func (s *Service) insertKey(ctx context.Context, tx pgx.Tx, siteID uuid.UUID, name string, scope Scope) (Key, string, error) {
	id, err := uuid.NewV7FromReader(s.o.Random)
	if err != nil {
		return Key{}, "", err
	}
	secret, err := newToken(s.o.Random, secretPrefixes[scope], secretRandom, siteID)
	if err != nil {
		return Key{}, "", err
	}
	row, err := s.queries.InsertSiteAPIKey(ctx, tx, dbsqlc.InsertSiteAPIKeyParams{
		SiteID: siteID, ID: id, Name: name, Scope: string(scope), Prefix: secret[:visiblePrefix], KeySha256: digest(secret), CreatedAt: s.o.Now(),
	})
	if err != nil {
		return Key{}, "", db.NotFound(err, ErrNoSite)
	}
	return keyOf(row), secret, nil
}

func (s *Service) whyNotRetired(ctx context.Context, tx pgx.Tx, siteID, keyID uuid.UUID) error {
	exists, err := s.queries.SiteAPIKeyExists(ctx, tx, siteID, keyID)
	switch {
	case err != nil:
		return err
	case exists:
		return ErrRetired
	default:
		return ErrNoKey
	}
}

func keyOf(row dbsqlc.SiteApiKey) Key {
	return Key{
		SiteID: row.SiteID, ID: row.ID, Name: row.Name, Scope: Scope(row.Scope), Prefix: row.Prefix,
		CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt, RevokedAt: row.RevokedAt, LastUsedAt: row.LastUsedAt,
	}
}
