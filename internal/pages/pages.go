// Package pages is the HTML that Waypost renders itself: pages that work without
// JavaScript, load nothing from another host, and run under a policy that forbids
// both.
//
// Where mailed links lead is in account.go, the page of / in index.go. The operator pages are the desk: desk.go
// says how a page of it is made, table.go, form.go and chart.go what it is made of.
package pages

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/third_party/browser"
)

//go:embed templates assets
var files embed.FS

// maxForm bounds a form in bytes: two passwords of 128 characters, each of them
// twelve bytes long in a form's encoding, and room.
const maxForm = 16 << 10

// Pages renders pages.
type Pages struct {
	routes []Endpoint
	public map[string]*template.Template
	desk   map[string]*template.Template
	// style is the one style sheet, and policy that of the pages which carry it inline.
	style  []byte
	policy string
	// reporting ends all policies; endpoints is the header that goes with it. Both are ""
	// where nobody takes reports.
	reporting, endpoints string
	loaded               []asset
	random               io.Reader
	// fail answers what no handler of the desk took; nil without a desk.
	fail func(w http.ResponseWriter, r *http.Request, err error)
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
	p := &Pages{random: rand.Reader}
	var err error
	if p.style, err = files.ReadFile("assets/style.css"); err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	sum := sha256.Sum256(p.style)
	p.policy = "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	if err := p.load(); err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	if p.public, err = p.parse("public"); err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	if p.desk, err = p.parse("desk"); err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	for _, g := range groups {
		p.routes = append(p.routes, g(p)...)
	}
	return p, nil
}

// parse returns the views of a directory: each of its templates within its page.html,
// with its parts.html.
func (p *Pages) parse(directory string) (map[string]*template.Template, error) {
	views := map[string]*template.Template{}
	own := "templates/" + directory + "/"
	names, err := fs.Glob(files, own+"*.html")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		view, err := template.New("page.html").Funcs(p.functions()).ParseFS(files, own+"page.html", own+"parts.html", name)
		if err != nil {
			return nil, err
		}
		views[strings.TrimSuffix(path.Base(name), ".html")] = view
	}
	return views, nil
}

// asset is a file that pages load; its address names its content.
type asset struct {
	name, address string
	mediaType     string
	body          []byte
}

// load reads what pages load.
func (p *Pages) load() error {
	packed, err := browser.Files.Open("htmx/htmx.min.js.gz")
	if err != nil {
		return err
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return err
	}
	htmx, err := io.ReadAll(unpacked)
	if err != nil {
		return err
	}
	p.loaded = []asset{{name: "htmx.js", mediaType: "text/javascript; charset=utf-8", body: htmx}}
	for _, own := range []struct{ name, mediaType string }{
		{"style.css", "text/css; charset=utf-8"}, {"desk.css", "text/css; charset=utf-8"}, {"icon.svg", "image/svg+xml"},
	} {
		body, err := files.ReadFile("assets/" + own.name)
		if err != nil {
			return err
		}
		p.loaded = append(p.loaded, asset{name: own.name, mediaType: own.mediaType, body: body})
	}
	for i, a := range p.loaded {
		sum, ending := sha256.Sum256(a.body), path.Ext(a.name)
		p.loaded[i].address = DeskPath + "/assets/" + strings.TrimSuffix(a.name, ending) + "." + hex.EncodeToString(sum[:8]) + ending
	}
	return nil
}

// assets serves what pages load, which browsers may keep for ever.
func (p *Pages) assets() []Endpoint {
	var list []Endpoint
	for _, a := range p.loaded {
		list = append(list, Endpoint{http.MethodGet, a.address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", a.mediaType)
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			_, _ = w.Write(a.body) // the client is gone when this fails
		})})
	}
	return list
}

// nonce is what the scripts and styles of one answer are known by.
func (p *Pages) nonce() string {
	var b [16]byte
	if _, err := io.ReadFull(p.random, b[:]); err != nil {
		panic(fmt.Errorf("pages: random: %w", err)) // the router's recovery answers
	}
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Routes returns every page, in a stable order.
func (p *Pages) Routes() []Endpoint { return p.routes }

// render answers with a view of the pages that need no sign-in. Those behind mailed
// links hold the secret of the link, in their addresses and forms. They carry their style
// sheet, for what is below DeskPath may be closed to who opens them.
func (p *Pages) render(w http.ResponseWriter, status int, view string, data any) {
	p.answer(w, status, p.policy, p.public[view], data)
}

// answer executes t. Nothing may keep or index what comes of it.
func (p *Pages) answer(w http.ResponseWriter, status int, policy string, t *template.Template, data any) {
	var body bytes.Buffer
	if err := t.Execute(&body, data); err != nil {
		panic(fmt.Errorf("pages: %w", err)) // a defect; the router's recovery answers
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy+p.reporting)
	if p.endpoints != "" {
		h.Set("Reporting-Endpoints", p.endpoints)
	}
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
		rules = append(rules, cmp.Or(labels[field], field)+": "+e.Err.Details[field])
	}
	return e.GetStatus(), strings.Join(rules, " ")
}

// labels are what the forms call their fields.
var labels = map[string]string{"password": "The password", "new_password": "The new password", "email": "The address"}
