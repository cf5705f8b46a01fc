package signature

import (
	"crypto/hmac"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
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

// Headers names the headers that carry the signature: only the sums are secret.
func (Standard) Headers() []string { return []string{standardSignature} }

// Verify returns nil, or one of the package's errors.
func (Standard) Verify(secret, body []byte, h http.Header, now time.Time) error {
	key, err := standardKey(secret)
	if err != nil {
		return err
	}
	var values [3]string
	for i, name := range [3]string{StandardID, standardTimestamp, standardSignature} {
		if values[i], err = only(h, name); err != nil {
			return err
		}
	}
	id, t, list := values[0], values[1], values[2]
	// A full stop in the id would let one signature stand for two readings of what
	// it covers.
	if strings.Contains(id, ".") {
		return ErrMalformed
	}
	at, err := parseUnix(t)
	if err != nil {
		return err
	}
	if err := inWindow(at, now); err != nil {
		return err
	}
	candidates := parseStandard(list)
	if len(candidates) == 0 {
		return ErrMalformed
	}
	want := sum(key, []byte(id), []byte("."), []byte(t), []byte("."), body)
	matches := false
	for _, c := range candidates {
		// Decoding skips line ends; none fit into the length of a sum.
		if len(c) != base64.StdEncoding.EncodedLen(len(want)) {
			continue
		}
		if got, err := base64.StdEncoding.Strict().DecodeString(c); err == nil && hmac.Equal(got, want) {
			matches = true
		}
	}
	if !matches {
		return ErrMismatch
	}
	return nil
}

// Sign sets the three headers as the provider would at the time now; an id that h
// has already stays. With a secret that is no key it sets no signature.
func (Standard) Sign(secret, body []byte, h http.Header, now time.Time) {
	key, err := standardKey(secret)
	if err != nil {
		return
	}
	t := strconv.FormatInt(now.Unix(), 10)
	mac := sum(key, []byte(h.Get(StandardID)), []byte("."), []byte(t), []byte("."), body)
	h.Set(standardTimestamp, t)
	h.Set(standardSignature, "v1,"+base64.StdEncoding.EncodeToString(mac))
}

// CheckSecret returns ErrNoSecret or ErrBadSecret for a secret that is no key.
func (Standard) CheckSecret(secret []byte) error {
	_, err := standardKey(secret)
	return err
}

// standardKey decodes a secret. Padding is optional: operators paste what a
// provider shows them.
func standardKey(secret []byte) ([]byte, error) {
	text := strings.TrimRight(strings.TrimPrefix(string(secret), "whsec_"), "=")
	if text == "" {
		return nil, ErrNoSecret
	}
	key, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil, ErrBadSecret
	}
	return key, nil
}

// parseStandard returns the first maxCandidates sums of version v1 in a list
// separated by spaces.
func parseStandard(list string) []string {
	var candidates []string
	for entry := range strings.SplitSeq(list, " ") {
		if version, sum, ok := strings.Cut(entry, ","); ok && version == "v1" && len(candidates) < maxCandidates {
			candidates = append(candidates, sum)
		}
	}
	return candidates
}
