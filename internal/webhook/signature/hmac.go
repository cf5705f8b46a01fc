package signature

import (
	"net/http"
	"time"
)

// HMAC is the scheme of one header with the HMAC-SHA256 of the body in 64
// hexadecimal digits behind a fixed prefix. It has no timestamp, so it proves who
// wrote the body and nothing about when.
type HMAC struct {
	Header string // the header's name
	Prefix string // what precedes the digits, exactly; may be empty
}

// Scheme is the same in general terms.
func (s HMAC) Scheme() Scheme { return Scheme{Header: s.Header, Prefix: s.Prefix} }

// Validate returns an error when the header's name is none.
func (s HMAC) Validate() error { return s.Scheme().Validate() }

// Headers names the headers that carry the signature.
func (s HMAC) Headers() []string { return []string{s.Header} }

// Verify returns nil, or one of the package's errors. The time plays no part.
func (s HMAC) Verify(secret, body []byte, h http.Header, now time.Time) error {
	return s.Scheme().Verify(secret, body, h, now)
}

// Sign sets the header as the provider would.
func (s HMAC) Sign(secret, body []byte, h http.Header, now time.Time) {
	s.Scheme().Sign(secret, body, h, now)
}
