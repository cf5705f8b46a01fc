package apidoc

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const markdownOfOne = "# T\n\n> Version 2, an OpenAPI description as text.\n\nHello.\n\n" +
	"- Server: https://api.example.com/v1\n- [OpenAPI 3.1](https://api.example.com/v1/docs/openapi.json)\n- [OpenAPI 3.0](https://api.example.com/v1/docs/openapi-3.0.json)\n\n" +
	"## Credentials\n\n- `bearer`: an HTTP bearer credential in `Authorization`.\n\n" +
	"## Seats\n\nRoutes under Seats.\n\n" +
	"### book-seat\n\n`POST /trains/{train}`: Book a seat (deprecated)\n\nOnce.\n\nCredential: `bearer`.\n\n" +
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
	text := string(writeMarkdown(doc, new(Docs).sequence(doc), "/docs"))
	for _, want := range []string{"- `children` (array)\n", "- `parent` (object)\n", "\"name\": \"root\""} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

const indexOfOne = "# T\n\n> Hello.\n\nVersion 2. How to sign in, what answers look like and every operation: [llms-full.txt](llms-full.txt), " +
	"in which a section is named after its operationId.\n\n" +
	"- Server: https://api.example.com/v1\n- [OpenAPI 3.1](https://api.example.com/v1/docs/openapi.json)\n- [OpenAPI 3.0](https://api.example.com/v1/docs/openapi-3.0.json)\n\n" +
	"## Seats\n\n- [POST /trains/{train}](llms-full.txt#book-seat): Book a seat (deprecated)\n"

func TestTheIndexHasALineForEachOperationLinkedToItsSection(t *testing.T) {
	t.Parallel()
	d := newDocs(t, Options{
		Title: "T", Version: "2", Description: "Hello.\n\nMore.", Auth: BearerJWT(), ExcludePrefixes: []string{"/api"},
		Routes: []Route{{Method: "POST", Path: "/trains/{train}", Operation: everything()}},
	})
	raw, err := d.Bytes(Index)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(indexOfOne, string(raw)); diff != "" {
		t.Error(diff)
	}
}

func TestOperationsAreInTheOrderOfTheirUse(t *testing.T) {
	t.Parallel()
	d := newDocs(t, Options{
		Sequence: []string{"create-article", "get-article", "admin-deep", "admin-users"},
		Routes:   []Route{{Method: "GET", Path: "/articles-feed", Operation: Describe().ID("feed").Tags("Articles")}},
	})
	want := []string{"feed", "create-article", "get-article", "admin", "admin-deep", "admin-users"}
	for _, form := range []Form{JSON, YAML, JSON30, Markdown, Index} {
		raw, err := d.Bytes(form)
		if err != nil {
			t.Fatal(err)
		}
		pattern := regexp.MustCompile(`"?operationId"?: "?([a-z-]+)"?`)
		switch form {
		case Markdown:
			pattern = regexp.MustCompile(`(?m)^### ([a-z-]+)$`)
		case Index:
			pattern = regexp.MustCompile(`llms-full.txt#([a-z-]+)`)
		}
		var got []string
		for _, m := range pattern.FindAllSubmatch(raw, -1) {
			got = append(got, string(m[1]))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", form, diff)
		}
	}
}
