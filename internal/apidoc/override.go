package apidoc

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// override is an Operation whose types have become schemas: the members of the
// operation that it replaces.
type override struct {
	routeKey
	hidden     bool
	deprecated time.Time // since when; the zero time: not
	members    object
	parameters []any
	responses  object
	tags       []string
}

// readOverrides finds the route of every Operation and registers the schemas of
// its types. Its order is stable.
func readOverrides(o Options) ([]override, error) {
	known := map[routeKey]bool{}
	said := map[routeKey]*Operation{}
	for path, item := range o.API.Paths {
		for method := range operationsOf(item) {
			known[routeKey{method, path}] = true
		}
	}
	for _, r := range o.Routes {
		path, _ := template(r.Path)
		key := routeKey{r.Method, path}
		if known[key] = true; r.Operation != nil {
			said[key] = r.Operation
		}
	}
	var errs []error
	if o.Overrides != nil {
		for key, operation := range o.Overrides.operations {
			if !known[key] {
				errs = append(errs, fmt.Errorf("override of %s %s: there is no such route", key.method, key.path))
			}
			said[key] = operation.over(said[key])
		}
	}
	var list []override
	for _, key := range slices.SortedFunc(maps.Keys(said), compareKeys) {
		ov, err := said[key].resolve(key, o.API.Components.Schemas)
		if err != nil {
			errs = append(errs, fmt.Errorf("override of %s %s: %w", key.method, key.path, err))
		}
		list = append(list, ov)
	}
	return list, errors.Join(errs...)
}

// DeprecatedSince says since when the operation of a route, by its pattern in the router, is
// deprecated; false where it isn't.
func (d *Docs) DeprecatedSince(method, pattern string) (time.Time, bool) {
	path, _ := template(pattern)
	for _, o := range d.overrides {
		if o.routeKey == (routeKey{method, path}) {
			return o.deprecated, !o.deprecated.IsZero()
		}
	}
	return time.Time{}, false
}

// Deprecates reports whether any operation is deprecated.
func (d *Docs) Deprecates() bool {
	return slices.ContainsFunc(d.overrides, func(o override) bool { return !o.deprecated.IsZero() })
}

// readWebhooks registers the schemas of webhooks; their names stand for a method.
func readWebhooks(o Options) ([]override, error) {
	var errs []error
	var list []override
	for _, w := range o.Webhooks {
		if w.Operation == nil || w.Name == "" {
			errs = append(errs, fmt.Errorf("webhook %q says nothing", w.Name))
			continue
		}
		ov, err := w.Operation.resolve(routeKey{w.Name, w.ReceivedAt}, o.API.Components.Schemas)
		if err != nil {
			errs = append(errs, fmt.Errorf("webhook %s: %w", w.Name, err))
		}
		list = append(list, ov)
	}
	return list, errors.Join(errs...)
}

func compareKeys(a, b routeKey) int {
	return strings.Compare(a.path+" "+a.method, b.path+" "+b.method)
}

// operationsOf yields a path's operations by method.
func operationsOf(item *huma.PathItem) map[string]*huma.Operation {
	found := map[string]*huma.Operation{
		http.MethodGet: item.Get, http.MethodPut: item.Put, http.MethodPost: item.Post, http.MethodDelete: item.Delete,
		http.MethodOptions: item.Options, http.MethodHead: item.Head, http.MethodPatch: item.Patch, http.MethodTrace: item.Trace,
	}
	maps.DeleteFunc(found, func(_ string, op *huma.Operation) bool { return op == nil })
	return found
}

func (o *Operation) resolve(key routeKey, r huma.Registry) (override, error) {
	out := override{routeKey: key, hidden: o.hidden, tags: o.tags, members: object{}, responses: object{}}
	if err := errors.Join(o.errs...); err != nil || o.hidden {
		return out, err
	}
	for name, text := range map[string]string{"operationId": o.id, "summary": o.summary, "description": o.description} {
		if text != "" {
			out.members[name] = text
		}
	}
	maps.Copy(out.members, o.extensions)
	if !o.deprecated.IsZero() {
		out.members["deprecated"], out.deprecated = true, o.deprecated
	}
	if o.security != nil {
		list := []any{}
		for _, scheme := range o.security {
			list = append(list, object{scheme: []any{}})
		}
		out.members["security"] = list
	}
	for _, p := range o.parameters {
		out.parameters = append(out.parameters, p.object(r))
	}
	if o.body != nil {
		out.members["requestBody"] = object{"required": true, "content": o.body.object(r)}
	}
	for status, answer := range o.responses {
		described := object{"description": answer.description}
		if answer.value != nil {
			media := answer.object(r)
			for _, other := range answer.also {
				maps.Copy(media, other.object(r))
			}
			described["content"] = media
		}
		for _, h := range answer.headers {
			member(described, "headers")[h.name] = h.header(r)
		}
		out.responses[strconv.Itoa(status)] = described
	}
	return out, nil
}

