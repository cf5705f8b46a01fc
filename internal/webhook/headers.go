package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/seal"
)

// redacted stands for a value that could be used again.
const redacted = "[redacted]"

// secretWords are what the names of headers that senders put secrets in speak of. The
// statement RedactOldWebhookHeaders has them too.
var secretWords = [...]string{"sig", "secret", "token", "auth", "cookie", "pass", "key", "cred", "session", "hmac", "digest", "hash"}

// maySecret reports whether a header's name speaks of a secret, in whatever case.
func maySecret(name string) bool {
	for i := range len(name) {
		for _, word := range secretWords {
			if name[i]|0x20 == word[0] && len(name)-i >= len(word) && strings.EqualFold(name[i:i+len(word)], word) {
				return true
			}
		}
	}
	return false
}

// hidden reports whether the values of a header are kept from everybody: those of its
// provider's signature, and all that may be a secret.
func hidden(name string, secret []string) bool {
	return maySecret(name) || slices.ContainsFunc(secret, func(s string) bool { return strings.EqualFold(s, name) })
}

// redact copies the headers without the values that could be used again.
func redact(h http.Header, secret []string) http.Header {
	out := make(http.Header, len(h))
	for name, values := range h {
		if hidden(name, secret) {
			values = slices.Repeat([]string{redacted}, len(values))
		}
		out[name] = values
	}
	return out
}

// ofConnection are the headers that are one connection's, not the message's: RFC 9110,
// section 7.6.1.
var ofConnection = [...]string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// endToEnd are the headers of h that can be passed on.
func endToEnd(h http.Header) http.Header {
	out := maps.Clone(h)
	for _, list := range h.Values("Connection") {
		for name := range strings.SplitSeq(list, ",") {
			out.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range ofConnection {
		out.Del(name)
	}
	return out
}

// SealPurpose is what seal.New derives the keys of Options.Sealer for.
const SealPurpose = "webhook headers"

// keyIDSize is the length of what names the key in front of sealed headers.
const keyIDSize = 16

// errSealed says that headers that were stored sealed can't be read.
var errSealed = errors.New("webhook: the event's sealed headers are damaged")

// sealedName binds sealed headers to their event.
func sealedName(id uuid.UUID) string { return "webhook event " + id.String() }

// sealHeaders encrypts a delivery's own headers, for as long as its event waits to be sent
// on with them.
func (r *core) sealHeaders(id uuid.UUID, h http.Header) ([]byte, error) {
	plain, err := json.Marshal(endToEnd(h))
	if err != nil {
		return nil, fmt.Errorf("webhook: headers: %w", err)
	}
	s, err := r.o.Sealer.Seal(plain, sealedName(id), r.o.Random)
	if err != nil {
		return nil, fmt.Errorf("webhook: headers: %w", err)
	}
	return append([]byte(s.KeyID), s.Box...), nil
}

// openHeaders decrypts what sealHeaders made. It returns seal.ErrUnknownKey when the
// operator's secret key is another one by now, or an error that says that it is damaged.
func (r *core) openHeaders(id uuid.UUID, sealed []byte) (http.Header, error) {
	if len(sealed) < keyIDSize {
		return nil, errSealed
	}
	if r.o.Sealer == nil {
		return nil, seal.ErrUnknownKey
	}
	plain, err := r.o.Sealer.Open(seal.Sealed{KeyID: string(sealed[:keyIDSize]), Box: sealed[keyIDSize:]}, sealedName(id))
	if err != nil {
		return nil, err
	}
	var h http.Header
	if err := json.Unmarshal(plain, &h); err != nil {
		return nil, errSealed
	}
	return h, nil
}
