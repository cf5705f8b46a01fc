package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// description is what exports read of an OpenAPI document.
type description struct {
	Info struct {
		Title       string
		Version     string
		Description string
	}
	Servers []struct{ URL string }
	Tags    []struct{ Name, Description string }
	// Security is that of operations which have none of their own.
	Security   []map[string][]string
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Schemas         map[string]*schema
		Parameters      map[string]parameter
		RequestBodies   map[string]requestBody
		Responses       map[string]response
		Headers         map[string]header
		Examples        map[string]example
		SecuritySchemes map[string]securityScheme
	}
	Hints Root `json:"x-waypost-export"`
}

type operation struct {
	OperationID string
	Summary     string
	Description string
	Tags        []string
	Deprecated  bool
	Parameters  []parameter
	RequestBody requestBody
	Responses   map[string]response
	Security    *[]map[string][]string // nil: the document's
	Hints       Hints                  `json:"x-waypost-export"`
}

type parameter struct {
	Ref         string `json:"$ref"`
	Name, In    string
	Description string
	Required    bool
	Style       string
	Schema      *schema
	Example     json.RawMessage
	Examples    map[string]example
}

type requestBody struct {
	Ref     string `json:"$ref"`
	Content map[string]mediaType
}

type response struct {
	Ref         string `json:"$ref"`
	Description string
	Headers     map[string]header
	Content     map[string]mediaType
}

type header struct {
	Ref     string `json:"$ref"`
	Schema  *schema
	Example json.RawMessage
}

type mediaType struct {
	Schema   *schema
	Example  json.RawMessage
	Examples map[string]example
}

type example struct {
	Ref     string `json:"$ref"`
	Summary string
	Value   json.RawMessage
}

type securityScheme struct {
	Type, Scheme, In, Name string
	Hints                  SchemeHints `json:"x-waypost-export"`
}

func readDescription(raw []byte) (*description, error) {
	var d description
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, fmt.Errorf("reading the description: %w", err)
	}
	return &d, nil
}

// component follows references like "#/components/<section>/<name>".
func component[T any](all map[string]T, section, ref string, v T) T {
	if name, ok := strings.CutPrefix(ref, "#/components/"+section+"/"); ok {
		if found, ok := all[name]; ok {
			return found
		}
	}
	return v
}

func (d *description) parameter(p parameter) parameter {
	return component(d.Components.Parameters, "parameters", p.Ref, p)
}

func (d *description) body(b requestBody) requestBody {
	return component(d.Components.RequestBodies, "requestBodies", b.Ref, b)
}

func (d *description) response(r response) response {
	return component(d.Components.Responses, "responses", r.Ref, r)
}

func (d *description) header(h header) header {
	return component(d.Components.Headers, "headers", h.Ref, h)
}

func (d *description) example(e example) example {
	return component(d.Components.Examples, "examples", e.Ref, e)
}

// decode reads a JSON value whose numbers stay as they are spelled.
func decode(raw json.RawMessage) any {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil { // part of a document that was read before
		return nil
	}
	return v
}
