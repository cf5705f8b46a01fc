package app

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/internal/apidoc"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/pages"
)

// newHandler puts the operations, the plain handlers, the documentation and the
// pages on one router.
func newHandler(o Options, metrics http.Handler, operations api.Options, views *pages.Pages, forwarding *httpedge.Forwarding) (http.Handler, error) {
	r := chi.NewRouter()
	u, err := url.Parse(operations.BaseURL)
	if err != nil {
		return nil, err
	}
	edge := httpedge.Options{
		Logger:         o.Logger,
		TrustedProxies: o.Config.TrustedProxies,
		Forwarding:     forwarding,
		HTTPS:          u.Scheme == "https",
		Timeout:        o.Config.RequestTimeout,
		Requests:       o.observed.requests,
		Tracer:         o.observed.tracer(),
		Fail:           views.Fail,
	}
	if err := httpedge.Use(r, edge); err != nil {
		return nil, err
	}
	docs, tools, err := mount(r, o.Config.Docs, operations, o.Extensions, edge.HTTPS)
	if err != nil {
		return nil, err
	}
	if pathOfTools(o.Config) != "" {
		if err := offerTools(r, o.Config.Docs, operations, docs, tools); err != nil {
			return nil, err
		}
	}
	// After the documentation was made, for pages are no part of the API.
	for _, e := range views.Routes() {
		r.Method(e.Method, e.Pattern, e.Handler)
	}
	if o.Config.Telemetry.MetricsToken != "" {
		r.Method(http.MethodGet, "/metrics", requireToken(o.Config.Telemetry.MetricsToken, metrics))
	}
	if err := publish(r, docs.Routes()); err != nil {
		return nil, err
	}
	documented, err := ahead(deprecating(r, docs), edge, docs.Routes())
	if err != nil {
		return nil, err
	}
	edge.Route = "/"
	description := apidoc.ServiceDescription(baseURL(o.Config) + o.Config.Docs.Prefix + "/openapi.json")
	index, err := httpedge.Fixed(edge, withLink(description, views.Index(pages.IndexOptions{Version: api.Version, Docs: o.Config.Docs.Prefix})))
	return front(documented, index), err
}

// withLink sends a link (RFC 8288) with each answer.
func withLink(link string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", link)
		next.ServeHTTP(w, r)
	})
}

// deprecating says with each answer of a deprecated operation since when it is (RFC 9745).
func deprecating(r chi.Router, docs *apidoc.Docs) http.Handler {
	if !docs.Deprecates() {
		return r
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		at := chi.NewRouteContext()
		if r.Match(at, req.Method, req.URL.Path) {
			if since, ok := docs.DeprecatedSince(req.Method, at.RoutePattern()); ok {
				w.Header().Set("Deprecation", "@"+strconv.FormatInt(since.Unix(), 10))
			}
		}
		r.ServeHTTP(w, req)
	})
}

// ahead answers what lies ready before the router r is asked, which keeps the
// other methods of these paths.
func ahead(r http.Handler, edge httpedge.Options, endpoints []apidoc.Endpoint) (http.Handler, error) {
	ready := map[string]http.Handler{}
	for _, e := range endpoints {
		var err error
		edge.Route = e.Pattern
		if ready[e.Pattern], err = httpedge.Fixed(edge, e.Handler); err != nil {
			return nil, err
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if h, ok := ready[req.URL.Path]; ok && (req.Method == http.MethodGet || req.Method == http.MethodHead) {
			h.ServeHTTP(w, req)
			return
		}
		r.ServeHTTP(w, req)
	}), nil
}

// front answers / with a page to who wants one, and hands all else on.
func front(next, index http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			w.Header().Add("Vary", "Accept")
			if pages.WantsPage(r) {
				index.ServeHTTP(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// publish adds the documentation's endpoints to r, the last to come: one that
// would take a path from another is an error.
func publish(r chi.Router, endpoints []apidoc.Endpoint) error {
	for _, e := range endpoints {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			taken := chi.NewRouteContext()
			if r.Match(taken, method, e.Pattern) {
				return fmt.Errorf("WAYPOST_DOCS_PREFIX: the documentation's %s would hide %s %s", e.Pattern, method, taken.RoutePattern())
			}
		}
		r.Method(http.MethodGet, e.Pattern, e.Handler)
	}
	return nil
}

// mount adds the operations to r and derives the documentation from them.
func mount(r chi.Router, c config.Docs, operations api.Options, x Extensions, https bool) (*apidoc.Docs, []api.Tool, error) {
	described, err := api.Mount(r, operations)
	if err != nil {
		return nil, nil, err
	}
	var routes []apidoc.Route
	err = chi.Walk(r, func(method, route string, h http.Handler, middlewares ...func(http.Handler) http.Handler) error {
		routes = append(routes, apidoc.Route{Method: method, Path: route, Operation: apidoc.OperationOf(h, middlewares...)})
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	ui := apidoc.Primary
	if c.UI == "alternate" {
		ui = apidoc.Alternate
	}
	options := apidoc.Options{
		API:             described.OpenAPI(),
		Routes:          routes,
		Prefix:          c.Prefix,
		Title:           cmp.Or(c.Title, api.Title),
		Version:         cmp.Or(c.Version, api.Version),
		UI:              ui,
		Theme:           c.Theme,
		Auth:            apidoc.BearerJWT(),
		Models:          operations.Models(),
		Sequence:        api.Sequence(described.OpenAPI()),
		Webhooks:        operations.Webhooks(),
		DevMode:         c.DevMode,
		ReadOnly:        c.ReadOnly,
		ExcludeRoutes:   c.ExcludeRoutes,
		ExcludePrefixes: c.ExcludePrefixes,
	}
	options.ReportTo, options.ReportingEndpoints = pages.Reporting(https)
	if x.Overrides != nil {
		options.Overrides = new(apidoc.Overrides)
		x.Overrides(options.Overrides)
	}
	api.DescribePermissions(described.OpenAPI(), options.Shows)
	options.Description = cmp.Or(c.Description, described.OpenAPI().Info.Description)
	docs, err := apidoc.New(options)
	if err != nil {
		return nil, nil, fmt.Errorf("%w; settings are in the variables WAYPOST_DOCS_*", err)
	}
	return docs, api.Tools(described.OpenAPI()), nil
}

// Describe makes the documentation without a database: the operations are
// registered, and none can be called.
func Describe(c config.Config, x Extensions) (*apidoc.Docs, error) {
	registry, err := newRegistry(c, func(string) string { return "" }, x)
	if err != nil {
		return nil, err
	}
	list, err := resources(c, new(Services), registry.Providers(), api.Condition{}, x)
	if err != nil {
		return nil, err
	}
	docs, _, err := mount(chi.NewRouter(), c.Docs, api.Options{BaseURL: baseURL(c), Resources: list}, x, false)
	return docs, err
}
