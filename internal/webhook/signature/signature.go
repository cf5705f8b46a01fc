// Package signature verifies and makes the signatures of webhook deliveries. It
// is pure: secret, body, headers and the time come in, a verdict goes out.
//
// Signatures are compared in constant time over decoded bytes, on the body as it
// came over the wire.
package signature

import (
	"errors"
	"net/http"
	"regexp"
)

// Why a delivery was refused. They are for logs and counters: a sender is told
// the same for each, lest it learn how to come closer.
var (
	ErrNoSecret  = errors.New("signature: no secret is set")
	ErrBadSecret = errors.New("signature: the secret is not a key in base64")
	ErrMissing   = errors.New("signature: no signature header")
	ErrRepeated  = errors.New("signature: signature header sent more than once")
	ErrMalformed = errors.New("signature: malformed signature header")
	ErrTooOld    = errors.New("signature: signed too long ago")
	ErrTooNew    = errors.New("signature: signed in the future")
	ErrMismatch  = errors.New("signature: signature does not match")
)

// maxHeader bounds in bytes what of a signature header is looked at.
const maxHeader = 8 << 10

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$") // a token of RFC 9110, section 5.6.2

func checkHeaderName(name string) error {
	if !headerName.MatchString(name) {
		return errors.New("header: no name for the signature's header")
	}
	return nil
}

// only returns the one value of a header that must be sent exactly once: with
// two, which of them counts would depend on who reads.
func only(h http.Header, name string) (string, error) {
	values := h.Values(name)
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return "", ErrMissing
	case len(values) > 1:
		return "", ErrRepeated
	case len(values[0]) > maxHeader:
		return "", ErrMalformed
	}
	return values[0], nil
}
