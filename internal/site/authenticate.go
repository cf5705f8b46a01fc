package site

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
)

// useResolution is how exact Key.LastUsedAt is: a key in constant use is
// written once in that time.
const useResolution = time.Minute

// AuthenticateKey returns the site and the key that a presented secret belongs
// to. Missing, malformed, unknown, expired and revoked are all ErrAPIKey. The
// secret itself is compared nowhere, only its SHA-256, which an attacker can't
// steer towards a stored one.
func (s *Service) AuthenticateKey(ctx context.Context, presented string) (Site, Key, error) {
	now, sum, d := s.o.Now(), digest(presented), s.keysDB(presented)
	row, err := s.findKey(ctx, d, presented, sum, now)
	if errors.Is(err, pgx.ErrNoRows) {
		return Site{}, Key{}, ErrAPIKey
	}
	if err != nil {
		return Site{}, Key{}, db.Translate(err)
	}
	if subtle.ConstantTimeCompare(row.SiteApiKey.KeySha256, sum) != 1 {
		return Site{}, Key{}, ErrAPIKey
	}
	found, err := s.site(ctx, d, row.Site)
	if err != nil {
		return Site{}, Key{}, err
	}
	key := keyOf(row.SiteApiKey)
	s.noteUse(ctx, d, key, now)
	return found, key, nil
}

// keysDB is where a presented secret is looked up: what it can be used for must not hold
// up the rest.
func (s *Service) keysDB(presented string) *db.DB {
	if _, ok := siteOf(presented, secretPrefixes[ScopeIngest]); ok {
		return s.o.LookupDB
	}
	return s.o.DB
}

func (s *Service) findKey(ctx context.Context, d *db.DB, presented string, sum []byte, now time.Time) (dbsqlc.FindSiteAPIKeyByHashRow, error) {
	if id, ok := siteOf(presented, secretPrefixes[ScopeRead], secretPrefixes[ScopeIngest]); ok {
		return s.queries.FindSiteAPIKeyByHash(ctx, d.Direct(), id, sum, &now)
	}
	if !adoptable(presented) {
		return dbsqlc.FindSiteAPIKeyByHashRow{}, pgx.ErrNoRows
	}
	row, err := s.queries.FindAdoptedSiteAPIKey(ctx, d.Direct(), sum, &now)
	return dbsqlc.FindSiteAPIKeyByHashRow(row), err
}

// noteUse writes down that key was used, unless it was lately. It waits neither
// for a lock nor for the disk, and its failure is no reason to refuse the key.
func (s *Service) noteUse(ctx context.Context, d *db.DB, key Key, now time.Time) {
	stale := now.Add(-useResolution)
	if key.LastUsedAt != nil && !key.LastUsedAt.Before(stale) {
		return
	}
	p := identity.Site(key.SiteID.String())
	err := d.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local synchronous_commit = off"); err != nil {
			return err
		}
		return s.queries.TouchSiteAPIKey(ctx, tx, dbsqlc.TouchSiteAPIKeyParams{Now: &now, Stale: &stale, SiteID: key.SiteID, ID: key.ID})
	})
	if err != nil {
		s.o.Logger.WarnContext(ctx, "the time of last use of a site's API key was not stored", "site", key.SiteID, "key", key.ID, "error", err)
	}
}
