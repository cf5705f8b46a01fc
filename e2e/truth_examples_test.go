package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// printed is the description as the program prints it, which needs no service.
func printed(t *testing.T) *description {
	t.Helper()
	code, out, errOut := command(t, nil, "", "openapi", "--format", "json")
	if code != 0 {
		t.Fatal(errOut)
	}
	return readDescription(t, []byte(out))
}

// TestEveryExampleIsAcceptedByItsSchema takes all of the document: parameters,
// headers, bodies, webhooks and the schemas' own examples.
func TestEveryExampleIsAcceptedByItsSchema(t *testing.T) {
	t.Parallel()
	d := printed(t)
	for _, what := range d.wrongExamples() {
		t.Error(what)
	}
	for _, what := range d.withoutExample() {
		t.Error(what)
	}
}

// example is a value and where its schema is.
type example struct {
	name, schema string
	value        any
}

// examples are all of those in the document.
func (d *description) examples() []example {
	var list []example
	var walk func(pointer string, v any)
	walk = func(pointer string, v any) {
		switch v := v.(type) {
		case map[string]any:
			list = append(list, examplesOf(pointer, v)...)
			for _, name := range slices.Sorted(maps.Keys(v)) {
				if !slices.Contains([]string{"example", "examples", "default", "x-waypost-export"}, name) || pointer == "/components/schemas" {
					walk(pointer+"/"+escapePointer(name), v[name])
				}
			}
		case []any:
			for i, e := range v {
				walk(fmt.Sprintf("%s/%d", pointer, i), e)
			}
		}
	}
	walk("", d.raw)
	return list
}

// examplesOf are those of a parameter, header or media type, which has its schema
// beside them, or of a schema.
func examplesOf(pointer string, v map[string]any) []example {
	var list []example
	schema := pointer
	if v["schema"] != nil {
		schema += "/schema"
	}
	if value, ok := v["example"]; ok {
		list = append(list, example{pointer, schema, value})
	}
	switch all := v["examples"].(type) {
	case []any:
		for i, value := range all {
			list = append(list, example{fmt.Sprintf("%s, example %d", pointer, i), schema, value})
		}
	case map[string]any:
		for name, e := range all {
			if e, ok := e.(map[string]any); ok && e["value"] != nil && v["schema"] != nil {
				list = append(list, example{pointer + ", example " + name, schema, e["value"]})
			}
		}
	}
	return list
}

// wrongExamples says which examples their schemas refuse.
func (d *description) wrongExamples() []string {
	var wrong []string
	all := d.examples()
	if len(all) == 0 {
		wrong = append(wrong, "there is no example at all")
	}
	for _, e := range all {
		if err := d.accepts(e.schema, []byte(jsonText(e.value))); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", e.name, err))
		}
	}
	return wrong
}

// withoutExample says which bodies have none.
func (d *description) withoutExample() []string {
	var wrong []string
	for _, o := range d.operations {
		if o.doc.RequestBody != nil {
			for mediaType, m := range o.doc.RequestBody.Content {
				if len(m.examples()) == 0 {
					wrong = append(wrong, fmt.Sprintf("%s: no example of a request in %s", o.id, mediaType))
				}
			}
		}
		for status, r := range o.doc.Responses {
			if m, ok := r.Content["application/json"]; ok && len(m.examples()) == 0 {
				wrong = append(wrong, fmt.Sprintf("%s: no example of a %s", o.id, status))
			}
		}
	}
	return wrong
}

// TestNoSchemaOfAnAnswerLeavesRoomForMore makes "no undocumented field" mean
// something: an object with named members has no others.
func TestNoSchemaOfAnAnswerLeavesRoomForMore(t *testing.T) {
	t.Parallel()
	for _, what := range printed(t).roomForMore() {
		t.Error(what)
	}
}

func (d *description) roomForMore() []string {
	var wrong []string
	var walk func(where string, v any)
	walk = func(where string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if p, ok := v["properties"].(map[string]any); ok && v["type"] == "object" && len(p) > 0 && v["additionalProperties"] == nil {
				wrong = append(wrong, where+" has named members and leaves room for others")
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
	walk("", d.at("/components/schemas"))
	return wrong
}
