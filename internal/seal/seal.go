// Package seal encrypts small secrets for storage: signing keys, two-factor
// secrets. What is sealed is bound to the name of where it is kept.
//
// AES-256-GCM under a key that HKDF-SHA256 (RFC 5869) derives from the operator's
// secret key, one for each purpose. Nonces are random: a purpose seals far fewer
// than the 2^32 secrets that NIST SP 800-38D section 8.3 allows one key.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
)

// MinSecretKey is the least length of a secret key, in bytes.
const MinSecretKey = 32

// Errors of Open. Neither tells anything of the secret.
var (
	// ErrUnknownKey says that it was sealed under a secret key that is not at hand.
	ErrUnknownKey = errors.New("seal: sealed under another secret key")
	// ErrCorrupt says that it was altered, or moved from another name.
	ErrCorrupt = errors.New("seal: the sealed secret is damaged or was moved")
)

// Keyring seals under the current secret key and opens what that one or the
// previous one sealed. It is safe for concurrent use.
type Keyring struct{ keys []key }

type key struct {
	id   string
	aead cipher.AEAD
}

// Sealed is a secret as it is stored. KeyID names the key and tells nothing
// about it; Box is 12 bytes of nonce, then the ciphertext with its tag.
type Sealed struct {
	KeyID string
	Box   []byte
}

// New derives a purpose's keys. previous may be nil.
func New(purpose string, current, previous []byte) (*Keyring, error) {
	k := &Keyring{}
	for _, secret := range [][]byte{current, previous} {
		if len(secret) == 0 && len(k.keys) > 0 {
			break
		}
		if len(secret) < MinSecretKey {
			return nil, fmt.Errorf("seal: a secret key is shorter than %d bytes", MinSecretKey)
		}
		derived, err := derive(purpose, secret)
		if err != nil {
			return nil, err
		}
		k.keys = append(k.keys, derived)
	}
	return k, nil
}

func derive(purpose string, secret []byte) (key, error) {
	info := "waypost " + purpose + " v1"
	raw, err := hkdf.Key(sha256.New, secret, nil, info, 32)
	if err != nil {
		return key{}, fmt.Errorf("seal: derive the key: %w", err)
	}
	id, err := hkdf.Key(sha256.New, secret, nil, info+" id", 8)
	if err != nil {
		return key{}, fmt.Errorf("seal: derive the key's id: %w", err)
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return key{}, fmt.Errorf("seal: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return key{}, fmt.Errorf("seal: %w", err)
	}
	return key{id: hex.EncodeToString(id), aead: aead}, nil
}

// Seal encrypts plain under the current key and binds it to name, so that it
// can't be opened as another row's. random gives the nonce.
func (k *Keyring) Seal(plain []byte, name string, random io.Reader) (Sealed, error) {
	current := k.keys[0]
	nonce := make([]byte, current.aead.NonceSize())
	if _, err := io.ReadFull(random, nonce); err != nil {
		return Sealed{}, fmt.Errorf("seal: nonce: %w", err)
	}
	return Sealed{KeyID: current.id, Box: current.aead.Seal(nonce, nonce, plain, []byte(name))}, nil
}

// Open decrypts what Seal made for name. It returns ErrUnknownKey or ErrCorrupt.
func (k *Keyring) Open(s Sealed, name string) ([]byte, error) {
	for _, key := range k.keys {
		if key.id != s.KeyID {
			continue
		}
		n := key.aead.NonceSize()
		if len(s.Box) < n {
			return nil, ErrCorrupt
		}
		plain, err := key.aead.Open(nil, s.Box[:n], s.Box[n:], []byte(name))
		if err != nil {
			return nil, ErrCorrupt
		}
		return plain, nil
	}
	return nil, ErrUnknownKey
}

// Knows reports whether keyID names the current key or the previous one.
func (k *Keyring) Knows(keyID string) bool {
	return slices.ContainsFunc(k.keys, func(key key) bool { return key.id == keyID })
}

// Stale reports that s was not sealed under the current key, and so must be
// sealed anew before the previous one is dropped.
func (k *Keyring) Stale(s Sealed) bool { return s.KeyID != k.KeyID() }

// KeyID names the current key.
func (k *Keyring) KeyID() string { return k.keys[0].id }
