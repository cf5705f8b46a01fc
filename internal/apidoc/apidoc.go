// Package apidoc makes the documentation of an API from what the API is: the
// registered Huma operations, their Go types, and the plain routes beside them.
//
// The description is a filtered copy of the live one, made once (or, in
// DevMode, for each request) and served from memory. Package model gives the
// schemas of resources, package ui the interactive pages.
package apidoc

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/precompressed"
	"github.com/waypost/waypost/internal/apidoc/ui"
)

// Docs is the documentation of one API.
type Docs struct {
	o                   Options
	keep, sent          []string // schemas of Models, and those of them that are sent
	overrides, webhooks []override
	exclude             exclusion
	ui                  *ui.UI
	current             *edition
}

// edition is everything that is made from one state of the live description.
type edition struct {
	forms              map[Form][]byte
	files              map[Form]*precompressed.Content
	primary, alternate *precompressed.Content
}

// Form is one way in which the description is written.
type Form string

// The forms, named as `waypost openapi --format` takes them.
const (
	JSON       Form = "json"     // OpenAPI 3.1
	YAML       Form = "yaml"     // the same document
	JSON30     Form = "json-3.0" // OpenAPI 3.0.3
	Markdown   Form = "markdown" // llms-full.txt: all of it
	Index      Form = "index"    // llms.txt: a line an operation
	Postman    Form = "postman"  // Collection v2.1
	Insomnia   Form = "insomnia" // export v4, JSON
	InsomniaV5 Form = "insomnia-5"
	mediaYAML       = "application/yaml" // RFC 9512
	mediaText       = "text/plain; charset=utf-8"
)

// Forms lists all of them.
func Forms() []Form {
	return []Form{JSON, YAML, JSON30, Markdown, Index, Postman, Insomnia, InsomniaV5}
}

// served says under which path below the prefix and how a form is served.
var served = map[Form]struct{ path, mediaType, attachment string }{
	JSON:       {"/openapi.json", mediaJSON, ""},
	YAML:       {"/openapi.yaml", mediaYAML, ""},
	JSON30:     {"/openapi-3.0.json", mediaJSON, ""},
	Markdown:   {"/llms-full.txt", mediaText, ""},
	Index:      {"/llms.txt", mediaText, ""},
	Postman:    {"/export/collection", mediaJSON, "postman_collection.json"},
	Insomnia:   {"/export/workspace", mediaJSON, "insomnia.json"},
	InsomniaV5: {"/export/workspace", mediaYAML, "insomnia.yaml"},
}

// New makes the documentation of what is registered in o.API by now. It fails
// for options or models that contradict themselves.
func New(o Options) (*Docs, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("documentation: %w", err)
	}
	d := &Docs{o: o, exclude: newExclusion(o.ExcludeRoutes, o.ExcludePrefixes)}
	var err error
	if d.keep, d.sent, err = describeModels(o.API.Components.Schemas, o.Models); err != nil {
		return nil, fmt.Errorf("documentation: %w", err)
	}
	if d.overrides, err = readOverrides(o); err != nil {
		return nil, fmt.Errorf("documentation: %w", err)
	}
	if d.webhooks, err = readWebhooks(o); err != nil {
		return nil, fmt.Errorf("documentation: %w", err)
	}
	d.ui, err = ui.New(ui.Options{Prefix: o.Prefix, Title: o.Title, Theme: o.Theme, ReadOnly: o.ReadOnly, Scheme: o.Auth.Name, Origins: o.origins(), ReportTo: o.ReportTo, ReportingEndpoints: o.ReportingEndpoints})
	if err != nil {
		return nil, fmt.Errorf("documentation: %w", err)
	}
	if d.current, err = d.generate(); err != nil {
		return nil, fmt.Errorf("documentation: %w", err)
	}
	return d, nil
}

// Bytes returns the documentation in one form: keys in a stable order, the same
// bytes for the same API. It fails for a form that there is not.
func (d *Docs) Bytes(form Form) ([]byte, error) {
	e, err := d.edition()
	if err != nil {
		return nil, err
	}
	b, ok := e.forms[form]
	if !ok {
		return nil, fmt.Errorf("there is no form %q", form)
	}
	return slices.Clone(b), nil
}

func (d *Docs) edition() (*edition, error) {
	if d.o.DevMode {
		return d.generate()
	}
	return d.current, nil
}

// generate writes the forms side by side: together they are most of what a start
// takes.
func (d *Docs) generate() (*edition, error) {
	doc, err := d.describe()
	if err != nil {
		return nil, err
	}
	order := d.sequence(doc)
	hinted, err := doc.encode(order) // what exports read, and nobody is served
	if err != nil {
		return nil, err
	}
	export.Strip(doc)
	plain, err := doc.encode(order)
	if err != nil {
		return nil, err
	}
	e := &edition{forms: map[Form][]byte{
		JSON: plain, Markdown: writeMarkdown(doc, order, d.o.Prefix), Index: writeIndex(doc, order, d.o.Prefix),
	}, files: map[Form]*precompressed.Content{}}
	var writers errgroup.Group
	var mu sync.Mutex
	write := func(form Form, writer func() ([]byte, error)) {
		writers.Go(func() error {
			written, err := writer()
			mu.Lock()
			defer mu.Unlock()
			e.forms[form] = bytes.Clone(written) // without the room that its buffer grew to
			return err
		})
	}
	write(YAML, func() ([]byte, error) { return jsonToYAML(plain) })
	write(JSON30, func() ([]byte, error) {
		older := downgrade(doc)
		pruneResponses(older) // of the webhooks that 3.0 lacks
		d.pruneSchemas(older)
		return document(older).encode(order)
	})
	collections, err := export.Read(hinted)
	if err == nil {
		write(Postman, collections.Postman)
		write(Insomnia, collections.Insomnia)
		write(InsomniaV5, collections.InsomniaV5)
	}
	if err := errors.Join(err, writers.Wait()); err != nil {
		return nil, err
	}
	for form, s := range served {
		e.files[form] = precompressed.New(e.forms[form], fileHeader(s.mediaType, s.attachment))
	}
	if e.primary, err = d.ui.Page(ui.Primary, plain); err != nil {
		return nil, err
	}
	e.alternate, err = d.ui.Page(ui.Alternate, plain)
	return e, err
}

func fileHeader(mediaType, attachment string) http.Header {
	h := http.Header{"Content-Type": {mediaType}, "Cache-Control": {"no-cache"}}
	if attachment != "" {
		h.Set("Content-Disposition", `attachment; filename="`+attachment+`"`)
	}
	return h
}
