package apidoc

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Operation says about a route what its types and its path do not, or says it
// better. It reaches the description and everything made from it in one of two
// ways: named by method and path in Overrides, or carried by the route itself as
// Middleware. Each method returns the receiver, so that calls can be chained; what
// is wrong with them is reported by New.
type Operation struct {
	id, summary, description string
	tags                     []string
	deprecated               time.Time // since when; the zero time: not
	hidden                   bool
	security                 []string // nil: left as it is; empty: public
	parameters               []parameter
	body                     *content
	responses                map[int]*response
	extensions               map[string]any
	errs                     []error
}

type parameter struct {
	in, name, description string
	required              bool
	value, example        any
}

// content is what a body holds: value's type, in one of media.
type content struct {
	value    any // nil: no body
	media    []string
	examples []namedExample
}

type namedExample struct {
	name  string
	value any
}

type response struct {
	content
	also        []content
	description string
	headers     []parameter
}

const mediaJSON = "application/json"

// Describe begins what is said of an operation.
func Describe() *Operation { return &Operation{} }

// ID sets the operationId, which must be unique and stay what it is.
func (o *Operation) ID(id string) *Operation { o.id = id; return o }

// Summary sets the one line that lists show.
func (o *Operation) Summary(s string) *Operation { o.summary = s; return o }

// Description sets the text, in Markdown.
func (o *Operation) Description(s string) *Operation { o.description = s; return o }

// Tags puts the operation under these tags, declared or not.
func (o *Operation) Tags(names ...string) *Operation { o.tags = names; return o }

// Deprecated marks the operation as one that will go, and of which clients have been told
// so since that day; Docs.DeprecatedSince returns it. The zero time marks nothing.
func (o *Operation) Deprecated(since time.Time) *Operation { o.deprecated = since; return o }

// Hidden leaves the operation out of the description.
func (o *Operation) Hidden() *Operation { o.hidden = true; return o }

// Security names the schemes that the operation accepts, each by itself enough;
// none makes it public.
func (o *Operation) Security(schemes ...string) *Operation {
	o.security = append([]string{}, schemes...)
	return o
}

// Extension adds a member whose name begins with x-.
func (o *Operation) Extension(name string, v any) *Operation {
	if !strings.HasPrefix(name, "x-") {
		o.errs = append(o.errs, fmt.Errorf("extension %q does not begin with x-", name))
	}
	if o.extensions == nil {
		o.extensions = map[string]any{}
	}
	o.extensions[name] = v
	return o
}

// Header adds a request header that holds a value of v's type. example may be nil.
func (o *Operation) Header(name string, v any, description string, example any) *Operation {
	o.parameters = append(o.parameters, parameter{in: "header", name: name, value: v, description: description, example: example})
	return o
}

// Query adds a query parameter that holds a value of v's type. example may be nil.
func (o *Operation) Query(name string, v any, description string, example any) *Operation {
	o.parameters = append(o.parameters, parameter{in: "query", name: name, value: v, description: description, example: example})
	return o
}

// Path describes a parameter that the path has. example may be nil.
func (o *Operation) Path(name string, v any, description string, example any) *Operation {
	o.parameters = append(o.parameters, parameter{in: "path", name: name, value: v, description: description, required: true, example: example})
	return o
}

// Body says that the request carries a value of v's type, or what v itself says
// when it is a *huma.Schema, as JSON or in the given media types.
func (o *Operation) Body(v any, mediaTypes ...string) *Operation {
	if v == nil {
		o.errs = append(o.errs, errors.New("a body needs a type"))
	}
	o.body = newContent(v, mediaTypes)
	return o
}

// BodyExample adds an example to Body, which comes first.
func (o *Operation) BodyExample(name string, v any) *Operation {
	if o.body == nil {
		o.errs = append(o.errs, fmt.Errorf("example %q of a body that is not there", name))
		return o
	}
	o.body.examples = append(o.body.examples, namedExample{name, v})
	return o
}

// Response says that the operation answers status with a value of v's type, or
// what v itself says when it is a *huma.Schema, as JSON or in the given media
// types; a nil v stands for no body.
func (o *Operation) Response(status int, v any, description string, mediaTypes ...string) *Operation {
	if status < 100 || status > 599 {
		o.errs = append(o.errs, fmt.Errorf("%d is no HTTP status", status))
	}
	if o.responses == nil {
		o.responses = map[int]*response{}
	}
	o.responses[status] = &response{content: *newContent(v, mediaTypes), description: cmp.Or(description, http.StatusText(status), "An answer.")}
	return o
}

