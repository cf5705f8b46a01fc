package truth_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/waypost/waypost/e2e/outside"
)

// breakage makes a valid request a broken one.
type breakage struct {
	name  string
	apply func(*request)
}

// breakages are what can be broken in an operation's requests, which has that
// body when it is whole.
func (o *operation) breakages(body []byte) []breakage {
	list := []breakage{{"a malformed query", func(r *request) { r.malformed = "a=%zz" }}}
	unknown := map[string]string{}
	for _, p := range o.doc.Parameters {
		if p.In == "path" {
			unknown[p.Name] = nobodysID(p.Schema)
		}
		for _, value := range brokenValues(p.Schema) {
			switch p.In {
			case "query":
				list = append(list, breakage{p.Name + "=" + value, func(r *request) {
					r.query = maps.Clone(r.query)
					r.query.Set(p.Name, value)
				}})
			case "path":
				list = append(list, breakage{"path " + p.Name + "=" + value, func(r *request) {
					r.params = maps.Clone(r.params)
					r.params[p.Name] = value
				}})
			}
		}
	}
	if len(unknown) > 0 {
		list = append(list, breakage{"what is not there", func(r *request) { r.params = unknown }})
	}
	if o.doc.RequestBody == nil {
		return list
	}
	list = append(list, breakage{"another media type", func(r *request) { r.header = slices.Concat(r.header, []string{"Content-Type", "application/xml"}) }})
	for name, text := range brokenBodies(body) {
		list = append(list, breakage{name, func(r *request) { r.body = []byte(text) }})
	}
	return list
}

// nobodysID is well-formed and names nothing.
func nobodysID(schema map[string]any) string {
	switch {
	case schema["type"] == "integer":
		return "999999999"
	case schema["pattern"] != nil || schema["maxLength"] != nil:
		return "nobody"
	}
	return "01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10"
}

// brokenValues break a parameter's schema, as far as it has rules.
func brokenValues(schema map[string]any) []string {
	switch schema["type"] {
	case "integer", "number":
		values := []string{"x", "-1"}
		if top, ok := schema["maximum"].(float64); ok {
			values = append(values, strconv.Itoa(int(top)+1))
		}
		return values
	case "boolean":
		return []string{"perhaps"}
	}
	if schema["enum"] != nil || schema["format"] != nil || schema["pattern"] != nil {
		return []string{"no such ☃"}
	}
	return []string{strings.Repeat("☃", 400), ""}
}

const tooLarge = "2 MB"

// brokenBodies break a JSON body that is right.
func brokenBodies(valid []byte) map[string]string {
	bodies := map[string]string{
		"no body": "", "half a body": `{"`, "an array": "[]", "an empty object": "{}", "null": "null",
		tooLarge: `{"x":"` + strings.Repeat("x", 2<<20) + `"}`,
	}
	var members map[string]any
	if json.Unmarshal(valid, &members) != nil {
		return bodies
	}
	for name := range members {
		for what, value := range map[string]any{"null": nil, "an object": map[string]any{}, "a long string": strings.Repeat("x", 5000)} {
			changed := maps.Clone(members)
			changed[name] = value
			bodies[name+" is "+what] = outside.JSON(changed)
		}
	}
	more := maps.Clone(members)
	more["surprise"] = 1
	bodies["an unknown member"] = outside.JSON(more)
	return bodies
}
