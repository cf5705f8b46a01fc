package apidoc

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// exampleMembers is an extension of a media type: members that its example has in place of
// those that are made of the schema. It is not served.
const exampleMembers = "x-example-members"

// addExamples gives every body without an example one that is made of the
// examples of its schema's parts.
func addExamples(doc object) {
	components, _ := doc["components"].(object)
	schemas, _ := components["schemas"].(object)
	e := exampler{schemas: schemas}
	for op := range operations(doc) {
		request, _ := op["requestBody"].(object)
		e.addTo(request)
		responses, _ := op["responses"].(object)
		for _, r := range responses {
			answer, _ := r.(object)
			e.addTo(answer)
		}
	}
}

// exampler makes values of schemas. A schema that contains itself ends at its
// second turn.
type exampler struct {
	schemas object
	open    []string // names of the schemas being made
}

// addTo fills the media types of a request body or a response.
func (e *exampler) addTo(body object) {
	content, _ := body["content"].(object)
	for _, m := range content {
		media, _ := m.(object)
		defer delete(media, exampleMembers)
		if media["example"] != nil || media["examples"] != nil || media["schema"] == nil {
			continue
		}
		if value, ok := e.value(media["schema"]); ok {
			members, _ := media[exampleMembers].(object)
			if made, ok := value.(object); ok {
				value = maps.Clone(made)
				maps.Copy(value.(object), members)
			}
			media["example"] = value
		}
	}
}

// value returns an example of a schema, false when none can be made.
func (e *exampler) value(schema any) (any, bool) {
	s, ok := schema.(object)
	if !ok {
		return nil, schema == true
	}
	if name, ok := strings.CutPrefix(text(s["$ref"]), schemaPrefix); ok {
		if slices.Contains(e.open, name) {
			return nil, false
		}
		e.open = append(e.open, name)
		defer func() { e.open = e.open[:len(e.open)-1] }()
		return e.value(e.schemas[name])
	}
	if list, ok := s["examples"].([]any); ok && len(list) > 0 {
		return list[0], true
	}
	for _, key := range []string{"const", "default"} {
		if v, ok := s[key]; ok {
			return v, true
		}
	}
	if list, ok := s["enum"].([]any); ok && len(list) > 0 {
		return list[0], true
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		if list, ok := s[key].([]any); ok && len(list) > 0 {
			return e.value(list[0])
		}
	}
	return e.ofType(s)
}

func (e *exampler) ofType(s object) (any, bool) {
	kind := text(s["type"])
	if list, ok := s["type"].([]any); ok && len(list) > 0 {
		kind = text(list[0])
	}
	switch kind {
	case "object":
		return e.ofObject(s)
	case "array":
		item, ok := e.value(s["items"])
		if !ok {
			return []any{}, s["minItems"] == nil
		}
		return []any{item}, true
	case "string":
		return ofString(s), true
	case "integer", "number":
		if least, ok := s["minimum"].(json.Number); ok {
			return least, true
		}
		return json.Number("0"), true
	case "boolean":
		return false, true
	case "null":
		return nil, true
	}
	return nil, false
}

// ofObject has the members that must be there and those that say an example.
func (e *exampler) ofObject(s object) (any, bool) {
	out := object{}
	required, _ := s["required"].([]any)
	properties, _ := s["properties"].(object)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		must := slices.Contains(required, any(name))
		property, _ := properties[name].(object)
		if !must && property["examples"] == nil {
			continue
		}
		v, ok := e.value(property)
		if !ok && must {
			return nil, false
		}
		if ok {
			out[name] = v
		}
	}
	return out, true
}

func ofString(s object) string {
	switch text(s["format"]) {
	case "date-time":
		return "2026-01-02T15:04:05Z"
	case "date":
		return "2026-01-02"
	case "uuid":
		return "01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10"
	case "email":
		return "ada@example.com"
	case "uri", "url":
		return "https://example.com/"
	}
	return "text"
}
