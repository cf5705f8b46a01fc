// Package api is the HTTP surface: one file per resource with its operations,
// the guard that enforces their declared access, and the few plain handlers.
package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/httpedge"
)

// Title and Version are the API's, shown in its description.
const (
	Title   = "Waypost API"
	Version = "1.0.0"
)

// Models are the resources whose schemas are described.
func Models() []any { return []any{User{}, Post{}} }

// Options are the services behind the operations. The description needs none of
// them: New works with only BaseURL set, and the operations then fail.
type Options struct {
	// BaseURL is the service's own public URL, without a trailing slash.
	BaseURL string

	Authenticator Authenticator
	SiteKeys      SiteKeys
	Auth          AuthService
	Users         UserService
	Posts         PostService
	Deliveries    DeliveryReceiver
	Webhooks      WebhookAdmin
	Collector     Collector
	Sites         SiteFinder
	Stats         StatsService
	// HonorDoNotTrack makes collection count nothing for DNT and GPC.
	HonorDoNotTrack bool
	// Ready lists what must work for the service to be ready, in a fixed order.
	Ready []Check
}

// Check is one condition of readiness.
type Check struct {
	Name string
	Test func(context.Context) error
}

// Mount adds every operation and plain handler to r and returns the Huma API that
// describes them. It fails when an operation declares no access.
func Mount(r chi.Router, o Options) (huma.API, error) {
	config := huma.DefaultConfig(Title, Version)
	config.Info.Description = Description
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.CreateHooks = nil // no $schema members and Link headers
	config.Servers = []*huma.Server{{URL: o.BaseURL}}
	config.Tags = tags
	config.Components.SecuritySchemes = securitySchemes
	config.Formats = map[string]huma.Format{"application/json": model.Format(), "json": model.Format()}

	r.Use(aliases)
	operations := r.With(httpedge.CheckQuery)
	a := humachi.New(operations, config)
	a.UseMiddleware(guard(o.Authenticator, o.SiteKeys), readJSON)

	registerAuth(a, o.Auth)
	registerUsers(a, o.Users)
	registerPosts(a, o.Posts)
	registerAdminWebhooks(a, o.Webhooks)
	registerStats(a, o.Stats)
	registerHealth(a, o.Ready)
	registerIndex(a, o.BaseURL)

	r.Method(http.MethodPost, "/webhooks/{provider}", receiveWebhook(o.Deliveries))
	mountCollect(r, o)

	if err := checkAccess(a); err != nil {
		return nil, errors.Join(errors.New("api: deny by default"), err)
	}
	return a, nil
}

// aliases lets a few resources answer without /api too, as the specification's
// illustrative routes have them. They are in no description.
func aliases(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, root := range []string{"/auth/login", "/users", "/posts"} {
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
