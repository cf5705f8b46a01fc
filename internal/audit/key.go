package audit

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/note"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/seal"
)

// The key that signs checkpoints is sealed for SealPurpose, as sealName.
const (
	SealPurpose = "audit key wrapping"
	sealName    = "audit_keys"
)

// originPrefix begins the origin of checkpoints, which is also the key's name; the
// installation's id follows.
const originPrefix = "waypost/"

// Key is what others need to check signatures.
type Key struct {
	InstallID, Origin string
	// VerifierKey is in the form of golang.org/x/mod/sumdb/note.
	VerifierKey string
}

// signingKey signs as origin.
type signingKey struct {
	origin   string
	signer   note.Signer
	verifier note.Verifier
}

// Key returns the public key, which it makes where there is none yet. It returns
// ErrNoKey when that needs a secret key and there is none.
func (s *Service) Key(ctx context.Context) (Key, error) {
	row, err := s.findKey(ctx)
	if errors.Is(err, ErrNoKey) && s.sealer != nil {
		if row, err = s.makeKey(ctx); err != nil {
			return Key{}, err
		}
	}
	if err != nil {
		return Key{}, err
	}
	return s.publicKey(ctx, s.o.DB.Direct(), row)
}

func (s *Service) publicKey(ctx context.Context, q dbsqlc.DBTX, row dbsqlc.FindAuditKeyRow) (Key, error) {
	id, err := s.queries.FindInstallID(ctx, q)
	if err != nil {
		return Key{}, fmt.Errorf("audit: read the installation's id: %w", db.Translate(err))
	}
	k := Key{InstallID: id.String(), Origin: originPrefix + id.String()}
	if k.VerifierKey, err = note.NewEd25519VerifierKey(k.Origin, row.PublicKey); err != nil {
		return Key{}, fmt.Errorf("audit: the public key: %w", err)
	}
	return k, nil
}

// findKey returns ErrNoKey when there is none.
func (s *Service) findKey(ctx context.Context) (dbsqlc.FindAuditKeyRow, error) {
	row, err := s.queries.FindAuditKey(ctx, s.o.DB.Direct())
	return row, db.NotFound(err, ErrNoKey)
}

// makeKey makes the installation's key, unless another process does that first.
func (s *Service) makeKey(ctx context.Context) (dbsqlc.FindAuditKeyRow, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(s.o.Random, seed); err != nil {
		return dbsqlc.FindAuditKeyRow{}, fmt.Errorf("audit: make a key: %w", err)
	}
	sealed, err := s.sealer.Seal(seed, sealName, s.o.Random)
	if err != nil {
		return dbsqlc.FindAuditKeyRow{}, err
	}
	var row dbsqlc.FindAuditKeyRow
	err = s.o.DB.InTx(ctx, identity.System("audit-key"), func(ctx context.Context, tx pgx.Tx) error {
		public, _ := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
		err := s.queries.InsertAuditKey(ctx, tx, dbsqlc.InsertAuditKeyParams{PublicKey: public, PrivateKey: sealed.Box, WrappingKeyID: sealed.KeyID, Now: s.o.Now()})
		if err != nil {
			return err
		}
		row, err = s.queries.FindAuditKey(ctx, tx)
		return err
	})
	if err != nil {
		return row, fmt.Errorf("audit: store the key: %w", err)
	}
	return row, nil
}

// signer returns the key that signs, and makes it on first need. It returns ErrNoKey
// without a secret key.
func (s *Service) signer(ctx context.Context) (*signingKey, error) {
	if s.sealer == nil {
		return nil, ErrNoKey
	}
	s.keys.Lock()
	defer s.keys.Unlock()
	if s.key != nil {
		return s.key, nil
	}
	row, err := s.findKey(ctx)
	if errors.Is(err, ErrNoKey) {
		row, err = s.makeKey(ctx)
	}
	if err != nil {
		return nil, err
	}
	key, err := s.openKey(ctx, row)
	if err != nil {
		return nil, err
	}
	s.key = key
	return key, nil
}

// openKey decrypts row's key, which is encrypted anew where the previous secret key
// did it.
func (s *Service) openKey(ctx context.Context, row dbsqlc.FindAuditKeyRow) (*signingKey, error) {
	stored := seal.Sealed{KeyID: row.WrappingKeyID, Box: row.PrivateKey}
	seed, err := s.sealer.Open(stored, sealName)
	if err != nil {
		return nil, fmt.Errorf("audit: the key that signs checkpoints: %w", err)
	}
	public, err := s.publicKey(ctx, s.o.DB.Direct(), row)
	if err != nil {
		return nil, err
	}
	k := &signingKey{origin: public.Origin}
	if k.verifier, err = note.NewVerifier(public.VerifierKey); err != nil {
		return nil, fmt.Errorf("audit: the public key: %w", err)
	}
	private := base64.StdEncoding.EncodeToString(append([]byte{1}, seed...)) // 1 is Ed25519
	if k.signer, err = note.NewSigner(fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", k.origin, k.verifier.KeyHash(), private)); err != nil {
		return nil, errors.New("audit: the private key does not belong to the public key")
	}
	if !s.sealer.Stale(stored) {
		return k, nil
	}
	sealed, err := s.sealer.Seal(seed, sealName, s.o.Random)
	if err != nil {
		return nil, err
	}
	err = s.o.DB.InTx(ctx, identity.System("audit-key"), func(ctx context.Context, tx pgx.Tx) error {
		return s.queries.RewrapAuditKey(ctx, tx, sealed.Box, sealed.KeyID, row.WrappingKeyID)
	})
	if err != nil {
		return nil, fmt.Errorf("audit: encrypt the key anew: %w", err)
	}
	return k, nil
}
