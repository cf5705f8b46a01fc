package api

import (
	_ "embed"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/internal/apidoc"
	"github.com/waypost/waypost/internal/apidoc/precompressed"
)

// statsScript is what a site's pages load. It is short enough, compressed, to be
// served as it was written.
//
//go:embed script/stats.js
var statsScript []byte

// mountScript adds GET /stats.js, for pages of any origin.
func mountScript(r chi.Router) {
	script := precompressed.New(statsScript, http.Header{
		"Content-Type":                 {"text/javascript; charset=utf-8"},
		"Cache-Control":                {"public, max-age=3600"},
		"Access-Control-Allow-Origin":  {"*"},
		"Cross-Origin-Resource-Policy": {"cross-origin"},
	})
	r.With(apidoc.Describe().Hidden().Middleware).Method(http.MethodGet, "/stats.js", script)
}
