package signature

import (
	"crypto/hmac"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// tolerance is how far a timestamp may lie from now, in whole seconds, in
	// either direction. A future one would stay good to replay for as long.
	tolerance = 300
	// maxCandidates is how many v1 values of one header are tried.
	maxCandidates = 16
)

// Timestamped is the scheme `t=<unix seconds>,v1=<hex>[,v1=<hex>...]`: valid when
// any v1 is the HMAC-SHA256 of `<t as sent>.<body>` and t is within five minutes
// of now. Other schemes in the header are ignored.
type Timestamped struct {
	Header string // the header's name
}

// Validate returns an error when the header's name is none.
func (s Timestamped) Validate() error { return checkHeaderName(s.Header) }

// Headers names the headers that carry the signature.
func (s Timestamped) Headers() []string { return []string{s.Header} }

// Verify returns nil, or one of the package's errors.
func (s Timestamped) Verify(secret, body []byte, h http.Header, now time.Time) error {
	if len(secret) == 0 {
		return ErrNoSecret
	}
	value, err := only(h, s.Header)
	if err != nil {
		return err
	}
	t, candidates, err := parseTimestamped(value)
	if err != nil {
		return err
	}
	at, err := parseUnix(t)
	if err != nil {
		return err
	}
	if err := inWindow(at, now); err != nil {
		return err
	}
	want := sum(secret, []byte(t), []byte("."), body)
	matches := false
	for _, c := range candidates {
		if got, ok := decode(c); ok && hmac.Equal(got, want) {
			matches = true
		}
	}
	if !matches {
		return ErrMismatch
	}
	return nil
}

// Sign sets the header as the provider would at the time now.
func (s Timestamped) Sign(secret, body []byte, h http.Header, now time.Time) {
	t := strconv.FormatInt(now.Unix(), 10)
	h.Set(s.Header, fmt.Sprintf("t=%s,v1=%s", t, hex.EncodeToString(sum(secret, []byte(t), []byte("."), body))))
}

// parseTimestamped splits the header into the literal t and the first
// maxCandidates values of v1. Exactly one t, at least one v1.
func parseTimestamped(value string) (string, []string, error) {
	var t string
	var candidates []string
	for part := range strings.SplitSeq(value, ",") {
		name, v, ok := strings.Cut(part, "=")
		switch {
		case !ok:
			return "", nil, ErrMalformed
		case name == "t" && t != "":
			return "", nil, ErrMalformed
		case name == "t" && v == "":
			return "", nil, ErrMalformed
		case name == "t":
			t = v
		case name == "v1" && len(candidates) < maxCandidates:
			candidates = append(candidates, v)
		}
	}
	if t == "" || len(candidates) == 0 {
		return "", nil, ErrMalformed
	}
	return t, candidates, nil
}

// inWindow holds a timestamp against the tolerance. Both times are at least 0 in
// any year that a clock shows, so the difference can't overflow.
func inWindow(at int64, now time.Time) error {
	switch age := now.Unix() - at; {
	case age > tolerance:
		return ErrTooOld
	case age < -tolerance:
		return ErrTooNew
	}
	return nil
}

// parseUnix reads a canonical decimal: digits only, no leading zero. The MAC
// covers the text, so two spellings of one time must not both be good.
func parseUnix(t string) (int64, error) {
	if t[0] == '0' && len(t) > 1 {
		return 0, ErrMalformed
	}
	for _, c := range []byte(t) {
		if c < '0' || c > '9' {
			return 0, ErrMalformed
		}
	}
	at, err := strconv.ParseInt(t, 10, 64)
	if err != nil {
		return 0, ErrMalformed
	}
	return at, nil
}
