package token

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lestrrat-go/jwx/v2/jwk"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/seal"
)

// SealPurpose is what private keys are sealed for.
const SealPurpose = "signing-key wrapping"

// keyring is the keys at one moment: those that sign now or soon, newest first,
// and every key that verifies, by kid.
type keyring struct {
	signers  []signer
	public   map[string]verifier
	loadedAt time.Time
}

type signer struct {
	kid     string
	from    time.Time
	private *ecdsa.PrivateKey
}

type verifier struct {
	public *ecdsa.PublicKey
	// until is when it stops to verify; the zero value is never.
	until time.Time
}

// signer returns the key that signs at now.
func (k *keyring) signer(now time.Time) signer {
	for _, s := range k.signers {
		if !s.from.After(now) {
			return s
		}
	}
	return k.signers[len(k.signers)-1] // clocks that differ: the first key of all
}

// verifier returns the public key of that name, nil when none verifies at now.
func (k *keyring) verifier(kid string, now time.Time) *ecdsa.PublicKey {
	v, known := k.public[kid]
	if !known || !v.until.IsZero() && !now.Before(v.until) {
		return nil
	}
	return v.public
}

func openKeyring(ctx context.Context, o Options) (*keyring, error) {
	sealer, err := seal.New(SealPurpose, o.SecretKey, o.PreviousSecretKey)
	if err != nil {
		return nil, err
	}
	rows, err := loadOrCreate(ctx, o, sealer)
	if err != nil {
		return nil, err
	}
	ring := &keyring{public: make(map[string]verifier, len(rows)), loadedAt: o.Now()}
	for _, row := range rows {
		public, err := parsePublic(row.PublicKey)
		if err != nil {
			return nil, fmt.Errorf("token: public key %s: %w", row.Kid, err)
		}
		v := verifier{public: public}
		if row.RetiresAt != nil {
			v.until = *row.RetiresAt
		}
		ring.public[row.Kid] = v
		if n := len(ring.signers); n > 0 && !ring.signers[n-1].from.After(ring.loadedAt) {
			continue // a newer one signs already
		}
		private, err := unwrapSigningKey(ctx, o, row, sealer)
		if err != nil {
			return nil, err
		}
		if !private.PublicKey.Equal(public) {
			return nil, fmt.Errorf("token: signing key %s: the private key does not belong to the public key", row.Kid)
		}
		ring.signers = append(ring.signers, signer{kid: row.Kid, from: row.SignsFrom, private: private})
	}
	return ring, nil
}

// CheckSecretKey returns ErrSecretKey when the signing key of a database, which
// may be of any schema, is encrypted under neither of the secret keys. It writes
// nothing.
func CheckSecretKey(ctx context.Context, q dbsqlc.DBTX, current, previous []byte) error {
	sealer, err := seal.New(SealPurpose, current, previous)
	if err != nil {
		return fmt.Errorf("WAYPOST_SECRET_KEY: %w", err)
	}
	id, err := dbsqlc.New().FindWrappingKeyID(ctx, q)
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.Code == "42P01" || errors.Is(err, pgx.ErrNoRows) {
		return nil // no such table, or no key yet
	}
	if err != nil {
		return fmt.Errorf("token: read the signing key: %w", db.Translate(err))
	}
	if !sealer.Knows(id) {
		return ErrSecretKey
	}
	return nil
}

