package apidoc

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// documentedMethods are those of inferred operations; HEAD and OPTIONS follow
// from the others.
var documentedMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// parameter matches one parameter of a route's pattern: {id}, {id:[0-9]+} or the
// final *.
var parameter = regexp.MustCompile(`\{([^{}:]+)(?::(?:[^{}]|\{[^{}]*\})*)?\}|\*$`)

// inferRoutes adds the routes that were never declared, with what their paths
// say about them.
func (d *Docs) inferRoutes(doc, paths object) {
	declared := map[string]string{} // path without parameter names to the path
	for path := range paths {
		declared[anonymous(path)] = path
	}
	ids := map[string]bool{}
	for op := range operations(paths) {
		id, _ := op["operationId"].(string)
		ids[id] = true
	}
	routes := slices.Clone(d.options.Routes)
	slices.SortFunc(routes, func(a, b Route) int { return strings.Compare(a.Path+" "+a.Method, b.Path+" "+b.Method) })
	for _, r := range routes {
		path, names := template(r.Path)
		own := path == d.options.Prefix || strings.HasPrefix(path, d.options.Prefix+"/")
		if own || d.exclude.covers(path) || !slices.Contains(documentedMethods, r.Method) {
			continue
		}
		if known, ok := declared[anonymous(path)]; ok {
			path = known
		}
		item := member(paths, path)
		method := strings.ToLower(r.Method)
		if item[method] != nil {
			continue
		}
		declared[anonymous(path)] = path
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
	path := parameter.ReplaceAllStringFunc(pattern, func(p string) string {
		name := "path" // of a catch-all
		if p != "*" {
			name, _, _ = strings.Cut(strings.Trim(p, "{}"), ":")
		}
		names = append(names, name)
		return "{" + name + "}"
	})
	return path, names
}

func anonymous(path string) string { return parameter.ReplaceAllString(path, "{}") }

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

// declareTag returns the tag's name as it is declared, in whatever case, and
// declares it when it is not.
func declareTag(doc object, name string) string {
	tags, _ := doc["tags"].([]any)
	for _, tag := range tags {
		o, _ := tag.(object)
		if known, ok := o["name"].(string); ok && strings.EqualFold(known, name) {
			return known
		}
	}
	doc["tags"] = append(tags, object{"name": name, "description": "Routes under " + name + "."})
	return name
}
