package app

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/internal/apidoc"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/httpedge"
)

// newHandler puts the operations, the plain handlers and the documentation on one
// router.
func newHandler(o Options, services api.Options) (http.Handler, error) {
	r := chi.NewRouter()
	u, err := url.Parse(services.BaseURL)
	if err != nil {
		return nil, err
	}
	err = httpedge.Use(r, httpedge.Options{
		Logger:         o.Logger,
		TrustedProxies: o.Config.TrustedProxies,
		HTTPS:          u.Scheme == "https",
		Timeout:        o.Config.RequestTimeout,
	})
	if err != nil {
		return nil, err
	}
	docs, err := mount(r, services)
	if err != nil {
		return nil, err
	}
	for _, e := range docs.Routes() {
		r.Method(http.MethodGet, e.Pattern, e.Handler)
	}
	return r, nil
}

// mount adds the operations to r and derives the documentation from them.
func mount(r chi.Router, services api.Options) (*apidoc.Docs, error) {
	described, err := api.Mount(r, services)
	if err != nil {
		return nil, err
	}
	var routes []apidoc.Route
	err = chi.Walk(r, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		routes = append(routes, apidoc.Route{Method: method, Path: route})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return apidoc.New(apidoc.Options{
		API:         described.OpenAPI(),
		Routes:      routes,
		Title:       api.Title,
		Version:     api.Version,
		Description: api.Description,
		UI:          apidoc.Primary,
		Auth:        apidoc.BearerJWT(),
		Models:      api.Models(),
	})
}

// Describe makes the documentation without a database: the operations are
// registered, and none can be called.
func Describe(c config.Config) (*apidoc.Docs, error) {
	base := c.URL
	if base == "" {
		base = "http://" + c.Addr
	}
	return mount(chi.NewRouter(), api.Options{BaseURL: strings.TrimRight(base, "/")})
}
