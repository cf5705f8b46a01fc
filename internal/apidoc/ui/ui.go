// Package ui makes the two interactive pages of the documentation, Scalar (the
// primary) and Swagger UI (the alternate), from assets embedded in the binary.
//
// The pages load nothing from another host and carry no inline script: settings
// travel in a data block. A read-only page carries the description as well and
// its policy forbids every connection, so that nothing can be sent from it
// whatever its script does.
package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/waypost/waypost/internal/apidoc/precompressed"
	"github.com/waypost/waypost/third_party/browser"
	"github.com/waypost/waypost/third_party/browser/origin"
)

//go:embed assets
var assets embed.FS

// Kind is one of the two UIs.
type Kind uint8

// The UIs; the zero value is the alternate one.
const (
	Alternate Kind = iota // Swagger UI
	Primary               // Scalar
)

// Options of New.
type Options struct {
	Prefix   string // URL path of the page, "/docs"
	Title    string
	Theme    string // of the primary UI
	ReadOnly bool
	// Scheme is the security scheme that is chosen at first, "" for none.
	Scheme string
	// Origins other than the page's own that a request may be sent to.
	Origins []string
	// ReportTo ends the pages' policies and says where violations are reported, "" for
	// nowhere; ReportingEndpoints is the header of that name, "" for none.
	ReportTo, ReportingEndpoints string
}

// UI holds both pages and their assets.
type UI struct {
	o      Options
	page   *template.Template
	names  map[string]string                 // file to its URL path relative to the page's directory
	assets map[string]*precompressed.Content // by absolute URL path
}

// kinds lists what each UI loads, third-party files first.
var kinds = map[Kind]struct {
	directory, csp string
	files, own     []string
}{
	Primary: {
		directory: "scalar",
		// Scalar sets style attributes and injects style elements without a nonce.
		csp:   "style-src 'self' 'unsafe-inline'; ",
		files: []string{"standalone.js"},
		own:   []string{"frame.css", "scalar.js"},
	},
	Alternate: {
		directory: "swagger-ui",
		csp:       "style-src 'self'; ",
		files:     []string{"swagger-ui.css", "swagger-ui-bundle.js"},
		own:       []string{"frame.css", "swagger.css", "swagger.js"},
	},
}

// New reads the embedded assets.
func New(o Options) (*UI, error) {
	page, err := template.ParseFS(assets, "assets/page.html")
	if err != nil {
		return nil, err
	}
	u := &UI{o: o, page: page, names: map[string]string{}, assets: map[string]*precompressed.Content{}}
	for _, kind := range kinds {
		if err := u.addThirdParty(kind.directory); err != nil {
			return nil, err
		}
		for _, name := range kind.own {
			body, err := assets.ReadFile("assets/" + name)
			if err != nil {
				return nil, err
			}
			sum := sha256.Sum256(body)
			u.add(name, hex.EncodeToString(sum[:]), func(h http.Header) *precompressed.Content { return precompressed.New(body, h) })
		}
	}
	return u, nil
}

func (u *UI) addThirdParty(directory string) error {
	raw, err := browser.Files.ReadFile(directory + "/origin.json")
	if err != nil {
		return err
	}
	var record origin.Origin
	if err := json.Unmarshal(raw, &record); err != nil {
		return fmt.Errorf("%s/origin.json: %w", directory, err)
	}
	for _, f := range record.Files {
		stored := func(ending string) func() []byte {
			return func() []byte {
				b, err := browser.Files.ReadFile(directory + "/" + f.Name + ending)
				if err != nil {
					panic(err) // found at start, and the files are in the binary
				}
				return b
			}
		}
		for _, ending := range []string{".br", ".gz"} {
			if _, err := fs.Stat(browser.Files, directory+"/"+f.Name+ending); err != nil {
				return err
			}
		}
		u.add(f.Name, f.SHA256, func(h http.Header) *precompressed.Content {
			return precompressed.Stored(stored(".br"), stored(".gz"), f.SHA256, h)
		})
	}
	return nil
}

