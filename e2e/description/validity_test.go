// Package description_test holds the description that Waypost commits and serves
// against itself. Other people's readers of it are in tools/openapi and, with the
// build tag external, in package e2e_test.
package description_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/waypost/waypost/internal/apidoc"
	"github.com/waypost/waypost/internal/apidoc/model/modeltest"
	"github.com/waypost/waypost/internal/app"
	"github.com/waypost/waypost/internal/config"
)

// described is the documentation as `waypost openapi` makes it from an empty
// environment.
func described(t *testing.T) *apidoc.Docs {
	t.Helper()
	c, err := config.Read(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	docs, err := app.Describe(c, app.Extensions{})
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

func form(t *testing.T, f apidoc.Form) []byte {
	t.Helper()
	b, err := described(t).Bytes(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTheCommittedDescriptionIsTheServices: what tools/openapi judges is what is
// served.
func TestTheCommittedDescriptionIsTheServices(t *testing.T) {
	t.Parallel()
	committed, err := os.ReadFile("../../api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(committed, form(t, apidoc.JSON)) {
		t.Error("api/openapi.json is not what the service describes: run go generate ./api and look at the difference")
	}
}

// walk calls f for every object below v with its JSON Pointer.
func walk(v any, pointer string, f func(pointer string, o map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		f(pointer, v)
		for key, value := range v {
			walk(value, pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key), f)
		}
	case []any:
		for i, value := range v {
			walk(value, pointer+"/"+strconv.Itoa(i), f)
		}
	}
}

func TestEveryExampleIsAcceptedByItsSchema(t *testing.T) {
	t.Parallel()
	raw := form(t, apidoc.JSON)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	const url = "https://waypost.example/openapi.json"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseRegexpEngine(func(p string) (jsonschema.Regexp, error) { return modeltest.CompilePattern(p) })
	if err := c.AddResource(url, doc); err != nil {
		t.Fatal(err)
	}
	checked := 0
	check := func(pointer string, value any) {
		checked++
		schema, err := c.Compile(url + "#" + pointer)
		if err != nil {
			t.Fatalf("%s: %v", pointer, err)
		}
		if err := schema.Validate(value); err != nil {
			text, _ := json.Marshal(value)
			t.Errorf("%s refuses %s: %v", pointer, text, err)
		}
	}
	walk(doc, "", func(pointer string, o map[string]any) {
		if list, ok := o["examples"].([]any); ok { // of a schema
			for _, value := range list {
				check(pointer, value)
			}
		}
		if o["schema"] == nil { // what follows is of a parameter, a header or a media type
			return
		}
		if value, ok := o["example"]; ok {
			check(pointer+"/schema", value)
		}
		named, _ := o["examples"].(map[string]any)
		for _, e := range named {
			check(pointer+"/schema", e.(map[string]any)["value"])
		}
	})
	if checked < 100 {
		t.Errorf("only %d examples", checked)
	}
}

func TestEveryOperationSaysWhatAReaderNeeds(t *testing.T) {
	t.Parallel()
	var doc struct {
		Tags            []struct{ Name, Description string }
		Paths, Webhooks map[string]map[string]operationDoc
		Components      struct{ Responses map[string]responseDoc }
	}
	if err := json.Unmarshal(form(t, apidoc.JSON), &doc); err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, tag := range doc.Tags {
		described[tag.Name] = tag.Description != ""
	}
	ids := map[string]bool{}
	for _, section := range []map[string]map[string]operationDoc{doc.Paths, doc.Webhooks} {
		for path, item := range section {
			for method, op := range item {
				name := method + " " + path
				if op.OperationID == "" || ids[op.OperationID] || op.Summary == "" || op.Description == "" || op.Security == nil {
					t.Errorf("%s: something is missing: %+v", name, op)
				}
				ids[op.OperationID] = true
				if len(op.Tags) == 0 || !described[op.Tags[0]] {
					t.Errorf("%s: tags %v", name, op.Tags)
				}
				if op.RequestBody != nil {
					wantExamples(t, name, op.RequestBody.Content)
				}
				for status, r := range op.Responses {
					if name, shared := strings.CutPrefix(r.Ref, "#/components/responses/"); shared {
						r = doc.Components.Responses[name]
					}
					if r.Description == "" || status == "default" {
						t.Errorf("%s: response %s says nothing", name, status)
					}
					wantExamples(t, name+" "+status, r.Content)
				}
			}
		}
	}
}

// TestOperationsShareTheirErrorAnswersAndStaySmall: an operation's JSON is read by people
// and models.
func TestOperationsShareTheirErrorAnswersAndStaySmall(t *testing.T) {
	t.Parallel()
	raw := form(t, apidoc.JSON)
	var doc struct {
		Paths, Webhooks map[string]map[string]operationDoc
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, section := range []map[string]map[string]operationDoc{doc.Paths, doc.Webhooks} {
		for path, item := range section {
			for method, op := range item {
				n++
				for status, r := range op.Responses {
					if shared := strings.HasPrefix(r.Ref, "#/components/responses/"); shared != (status >= "400") {
						t.Errorf("%s %s: the answer %s is %q", method, path, status, r.Ref)
					}
				}
			}
		}
	}
	const most = 7000
	if len(raw) > most*n {
		t.Errorf("%d bytes for %d operations are more than %d for each", len(raw), n, most)
	}
}

type operationDoc struct {
	OperationID, Summary, Description string
	Tags                              []string
	Security                          *[]map[string][]string
	RequestBody                       *struct{ Content map[string]media }
	Responses                         map[string]responseDoc
}

type responseDoc struct {
	Ref         string `json:"$ref"`
	Description string
	Content     map[string]media
}

type media struct {
	Example  json.RawMessage
	Examples map[string]json.RawMessage
}

func wantExamples(t *testing.T, where string, content map[string]media) {
	t.Helper()
	for mediaType, m := range content {
		if m.Example == nil && len(m.Examples) == 0 {
			t.Errorf("%s, %s: no example", where, mediaType)
		}
	}
}

// TestTheIndexForLanguageModelsIsShort: who reads it has little room.
func TestTheIndexForLanguageModelsIsShort(t *testing.T) {
	t.Parallel()
	index, whole := string(form(t, apidoc.Index)), string(form(t, apidoc.Markdown))
	n := 0
	for line := range strings.Lines(index) {
		_, rest, linked := strings.Cut(line, "](llms-full.txt#")
		if id, _, ok := strings.Cut(rest, ")"); linked && ok {
			if n++; !strings.Contains(whole, "\n### "+id+"\n") {
				t.Errorf("there is no section %s", id)
			}
		}
	}
	if sections := strings.Count(whole, "\n### "); n != sections {
		t.Errorf("%d lines for %d sections", n, sections)
	}
	if most := 2000 + 100*n; len(index) > most {
		t.Errorf("%d bytes for %d operations, at most %d", len(index), n, most)
	}
}
