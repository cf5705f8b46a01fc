package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
)

// answerTools answers the methods about tools; all others are the server's own.
func (h *Handler) answerTools(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		x, ok := ctx.Value(exchangeKey{}).(*exchange)
		if !ok {
			return nil, newProblem(codeInternal, sentences[codeInternal]).wire() // nobody else sends it messages
		}
		switch p := req.GetParams().(type) {
		case *sdk.ListToolsParams:
			if p != nil && p.Cursor != "" {
				return nil, errCursor.wire()
			}
			return x.list(), nil
		case *sdk.CallToolParamsRaw:
			return h.call(ctx, x, p)
		}
		return next(ctx, method, req)
	}
}

// wire is the problem as the protocol's server passes it on.
func (p *problem) wire() error {
	return &jsonrpc.Error{Code: int64(p.Code), Message: p.Message}
}

// list is the tools that the caller may call, on one page: some clients ask for no other.
func (x *exchange) list() *sdk.ListToolsResult {
	r := &sdk.ListToolsResult{Cacheable: nobodyElses(), Tools: []*sdk.Tool{}}
	for _, t := range x.tools {
		if t.openTo(x.principal) {
			r.Tools = append(r.Tools, t.listed)
		}
	}
	return r
}

// call makes a request of a call, and its answer the result. A tool that the caller may not
// call is refused by the operation.
func (h *Handler) call(ctx context.Context, x *exchange, p *sdk.CallToolParamsRaw) (_ *sdk.CallToolResult, err error) {
	i := slices.IndexFunc(x.tools, func(t *tool) bool { return t.listed.Name == p.Name })
	if i < 0 {
		return nil, errTool.wire()
	}
	ctx, cancel := x.context(ctx)
	defer cancel()
	defer func() { // nobody else does, outside of the server's own goroutine
		if r := recover(); r != nil {
			err = x.broken(fmt.Errorf("mcp: %s: panic: %v\n%s", p.Name, r, debug.Stack()))
		}
	}()
	select {
	case x.running <- struct{}{}:
		defer func() { <-x.running }()
	case <-ctx.Done():
		return x.failed(ctx.Err()), nil
	}
	arguments, err := readArguments(p.Arguments)
	if err != nil {
		return nil, err
	}
	t := x.tools[i]
	asked, err := h.translate(t, arguments)
	if err != nil {
		return x.failed(err), nil
	}
	r, err := httpedge.Within(ctx, x.outer, t.method, asked.target, asked.body)
	if err != nil {
		return nil, x.broken(err)
	}
	maps.Copy(r.Header, asked.header)
	a := &answer{header: http.Header{}, room: x.room, full: cancel}
	h.o.Service.ServeHTTP(a, r)
	return x.result(t, a), nil
}

// broken keeps what went wrong on our side for the log.
func (x *exchange) broken(err error) error {
	httpedge.Record(x.outer.Context(), err)
	return newProblem(codeInternal, sentences[codeInternal]).wire()
}

func readArguments(raw json.RawMessage) (map[string]jsontext.Value, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if jsontext.Value(raw).Kind() != '{' {
		return nil, errArguments.wire()
	}
	arguments := map[string]jsontext.Value{}
	eachMember(jsontext.Value(raw), func(name string, value jsontext.Value) bool {
		arguments[name] = value.Clone()
		return len(arguments) <= maxArguments
	})
	if len(arguments) > maxArguments {
		return nil, errArguments.wire()
	}
	return arguments, nil
}

var errNoSuch = fault.New(fault.NotFound, fault.CodeNotFound, "Nothing has that path.")

// translated is what the arguments of a call stand for in a request.
type translated struct {
	target string // a path, escaped, with a query
	header http.Header
	body   []byte
}

// translate puts arguments where the operation has them. What they hold is for the operation to
// judge; what would get to no operation, or to another, is judged here.
func (h *Handler) translate(t *tool, arguments map[string]jsontext.Value) (translated, error) {
	out := translated{target: t.path, header: http.Header{}}
	wrong, query := map[string]string{}, url.Values{}
	for name, value := range arguments {
		p, known := t.parameters[name]
		one, isScalar := scalar(value)
		switch {
		case name == bodyArgument && t.takesBody:
			out.body = value
		case !known:
			wrong["arguments."+name] = "There is no such argument."
		case p.in == "query":
			if err := p.add(query, name, value); err != nil {
				wrong["query."+name] = err.Error()
			}
		case !isScalar:
			wrong[p.in+"."+name] = notScalar
		case p.in == "path":
			out.target = strings.ReplaceAll(out.target, "{"+name+"}", url.PathEscape(one))
		case strings.ContainsFunc(one, unicode.IsControl):
			wrong["header."+name] = "must be one line, without control characters"
		default:
			out.header.Set(name, one)
		}
	}
	for name, p := range t.parameters {
		if _, given := arguments[name]; p.in == "path" && !given {
			wrong["path."+name] = "This argument is required."
		}
	}
	if len(wrong) > 0 {
		return translated{}, fault.Validation(wrong)
	}
	if h.o.Route(t.method, out.target) != t.path {
		return translated{}, errNoSuch
	}
	if len(query) > 0 {
		out.target += "?" + query.Encode()
	}
	return out, nil
}

const notScalar = "must be a text, a number or a boolean; leave it out instead of null"

// add puts an argument into the query as OpenAPI's styles form and deepObject have it.
func (p parameter) add(query url.Values, name string, value jsontext.Value) error {
	if p.deep {
		var members map[string]jsontext.Value
		if value.Kind() != '{' || json.Unmarshal(value, &members) != nil {
			return errors.New("must be an object")
		}
		for member, v := range members {
			if err := (parameter{in: p.in}).add(query, name+"["+member+"]", v); err != nil {
				return err
			}
		}
		return nil
	}
	values := []jsontext.Value{value}
	if value.Kind() == '[' {
		if err := json.Unmarshal(value, &values); err != nil {
			return err
		}
	}
	list := make([]string, len(values))
	for i, v := range values {
		one, ok := scalar(v)
		if !ok {
			return errors.New(notScalar)
		}
		list[i] = one
	}
	if p.comma {
		list = []string{strings.Join(list, ",")}
	}
	query[name] = append(query[name], list...)
	return nil
}

// scalar is the text of a value that has no parts.
func scalar(v jsontext.Value) (string, bool) {
	switch v.Kind() {
	case '"':
		var s string
		err := json.Unmarshal(v, &s)
		return s, err == nil
	case '0', 't', 'f':
		return string(bytes.TrimSpace(v)), true
	}
	return "", false
}
