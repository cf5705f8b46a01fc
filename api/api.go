// Package api is the HTTP surface: one file per resource with its operations,
// the guard that enforces their declared access, and the few plain handlers.
package api

//go:generate go run ../cmd/waypost openapi --output openapi.json

import (
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/internal/apidoc"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/idempotency"
)

// Title and Version are the API's, shown in its description.
const (
	Title   = "Waypost API"
	Version = "1.0.0"
)

// Options are what Mount needs.
type Options struct {
	// BaseURL is the service's own public URL, without a trailing slash.
	BaseURL string
	// Authenticator and SiteKeys identify callers. Without them the operations can be
	// described, but not called.
	Authenticator Authenticator
	SiteKeys      SiteKeys
	// KeyRate is the number of requests per minute that one secret API key of a site
	// may send; 0 means no limit.
	KeyRate int
	// Idempotency keeps answers to requests with an Idempotency-Key. Without it such a
	// request is as any other.
	Idempotency *idempotency.Store
	// Resources are the operations.
	Resources []Resource
}

// Models returns the models of all resources.
func (o Options) Models() []any {
	var models []any
	for _, r := range o.Resources {
		models = append(models, r.Models...)
	}
	return models
}

// Webhooks returns the deliveries that others send to any resource.
func (o Options) Webhooks() []apidoc.Webhook {
	var webhooks []apidoc.Webhook
	for _, r := range o.Resources {
		webhooks = append(webhooks, r.Webhooks...)
	}
	return webhooks
}

// Mount adds every operation and plain handler to r and returns the Huma API that
// describes them. It fails when an operation declares no access.
func Mount(r chi.Router, o Options) (huma.API, error) {
	list := resources(o.Resources)
	config := huma.DefaultConfig(Title, Version)
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.CreateHooks = nil // no $schema members and Link headers
	describe(&config, o.BaseURL, list)
	config.Formats = map[string]huma.Format{"application/json": model.Format(), "json": model.Format(), csvType: csvFormat()}

	config.Transformers = append(config.Transformers, linkNext(o.BaseURL))
	r.Use(aliases(list.aliases()))
	operations := r.With(httpedge.CheckQuery, withETag("/api/stats/", "/api/blogs"))
	a := humachi.New(operations, config)
	a.UseMiddleware(guard(o.Authenticator, o.SiteKeys, newLimiter("key", o.KeyRate)), readJSON, linger, idempotent(o.Idempotency))
	list.register(a, r)

	if err := checkAccess(a); err != nil {
		return nil, errors.Join(errors.New("api: deny by default"), err)
	}
	return a, nil
}

// aliases lets some resources answer without /api too, as the specification's
// illustrative routes have them.
func aliases(roots []string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for _, root := range roots {
				if rest, ok := strings.CutPrefix(r.URL.Path, root); ok && (rest == "" || rest[0] == '/') {
					r.URL.Path = "/api" + r.URL.Path
					if r.URL.RawPath != "" {
						r.URL.RawPath = "/api" + r.URL.RawPath
					}
					break
				}
			}
			next.ServeHTTP(w, r)
		})
	}
}
