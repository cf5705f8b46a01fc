package apidoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/apidoc/model"
)

const schemaPrefix = "#/components/schemas/"

// object is a JSON object; numbers in it are json.Number.
type object = map[string]any

// document is a description as JSON values: a copy, free to be cut.
type document object

// rootOrder is the order of the members that every reader looks for first.
var rootOrder = []string{"openapi", "info", "jsonSchemaDialect", "servers", "security", "tags", "paths", "webhooks", "components"}

var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// describeModels puts the schemas of models into the registry, those listed and
// those that a route uses, and returns the names of the listed ones, and of these those
// that are sent.
func describeModels(r huma.Registry, listed []any) (keep, sent []string, err error) {
	for _, m := range listed {
		names, err := model.Describe(r, reflect.TypeOf(m))
		if err != nil {
			return nil, nil, err
		}
		keep = append(keep, names.Full, names.Create, names.Update)
		sent = append(sent, names.Create, names.Update)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Map())) {
		if t := r.TypeFromRef(schemaPrefix + name); model.Is(t) {
			if _, err := model.Describe(r, t); err != nil {
				return nil, nil, err
			}
		}
	}
	return keep, sent, nil
}

// describe copies the live description and makes it the one that is served.
func (d *Docs) describe() (document, error) {
	doc, err := toObject(d.o.API)
	if err != nil {
		return nil, err
	}
	info := member(doc, "info")
	info["title"], info["version"] = d.o.Title, d.o.Version
	if delete(info, "description"); d.o.Description != "" {
		info["description"] = d.o.Description
	}
	paths := member(doc, "paths")
	maps.DeleteFunc(paths, func(path string, _ any) bool { return d.exclude.covers(path) })
	d.declareAuth(doc)
	d.inferRoutes(doc, paths)
	if err := d.applyOverrides(doc, paths); err != nil {
		return nil, err
	}
	if err := d.addWebhooks(doc); err != nil {
		return nil, err
	}
	for op := range operations(doc) {
		delete(op, inferred)
	}
	if err := checkOperations(doc); err != nil {
		return nil, err
	}
	pruneTags(doc)
	if err := d.addSchemas(doc); err != nil {
		return nil, err
	}
	addExamples(doc)
	d.openAnswers(doc)
	return document(doc), shareFailures(doc)
}

func (d *Docs) declareAuth(doc object) {
	a := d.o.Auth
	if a.Name == "" {
		return
	}
	schemes := member(member(doc, "components"), "securitySchemes")
	if schemes[a.Name] != nil {
		return
	}
	scheme := object{"type": "http", "scheme": a.Scheme}
	if a.BearerFormat != "" {
		scheme["bearerFormat"] = a.BearerFormat
	}
	schemes[a.Name] = scheme
}

// addSchemas puts the registry's schemas into doc, cut to what is needed.
func (d *Docs) addSchemas(doc object) error {
	all, err := toObject(d.o.API.Components.Schemas)
	if err != nil {
		return err
	}
	member(doc, "components")["schemas"] = all
	d.pruneSchemas(doc)
	return nil
}

// pruneSchemas keeps the schemas of Models and what is referred to from the rest
// of the document or from a schema that is kept.
func (d *Docs) pruneSchemas(doc object) {
	components := member(doc, "components")
	all, _ := components["schemas"].(object)
	delete(components, "schemas")
	kept := object{}
	var keep func(name string)
	keep = func(name string) {
		if schema, ok := all[name]; ok && kept[name] == nil {
			kept[name] = schema
			references(schema, keep)
		}
	}
	for _, name := range d.keep {
		keep(name)
	}
	references(doc, keep)
	if len(kept) > 0 {
		components["schemas"] = kept
	}
	if len(components) == 0 {
		delete(doc, "components")
	}
}

// references calls found with the name of every schema that v refers to.
func references(v any, found func(string)) {
	switch v := v.(type) {
	case object:
		for key, value := range v {
			ref, isText := value.(string)
			if name, ok := strings.CutPrefix(ref, schemaPrefix); isText && ok && key == "$ref" {
				found(name)
			}
			references(value, found)
		}
	case []any:
		for _, value := range v {
			references(value, found)
		}
	}
}

// member returns the object at key, made when it is missing.
func member(o object, key string) object {
	m, ok := o[key].(object)
	if !ok {
		m = object{}
		o[key] = m
	}
	return m
}

func toObject(v any) (object, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("writing the live description: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var o object
	if err := dec.Decode(&o); err != nil {
		return nil, fmt.Errorf("reading the live description: %w", err)
	}
	return o, nil
}

// encode writes the document with its well-known members first, its paths in order, and all
// other keys sorted, indented by one space a level: in deep JSON, two are a fifth of the bytes.
func (d document) encode(order sequence) ([]byte, error) {
	keys := slices.SortedFunc(maps.Keys(d), func(a, b string) int {
		return strings.Compare(rank(a)+a, rank(b)+b)
	})
	var out bytes.Buffer
	out.WriteString("{\n")
	for i, key := range keys {
		var value bytes.Buffer
		enc := json.NewEncoder(&value)
		enc.SetEscapeHTML(false)
		enc.SetIndent(" ", " ")
		part := d[key]
		if key == "paths" {
			part = order.of(d)
		}
		if err := enc.Encode(part); err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, " %q: %s", key, bytes.TrimSpace(value.Bytes()))
		if i < len(keys)-1 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
	}
	out.WriteString("}\n")
	return out.Bytes(), nil
}

func rank(key string) string {
	if i := slices.Index(rootOrder, key); i >= 0 {
		return string(rune('a' + i))
	}
	return "~"
}
