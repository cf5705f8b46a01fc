// Package pages is the HTML that Waypost renders itself: small pages that work
// without JavaScript, load nothing, and run under a policy that forbids both.
//
// Where mailed links lead is in account.go.
package pages

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/waypost/waypost/internal/httpedge"
)

//go:embed templates
var files embed.FS

// maxForm bounds a form in bytes: two passwords of 128 characters, each of them
// twelve bytes long in a form's encoding, and room.
const maxForm = 16 << 10

// Pages renders pages.
type Pages struct {
	routes []Endpoint
	views  map[string]*template.Template
	policy string
}

// Group is pages that belong together: one file here and its templates. Account
// makes one; the list of them is in internal/app.
type Group func(*Pages) []Endpoint

// Endpoint is to be mounted for its method; GET stands for HEAD too.
type Endpoint struct {
	Method  string
	Pattern string
	Handler http.Handler
}

// New reads the embedded templates.
func New(groups ...Group) (*Pages, error) {
	p := &Pages{views: map[string]*template.Template{}}
	style, err := files.ReadFile("templates/style.css")
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	sum := sha256.Sum256(style)
	p.policy = "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	functions := template.FuncMap{"style": func() template.CSS { return template.CSS(style) }}
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	for _, name := range names {
		view, err := template.New("page.html").Funcs(functions).ParseFS(files, "templates/page.html", "templates/parts.html", name)
		if err != nil {
			return nil, fmt.Errorf("pages: %w", err)
		}
		p.views[strings.TrimSuffix(strings.TrimPrefix(name, "templates/"), ".html")] = view
	}
	for _, g := range groups {
		p.routes = append(p.routes, g(p)...)
	}
	return p, nil
}

// Routes returns every page, in a stable order.
func (p *Pages) Routes() []Endpoint { return p.routes }

// render answers with a view. Nothing may keep or index it: its address, and the
// form in it, hold the secret of a mailed link.
func (p *Pages) render(w http.ResponseWriter, status int, view string, data any) {
	var body bytes.Buffer
	if err := p.views[view].Execute(&body, data); err != nil {
		panic(fmt.Errorf("pages: %s: %w", view, err)) // a defect; the router's recovery answers
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", p.policy)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Robots-Tag", "noindex, nofollow")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // the client is gone when this fails
}

// failed notes err for the log line, sets the headers that go with it, and
// returns its status and what a person may be told of it.
func failed(w http.ResponseWriter, r *http.Request, err error) (int, string) {
	httpedge.Record(r.Context(), err)
	e := httpedge.NewEnvelope(err, httpedge.RequestID(r.Context()))
	for name, values := range e.GetHeaders() {
		w.Header()[name] = values
	}
	switch {
	case len(e.Err.Details) == 0:
		return e.GetStatus(), e.Err.Message
	case e.GetStatus() == http.StatusInternalServerError:
		return e.GetStatus(), e.Err.Message + " It is " + e.Err.Details["request_id"] + "."
	}
	var rules []string
	for _, field := range slices.Sorted(maps.Keys(e.Err.Details)) {
		rules = append(rules, labels[field]+": "+e.Err.Details[field])
	}
	return e.GetStatus(), strings.Join(rules, " ")
}

// labels are what the forms call their fields.
var labels = map[string]string{"password": "The password", "new_password": "The new password", "email": "The address"}
