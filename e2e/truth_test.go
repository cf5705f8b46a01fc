package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// request is one call of an operation.
type request struct {
	name   string
	caller string
	params map[string]string // of the path
	query  url.Values
	// malformed, when set, is the query string instead of query.
	malformed string
	body      []byte // nil for none
	header    []string
}

// TestTheDescriptionIsTrue walks every operation as every kind of caller, with
// valid and with broken input. It fails on a status, media type, header or field
// that is not documented, and on a documented status that never occurs.
func TestTheDescriptionIsTrue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := readDescription(t, do(t, "GET", w.url+"/docs/openapi.json", "").body)
	for _, o := range d.operations {
		t.Run(o.method+" "+o.path, func(t *testing.T) {
			w.signInAgain(t)
			seen := map[int]bool{}
			for _, r := range w.requests(t, o) {
				a := w.send(t, o, r)
				seen[a.status] = true
				for _, wrong := range d.check(o, a) {
					t.Errorf("%s, as %s: %s", r.name, r.caller, wrong)
				}
			}
			for status := range o.doc.Responses {
				code, err := strconv.Atoi(status)
				if err != nil {
					t.Errorf("%q documents nothing", status)
					continue
				}
				excused := slices.Contains(unexercised[o.id], code)
				switch {
				case slices.Contains(transport, code):
				case !seen[code] && !excused:
					t.Errorf("the documented %d never occurs", code)
				case seen[code] && excused:
					t.Errorf("%d does occur: take it off the list of the unexercised", code)
				}
			}
		})
	}
}

// TestEveryExampleIsAcceptedByItsSchema also wants an example of every body.
func TestEveryExampleIsAcceptedByItsSchema(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := readDescription(t, do(t, "GET", w.url+"/docs/openapi.json", "").body)
	check := func(where, pointer string, m media) {
		if len(m.examples()) == 0 {
			t.Errorf("%s has no example", where)
		}
		for name, example := range m.examples() {
			body, err := json.Marshal(example)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.accepts(pointer+"/schema", body); err != nil {
				t.Errorf("%s, example %s: %v", where, name, err)
			}
		}
	}
	for _, o := range d.operations {
		if o.doc.RequestBody != nil {
			for mediaType, m := range o.doc.RequestBody.Content {
				check(o.id+" request", o.pointer+"/requestBody/content/"+escapePointer(mediaType), m)
			}
		}
		for status, r := range o.doc.Responses {
			if m, ok := r.Content["application/json"]; ok {
				check(o.id+" "+status, o.pointer+"/responses/"+status+"/content/application~1json", m)
			}
		}
	}
}

// TestNoSchemaOfAnAnswerLeavesRoomForMore makes "no undocumented field" mean
// something: an object with named members has no others.
func TestNoSchemaOfAnAnswerLeavesRoomForMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := readDescription(t, do(t, "GET", w.url+"/docs/openapi.json", "").body)
	var walk func(where string, v any)
	walk = func(where string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if p, ok := v["properties"].(map[string]any); ok && v["type"] == "object" && len(p) > 0 && v["additionalProperties"] == nil {
				t.Errorf("%s has named members and leaves room for others", where)
			}
			for _, name := range slices.Sorted(maps.Keys(v)) {
				walk(where+"/"+name, v[name])
			}
		case []any:
			for i, e := range v {
				walk(fmt.Sprintf("%s/%d", where, i), e)
			}
		}
	}
	walk("", d.raw["components"].(map[string]any)["schemas"])
}

