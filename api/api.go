// Package api is the HTTP surface: one file per resource with its operations,
// the guard that enforces their declared access, and the few plain handlers.
package api

//go:generate go run ../cmd/waypost openapi --output openapi.json

import (
	"cmp"
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
	// DocsPath is where the documentation is; default "/docs".
	DocsPath string

	Authenticator Authenticator
	SiteKeys      SiteKeys
	Auth          AuthService
	OAuth         OAuthService
	Identities    IdentityService
	TwoFactor     TwoFactorService
	Registrar     Registrar
	Sessions      SessionService
	Tokens        TokenService
	KeySet        KeySet
	Users         UserService
	Posts         PostService
	Deliveries    DeliveryReceiver
	Webhooks      WebhookAdmin
	WebhookLog    WebhookLog
	WebhookEvents WebhookEvents
	Replays       WebhookReplays
	Collector     Collector
	Batches       BatchCollector
	Sites         SiteFinder
	SiteAdmin     SiteAdmin
	SiteKeyAdmin  SiteKeyAdmin
	SiteEraser    SiteEraser
	Drops         DropCounts
	Stats         StatsService
	// Limits are how often per minute something may be asked.
	Limits Limits
	// HonorDoNotTrack makes collection count nothing for DNT and GPC.
	HonorDoNotTrack bool
	// Ready lists what must work for the service to be ready, in a fixed order.
	Ready []Check
	// JobFailures returns the work in the background that fails for good, by name; nil
	// for none.
	JobFailures func() map[string]JobFailure
}

// Check is one condition of readiness, or with State something worth knowing
// that is none.
type Check struct {
	Name string
	Test func(context.Context) error
	// State is shown as it is, and Test not called.
	State string
}

// Mount adds every operation and plain handler to r and returns the Huma API that
// describes them. It fails when an operation declares no access.
func Mount(r chi.Router, o Options) (huma.API, error) {
	config := huma.DefaultConfig(Title, Version)
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.CreateHooks = nil // no $schema members and Link headers
	describe(&config, o.BaseURL)
	config.Formats = map[string]huma.Format{"application/json": model.Format(), "json": model.Format(), csvType: csvFormat()}

	r.Use(aliases)
	operations := r.With(httpedge.CheckQuery, withETag("/api/stats/"))
	a := humachi.New(operations, config)
	a.UseMiddleware(guard(o.Authenticator, o.SiteKeys, newLimiter(o.Limits.PerKey)), readJSON)

	registerAuth(a, o.Auth)
	registerOAuth(a, o.OAuth, o.BaseURL)
	registerIdentities(a, o.Identities)
	registerTwoFactor(a, o.TwoFactor)
	registerRegistration(a, o.Registrar)
	registerPasswords(a, o.Registrar)
	registerSessions(a, o.Sessions)
	registerTokens(a, o.Tokens)
	registerKeySet(a, o.KeySet)
	registerUsers(a, o.Users)
	registerPosts(a, o.Posts)
	registerAdminWebhooks(a, o.Webhooks)
	registerWebhookLog(a, o.WebhookLog)
	registerWebhookEvent(a, o.WebhookEvents)
	registerWebhookReplays(a, o.Replays)
	registerStats(a, o.Stats)
	registerCollectBatch(a, o.Batches)
	registerSites(a, o.SiteAdmin, o.SiteEraser)
	registerSiteKeys(a, o.SiteAdmin, o.SiteKeyAdmin)
	registerSiteDrops(a, o.SiteAdmin, o.Drops)
	registerHealth(a, o.Ready, o.JobFailures)
	registerIndex(a, o.BaseURL, cmp.Or(o.DocsPath, "/docs"))

	r.With(describeDelivery().Middleware).Method(http.MethodPost, deliveryPath, receiveWebhook(o.Deliveries))
	mountCollect(r, o)
	mountScript(r)

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
