package signature

import (
	"net/http"
	"time"
)

// Headers of the Standard Webhooks scheme.
const (
	StandardID        = "Webhook-Id"
	standardTimestamp = "Webhook-Timestamp"
	standardSignature = "Webhook-Signature"
)

// Standard is the scheme of the Standard Webhooks specification, version 1, with
// symmetric keys: `v1,<base64>` is the HMAC-SHA256 of `<id>.<timestamp>.<body>`,
// valid when any v1 of the list in the header matches and the timestamp is within
// five minutes of now. A secret is the key in base64, with or without `whsec_`
// before it. Other versions in the list are ignored.
type Standard struct{}

// Scheme is the same in general terms.
func (Standard) Scheme() Scheme {
	return Scheme{
		Header: standardSignature, Encoding: Base64, Separator: " ", Prefix: "v1,", Template: "{id}.{timestamp}.{body}",
		TimestampHeader: standardTimestamp, IDHeader: StandardID, Key: Base64Key,
	}
}

// Headers names the headers that carry the signature: only the sums are secret.
func (Standard) Headers() []string { return []string{standardSignature} }

// Verify returns nil, or one of the package's errors.
func (s Standard) Verify(secret, body []byte, h http.Header, now time.Time) error {
	return s.Scheme().Verify(secret, body, h, now)
}

// Sign sets the three headers as the provider would at the time now; an id that h
// has already stays. With a secret that is no key it sets no signature.
func (s Standard) Sign(secret, body []byte, h http.Header, now time.Time) {
	s.Scheme().Sign(secret, body, h, now)
}

// SignAll signs with several secrets, as while one is rotated. One that is no key has
// no signature.
func (s Standard) SignAll(h http.Header, body []byte, now time.Time, secrets ...[]byte) {
	s.Scheme().SignAll(h, body, now, secrets...)
}

// CheckSecret returns ErrNoSecret or ErrBadSecret for a secret that is no key.
func (s Standard) CheckSecret(secret []byte) error { return s.Scheme().CheckSecret(secret) }