// requests are all calls of one operation: a valid one by each caller, broken
// ones by a caller who may, and those that its special statuses need.
func (w *world) requests(t *testing.T, o *operation) []request {
	t.Helper()
	var list []request
	for _, caller := range slices.Sorted(maps.Keys(w.credentials)) {
		r := w.valid(t, o)
		r.name, r.caller = "valid", caller
		list = append(list, r)
	}
	broken := func(name string, change func(*request)) {
		r := w.valid(t, o)
		r.name, r.caller = name, w.whoMay(o)
		change(&r)
		list = append(list, r)
	}
	broken("a malformed query", func(r *request) { r.malformed = "a=%zz" })
	broken("a bad token", func(r *request) { r.caller = callerForged })
	for _, p := range o.doc.Parameters {
		for _, value := range brokenValues(p.Schema) {
			switch p.In {
			case "query":
				broken(p.Name+"="+value, func(r *request) { r.query.Set(p.Name, value) })
			case "path":
				broken("path "+p.Name+"="+value, func(r *request) { r.params[p.Name] = value })
			}
		}
	}
	if o.doc.RequestBody != nil {
		for name, body := range brokenBodies(w.valid(t, o).body) {
			broken(name, func(r *request) { r.body = []byte(body) })
		}
		broken("another media type", func(r *request) { r.header = append(r.header, "Content-Type", "application/xml") })
	}
	if special, ok := specials[o.id]; ok {
		list = append(list, special(t, w, o)...)
	}
	return list
}

// brokenValues break a parameter's schema, as far as it has rules.
func brokenValues(schema map[string]any) []string {
	switch schema["type"] {
	case "integer", "number":
		values := []string{"x", "-1"}
		if top, ok := schema["maximum"].(float64); ok {
			values = append(values, strconv.Itoa(int(top)+1))
		}
		return values
	case "boolean":
		return []string{"perhaps"}
	}
	if schema["enum"] != nil || schema["format"] != nil || schema["pattern"] != nil {
		return []string{"no such ☃"}
	}
	return []string{strings.Repeat("☃", 400), ""}
}

// brokenBodies break a JSON body that is right.
func brokenBodies(valid []byte) map[string]string {
	bodies := map[string]string{
		"no body": "", "half a body": `{"`, "an array": "[]", "an empty object": "{}", "null": "null",
		"2 MB": `{"x":"` + strings.Repeat("x", 2<<20) + `"}`,
	}
	var members map[string]any
	if json.Unmarshal(valid, &members) != nil {
		return bodies
	}
	for name := range members {
		for what, value := range map[string]any{"null": nil, "an object": map[string]any{}, "a long string": strings.Repeat("x", 5000)} {
			changed := maps.Clone(members)
			changed[name] = value
			b, err := json.Marshal(changed)
			if err != nil {
				panic(err)
			}
			bodies[name+" is "+what] = string(b)
		}
	}
	more := maps.Clone(members)
	more["surprise"] = 1
	b, err := json.Marshal(more)
	if err != nil {
		panic(err)
	}
	bodies["an unknown member"] = string(b)
	return bodies
}

// valid is a call that should succeed for a caller who may.
func (w *world) valid(t *testing.T, o *operation) request {
	t.Helper()
	r := request{params: map[string]string{}, query: url.Values{}}
	if make, ok := w.fixture(o.path); ok {
		r.params = make(t)
	}
	if o.doc.RequestBody != nil {
		for _, mediaType := range []string{"text/plain", "application/json"} {
			m, ok := o.doc.RequestBody.Content[mediaType]
			if names := slices.Sorted(maps.Keys(m.examples())); ok && len(names) > 0 {
				body, err := json.Marshal(m.examples()[names[0]])
				if err != nil {
					t.Fatal(err)
				}
				r.body, r.header = body, []string{"Content-Type", mediaType}
			}
		}
	}
	if prepare, ok := preparations[o.id]; ok {
		prepare(t, w, &r)
	}
	return r
}

// send makes the call, signed as its caller.
func (w *world) send(t *testing.T, o *operation, r request) answer {
	t.Helper()
	path := o.path
	for name, value := range r.params {
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
	}
	target := w.url + path
	switch {
	case r.malformed != "":
		target += "?" + r.malformed
	case len(r.query) > 0:
		target += "?" + r.query.Encode()
	}
	header := slices.Concat(r.header, w.credentials[r.caller])
	if finish, ok := signatures[o.id]; ok {
		header = append(header, finish(r)...)
	}
	// Set, not add: a broken media type replaces the right one.
	last := map[string]string{}
	for i := 0; i < len(header); i += 2 {
		last[http.CanonicalHeaderKey(header[i])] = header[i+1]
	}
	var pairs []string
	for name, value := range last {
		pairs = append(pairs, name, value)
	}
	return do(t, o.method, target, string(r.body), pairs...)
}