// add gives an asset a URL that names its content, and so may be kept for ever.
func (u *UI) add(name, sum string, content func(http.Header) *precompressed.Content) {
	mediaType := "text/javascript; charset=utf-8"
	if path.Ext(name) == ".css" {
		mediaType = "text/css; charset=utf-8"
	}
	ending := path.Ext(name)
	file := "/assets/" + strings.TrimSuffix(name, ending) + "." + sum[:16] + ending
	u.names[name] = path.Base(u.o.Prefix) + file
	u.assets[u.o.Prefix+file] = content(http.Header{
		"Content-Type":  {mediaType},
		"Cache-Control": {"public, max-age=31536000, immutable"},
	})
}

// Assets returns the assets of both UIs by URL path.
func (u *UI) Assets() map[string]*precompressed.Content { return u.assets }

// settings is what a page tells its script.
type settings struct {
	URL      string          `json:"url"`
	Document json.RawMessage `json:"document,omitempty"`
	Theme    string          `json:"theme"`
	ReadOnly bool            `json:"readOnly"`
	Scheme   string          `json:"scheme,omitempty"`
}

// export is an entry of the menu of what can be taken away. File is the name under which
// browsers save it, "" for what they show or what names itself.
type export struct{ Name, URL, File string }

func exports(base string) []export {
	return []export{
		{"Postman collection", base + "/export/collection", ""},
		{"Insomnia, JSON (v4)", base + "/export/workspace", ""},
		{"Insomnia 11 and later, YAML (v5)", base + "/export/workspace?format=5", ""},
		{"OpenAPI 3.1, JSON", base + "/openapi.json", "openapi.json"},
		{"OpenAPI 3.1, YAML", base + "/openapi.yaml", "openapi.yaml"},
		{"OpenAPI 3.0, JSON", base + "/openapi-3.0.json", "openapi-3.0.json"},
		{"llms.txt (index)", base + "/llms.txt", ""},
		{"llms-full.txt (full text)", base + "/llms-full.txt", ""},
	}
}

// Page makes the page of one UI; document is the description as JSON.
func (u *UI) Page(kind Kind, document []byte) (*precompressed.Content, error) {
	base := path.Base(u.o.Prefix)
	s := settings{URL: base + "/openapi.json", Theme: u.o.Theme, ReadOnly: u.o.ReadOnly, Scheme: u.o.Scheme}
	if u.o.ReadOnly {
		s.Document = document
	}
	data := struct {
		Title, Base     string
		Primary         bool
		Styles, Scripts []string
		Exports         []export
		Settings        settings
	}{Title: u.o.Title, Base: base, Primary: kind == Primary, Exports: exports(base), Settings: s}
	k := kinds[kind]
	for _, name := range append(append([]string{}, k.files...), k.own...) {
		if path.Ext(name) == ".css" {
			data.Styles = append(data.Styles, u.names[name])
		} else {
			data.Scripts = append(data.Scripts, u.names[name])
		}
	}
	var out bytes.Buffer
	if err := u.page.Execute(&out, data); err != nil {
		return nil, err
	}
	h := http.Header{
		"Content-Type":            {"text/html; charset=utf-8"},
		"Cache-Control":           {"no-cache"},
		"Content-Security-Policy": {u.policy(k.csp)},
		"Referrer-Policy":         {"no-referrer"},
	}
	if u.o.ReportingEndpoints != "" {
		h.Set("Reporting-Endpoints", u.o.ReportingEndpoints)
	}
	return precompressed.New(out.Bytes(), h), nil
}

func (u *UI) policy(styles string) string {
	connect := "'self'"
	if u.o.ReadOnly {
		connect = "'none'"
	} else if len(u.o.Origins) > 0 {
		connect += " " + strings.Join(u.o.Origins, " ")
	}
	return "default-src 'none'; script-src 'self'; " + styles + "img-src 'self' data:; font-src 'self' data:; connect-src " + connect +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" + u.o.ReportTo
}
