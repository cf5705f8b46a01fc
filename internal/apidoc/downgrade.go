package apidoc

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// downgrade returns a copy of an OpenAPI 3.1 document as 3.0.3, for tools that
// lag. What 3.0 cannot say is said more weakly, never otherwise: what the 3.1 form
// accepts, this one accepts too. https://spec.openapis.org/oas/v3.0.3
func downgrade(doc object) object {
	doc = clone(doc).(object)
	doc["openapi"] = "3.0.3"
	delete(doc, "webhooks")
	delete(doc, "jsonSchemaDialect")
	info := member(doc, "info")
	delete(info, "summary")
	if license, ok := info["license"].(object); ok {
		delete(license, "identifier")
	}
	paths := member(doc, "paths") // which 3.0 demands
	eachOf(paths, downgradePathItem)
	if components, ok := doc["components"].(object); ok {
		downgradeComponents(components)
	}
	return doc
}

func downgradeComponents(components object) {
	if schemas, ok := components["schemas"].(object); ok {
		for name, schema := range schemas {
			schemas[name] = downgradeSchema(schema)
		}
	}
	for section, f := range map[string]func(object){
		"parameters": downgradeParameter, "headers": downgradeParameter, "requestBodies": downgradeContent,
		"responses": downgradeResponse, "callbacks": downgradeCallback,
	} {
		eachOf(components[section], f)
	}
	// Of components that 3.0 does not know, only references remain, and those are
	// resolved by nobody.
	delete(components, "pathItems")
}

func downgradePathItem(item object) {
	eachItem(item["parameters"], downgradeParameter)
	for _, method := range methods {
		op, ok := item[method].(object)
		if !ok {
			continue
		}
		eachItem(op["parameters"], downgradeParameter)
		if body, ok := op["requestBody"].(object); ok {
			bareReference(body)
			downgradeContent(body)
		}
		responses := member(op, "responses")
		if len(responses) == 0 {
			responses["default"] = object{"description": "An answer."}
		}
		eachOf(responses, downgradeResponse)
		eachOf(op["callbacks"], downgradeCallback)
	}
}

func downgradeCallback(callback object) { eachOf(callback, downgradePathItem) }

func downgradeResponse(response object) {
	bareReference(response)
	eachOf(response["headers"], downgradeParameter)
	downgradeContent(response)
}

// downgradeParameter also does for headers.
func downgradeParameter(parameter object) {
	bareReference(parameter)
	if schema, ok := parameter["schema"]; ok {
		parameter["schema"] = downgradeSchema(schema)
	}
	downgradeContent(parameter)
}

func downgradeContent(body object) {
	eachOf(body["content"], func(media object) {
		if schema, ok := media["schema"]; ok {
			media["schema"] = downgradeSchema(schema)
		}
		eachOf(media["encoding"], func(encoding object) { eachOf(encoding["headers"], downgradeParameter) })
	})
}

// bareReference drops what 3.1 allows beside a reference that is no schema.
func bareReference(o object) {
	if o["$ref"] != nil {
		maps.DeleteFunc(o, func(key string, _ any) bool { return key != "$ref" })
	}
}

// schemaKeywords are those of a 3.0.3 Schema Object.
var schemaKeywords = []string{
	"title", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength",
	"pattern", "maxItems", "minItems", "uniqueItems", "maxProperties", "minProperties", "required", "enum", "type",
	"allOf", "oneOf", "anyOf", "not", "items", "properties", "additionalProperties", "description", "format",
	"default", "nullable", "discriminator", "readOnly", "writeOnly", "xml", "externalDocs", "example", "deprecated",
}

func downgradeSchema(schema any) any {
	s, ok := schema.(object)
	if !ok {
		if schema == false {
			return object{"not": object{}}
		}
		return object{}
	}
	downgradeSubschemas(s)
	downgradeValues(s)
	downgradeBound(s, "minimum", "exclusiveMinimum", func(a, b float64) bool { return a > b })
	downgradeBound(s, "maximum", "exclusiveMaximum", func(a, b float64) bool { return a < b })
	downgradeArray(s)
	downgradeObject(s)
	downgradeType(s)
	ref := s["$ref"]
	maps.DeleteFunc(s, func(key string, _ any) bool {
		return !slices.Contains(schemaKeywords, key) && !strings.HasPrefix(key, "x-")
	})
	if ref == nil {
		return s
	}
	if len(s) == 0 {
		return object{"$ref": ref}
	}
	s["allOf"] = append([]any{object{"$ref": ref}}, list(s["allOf"])...)
	return s
}

