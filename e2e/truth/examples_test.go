package truth_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/waypost/waypost/e2e/outside"
)

// printed is the description as it is committed, which needs no service.
func printed(t *testing.T) *description {
	t.Helper()
	document, err := os.ReadFile("../../api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	return readDescription(t, document)
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
		if err := d.accepts(e.schema, []byte(outside.JSON(e.value))); err != nil {
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

// TestOnlyTheSchemasOfAnswersLeaveRoomForMore: a client that validates answers must not
// break when there is a new member, and what is sent is refused if it has an unknown one.
// closeAll makes "no undocumented field" mean something all the same.
func TestOnlyTheSchemasOfAnswersLeaveRoomForMore(t *testing.T) {
	t.Parallel()
	for _, what := range printed(t).wrongRoom() {
		t.Error(what)
	}
}

// wrongRoom says which objects with named members leave room for others although they are
// sent, or leave none although they are answered, and which schemas are both.
func (d *description) wrongRoom() []string {
	var wrong []string
	sent, answered := map[string]bool{}, map[string]bool{}
	var schemas func(v any, found map[string]bool)
	var objects func(where string, v any, answer bool)
	schemas = func(v any, found map[string]bool) {
		switch v := v.(type) {
		case map[string]any:
			if to, ok := v["$ref"].(string); ok && !found[to] {
				found[to] = true
				schemas(d.at(strings.TrimPrefix(to, "#")), found)
			}
			for _, member := range v {
				schemas(member, found)
			}
		case []any:
			for _, item := range v {
				schemas(item, found)
			}
		}
	}
	objects = func(where string, v any, answer bool) {
		switch v := v.(type) {
		case map[string]any:
			p, _ := v["properties"].(map[string]any)
			switch named := v["type"] == "object" && len(p) > 0; {
			case answer && v["additionalProperties"] == false:
				wrong = append(wrong, where+" is answered and leaves no room for new members")
			case named && !answer && v["additionalProperties"] == nil:
				wrong = append(wrong, where+" is sent, has named members and leaves room for others")
			}
			for _, name := range slices.Sorted(maps.Keys(v)) {
				objects(where+"/"+name, v[name], answer)
			}
		case []any:
			for i, e := range v {
				objects(fmt.Sprintf("%s/%d", where, i), e, answer)
			}
		}
	}
	for _, o := range d.operations {
		op := d.at(o.pointer).(map[string]any)
		schemas([]any{op["requestBody"], op["parameters"]}, sent)
		schemas(op["responses"], answered)
		objects(o.pointer+"/responses", op["responses"], true)
		objects(o.pointer+"/requestBody", op["requestBody"], false)
	}
	for _, to := range slices.Sorted(maps.Keys(answered)) {
		if sent[to] {
			wrong = append(wrong, to+" is both sent and answered")
		}
		objects(to, d.at(strings.TrimPrefix(to, "#")), true)
	}
	for _, to := range slices.Sorted(maps.Keys(sent)) {
		objects(to, d.at(strings.TrimPrefix(to, "#")), false)
	}
	return wrong
}
