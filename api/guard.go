package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/site"
)

// Authenticator turns a bearer token into its account, checked at this moment.
// It returns faults of kind Unauthenticated and Forbidden.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (identity.Principal, error)
}

// SiteKeys turns a presented secret API key into its site. It returns a fault of
// kind Unauthenticated, the same for every sort of bad key.
type SiteKeys interface {
	AuthenticateKey(ctx context.Context, presented string) (site.Site, site.Key, error)
}

const siteKeyHeader = "X-Analytics-API-Key"

var (
	errNoToken    = fault.New(fault.Unauthenticated, fault.CodeUnauthenticated, "Sign in first: send `Authorization: Bearer <access token>`.")
	errTwoTokens  = fault.New(fault.Unauthenticated, fault.CodeUnauthenticated, "Send one Authorization header.")
	errRole       = fault.New(fault.Forbidden, fault.CodeForbidden, "Your role does not allow this.")
	errInPerson   = fault.New(fault.Forbidden, fault.CodeForbidden, "An API token can't do this. Sign in instead.")
	errTokenScope = account.ErrTokenScope
	errScope      = fault.New(fault.Forbidden, fault.CodeForbidden, "This key's scope does not allow this.")
)

type siteContextKey struct{}

// siteFrom returns the site whose key opened an operation with siteKey access, or that
// the path of an operation names.
func siteFrom(ctx context.Context) site.Site {
	s, _ := ctx.Value(siteContextKey{}).(site.Site)
	return s
}

// guard enforces each operation's declared Access.
func guard(accounts Authenticator, keys SiteKeys, perKey *limiter) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		a, declared := ctx.Operation().Metadata[accessKey].(Access)
		r, w := humachi.Unwrap(ctx)
		if !declared {
			httpedge.WriteError(w, r, errRole)
			return
		}
		if kept := cacheControl(a, r); kept != "" {
			w.Header().Set("Cache-Control", kept)
		}
		var err error
		c := identity.NewContext(ctx.Context(), identity.FromContext(ctx.Context()).Doing(ctx.Operation().OperationID))
		switch {
		case a.link != "" && r.URL.Query().Has(a.link):
			// Whatever else came along doesn't matter.
		case a.scheme == schemeBearer:
			if a.optional {
				w.Header().Add("Vary", "Authorization")
				if isAnonymous(r) {
					break
				}
			}
			c, err = signIn(c, w.Header(), r, accounts, a)
			if err != nil && fault.KindOf(err) == fault.Unauthenticated {
				w.Header().Set("WWW-Authenticate", `Bearer realm="waypost"`) // RFC 6750, section 3
			}
		case a.scheme == schemeSiteKey:
			c, err = openSite(c, w, r, keys, perKey, a.scope)
		}
		if err != nil {
			httpedge.WriteError(w, r, err)
			return
		}
		next(huma.WithContext(ctx, c))
	}
}

// isAnonymous reports whether a request brings no credential at all.
func isAnonymous(r *http.Request) bool { return len(r.Header.Values("Authorization")) == 0 }

// cacheControl says who may keep an answer: nobody but whoever asked, unless everybody gets
// the same. It is "" where the operation says it itself. What an operation sets replaces
// it, and a failure says no-store.
func cacheControl(a Access, r *http.Request) string {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case !reads:
		return "no-store"
	case a.optional && isAnonymous(r):
		return "public, max-age=60"
	case a.optional:
		return "private"
	case a.scheme != "":
		return "private, no-cache" // a browser keeps it for its holder, and asks whether it still holds
	}
	return ""
}

func signIn(ctx context.Context, h http.Header, r *http.Request, accounts Authenticator, a Access) (context.Context, error) {
	token, err := bearerToken(r.Header)
	if err != nil {
		return nil, err
	}
	p, err := authenticate(ctx, accounts, token)
	if p.Rate.PerMinute > 0 {
		addRate(h, "token", p.Rate.PerMinute, p.Rate.Left, p.Rate.Reset)
	}
	if err != nil {
		return nil, err
	}
	if err := a.allows(p, r.Method); err != nil {
		return nil, err
	}
	p = p.From(identity.FromContext(ctx))
	httpedge.Acting(ctx, p)
	return identity.NewContext(ctx, p), nil
}

// bearerToken reads the one Authorization header (RFC 6750, section 2.1; the
// scheme's name is case-insensitive by RFC 9110, section 11.1).
func bearerToken(h http.Header) (string, error) {
	values := h.Values("Authorization")
	if len(values) > 1 {
		return "", errTwoTokens
	}
	if len(values) == 0 {
		return "", errNoToken
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", errNoToken
	}
	return strings.TrimSpace(token), nil
}

func openSite(ctx context.Context, w http.ResponseWriter, r *http.Request, keys SiteKeys, perKey *limiter, scope site.Scope) (context.Context, error) {
	s, key, err := keys.AuthenticateKey(ctx, r.Header.Get(siteKeyHeader))
	if err != nil {
		return nil, err
	}
	if scope == site.ScopeRead { // what is read is about the site
		w.Header().Set(siteTimezoneHeader, s.Zone.String())
	}
	if key.Scope != scope {
		return nil, errScope
	}
	if err := perKey.take(w, r, key.ID.String()); err != nil {
		return nil, err
	}
	p := identity.FromContext(ctx)
	p.Kind, p.ID = identity.KindSite, s.ID.String()
	httpedge.Acting(ctx, p)
	return context.WithValue(identity.NewContext(ctx, p), siteContextKey{}, s), nil
}

// checkAccess fails when an operation was registered without a declared Access.
func checkAccess(a huma.API) error {
	var errs []error
	for path, item := range a.OpenAPI().Paths {
		for method, op := range methodsOf(item) {
			if _, ok := op.Metadata[accessKey].(Access); !ok {
				errs = append(errs, fmt.Errorf("api: %s %s declares no access", method, path))
			}
		}
	}
	return errors.Join(errs...)
}
