package signature

import (
	"crypto/hmac"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// HMAC is the scheme of one header with the HMAC-SHA256 of the body in 64
// hexadecimal digits behind a fixed prefix. It has no timestamp, so it proves who
// wrote the body and nothing about when.
type HMAC struct {
	Header string // the header's name
	Prefix string // what precedes the digits, exactly; may be empty
}

// Validate returns an error when the header's name is none.
func (s HMAC) Validate() error { return checkHeaderName(s.Header) }

// Headers names the headers that carry the signature.
func (s HMAC) Headers() []string { return []string{s.Header} }

// Verify returns nil, or one of the package's errors. The time plays no part.
func (s HMAC) Verify(secret, body []byte, h http.Header, _ time.Time) error {
	if len(secret) == 0 {
		return ErrNoSecret
	}
	value, err := only(h, s.Header)
	if err != nil {
		return err
	}
	got, err := s.parse(value)
	if err != nil {
		return err
	}
	if !hmac.Equal(got, sum(secret, body)) {
		return ErrMismatch
	}
	return nil
}

// Sign sets the header as the provider would.
func (s HMAC) Sign(secret, body []byte, h http.Header, _ time.Time) {
	h.Set(s.Header, s.Prefix+hex.EncodeToString(sum(secret, body)))
}

func (s HMAC) parse(value string) ([]byte, error) {
	digits, ok := strings.CutPrefix(value, s.Prefix)
	if !ok {
		return nil, ErrMalformed
	}
	b, ok := decode(digits)
	if !ok {
		return nil, ErrMalformed
	}
	return b, nil
}