func (p parameter) object(r huma.Registry) object {
	out := object{"name": p.name, "in": p.in, "schema": schemaOf(r, p.value)}
	if p.description != "" {
		out["description"] = p.description
	}
	if p.required {
		out["required"] = true
	}
	if p.example != nil {
		out["example"] = p.example
	}
	return out
}

func (p parameter) header(r huma.Registry) any {
	if h, ok := p.value.(*huma.Header); ok {
		return h
	}
	out := p.object(r)
	delete(out, "name")
	delete(out, "in")
	return out
}

func (c *content) object(r huma.Registry) object {
	out := object{}
	for _, name := range c.media {
		media := object{"schema": schemaOf(r, c.value)}
		for _, e := range c.examples {
			member(media, "examples")[e.name] = object{"value": e.value}
		}
		out[name] = media
	}
	return out
}

func schemaOf(r huma.Registry, v any) any {
	switch v := v.(type) {
	case nil:
		return &huma.Schema{Type: huma.TypeString}
	case *huma.Schema:
		return v
	}
	t := reflect.TypeOf(v)
	return r.Schema(t, true, t.Name())
}

// applyOverrides replaces what the overrides speak of. Those of routes that the
// description leaves out have nothing to do.
func (d *Docs) applyOverrides(doc, paths object) error {
	var errs []error
	for _, ov := range d.overrides {
		path := declaredPath(paths, ov.path)
		item, _ := paths[path].(object)
		method := strings.ToLower(ov.method)
		op, _ := item[method].(object)
		switch {
		case op == nil:
		case !ov.hidden:
			errs = append(errs, ov.apply(doc, op))
		default:
			if delete(item, method); !hasOperation(item) {
				delete(paths, path)
			}
		}
	}
	return errors.Join(errs...)
}

// addWebhooks makes the section webhooks, without those whose path is left out.
func (d *Docs) addWebhooks(doc object) error {
	var errs []error
	for _, ov := range d.webhooks {
		if d.exclude.covers(ov.path) {
			continue
		}
		op := object{inferred: true}
		member(member(doc, "webhooks"), ov.method)["post"] = op
		errs = append(errs, ov.apply(doc, op))
	}
	return errors.Join(errs...)
}

func (ov override) apply(doc, op object) error {
	fresh, err := toObject(object{"members": ov.members, "parameters": ov.parameters, "responses": ov.responses})
	if err != nil {
		return err
	}
	maps.Copy(op, fresh["members"].(object))
	if parameters := list(fresh["parameters"]); len(parameters) > 0 {
		op["parameters"] = mergeParameters(list(op["parameters"]), parameters)
	}
	if responses, _ := fresh["responses"].(object); len(responses) > 0 {
		op["responses"] = mergeResponses(op, responses)
	}
	if len(ov.tags) > 0 {
		var tags []any
		for _, name := range ov.tags {
			tags = append(tags, declareTag(doc, name))
		}
		op["tags"] = tags
	}
	return nil
}

// mergeResponses adds answers to those of the types; what was only guessed from
// the route they replace.
func mergeResponses(op, answers object) object {
	known, _ := op["responses"].(object)
	if known == nil || op[inferred] != nil {
		return answers
	}
	maps.Copy(known, answers)
	return known
}

// mergeParameters lets a later parameter of the same name and place win.
func mergeParameters(known, added []any) []any {
	for _, p := range added {
		p := p.(object)
		same := func(other any) bool {
			o, _ := other.(object)
			return o["name"] == p["name"] && o["in"] == p["in"]
		}
		if i := slices.IndexFunc(known, same); i >= 0 {
			known[i] = p
		} else {
			known = append(known, p)
		}
	}
	return known
}

func hasOperation(item object) bool {
	return slices.ContainsFunc(methods, func(method string) bool { return item[method] != nil })
}

// checkOperations finds what the parts of a description cannot know of each
// other: an operationId that is there twice, a security scheme that is not there.
func checkOperations(doc object) error {
	var errs []error
	components, _ := doc["components"].(object)
	schemes, _ := components["securitySchemes"].(object)
	seen := map[string]bool{}
	for op := range operations(doc) {
		id, _ := op["operationId"].(string)
		if seen[id] {
			errs = append(errs, fmt.Errorf("operationId %q is there twice", id))
		}
		seen[id] = true
		security, _ := op["security"].([]any)
		for _, requirement := range security {
			for name := range requirement.(object) {
				if schemes[name] == nil {
					errs = append(errs, fmt.Errorf("operation %q needs security scheme %q, which is not declared", id, name))
				}
			}
		}
	}
	return errors.Join(errs...)
}
