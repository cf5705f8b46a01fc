package truth_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/waypost/waypost/e2e/outside"
)

// description is the served OpenAPI document, read as any client would: it shares
// no type with the product.
type description struct {
	raw        map[string]any
	compiler   *jsonschema.Compiler
	operations []*operation
}

// operation is one method of one path.
type operation struct {
	id, method, path string
	pointer          string // to the operation, within the document
	doc              struct {
		Description string
		Parameters  []parameter
		RequestBody *struct {
			Required bool
			Content  map[string]media
		}
		Responses map[string]response
		Security  []map[string][]string
	}
}

type response struct {
	Headers map[string]any
	Content map[string]media
}

type parameter struct {
	Name, In string
	Schema   map[string]any
}

type media struct {
	Schema   map[string]any
	Example  any
	Examples map[string]struct{ Value any }
}

// examples are the media type's bodies, by name.
func (m media) examples() map[string]any {
	all := map[string]any{}
	if m.Example != nil {
		all["example"] = m.Example
	}
	for name, e := range m.Examples {
		all[name] = e.Value
	}
	return all
}

const documentURL = "https://waypost.example/openapi.json"

var codePoint = regexp.MustCompile(`\\u([0-9A-Fa-f]{4})`)

// compilePattern compiles a schema's pattern, which is in ECMA-262's syntax.
func compilePattern(pattern string) (jsonschema.Regexp, error) {
	return regexp.Compile(codePoint.ReplaceAllString(pattern, `\x{$1}`))
}

func readDescription(t *testing.T, body []byte) *description {
	t.Helper()
	d := &description{compiler: jsonschema.NewCompiler()}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	d.raw = parsed.(map[string]any)
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	d.compiler.UseRegexpEngine(compilePattern)
	closed, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	closeAll(closed)
	if err := d.compiler.AddResource(documentURL, closed); err != nil {
		t.Fatal(err)
	}
	paths := d.raw["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := paths[path].(map[string]any)
		for _, method := range slices.Sorted(maps.Keys(item)) {
			o := &operation{method: strings.ToUpper(method), path: path}
			o.pointer = "/paths/" + escapePointer(path) + "/" + method
			o.id, _ = item[method].(map[string]any)["operationId"].(string)
			again, err := json.Marshal(d.inline(item[method].(map[string]any)))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(again, &o.doc); err != nil {
				t.Fatalf("%s %s: %v", o.method, path, err)
			}
			d.operations = append(d.operations, o)
		}
	}
	return d
}

// closeAll leaves no room for members that are not described. The served schemas of
// answers leave it, so that clients bear new members; but what is answered today must be
// described today.
func closeAll(v any) {
	switch v := v.(type) {
	case map[string]any:
		if v["type"] == "object" && v["additionalProperties"] == nil {
			v["additionalProperties"] = false
		}
		for _, member := range v {
			closeAll(member)
		}
	case []any:
		for _, item := range v {
			closeAll(item)
		}
	}
}

// inline is an operation with its answers in place of references to them.
func (d *description) inline(op map[string]any) map[string]any {
	responses, _ := op["responses"].(map[string]any)
	whole := map[string]any{}
	for status, r := range responses {
		whole[status] = r
		if to, ok := r.(map[string]any)["$ref"].(string); ok {
			whole[status] = d.at(strings.TrimPrefix(to, "#"))
		}
	}
	op = maps.Clone(op)
	op["responses"] = whole
	return op
}

func escapePointer(s string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
}

// exampleBody is the first of the documented bodies, with its media type.
func (o *operation) exampleBody(t *testing.T) ([]byte, []string) {
	t.Helper()
	if o.doc.RequestBody == nil {
		return nil, nil
	}
	for _, mediaType := range []string{"application/json", "text/plain"} {
		all := o.doc.RequestBody.Content[mediaType].examples()
		if names := slices.Sorted(maps.Keys(all)); len(names) > 0 {
			return []byte(outside.JSON(all[names[0]])), []string{"Content-Type", mediaType}
		}
	}
	return nil, nil
}

// choices are the values that a parameter's schema names.
func (p parameter) choices() []string {
	var list []string
	for _, key := range []string{"enum", "examples"} {
		values, _ := p.Schema[key].([]any)
		for _, v := range values {
			list = append(list, fmt.Sprint(v))
		}
	}
	if p.Schema["type"] == "boolean" {
		list = []string{"true", "false"}
	}
	return list
}

// accepts holds a JSON body against the schema of one media type.
func (d *description) accepts(pointer string, body []byte) error {
	schema, err := d.compiler.Compile(documentURL + "#" + pointer)
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return schema.Validate(v)
}

// resolve follows the reference at a pointer, if there is one.
func (d *description) resolve(pointer string) string {
	if m, ok := d.at(pointer).(map[string]any); ok {
		if to, ok := m["$ref"].(string); ok {
			return strings.TrimPrefix(to, "#")
		}
	}
	return pointer
}

// at is the part of the document that a JSON pointer (RFC 6901) names.
func (d *description) at(pointer string) any {
	var v any = d.raw
	for _, part := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		m, _ := v.(map[string]any)
		v = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
	}
	return v
}
