package token

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/seal"
)

// PlantKey stores a signing key that the test knows.
func PlantKey(ctx context.Context, o Options, kid string, key *ecdsa.PrivateKey) error {
	o = o.withDefaults()
	sealer, err := seal.New(SealPurpose, o.SecretKey, nil)
	if err != nil {
		return err
	}
	plain, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	sealed, err := sealer.Seal(plain, kid, o.Random)
	if err != nil {
		return err
	}
	spki, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	return o.DB.InTx(ctx, identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
		return dbsqlc.New().InsertSigningKey(ctx, tx, dbsqlc.InsertSigningKeyParams{
			Kid: kid, PublicKey: spki, PrivateKey: sealed.Box, WrappingKeyID: sealed.KeyID, CreatedAt: o.Now(), SignsFrom: o.Now(),
		})
	})
}

// WithoutDatabase makes a service with a fresh key of its own.
func WithoutDatabase(issuer string) *Service {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	s := &Service{o: Options{Issuer: issuer}.withDefaults()}
	s.keys.Store(&keyring{
		signers:  []signer{{kid: "k", private: key}},
		public:   map[string]verifier{"k": {public: &key.PublicKey}},
		loadedAt: s.o.Now(),
	})
	return s
}

// VerifiedKept is verifiedKept.
const VerifiedKept = verifiedKept

// Remembered is how many tokens are remembered.
func (s *Service) Remembered() int { return len(s.seen.young) + len(s.seen.old) }
