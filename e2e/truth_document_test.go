package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
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
		Parameters  []parameter
		RequestBody *struct {
			Required bool
			Content  map[string]media
		}
		Responses map[string]struct {
			Headers map[string]struct{ Schema map[string]any }
			Content map[string]media
		}
		Security []map[string][]string
	}
}

type parameter struct {
	Name, In string
	Required bool
	Schema   map[string]any
	Example  any
	Examples map[string]struct{ Value any }
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
	if err := d.compiler.AddResource(documentURL, parsed); err != nil {
		t.Fatal(err)
	}
	paths := d.raw["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := paths[path].(map[string]any)
		for _, method := range slices.Sorted(maps.Keys(item)) {
			o := &operation{method: strings.ToUpper(method), path: path}
			o.pointer = "/paths/" + escapePointer(path) + "/" + method
			o.id, _ = item[method].(map[string]any)["operationId"].(string)
			again, err := json.Marshal(item[method])
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

func escapePointer(s string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
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

func (o *operation) responsePointer(status int, mediaType string) string {
	return o.pointer + "/responses/" + strconv.Itoa(status) + "/content/" + escapePointer(mediaType) + "/schema"
}

// undocumentedHeaders are those that belong to HTTP, to the connection or to
// every answer alike.
var everywhere = []string{
	"Allow", "Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Cache-Control", "Content-Encoding", "Content-Length", "Content-Security-Policy",
	"Content-Type", "Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy", "Date", "Etag", "Referrer-Policy",
	"Retry-After", "Strict-Transport-Security", "Vary", "Www-Authenticate", "X-Content-Type-Options", "X-Frame-Options", "X-Request-Id",
}

// check says in what an answer differs from what is documented.
func (d *description) check(o *operation, a answer) []string {
	documented, ok := o.doc.Responses[strconv.Itoa(a.status)]
	if !ok {
		return []string{fmt.Sprintf("undocumented status %d: %.300s", a.status, a.body)}
	}
	var wrong []string
	for name := range a.header {
		if _, ok := documented.Headers[name]; !ok && !slices.Contains(everywhere, name) {
			wrong = append(wrong, fmt.Sprintf("status %d has the undocumented header %s", a.status, name))
		}
	}
	for name, h := range documented.Headers {
		value := a.header.Get(name)
		if _, err := strconv.Atoi(value); h.Schema["type"] == "integer" && value != "" && err != nil {
			wrong = append(wrong, fmt.Sprintf("status %d: header %s is %q, not an integer", a.status, name, value))
		}
	}
	if len(a.body) == 0 {
		if len(documented.Content) > 0 {
			wrong = append(wrong, fmt.Sprintf("status %d documents a body and has none", a.status))
		}
		return wrong
	}
	mediaType, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	if _, ok := documented.Content[mediaType]; !ok {
		return append(wrong, fmt.Sprintf("status %d has the undocumented media type %q", a.status, mediaType))
	}
	if mediaType == "application/json" {
		if err := d.accepts(o.responsePointer(a.status, mediaType), a.body); err != nil {
			wrong = append(wrong, fmt.Sprintf("status %d: %v\n%.500s", a.status, err, a.body))
		}
	}
	return wrong
}

// transport are the statuses that middleware gives; they need not occur.
var transport = []int{
	http.StatusBadRequest, http.StatusForbidden, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge,
	http.StatusUnsupportedMediaType, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable,
}
