// Package token issues and verifies access tokens and keeps the keys that sign
// them. It alone knows the JOSE library.
//
// An access token is a compact JWS (RFC 7515) with the fixed algorithm ES256, a
// kid, and the type at+jwt (RFC 9068). ES256 because every client platform can
// verify it, WebCrypto and Postman's sandbox included. What a token claims is
// never the last word: internal/account checks its session and its user.
package token

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/seal"
)

// AccessTTL is how long an access token is good for.
const AccessTTL = 15 * time.Minute

// MinSecretKey is the least length of a secret key, in bytes.
const MinSecretKey = seal.MinSecretKey

// Faults that VerifyAccess returns.
var (
	ErrExpired = fault.New(fault.Unauthenticated, "token_expired", "The access token has expired. Sign in again.")
	ErrInvalid = fault.New(fault.Unauthenticated, "token_invalid", "The access token is not one that this service issued. Sign in again.")
)

// ErrSecretKey says that a stored key was encrypted under none of the secret keys
// that were given.
var ErrSecretKey = errors.New("token: the stored signing key was encrypted under another WAYPOST_SECRET_KEY; set that value again, or give it as WAYPOST_SECRET_KEY_PREVIOUS")

// Options configure New. DB, Issuer and SecretKey are mandatory.
type Options struct {
	DB *db.DB
	// Issuer is the service's own absolute URL: iss and aud of every token.
	Issuer string
	// SecretKey encrypts the private keys at rest; at least MinSecretKey bytes.
	SecretKey []byte
	// PreviousSecretKey still decrypts what was encrypted under it; nil for none.
	PreviousSecretKey []byte
	// KeyLifetime is the age at which Rotate replaces the signing key; 0 is
	// DefaultKeyLifetime.
	KeyLifetime time.Duration
	// Now is the clock; nil for the system's.
	Now func() time.Time
	// Random is the source of token ids and nonces; nil for the system's.
	Random io.Reader
}

func (o Options) validate() error {
	switch {
	case o.DB == nil:
		return errors.New("token: Options.DB is missing")
	case o.Issuer == "":
		return errors.New("token: Options.Issuer is missing")
	case len(o.SecretKey) < MinSecretKey:
		return errors.New("token: WAYPOST_SECRET_KEY is shorter than 32 bytes")
	case len(o.PreviousSecretKey) > 0 && len(o.PreviousSecretKey) < MinSecretKey:
		return errors.New("token: WAYPOST_SECRET_KEY_PREVIOUS is shorter than 32 bytes")
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.KeyLifetime = cmp.Or(max(o.KeyLifetime, 0), DefaultKeyLifetime)
	o.Issuer = strings.TrimRight(o.Issuer, "/")
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	return o
}

// Service issues and verifies access tokens. It is safe for concurrent use.
type Service struct {
	o    Options
	keys atomic.Pointer[keyring]
	seen verified
	// loading is held by whoever reads the keys from the database; triedAt, which
	// it guards, is when that was last tried.
	loading sync.Mutex
	triedAt time.Time
}

// New loads the signing keys, and creates the first one where there is none; of
// several instances that start at once, one creates it. A key that is encrypted
// under PreviousSecretKey is encrypted anew under SecretKey. It returns
// ErrSecretKey when the signing key can't be decrypted.
func New(ctx context.Context, o Options) (*Service, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	keys, err := openKeyring(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &Service{o: o, triedAt: keys.loadedAt}
	s.keys.Store(keys)
	return s, nil
}
