package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
)

// withETag gives successful answers to GETs below prefixes, and to statistics of a named
// site, a tag made of their bytes, and answers 304 to a client that has them. The tag is a weak one (RFC
// 9110, section 8.8.1): answers are compressed after it is made.
func withETag(prefixes ...string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			below := func(prefix string) bool { return strings.HasPrefix(r.URL.Path, prefix) }
			tagged := slices.ContainsFunc(prefixes, below) || below("/api/admin/sites/") && strings.Contains(r.URL.Path, "/stats/")
			if r.Method != http.MethodGet && r.Method != http.MethodHead || !tagged {
				next.ServeHTTP(w, r)
				return
			}
			held := &heldAnswer{ResponseWriter: w, status: http.StatusOK}
			next.ServeHTTP(held, r)
			if held.status == http.StatusOK {
				sum := sha256.Sum256(held.body.Bytes())
				tag := `W/"` + hex.EncodeToString(sum[:16]) + `"`
				w.Header().Set("ETag", tag)
				if knows(r.Header.Values("If-None-Match"), tag) {
					w.Header().Del("Content-Type")
					w.WriteHeader(http.StatusNotModified)
					return
				}
			}
			w.WriteHeader(held.status)
			_, _ = w.Write(held.body.Bytes()) // the client is gone when this fails
		})
	}
}

// heldAnswer keeps an answer until it is complete.
type heldAnswer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (h *heldAnswer) WriteHeader(status int)      { h.status = status }
func (h *heldAnswer) Write(b []byte) (int, error) { return h.body.Write(b) }

// Unwrap lets http.ResponseController reach the connection.
func (h *heldAnswer) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// knows implements the weak comparison of RFC 9110, section 13.1.2.
func knows(fields []string, tag string) bool {
	for _, field := range fields {
		for candidate := range strings.SplitSeq(field, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == strings.TrimPrefix(tag, "W/") {
				return true
			}
		}
	}
	return false
}
