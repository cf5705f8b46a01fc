package token

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/lestrrat-go/jwx/v2/jwk"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
)

// keyring is the one key that signs and every key that still verifies, by kid.
type keyring struct {
	kid     string
	private *ecdsa.PrivateKey
	public  map[string]*ecdsa.PublicKey
}

func openKeyring(ctx context.Context, o Options) (keyring, error) {
	current, err := newWrapper(o.SecretKey)
	if err != nil {
		return keyring{}, err
	}
	wrappers := []wrapper{current}
	if len(o.PreviousSecretKey) > 0 {
		previous, err := newWrapper(o.PreviousSecretKey)
		if err != nil {
			return keyring{}, err
		}
		wrappers = append(wrappers, previous)
	}
	rows, err := loadOrCreate(ctx, o, current)
	if err != nil {
		return keyring{}, err
	}
	ring := keyring{kid: rows[0].Kid, public: make(map[string]*ecdsa.PublicKey, len(rows))}
	for _, row := range rows {
		if ring.public[row.Kid], err = parsePublic(row.PublicKey); err != nil {
			return keyring{}, fmt.Errorf("token: public key %s: %w", row.Kid, err)
		}
	}
	if ring.private, err = unwrapSigningKey(ctx, o, rows[0], wrappers); err != nil {
		return keyring{}, err
	}
	if !ring.private.PublicKey.Equal(ring.public[ring.kid]) {
		return keyring{}, fmt.Errorf("token: signing key %s: the private key does not belong to the public key", ring.kid)
	}
	return ring, nil
}

// loadOrCreate returns the keys, the signing one first. The index
// signing_keys_one_signs lets one of several racing inserts through; the others
// wait for it, insert nothing and read the winner's key.
func loadOrCreate(ctx context.Context, o Options, w wrapper) ([]dbsqlc.SigningKey, error) {
	var q dbsqlc.Queries
	rows, err := q.ListSigningKeys(ctx, o.DB.Pool(), o.Now())
	if err != nil {
		return nil, fmt.Errorf("token: read the signing keys: %w", err)
	}
	if len(rows) > 0 && rows[0].RetiresAt == nil {
		return rows, nil
	}
	fresh, err := newSigningKey(o, w)
	if err != nil {
		return nil, err
	}
	err = o.DB.InTx(ctx, identity.System("signing-keys"), func(ctx context.Context, tx pgx.Tx) error {
		if err := q.InsertSigningKey(ctx, tx, fresh); err != nil {
			return err
		}
		rows, err = q.ListSigningKeys(ctx, tx, o.Now())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("token: create the signing key: %w", err)
	}
	return rows, nil
}

// newSigningKey makes a key whose kid is its RFC 7638 thumbprint.
func newSigningKey(o Options, w wrapper) (dbsqlc.InsertSigningKeyParams, error) {
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
	wrapped, err := w.wrap(plain, kid, o.Random)
	if err != nil {
		return none, err
	}
	spki, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		return none, fmt.Errorf("token: %w", err)
	}
	return dbsqlc.InsertSigningKeyParams{Kid: kid, PublicKey: spki, PrivateKey: wrapped, WrappingKeyID: w.id, CreatedAt: o.Now()}, nil
}

// unwrapSigningKey decrypts row with the wrapper that it names. What an earlier
// secret key encrypted is encrypted anew under the first of wrappers, so that the
// operator can drop the earlier one after one start.
func unwrapSigningKey(ctx context.Context, o Options, row dbsqlc.SigningKey, wrappers []wrapper) (*ecdsa.PrivateKey, error) {
	for i, w := range wrappers {
		if w.id != row.WrappingKeyID {
			continue
		}
		plain, err := w.unwrap(row.PrivateKey, row.Kid)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			if err := rewrap(ctx, o, row, plain, wrappers[0]); err != nil {
				return nil, err
			}
		}
		return parsePrivate(plain)
	}
	return nil, ErrSecretKey
}

func rewrap(ctx context.Context, o Options, row dbsqlc.SigningKey, plain []byte, w wrapper) error {
	wrapped, err := w.wrap(plain, row.Kid, o.Random)
	if err != nil {
		return err
	}
	err = o.DB.InTx(ctx, identity.System("signing-keys"), func(ctx context.Context, tx pgx.Tx) error {
		return dbsqlc.New().RewrapSigningKey(ctx, tx, dbsqlc.RewrapSigningKeyParams{
			Kid: row.Kid, OldWrappingKeyID: row.WrappingKeyID, PrivateKey: wrapped, WrappingKeyID: w.id,
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
