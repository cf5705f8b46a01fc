// Package apidoc makes the documentation of an API from what the API is: the
// registered Huma operations, their Go types, and the plain routes beside them.
//
// The description is a filtered copy of the live one, made once (or, in
// DevMode, for each request) and served from memory. Package model gives the
// schemas of resources, package ui the interactive pages.
package apidoc

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/waypost/waypost/internal/apidoc/precompressed"
	"github.com/waypost/waypost/internal/apidoc/ui"
)

// Docs is the documentation of one API.
type Docs struct {
	options Options
	keep    []string // schemas of Models
	exclude exclusion
	ui      *ui.UI
	current *edition
}

// edition is everything that is made from one state of the live description.
type edition struct {
	json, yaml         []byte
	jsonFile, yamlFile *precompressed.Content
	primary, alternate *precompressed.Content
}

// New makes the documentation of what is registered in o.API by now. It fails
// for options or models that contradict themselves.
func New(o Options) (*Docs, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("documentation: %w", err)
	}
	d := &Docs{options: o, exclude: newExclusion(o.ExcludeRoutes, o.ExcludePrefixes)}
	var err error
	if d.keep, err = describeModels(o.API.Components.Schemas, o.Models); err != nil {
		return nil, fmt.Errorf("documentation: %w", err)
	}
	d.ui, err = ui.New(ui.Options{Prefix: o.Prefix, Title: o.Title, Theme: o.Theme, ReadOnly: o.ReadOnly, Origins: o.origins()})
	if err != nil {
		return nil, fmt.Errorf("documentation: %w", err)
	}
	if d.current, err = d.generate(); err != nil {
		return nil, fmt.Errorf("documentation: %w", err)
	}
	return d, nil
}

// JSON returns the OpenAPI 3.1 description, indented, keys in a stable order.
func (d *Docs) JSON() ([]byte, error) {
	e, err := d.edition()
	if err != nil {
		return nil, err
	}
	return slices.Clone(e.json), nil
}

// YAML returns the same document as JSON.
func (d *Docs) YAML() ([]byte, error) {
	e, err := d.edition()
	if err != nil {
		return nil, err
	}
	return slices.Clone(e.yaml), nil
}

func (d *Docs) edition() (*edition, error) {
	if d.options.DevMode {
		return d.generate()
	}
	return d.current, nil
}

func (d *Docs) generate() (*edition, error) {
	doc, err := d.describe()
	if err != nil {
		return nil, err
	}
	e := &edition{}
	if e.json, err = doc.encode(); err != nil {
		return nil, err
	}
	if e.yaml, err = jsonToYAML(e.json); err != nil {
		return nil, err
	}
	e.jsonFile = precompressed.New(e.json, fileHeader("application/json"))
	e.yamlFile = precompressed.New(e.yaml, fileHeader("application/yaml")) // RFC 9512
	if e.primary, err = d.ui.Page(ui.Primary, e.json); err != nil {
		return nil, err
	}
	e.alternate, err = d.ui.Page(ui.Alternate, e.json)
	return e, err
}

func fileHeader(mediaType string) http.Header {
	return http.Header{"Content-Type": {mediaType}, "Cache-Control": {"no-cache"}}
}
