// Package httpedge is the outermost layer of HTTP: request ids, client
// addresses, limits, recovery, security headers, compression, the log line, and
// the error envelope with the one table from fault kinds to statuses.
package httpedge

import (
	"context"
	"net/http"
	"net/netip"
	"regexp"
	"sync"

	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/text"
)

// exchange is the context of one request, which remembers what its log line says. It is
// one allocation for all of that, since every request makes it.
type exchange struct {
	context.Context
	id [1]string // as a header's values
	mu sync.Mutex
	// client and by are who makes the request: an address and an actor, where they are known.
	client netip.Addr
	by     actor
	err    error
}

// actor names who acts: the kind of an identity.Principal and its ID.
type actor struct {
	kind identity.Kind
	id   string
}

type exchangeKey struct{}

// Value implements context.Context.
func (e *exchange) Value(key any) any {
	if key == (exchangeKey{}) {
		return e
	}
	return e.Context.Value(key)
}

// saneID bounds what is taken from a client's X-Request-Id into logs and spans.
var saneID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/+=-]{0,127}$`)

// RequestID returns the id of the request that ctx belongs to, "" outside one.
func RequestID(ctx context.Context) string {
	if e, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return e.id[0]
	}
	return ""
}

// Record keeps err for the log line of the request that ctx belongs to.
func Record(ctx context.Context, err error) {
	if e, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.err = err
	}
}

// Acting keeps p, who makes the request that ctx belongs to, for its log line.
func Acting(ctx context.Context, p identity.Principal) {
	if e, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.client, e.by = p.Address, actor{p.Kind, p.ID}
	}
}

// identify gives the request an id (the client's, when sane) and returns it in
// X-Request-Id.
func identify(newID func() string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			id := r.Header.Get("X-Request-Id")
			if id == "" || !saneID.MatchString(id) {
				id = newID()
			}
			e := &exchange{Context: r.Context(), id: [1]string{id}}
			w.Header()["X-Request-Id"] = e.id[:]
			next.ServeHTTP(w, r.WithContext(e))
		})
	}
}

// anonymous puts a principal into the context that knows only the client's
// address and the request id; the guard replaces it once somebody is known.
func anonymous(c *clients) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			p := identity.Principal{Kind: identity.KindAnonymous, Address: c.address(r), UserAgent: userAgent(r), RequestID: RequestID(ctx)}
			Acting(ctx, p)
			next.ServeHTTP(w, r.WithContext(identity.NewContext(ctx, p)))
		})
	}
}

// userAgent is the client's own word, fit to be stored.
func userAgent(r *http.Request) string {
	s := r.UserAgent()
	if len(s) > identity.MaxUserAgent {
		s = s[:identity.MaxUserAgent]
	}
	return text.MakeStorable(s, "")
}
