package token

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/seal"
)

// The times of a rotation. A new key is published for publishAhead before it
// signs, which is longer than anybody keeps a copy of the set, and an old one
// verifies for overlap after its last token was signed, which is longer than a
// token lives.
const (
	// DefaultKeyLifetime is the age at which a signing key is replaced.
	DefaultKeyLifetime = 30 * 24 * time.Hour
	// JWKSMaxAge is how long a copy of the key set may be kept.
	JWKSMaxAge = 5 * time.Minute

	publishAhead = 15 * time.Minute
	overlap      = AccessTTL + 15*time.Minute
	// keepRetired is how long a retired key's row stays, for whoever looks into an
	// incident.
	keepRetired = 90 * 24 * time.Hour

	// reloadEvery bounds how old an instance's view of the keys gets, and
	// reloadAtMost how often unknown key ids make it look.
	reloadEvery  = time.Minute
	reloadAtMost = 5 * time.Second
	// reloadWithin bounds one look. It is shorter than reloadAtMost, so that those who
	// wait for a look that fails make none of their own.
	reloadWithin = 3 * time.Second
)

// Rotate replaces the signing key once it is older than KeyLifetime and returns
// how many it replaced, 0 or 1. No token that was issued becomes invalid by it. Of
// several instances that call it at once, one does it.
func (s *Service) Rotate(ctx context.Context) (int, error) {
	return s.rotate(ctx, s.o.Now().Add(-s.o.KeyLifetime))
}

// RotateNow is Rotate whatever the age of the key.
func (s *Service) RotateNow(ctx context.Context) error {
	_, err := s.rotate(ctx, s.o.Now())
	return err
}

func (s *Service) rotate(ctx context.Context, madeBefore time.Time) (int, error) {
	now := s.o.Now()
	signsFrom := now.Add(publishAhead)
	fresh, err := s.newKey(signsFrom)
	if err != nil {
		return 0, err
	}
	var rotated int64
	err = s.o.DB.InTx(ctx, identity.Step(ctx, "signing-keys"), func(ctx context.Context, tx pgx.Tx) error {
		var queries dbsqlc.Queries
		until := signsFrom.Add(overlap)
		if rotated, err = queries.RetireSigningKey(ctx, tx, &until, madeBefore); err != nil || rotated == 0 {
			return err
		}
		if _, err := queries.DeleteRetiredSigningKeys(ctx, tx, new(now.Add(-keepRetired))); err != nil {
			return err
		}
		return queries.InsertSigningKey(ctx, tx, fresh)
	})
	if err != nil {
		return 0, fmt.Errorf("token: rotate the signing key: %w", err)
	}
	if rotated > 0 {
		s.reload(ctx, 0)
	}
	return int(rotated), nil
}

// Replace retires every key at once, for when one became known to somebody else:
// all access tokens are invalid here at once, and on other instances within a
// minute; sessions go on with their refresh tokens.
func (s *Service) Replace(ctx context.Context) error {
	now := s.o.Now()
	fresh, err := s.newKey(now)
	if err != nil {
		return err
	}
	err = s.o.DB.InTx(ctx, identity.Step(ctx, "signing-keys"), func(ctx context.Context, tx pgx.Tx) error {
		var queries dbsqlc.Queries
		if err := queries.RetireAllSigningKeys(ctx, tx, &now); err != nil {
			return err
		}
		return queries.InsertSigningKey(ctx, tx, fresh)
	})
	if err != nil {
		return fmt.Errorf("token: replace the signing keys: %w", err)
	}
	s.reload(ctx, 0)
	return nil
}

func (s *Service) newKey(from time.Time) (dbsqlc.InsertSigningKeyParams, error) {
	sealer, err := seal.New(SealPurpose, s.o.SecretKey, s.o.PreviousSecretKey)
	if err != nil {
		return dbsqlc.InsertSigningKeyParams{}, err
	}
	return newSigningKey(s.o, sealer, from)
}

// RefreshKeys reads the keys anew when they are older than a minute, so that what is
// issued next is signed with one that is good. It takes a connection, so it must not
// be called inside a transaction: if all connections were in transactions that wait for
// it, none would be left.
func (s *Service) RefreshKeys(ctx context.Context) { s.ring(ctx) }

// ring returns the keys, read anew when they are older than reloadEvery. While
// the database is away it goes on with those it has.
func (s *Service) ring(ctx context.Context) *keyring {
	ring := s.keys.Load()
	if s.o.Now().Sub(ring.loadedAt) >= reloadEvery {
		s.reload(ctx, reloadAtMost)
		ring = s.keys.Load()
	}
	return ring
}

// verifier returns the public key of that name. One that is unknown may be newer
// than this instance's view, so it looks once more, but not more often than every
// reloadAtMost: anybody can make up names. Nil when no key of that name verifies.
func (s *Service) verifier(ctx context.Context, kid string) *ecdsa.PublicKey {
	ring := s.ring(ctx)
	if _, known := ring.public[kid]; !known && kid != "" {
		s.reload(ctx, reloadAtMost)
		ring = s.keys.Load()
	}
	return ring.verifier(kid, s.o.Now())
}

// reload reads the keys unless that was tried less than atMost ago. A failure
// leaves the keys as they are. The end of ctx ends nothing: everybody needs the keys, and
// a client that hangs up in time would otherwise keep this instance from new ones.
func (s *Service) reload(ctx context.Context, atMost time.Duration) {
	s.loading.Lock()
	defer s.loading.Unlock()
	now := s.o.Now()
	if s.o.DB == nil || now.Sub(s.triedAt) < atMost {
		return
	}
	s.triedAt = now
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reloadWithin)
	defer cancel()
	if ring, err := openKeyring(ctx, s.o); err == nil {
		s.keys.Store(ring)
	}
}
