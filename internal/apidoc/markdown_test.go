package apidoc

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const markdownOfOne = "# T\n\n> Version 2, an OpenAPI description as text.\n\nHello.\n\n" +
	"- Server: https://api.example.com/v1\n- [OpenAPI 3.1](https://api.example.com/v1/docs/openapi.json)\n- [OpenAPI 3.0](https://api.example.com/v1/docs/openapi-3.0.json)\n\n" +
	"## Credentials\n\n- `bearer`: an HTTP bearer credential in `Authorization`.\n\n" +
	"## Seats\n\nRoutes under Seats.\n\n" +
	"### POST /trains/{train}\n\nBook a seat (deprecated)\n\nOnce.\n\nOperation: `book-seat`. Credential: `bearer`.\n\n" +
	"Parameters:\n\n- `train` (path, string, required): Its number.\n- `class` (query, integer): First or second.\n- `X-Agent` (header, string): Who books.\n\n" +
	"Body (application/json)\n\n- `seat` (string, required)\n\n```json\n{\n  \"seat\": \"1A\"\n}\n```\n\n" +
	"Answer 201 (application/json): Booked.\n\n- `number` (integer, required)\n\n```json\n{\n  \"number\": 1\n}\n```\n\n" +
	"Failures:\n\n- 409: Conflict\n"

func TestTheTextHasASectionPerOperation(t *testing.T) {
	t.Parallel()
	d := newDocs(t, Options{
		Title: "T", Version: "2", Description: "Hello.", Auth: BearerJWT(), ExcludePrefixes: []string{"/api"},
		Routes: []Route{{Method: "POST", Path: "/trains/{train}", Operation: everything()}},
	})
	raw, err := d.Bytes(Markdown)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(markdownOfOne, string(raw)); diff != "" {
		t.Error(diff)
	}
	all, _ := newDocs(t, Options{Routes: []Route{{Method: "GET", Path: "/x"}}}).Bytes(Markdown)
	p := parse(t, newDocs(t, Options{Routes: []Route{{Method: "GET", Path: "/x"}}}))
	sections := 0
	for _, item := range p.Paths {
		sections += len(item)
	}
	if got := strings.Count(string(all), "\n### "); got != sections {
		t.Errorf("%d sections for %d operations:\n%s", got, sections, all)
	}
}

func TestASchemaThatContainsItselfEnds(t *testing.T) {
	t.Parallel()
	doc := decoded(t, `{
		"info": {"title": "T", "version": "1"}, "tags": [{"name": "A"}],
		"paths": {"/a": {"get": {"operationId": "a", "tags": ["A"], "responses": {"200": {"description": "d", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}}}}}}},
		"components": {"schemas": {"Tree": {"type": "object", "required": ["name"], "properties": {
			"name": {"type": "string", "examples": ["root"]},
			"parent": {"$ref": "#/components/schemas/Tree"},
			"children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}}}}}
	}`).(object)
	addExamples(doc)
	text := string(writeMarkdown(doc, "/docs"))
	for _, want := range []string{"- `children` (array)\n", "- `parent` (object)\n", "\"name\": \"root\""} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
