package apidoc

import (
	"maps"
	"net/http"
	"path"
	"slices"

	"github.com/waypost/waypost/internal/apidoc/precompressed"
)

// Endpoint is to be mounted for GET and HEAD.
type Endpoint struct {
	Pattern string // a path without parameters
	Handler http.Handler
}

// Routes returns the pages, the description in every form and the assets, in a
// stable order. The answers are compressed already and have a strong ETag for
// each coding: no middleware should compress them again.
func (d *Docs) Routes() []Endpoint {
	prefix := d.o.Prefix
	routes := []Endpoint{
		{prefix, http.HandlerFunc(d.servePage)},
		// The pages refer to everything relative to their own path, so that they
		// also work behind a proxy that adds one.
		{prefix + "/", http.RedirectHandler("../"+path.Base(prefix), http.StatusPermanentRedirect)},
	}
	for _, form := range Forms() {
		if form != InsomniaV5 { // chosen at Insomnia's path
			routes = append(routes, Endpoint{prefix + served[form].path, d.serveForm(form)})
		}
	}
	// Where readers look first (https://llmstxt.org); the index's links lead to its side.
	routes = append(routes, Endpoint{"/llms.txt", d.serveForm(Index)}, Endpoint{"/llms-full.txt", d.serveForm(Markdown)})
	assets := d.ui.Assets()
	for _, name := range slices.Sorted(maps.Keys(assets)) {
		routes = append(routes, Endpoint{name, assets[name]})
	}
	return routes
}

// ServiceDescription is the value of a Link header that says where an API's description in
// JSON is (RFC 8631, section 3.2).
func ServiceDescription(url string) string {
	return "<" + url + `>; rel="service-desc"; type="` + mediaJSON + `"`
}

func (d *Docs) servePage(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Link", ServiceDescription(path.Base(d.o.Prefix)+served[JSON].path))
	kind := d.o.UI
	switch r.URL.Query().Get("ui") {
	case "primary":
		kind = Primary
	case "alternate":
		kind = Alternate
	}
	d.serve(func(e *edition) *precompressed.Content {
		if kind == Primary {
			return e.primary
		}
		return e.alternate
	}).ServeHTTP(w, r)
}

// serveForm answers with one form; two of them share a path.
func (d *Docs) serveForm(form Form) http.Handler {
	if form != Insomnia {
		return d.serve(func(e *edition) *precompressed.Content { return e.files[form] })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		version := Insomnia
		if r.URL.Query().Get("format") == "5" {
			version = InsomniaV5
		}
		d.serve(func(e *edition) *precompressed.Content { return e.files[version] }).ServeHTTP(w, r)
	})
}

// serve answers with a part of the current edition. That an edition cannot be
// made is found by New; in DevMode it can only be a defect, and so panics into
// the router's recovery.
func (d *Docs) serve(part func(*edition) *precompressed.Content) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e, err := d.edition()
		if err != nil {
			panic(err)
		}
		part(e).ServeHTTP(w, r)
	})
}
