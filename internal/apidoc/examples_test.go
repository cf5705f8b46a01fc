package apidoc

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnExampleIsMadeOfTheSchemasParts(t *testing.T) {
	t.Parallel()
	schemas := decoded(t, `{
		"Name": {"type": "string", "examples": ["Ada"]},
		"Loop": {"type": "object", "required": ["again"], "properties": {"again": {"$ref": "#/components/schemas/Loop"}}}
	}`).(object)
	for schema, want := range map[string]string{
		`{"$ref": "#/components/schemas/Name"}`:              `"Ada"`,
		`{"type": "string", "default": "d"}`:                 `"d"`,
		`{"const": 4}`:                                       `4`,
		`{"enum": ["b", "a"]}`:                               `"b"`,
		`{"oneOf": [{"type": "boolean"}, {"type": "null"}]}`: `false`,
		`{"type": ["integer", "null"], "minimum": 3}`:        `3`,
		`{"type": "number"}`:                                 `0`,
		`{"type": "null"}`:                                   `null`,
		`{"type": "string", "format": "date-time"}`:          `"2026-01-02T15:04:05Z"`,
		`{"type": "string", "format": "uuid"}`:               `"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10"`,
		`{"type": "array", "items": {"type": "string"}}`:     `["text"]`,
		`{"type": "array"}`:                                  `[]`,
		`{"type": "object", "properties": {"optional": {"type": "string"}, "shown": {"examples": [1]}}}`: `{"shown": 1}`,
		`{"type": "object", "required": ["a"], "properties": {"a": {"type": "boolean"}}}`:                `{"a": false}`,
		`{"type": "object", "properties": {"o": {"$ref": "#/components/schemas/Loop"}}}`:                 `{}`,
	} {
		e := exampler{schemas: schemas}
		got, ok := e.value(decoded(t, schema))
		if diff := cmp.Diff(decoded(t, want), got); diff != "" || !ok {
			t.Errorf("%s: %v %s", schema, ok, diff)
		}
	}
	for _, schema := range []string{`{}`, `false`, `{"$ref": "#/components/schemas/Loop"}`, `{"type": "array", "minItems": 1}`} {
		e := exampler{schemas: schemas}
		if got, ok := e.value(decoded(t, schema)); ok {
			t.Errorf("%s: made %v up", schema, got)
		}
	}
}
