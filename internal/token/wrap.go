package token

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// wrapper encrypts private keys for storage with AES-256-GCM under a key that
// HKDF-SHA256 (RFC 5869) derives from a secret key. id names that key and tells
// nothing about it.
type wrapper struct {
	id   string
	aead cipher.AEAD
}

func newWrapper(secret []byte) (wrapper, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "waypost signing-key wrapping v1", 32)
	if err != nil {
		return wrapper{}, fmt.Errorf("token: derive the wrapping key: %w", err)
	}
	id, err := hkdf.Key(sha256.New, secret, nil, "waypost signing-key wrapping v1 id", 8)
	if err != nil {
		return wrapper{}, fmt.Errorf("token: derive the wrapping key's id: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return wrapper{}, fmt.Errorf("token: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return wrapper{}, fmt.Errorf("token: %w", err)
	}
	return wrapper{id: hex.EncodeToString(id), aead: aead}, nil
}

// wrap returns nonce || ciphertext. name is bound to it as additional data, so
// that a stored key can't be moved to another row.
func (w wrapper) wrap(plain []byte, name string, random io.Reader) ([]byte, error) {
	nonce := make([]byte, w.aead.NonceSize())
	if _, err := io.ReadFull(random, nonce); err != nil {
		return nil, fmt.Errorf("token: nonce: %w", err)
	}
	return w.aead.Seal(nonce, nonce, plain, []byte(name)), nil
}

func (w wrapper) unwrap(wrapped []byte, name string) ([]byte, error) {
	n := w.aead.NonceSize()
	if len(wrapped) < n {
		return nil, ErrSecretKey
	}
	plain, err := w.aead.Open(nil, wrapped[:n], wrapped[n:], []byte(name))
	if err != nil {
		return nil, ErrSecretKey
	}
	return plain, nil
}
