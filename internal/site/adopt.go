package site

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// Bounds of a key that an operator chose, in bytes.
const (
	minAdopted = 8
	maxAdopted = 128
)

// ErrKeyTaken says that another site has that key.
var ErrKeyTaken = fault.New(fault.Conflict, "key_taken", "Another site has that key.")

// Two sites with one key could not be told apart, so adoptions run one at a time
// and look first.

// AdoptSiteKey gives a site a public key that the operator chose, in place of
// the one it had. It returns ErrNoSite, ErrKeyTaken, or a fault of kind Invalid.
func (s *Service) AdoptSiteKey(ctx context.Context, id uuid.UUID, key string) (Site, error) {
	if !adoptable(key) {
		return Site{}, errAdopted
	}
	var row dbsqlc.Site
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		if err := s.queries.LockSiteKeyAdoption(ctx, tx); err != nil {
			return err
		}
		taken, err := s.queries.SiteKeyExists(ctx, tx, key, id)
		if err != nil {
			return err
		}
		if taken {
			return ErrKeyTaken
		}
		row, err = s.queries.UpdateSiteKey(ctx, tx, key, s.o.Now(), id)
		return db.NotFound(err, ErrNoSite)
	})
	if err != nil {
		return Site{}, err
	}
	return s.site(ctx, s.o.DB, row)
}

// AdoptKey stores a secret key that the operator chose. Unlike those of
// CreateKey it may name no site, and is then found by its hash alone. It returns
// ErrNoSite, ErrKeyTaken, or a fault of kind Invalid.
func (s *Service) AdoptKey(ctx context.Context, siteID uuid.UUID, name string, scope Scope, secret string) (Key, error) {
	if !adoptable(secret) {
		return Key{}, errAdopted
	}
	id, err := uuid.NewV7FromReader(s.o.Random)
	if err != nil {
		return Key{}, err
	}
	var row dbsqlc.SiteApiKey
	err = s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		if err := s.queries.LockSiteKeyAdoption(ctx, tx); err != nil {
			return err
		}
		taken, err := s.queries.SiteAPIKeyHashExists(ctx, tx, digest(secret))
		if err != nil {
			return err
		}
		if taken {
			return ErrKeyTaken
		}
		row, err = s.queries.InsertSiteAPIKey(ctx, tx, dbsqlc.InsertSiteAPIKeyParams{
			SiteID: siteID, ID: id, Name: name, Scope: string(scope), Prefix: secret[:minAdopted/2], KeySha256: digest(secret), CreatedAt: s.o.Now(),
		})
		return db.NotFound(err, ErrNoSite)
	})
	return keyOf(row), err
}

var errAdopted = fault.New(fault.Invalid, fault.CodeValidation, "A key needs 8 to 128 visible ASCII characters.")

func adoptable(key string) bool {
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return false
		}
	}
	return len(key) >= minAdopted && len(key) <= maxAdopted
}

// byAdoptedKey finds the site of a public key that names none.
func (s *Service) byAdoptedKey(ctx context.Context, key string) (Site, error) {
	if !adoptable(key) {
		return Site{}, ErrSiteKey
	}
	row, err := s.queries.FindSiteBySiteKey(ctx, s.o.LookupDB.Direct(), key)
	if errors.Is(err, pgx.ErrNoRows) {
		return Site{}, ErrSiteKey
	}
	if err != nil {
		return Site{}, db.Translate(err)
	}
	return s.site(ctx, s.o.LookupDB, row)
}