// loadOrCreate returns the keys, newest first. The index signing_keys_one_signs
// lets one of several racing inserts through; the others wait for it, insert
// nothing and read the winner's key.
func loadOrCreate(ctx context.Context, o Options, sealer *seal.Keyring) ([]dbsqlc.SigningKey, error) {
	var queries dbsqlc.Queries
	rows, err := queries.ListSigningKeys(ctx, o.DB.Direct(), o.Now())
	if err != nil {
		return nil, fmt.Errorf("token: read the signing keys: %w", db.Translate(err))
	}
	if len(rows) > 0 && rows[0].RetiresAt == nil {
		return rows, nil
	}
	fresh, err := newSigningKey(o, sealer, o.Now())
	if err != nil {
		return nil, err
	}
	err = o.DB.InTx(ctx, identity.Step(ctx, "signing-keys"), func(ctx context.Context, tx pgx.Tx) error {
		if err := queries.InsertSigningKey(ctx, tx, fresh); err != nil {
			return err
		}
		rows, err = queries.ListSigningKeys(ctx, tx, o.Now())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("token: create the signing key: %w", err)
	}
	return rows, nil
}

// newSigningKey makes a key that signs from that time on, and whose kid is its
// RFC 7638 thumbprint.
func newSigningKey(o Options, sealer *seal.Keyring, from time.Time) (dbsqlc.InsertSigningKeyParams, error) {
	var none dbsqlc.InsertSigningKeyParams
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return none, fmt.Errorf("token: generate a key: %w", err)
	}
	public, err := jwk.FromRaw(&private.PublicKey)
	if err != nil {
		return none, fmt.Errorf("token: %w", err)
	}
	thumbprint, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return none, fmt.Errorf("token: %w", err)
	}
	kid := base64.RawURLEncoding.EncodeToString(thumbprint)
	plain, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return none, fmt.Errorf("token: %w", err)
	}
	sealed, err := sealer.Seal(plain, kid, o.Random)
	if err != nil {
		return none, err
	}
	spki, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		return none, fmt.Errorf("token: %w", err)
	}
	return dbsqlc.InsertSigningKeyParams{
		Kid: kid, PublicKey: spki, PrivateKey: sealed.Box, WrappingKeyID: sealed.KeyID, CreatedAt: o.Now(), SignsFrom: from,
	}, nil
}

// unwrapSigningKey decrypts row. What the previous secret key sealed is sealed
// anew under the current one, so that the operator can drop the previous one
// after one start.
func unwrapSigningKey(ctx context.Context, o Options, row dbsqlc.SigningKey, sealer *seal.Keyring) (*ecdsa.PrivateKey, error) {
	stored := seal.Sealed{KeyID: row.WrappingKeyID, Box: row.PrivateKey}
	plain, err := sealer.Open(stored, row.Kid)
	if err != nil {
		return nil, ErrSecretKey
	}
	if sealer.Stale(stored) {
		if err := rewrap(ctx, o, row, plain, sealer); err != nil {
			return nil, err
		}
	}
	return parsePrivate(plain)
}

func rewrap(ctx context.Context, o Options, row dbsqlc.SigningKey, plain []byte, sealer *seal.Keyring) error {
	sealed, err := sealer.Seal(plain, row.Kid, o.Random)
	if err != nil {
		return err
	}
	err = o.DB.InTx(ctx, identity.Step(ctx, "signing-keys"), func(ctx context.Context, tx pgx.Tx) error {
		return dbsqlc.New().RewrapSigningKey(ctx, tx, dbsqlc.RewrapSigningKeyParams{
			Kid: row.Kid, OldWrappingKeyID: row.WrappingKeyID, PrivateKey: sealed.Box, WrappingKeyID: sealed.KeyID,
		})
	})
	if err != nil {
		return fmt.Errorf("token: encrypt the signing key anew: %w", err)
	}
	return nil
}

func parsePublic(der []byte) (*ecdsa.PublicKey, error) {
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, err
	}
	public, ok := key.(*ecdsa.PublicKey)
	if !ok || public.Curve != elliptic.P256() {
		return nil, fmt.Errorf("not a P-256 key")
	}
	return public, nil
}

func parsePrivate(der []byte) (*ecdsa.PrivateKey, error) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		// The parser's text could quote the key.
		return nil, fmt.Errorf("token: the decrypted signing key is not PKCS #8")
	}
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("token: the decrypted signing key is not an ECDSA key")
	}
	return private, nil
}