func downgradeSubschemas(s object) {
	for _, key := range []string{"properties", "patternProperties"} {
		if properties, ok := s[key].(object); ok {
			for name, property := range properties {
				properties[name] = downgradeSchema(property)
			}
		}
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf", "prefixItems"} {
		for i, branch := range list(s[key]) {
			s[key].([]any)[i] = downgradeSchema(branch)
		}
	}
	for _, key := range []string{"items", "not"} {
		if s[key] != nil {
			s[key] = downgradeSchema(s[key])
		}
	}
	if additional, ok := s["additionalProperties"].(object); ok {
		s["additionalProperties"] = downgradeSchema(additional)
	}
}

func downgradeValues(s object) {
	// Tools of this version that are written in Go compile patterns with RE2, which
	// knows no \u. The server holds on to the rule.
	if pattern, ok := s["pattern"].(string); ok && strings.Contains(pattern, `\u`) {
		delete(s, "pattern")
	}
	if v, ok := s["const"]; ok {
		s["enum"] = []any{v}
	}
	if examples := list(s["examples"]); len(examples) > 0 && s["example"] == nil {
		s["example"] = examples[0]
	}
	switch {
	case s["format"] != nil:
	case s["contentEncoding"] == "base64":
		s["format"] = "byte"
	case s["contentMediaType"] == "application/octet-stream":
		s["format"] = "binary"
	}
	for _, key := range []string{"enum", "required", "allOf", "anyOf", "oneOf"} {
		if v, ok := s[key].([]any); ok && len(v) == 0 {
			delete(s, key)
		}
	}
}

// downgradeBound makes an exclusive bound the flag of an inclusive one; the
// stricter of two stays.
func downgradeBound(s object, inclusive, exclusive string, stricter func(a, b float64) bool) {
	bound, ok := s[exclusive].(json.Number)
	if !ok {
		return
	}
	delete(s, exclusive)
	if other, ok := s[inclusive].(json.Number); ok {
		a, _ := other.Float64()
		b, _ := bound.Float64()
		if stricter(a, b) {
			return
		}
	}
	s[inclusive], s[exclusive] = bound, true
}

// downgradeArray turns a tuple into an array of any of its items.
func downgradeArray(s object) {
	tuple := list(s["prefixItems"])
	if len(tuple) == 0 {
		return
	}
	if rest, ok := s["items"].(object); ok && rest["not"] == nil {
		tuple = append(tuple, rest)
	}
	s["items"] = object{"anyOf": tuple}
}

// downgradeObject lets in what only the pattern of a name allowed.
func downgradeObject(s object) {
	patterns, ok := s["patternProperties"].(object)
	if !ok {
		return
	}
	var branches []any
	for _, name := range slices.Sorted(maps.Keys(patterns)) {
		branches = append(branches, patterns[name])
	}
	switch others := s["additionalProperties"].(type) {
	case bool:
		if !others {
			s["additionalProperties"] = object{"anyOf": branches}
		}
	case object:
		s["additionalProperties"] = object{"anyOf": append(branches, others)}
	}
}

// downgradeType leaves a schema one type. In 3.0.3 nullable counts only beside a
// type, and null itself is no type.
func downgradeType(s object) {
	types := list(s["type"])
	if name := text(s["type"]); name != "" {
		types = []any{name}
	}
	named := slices.DeleteFunc(slices.Clone(types), func(t any) bool { return t == "null" })
	null := len(named) < len(types)
	switch {
	case len(types) == 0:
		return
	case len(named) == 0:
		s["type"], s["enum"] = "object", []any{nil}
	case len(named) == 1:
		s["type"] = named[0]
	default:
		delete(s, "type")
		branches := make([]any, len(named))
		for i, t := range named {
			branch := object{"type": t}
			if t == "array" {
				branch["items"] = object{}
			}
			if null && i == 0 {
				branch["nullable"] = true
			}
			branches[i] = branch
		}
		s["allOf"] = append(list(s["allOf"]), object{"anyOf": branches})
		return
	}
	if null {
		s["nullable"] = true
	}
	if s["type"] == "array" && s["items"] == nil {
		s["items"] = object{}
	}
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// eachOf calls f for each object among the members of v.
func eachOf(v any, f func(object)) {
	members, _ := v.(object)
	for _, m := range members {
		if o, ok := m.(object); ok {
			f(o)
		}
	}
}

// eachItem calls f for each object of an array.
func eachItem(v any, f func(object)) {
	for _, item := range list(v) {
		if o, ok := item.(object); ok {
			f(o)
		}
	}
}

// clone copies a JSON value.
func clone(v any) any {
	switch v := v.(type) {
	case object:
		out := make(object, len(v))
		for key, value := range v {
			out[key] = clone(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = clone(value)
		}
		return out
	}
	return v
}
