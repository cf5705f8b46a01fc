package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

const (
	mediaJSON     = "application/json"
	bodyArgument  = "body"
	schemasPrefix = "#/components/schemas/"
	defsPrefix    = "#/$defs/"
)

// ownHeaders are those that a request has from the one around it, or by itself.
var ownHeaders = []string{"Accept", "Authorization", "Content-Type", "Cookie", "Host", "User-Agent", "X-Forwarded-For", "X-Request-Id"}

// input is the schema of the tool's arguments, and notes where each of them goes:
// parameters at the top, the body under body. It fails for two arguments of one name.
func (t *tool) input(doc, op object, without []string) (json.RawMessage, error) {
	properties, required := object{}, []any{}
	parameters, _ := op["parameters"].([]any)
	for _, v := range parameters {
		p := resolve(doc, v)
		name, in := text(p["name"]), text(p["in"])
		if in == "cookie" || in == "header" && slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)) || slices.Contains(without, name) {
			continue
		}
		if properties[name] != nil || name == bodyArgument {
			return nil, fmt.Errorf("two arguments would be called %q", name)
		}
		properties[name] = described(p)
		explode, said := p["explode"].(bool)
		t.parameters[name] = parameter{in: in, deep: text(p["style"]) == "deepObject", comma: said && !explode}
		if p["required"] == true {
			required = append(required, name)
		}
	}
	if body := resolve(doc, op["requestBody"]); body != nil {
		content, _ := body["content"].(object)
		media, _ := content[mediaJSON].(object)
		properties[bodyArgument] = media["schema"]
		t.takesBody = true
		if body["required"] == true {
			required = append(required, bodyArgument)
		}
	}
	schema := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	return selfContained(doc, schema)
}

// described is a parameter's schema with what the parameter says of itself.
func described(p object) object {
	schema, _ := p["schema"].(object)
	schema = maps.Clone(schema)
	if schema == nil {
		schema = object{}
	}
	if said := text(p["description"]); said != "" && schema["description"] == nil {
		schema["description"] = said
	}
	if example, ok := p["example"]; ok && schema["examples"] == nil {
		schema["examples"] = []any{example}
	}
	return schema
}

// outputSchema is that of the operation's successes; nil where one of them has no JSON object
// as its body, so that nothing can be promised.
func outputSchema(doc, op object) (json.RawMessage, error) {
	var alternatives []any
	for status, answer := range objects(op["responses"]) {
		if status >= "300" {
			continue
		}
		content, _ := resolve(doc, answer)["content"].(object)
		media, _ := content[mediaJSON].(object)
		if media == nil || text(resolve(doc, media["schema"])["type"]) != "object" {
			return nil, nil
		}
		alternatives = append(alternatives, media["schema"])
	}
	switch len(alternatives) {
	case 0:
		return nil, nil
	case 1:
		// The root says itself that it is an object: clients look there.
		return selfContained(doc, maps.Clone(resolve(doc, alternatives[0])))
	}
	return selfContained(doc, object{"type": "object", "anyOf": alternatives})
}

// resolve follows a reference within the document, if v is one.
func resolve(doc object, v any) object {
	o, _ := v.(object)
	for range 8 { // references to references
		ref := text(o["$ref"])
		if ref == "" {
			return o
		}
		at := any(doc)
		for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			member, _ := at.(object)
			at = member[part]
		}
		o, _ = at.(object)
	}
	return nil
}

// selfContained writes a schema that carries all that it refers to in $defs.
func selfContained(doc, schema object) (json.RawMessage, error) {
	defs := object{}
	out, _ := embed(doc, schema, defs).(object)
	if len(defs) > 0 {
		out["$defs"] = defs
	}
	return json.Marshal(out)
}

// embed copies v with its references turned to defs, where their targets go.
func embed(doc object, v any, defs object) any {
	switch v := v.(type) {
	case object:
		out := make(object, len(v))
		for key, value := range v {
			if name, ok := strings.CutPrefix(text(value), schemasPrefix); ok && key == "$ref" {
				out[key] = defsPrefix + name
				if _, there := defs[name]; !there {
					defs[name] = nil // it may refer to itself
					defs[name] = embed(doc, resolve(doc, v), defs)
				}
				continue
			}
			out[key] = embed(doc, value, defs)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = embed(doc, value, defs)
		}
		return out
	}
	return v
}
