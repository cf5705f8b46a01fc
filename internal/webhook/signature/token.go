package signature

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"time"
)

// Token is the scheme of providers that sign nothing: a header holds the secret
// itself behind a fixed prefix. It proves that the sender knows the secret, and
// nothing about the body or the time; whoever sees one delivery can make others.
type Token struct {
	Header string // the header's name
	Prefix string // what precedes the token, exactly, such as "Bearer "; may be empty
}

// Validate returns an error when the header's name is none.
func (s Token) Validate() error { return checkHeaderName(s.Header) }

// Headers names the headers that carry the secret.
func (s Token) Headers() []string { return []string{s.Header} }

// Verify returns nil, or one of the package's errors. Body and time play no part.
func (s Token) Verify(secret, _ []byte, h http.Header, _ time.Time) error {
	if len(secret) == 0 {
		return ErrNoSecret
	}
	value, err := only(h, s.Header)
	if err != nil {
		return err
	}
	got, ok := strings.CutPrefix(value, s.Prefix)
	if !ok {
		return ErrMalformed
	}
	if !Equal([]byte(got), secret) {
		return ErrMismatch
	}
	return nil
}

// Sign sets the header as the provider would.
func (s Token) Sign(secret, _ []byte, h http.Header, _ time.Time) {
	h.Set(s.Header, s.Prefix+string(secret))
}

// Equal compares a token with the secret in a time that depends on neither, not even
// on their lengths.
func Equal(token, secret []byte) bool {
	a, b := sha256.Sum256(token), sha256.Sum256(secret)
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
