package apidoc

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// documentedMethods are those of inferred operations; HEAD and OPTIONS follow
// from the others.
var documentedMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// inferred marks, while a description is made, an operation of which only the
// route is known.
const inferred = "x-inferred"

// pathParameter matches one parameter of a route's pattern: {id}, {id:[0-9]+} or the
// final *.
var pathParameter = regexp.MustCompile(`\{([^{}:]+)(?::(?:[^{}]|\{[^{}]*\})*)?\}|\*$`)

// inferRoutes adds the routes that were never declared, with what their paths
// say about them.
func (d *Docs) inferRoutes(doc, paths object) {
	ids := map[string]bool{}
	for op := range operations(doc) {
		id, _ := op["operationId"].(string)
		ids[id] = true
	}
	routes := slices.Clone(d.o.Routes)
	slices.SortFunc(routes, func(a, b Route) int { return strings.Compare(a.Path+" "+a.Method, b.Path+" "+b.Method) })
	for _, r := range routes {
		path, names := template(r.Path)
		own := path == d.o.Prefix || strings.HasPrefix(path, d.o.Prefix+"/")
		if own || d.exclude.covers(path) || !slices.Contains(documentedMethods, r.Method) {
			continue
		}
		path = declaredPath(paths, path)
		item := member(paths, path)
		method := strings.ToLower(r.Method)
		if item[method] != nil {
			continue
		}
		words, tag := describePath(path)
		id := operationID(method, words)
		for base, n := id, 2; ids[id]; n++ {
			id = base + "-" + strconv.Itoa(n)
		}
		ids[id] = true
		item[method] = inferOperation(method, id, words, declareTag(doc, tag), names)
	}
}

// template turns a router's pattern into OpenAPI's and lists its parameters.
func template(pattern string) (string, []string) {
	var names []string
	path := pathParameter.ReplaceAllStringFunc(pattern, func(p string) string {
		name := "path" // of a catch-all
		if p != "*" {
			name, _, _ = strings.Cut(strings.Trim(p, "{}"), ":")
		}
		names = append(names, name)
		return "{" + name + "}"
	})
	return path, names
}

// declaredPath returns path as paths has it, where only the names of parameters
// may differ, or path itself.
func declaredPath(paths object, path string) string {
	if paths[path] != nil {
		return path
	}
	for _, known := range slices.Sorted(maps.Keys(paths)) {
		if anonymous(known) == anonymous(path) {
			return known
		}
	}
	return path
}

func anonymous(path string) string { return pathParameter.ReplaceAllString(path, "{}") }

// describePath returns the words of a path and the first of them that says what
// it is about.
func describePath(path string) ([]string, string) {
	var words []string
	tag := ""
	for segment := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			words = append(words, "by", strings.TrimSuffix(name, "}"))
		} else if segment != "" && segment != "api" {
			words = append(words, segment)
			if tag == "" {
				tag = segment
			}
		}
	}
	if tag == "" {
		return append(words, "index"), "service"
	}
	return words, tag
}

func inferOperation(method, id string, words []string, tag string, names []string) object {
	op := object{
		inferred:      true,
		"operationId": id,
		"summary":     strings.ToUpper(method[:1]) + method[1:] + " " + strings.Join(words, " "),
		"description": "Described from its route alone.",
		"tags":        []any{tag},
		"responses": object{
			"200":     object{"description": "Success."},
			"default": object{"description": "An error."},
		},
	}
	var parameters []any
	for _, name := range names {
		parameters = append(parameters, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	if parameters != nil {
		op["parameters"] = parameters
	}
	return op
}

var notInID = regexp.MustCompile(`[^A-Za-z0-9]+`)

func operationID(verb string, words []string) string {
	return strings.Trim(notInID.ReplaceAllString(verb+"-"+strings.Join(words, "-"), "-"), "-")
}
