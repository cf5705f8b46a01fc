package apidoc

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func decoded(t testing.TB, text string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func TestASchemaOf31Becomes30(t *testing.T) {
	t.Parallel()
	for was, want := range map[string]string{
		`true`:                         `{}`,
		`false`:                        `{"not": {}}`,
		`{"const": "a"}`:               `{"enum": ["a"]}`,
		`{"type": ["string", "null"]}`: `{"type": "string", "nullable": true}`,
		`{"type": "null"}`:             `{"type": "object", "nullable": true, "enum": [null]}`,
		`{"type": ["array", "null"]}`:  `{"type": "array", "nullable": true, "items": {}}`,
		`{"type": ["string", "integer", "null"], "maxLength": 3}`:                                      `{"maxLength": 3, "allOf": [{"anyOf": [{"type": "string", "nullable": true}, {"type": "integer"}]}]}`,
		`{"type": "integer", "examples": [1, 2]}`:                                                      `{"type": "integer", "example": 1}`,
		`{"exclusiveMinimum": 3}`:                                                                      `{"minimum": 3, "exclusiveMinimum": true}`,
		`{"exclusiveMinimum": 3, "minimum": 5}`:                                                        `{"minimum": 5}`,
		`{"exclusiveMaximum": 3, "maximum": 5}`:                                                        `{"maximum": 3, "exclusiveMaximum": true}`,
		`{"$ref": "#/x"}`:                                                                              `{"$ref": "#/x"}`,
		`{"$ref": "#/x", "description": "d", "$comment": "c"}`:                                         `{"allOf": [{"$ref": "#/x"}], "description": "d"}`,
		`{"anyOf": [{"$ref": "#/x"}, {"type": "null"}]}`:                                               `{"anyOf": [{"$ref": "#/x"}, {"type": "object", "nullable": true, "enum": [null]}]}`,
		`{"type": "string", "contentEncoding": "base64"}`:                                              `{"type": "string", "format": "byte"}`,
		`{"type": "string", "contentMediaType": "application/octet-stream"}`:                           `{"type": "string", "format": "binary"}`,
		`{"type": "array", "prefixItems": [{"const": 1}, true], "items": false}`:                       `{"type": "array", "items": {"anyOf": [{"enum": [1]}, {}]}}`,
		`{"type": "string", "pattern": "^[^\\u2028]*$"}`:                                               `{"type": "string"}`,
		`{"type": "object", "patternProperties": {"^x": {"const": 1}}, "additionalProperties": false}`: `{"type": "object", "additionalProperties": {"anyOf": [{"enum": [1]}]}}`,
		`{"properties": {"const": {"type": ["string", "null"]}}, "required": [], "x-a": 1}`:            `{"properties": {"const": {"type": "string", "nullable": true}}, "x-a": 1}`,
		`{"propertyNames": {"pattern": "a"}, "if": {}, "then": {}, "$defs": {}, "unevaluatedProperties": false, "minContains": 1}`: `{}`,
		`{"not": {"const": null}, "items": {"const": 1}, "additionalProperties": {"const": 2}}`:                                    `{"not": {"enum": [null]}, "items": {"enum": [1]}, "additionalProperties": {"enum": [2]}}`,
		`{"default": {"const": 1}, "enum": [{"const": 1}]}`:                                                                        `{"default": {"const": 1}, "enum": [{"const": 1}]}`,
	} {
		if diff := cmp.Diff(decoded(t, want), downgradeSchema(decoded(t, was))); diff != "" {
			t.Errorf("%s: %s", was, diff)
		}
	}
}

const newDocument = `{
	"openapi": "3.1.0", "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
	"info": {"title": "T", "version": "1", "summary": "S", "license": {"name": "MIT", "identifier": "MIT"}},
	"webhooks": {"w": {"post": {}}},
	"paths": {"/a": {
		"parameters": [{"$ref": "#/components/parameters/P", "description": "beside"}],
		"get": {
			"parameters": [{"name": "q", "in": "query", "schema": {"const": 1}, "examples": {"one": {"value": {"const": 1}}}}],
			"requestBody": {"content": {"multipart/form-data": {"schema": {"const": 2}, "encoding": {"x": {"headers": {"H": {"schema": {"const": 3}}}}}}}},
			"responses": {"200": {"description": "d", "headers": {"H": {"schema": {"const": 4}}}, "content": {"a/b": {"schema": {"const": 5}, "example": {"const": 5}}}}, "404": {"$ref": "#/components/responses/R", "summary": "beside"}},
			"callbacks": {"c": {"{$url}": {"post": {"responses": {"200": {"description": "d", "content": {"a/b": {"schema": {"const": 6}}}}}}}}}
		},
		"post": {}
	}},
	"components": {"schemas": {"S": {"const": 7}}, "parameters": {"P": {"name": "p", "in": "query", "schema": {"const": 8}}},
		"responses": {"R": {"description": "d", "content": {"a/b": {"schema": {"const": 9}}}}}, "pathItems": {"X": {}}}
}`

const oldDocument = `{
	"openapi": "3.0.3",
	"info": {"title": "T", "version": "1", "license": {"name": "MIT"}},
	"paths": {"/a": {
		"parameters": [{"$ref": "#/components/parameters/P"}],
		"get": {
			"parameters": [{"name": "q", "in": "query", "schema": {"enum": [1]}, "examples": {"one": {"value": {"const": 1}}}}],
			"requestBody": {"content": {"multipart/form-data": {"schema": {"enum": [2]}, "encoding": {"x": {"headers": {"H": {"schema": {"enum": [3]}}}}}}}},
			"responses": {"200": {"description": "d", "headers": {"H": {"schema": {"enum": [4]}}}, "content": {"a/b": {"schema": {"enum": [5]}, "example": {"const": 5}}}}, "404": {"$ref": "#/components/responses/R"}},
			"callbacks": {"c": {"{$url}": {"post": {"responses": {"200": {"description": "d", "content": {"a/b": {"schema": {"enum": [6]}}}}}}}}}
		},
		"post": {"responses": {"default": {"description": "An answer."}}}
	}},
	"components": {"schemas": {"S": {"enum": [7]}}, "parameters": {"P": {"name": "p", "in": "query", "schema": {"enum": [8]}}},
		"responses": {"R": {"description": "d", "content": {"a/b": {"schema": {"enum": [9]}}}}}}
}`

func TestADocumentOf31Becomes30AndStaysItself(t *testing.T) {
	t.Parallel()
	doc := decoded(t, newDocument).(object)
	if diff := cmp.Diff(decoded(t, oldDocument), any(downgrade(doc))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(decoded(t, newDocument), any(doc)); diff != "" {
		t.Errorf("the original changed: %s", diff)
	}
}
