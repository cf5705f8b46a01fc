package export

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// schemas generates JSON Schemas of the kinds that descriptions have.
func schemas(depth int) *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		kinds := []string{"boolean", "integer", "string", "format", "enum", "nullable"}
		if depth > 0 {
			kinds = append(kinds, "object", "array", "anyOf", "allOf")
		}
		inner := func(label string) map[string]any { return schemas(depth-1).Draw(t, label) }
		switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
		case "integer":
			least := rapid.IntRange(-5, 5).Draw(t, "least")
			return map[string]any{"type": kind, "minimum": least, "maximum": least + rapid.IntRange(0, 3).Draw(t, "more")}
		case "string":
			least := rapid.IntRange(0, 9).Draw(t, "least")
			return map[string]any{"type": kind, "minLength": least, "maxLength": least + rapid.IntRange(0, 3).Draw(t, "more")}
		case "format":
			return map[string]any{"type": "string", "format": rapid.SampledFrom([]string{"date-time", "date", "email", "uuid", "uri", "ipv4", "ipv6"}).Draw(t, kind)}
		case "enum":
			return map[string]any{"enum": []any{rapid.SampledFrom([]any{"a", 1, true}).Draw(t, kind)}}
		case "nullable":
			return map[string]any{"type": []any{"null", "string"}, "pattern": "^x"}
		case "object":
			required := []any{}
			if rapid.Bool().Draw(t, "required") {
				required = append(required, "a")
			}
			return map[string]any{"type": kind, "properties": map[string]any{"a": inner("a"), "b": inner("b")}, "required": required, "additionalProperties": false}
		case "array":
			return map[string]any{"type": kind, "items": inner("items"), "minItems": rapid.IntRange(0, 12).Draw(t, "least")}
		case "anyOf":
			return map[string]any{kind: []any{inner("one"), inner("other")}}
		case "allOf":
			return map[string]any{kind: []any{map[string]any{"type": "object", "properties": map[string]any{"a": inner("part")}}}, "properties": map[string]any{"b": inner("own")}}
		default:
			return map[string]any{"type": kind}
		}
	})
}

func TestASampleThatIsSaidToBeAllowedIsAllowed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(schemas(3).Draw(t, "schema"))
		if err != nil {
			t.Fatal(err)
		}
		var s schema
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		v, ok := (&description{}).sampler(true).sample(&s)
		if !ok {
			return
		}
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		if err := c.AddResource("schema.json", decode(raw)); err != nil {
			t.Fatal(err)
		}
		sample, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.MustCompile("schema.json").Validate(decode(sample)); err != nil {
			t.Fatalf("%s is no %s: %v", sample, raw, err)
		}
	})
}

func TestMergePatchFollowsTheExamplesOfItsRFC(t *testing.T) {
	t.Parallel()
	// RFC 7396, appendix A.
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		got := mergePatch(decode([]byte(c[0])), decode([]byte(c[1])))
		if diff := cmp.Diff(decode([]byte(c[2])), got); diff != "" {
			t.Errorf("%s patched by %s:\n%s", c[0], c[1], diff)
		}
	}
}

func TestPointersAndTemplatesBecomeJavaScript(t *testing.T) {
	t.Parallel()
	for pointer, want := range map[string]string{
		"/data/0/id": `?.data?.[0]?.id`, "/a~1b/c d/~0": `?.["a/b"]?.["c d"]?.["~"]`, "/x-y": `?.["x-y"]`, "/class": `?.class`,
	} {
		if got := access(pointer); got != want {
			t.Errorf("%s: %s, want %s", pointer, got, want)
		}
	}
	if got, want := templateLiteral("`${x}\\{body} {other} {hmac}"), "`\\`\\${x}\\\\${body} {other} ${hmac}`"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := forInsomnia("{{a}} {{$guid}} {{$isoTimestamp}} {{ not }}"), "{{ _.a }} {% uuid 'v4' %} {% now 'iso-8601', '' %} {{ not }}"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
