package httpedge

import (
	"bytes"
	"context"
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"
)

// Within returns a request for the service itself, made in the course of another one. It has
// that one's credential, client and id, and is part of its trace; ctx is what it ends with.
// The target is a path, escaped, with a query. A nil body is none.
func Within(ctx context.Context, outer *http.Request, method, target string, body []byte) (*http.Request, error) {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, err
	}
	// The router begins anew: it would take its context for that of a router around it.
	ctx = context.WithValue(ctx, chi.RouteCtxKey, (*chi.Context)(nil))
	r, err := http.NewRequestWithContext(ctx, method, u.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Host, r.RemoteAddr, r.TLS, r.RequestURI = outer.Host, outer.RemoteAddr, outer.TLS, target
	for _, name := range []string{"Authorization", "User-Agent", "X-Forwarded-For"} {
		if values := outer.Header[name]; len(values) > 0 {
			r.Header[name] = values
		}
	}
	r.Header.Set("X-Request-Id", RequestID(outer.Context()))
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}