// ResponseAlso adds to the Response of that status, which comes first, that it can hold a
// value of v's type, or what v itself says, in another media type.
func (o *Operation) ResponseAlso(status int, v any, mediaType string) *Operation {
	r := o.responses[status]
	if r == nil || r.value == nil {
		o.errs = append(o.errs, fmt.Errorf("another media type of a response %d without a body", status))
		return o
	}
	r.also = append(r.also, content{value: v, media: []string{mediaType}})
	return o
}

// ResponseExample adds an example to the Response of that status, which comes first.
func (o *Operation) ResponseExample(status int, name string, v any) *Operation {
	r := o.responses[status]
	if r == nil || r.value == nil {
		o.errs = append(o.errs, fmt.Errorf("example %q of a response %d without a body", name, status))
		return o
	}
	r.examples = append(r.examples, namedExample{name, v})
	return o
}

// ResponseHeader adds a header to the Response of that status, which comes first.
// It holds a value of v's type, or is what v itself says when it is a *huma.Header.
func (o *Operation) ResponseHeader(status int, name string, v any, description string) *Operation {
	r := o.responses[status]
	if r == nil {
		o.errs = append(o.errs, fmt.Errorf("header %s of a response %d that is not there", name, status))
		return o
	}
	r.headers = append(r.headers, parameter{name: name, value: v, description: description})
	return o
}

func newContent(v any, mediaTypes []string) *content {
	if len(mediaTypes) == 0 {
		mediaTypes = []string{mediaJSON}
	}
	return &content{value: v, media: mediaTypes}
}

// over returns what o says, and what base says where o is silent. Neither
// changes; base may be nil.
func (o *Operation) over(base *Operation) *Operation {
	if base == nil {
		return o
	}
	out := *o
	out.id = cmp.Or(o.id, base.id)
	out.summary = cmp.Or(o.summary, base.summary)
	out.description = cmp.Or(o.description, base.description)
	if out.deprecated.IsZero() {
		out.deprecated = base.deprecated
	}
	out.hidden = o.hidden || base.hidden
	if out.tags == nil {
		out.tags = base.tags
	}
	if out.security == nil {
		out.security = base.security
	}
	if out.body == nil {
		out.body = base.body
	}
	out.extensions = maps.Clone(base.extensions)
	if out.extensions == nil {
		out.extensions = o.extensions
	} else {
		maps.Copy(out.extensions, o.extensions)
	}
	out.parameters = slices.Concat(base.parameters, o.parameters) // the later one of a name wins
	out.responses = maps.Clone(base.responses)
	if out.responses == nil {
		out.responses = o.responses
	} else {
		maps.Copy(out.responses, o.responses)
	}
	out.errs = slices.Concat(base.errs, o.errs)
	return &out
}

// Middleware makes o part of a route's handler, where OperationOf finds it. It
// changes no request: r.With(o.Middleware).Post(path, h).
func (o *Operation) Middleware(next http.Handler) http.Handler {
	return &described{Handler: next, operation: o}
}

type described struct {
	http.Handler
	operation *Operation
}

// OperationOf returns what a route's middlewares (outermost first) and handler
// carry, the inner before the outer, or nil. It calls every middleware once, as a
// router does when a route is added.
func OperationOf(h http.Handler, middlewares ...func(http.Handler) http.Handler) *Operation {
	var found *Operation
	for _, m := range middlewares {
		if d, ok := m(http.NotFoundHandler()).(*described); ok {
			found = d.operation.over(found)
		}
	}
	for d, ok := h.(*described); ok; d, ok = d.Handler.(*described) {
		found = d.operation.over(found)
	}
	return found
}

// Overrides are operations by method and path; the zero value has none.
type Overrides struct {
	operations map[routeKey]*Operation
}

// routeKey has the method in upper case and the path as OpenAPI writes it.
type routeKey struct{ method, path string }

// Operation returns what is to be said of a route, to be filled. New fails when
// there is no such route.
func (o *Overrides) Operation(method, path string) *Operation {
	if o.operations == nil {
		o.operations = map[routeKey]*Operation{}
	}
	template, _ := template(path)
	key := routeKey{method, template}
	if o.operations[key] == nil {
		o.operations[key] = Describe()
	}
	return o.operations[key]
}
