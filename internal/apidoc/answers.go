package apidoc

import (
	"maps"
	"slices"
	"strings"
)

// answerSuffix ends the name of the schema that an answer has in place of one that
// a request's body has too.
const answerSuffix = "Answer"

// openAnswers lets the objects of answers have members that the description does not
// name, for the next version may add some, and clients that validate what they get must
// not break. What is sent stays closed. A schema that is both sent and answered becomes
// two. d.sent are schemas that are sent wherever they occur.
func (d *Docs) openAnswers(doc object) {
	components, _ := doc["components"].(object)
	schemas, _ := components["schemas"].(object)
	sent, answered := map[string]bool{}, map[string]bool{}
	for _, name := range d.sent {
		reach(schemas, object{"$ref": schemaPrefix + name}, sent)
	}
	answers := []any{components["responses"]}
	for op := range operations(doc) {
		reach(schemas, op["requestBody"], sent)
		reach(schemas, op["parameters"], sent)
		answers = append(answers, op["responses"])
	}
	reach(schemas, answers, answered)
	twofold := map[string]string{} // references to what is both sent and answered, and what answers have instead
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		if sent[name] && answered[name] {
			other := freeName(schemas, name+answerSuffix)
			schemas[other] = clone(schemas[name])
			twofold[schemaPrefix+name] = schemaPrefix + other
		}
	}
	for name, schema := range schemas {
		if !sent[name] {
			openSchema(schema)
			redirect(schema, twofold)
		}
	}
	redirect(answers, twofold)
	openContent := func(response object) {
		eachOf(response["content"], func(media object) { openSchema(media["schema"]) })
	}
	eachOf(components["responses"], openContent)
	eachResponse(doc, func(_ object, _ string, response object) { openContent(response) })
}

// reach adds to found the names of all schemas that v leads to.
func reach(schemas object, v any, found map[string]bool) {
	references(v, func(name string) {
		if !found[name] {
			found[name] = true
			reach(schemas, schemas[name], found)
		}
	})
}

func freeName(taken object, name string) string {
	for taken[name] != nil {
		name += "_"
	}
	return name
}

// redirect changes references.
func redirect(v any, to map[string]string) {
	switch v := v.(type) {
	case object:
		if other, ok := to[text(v["$ref"])]; ok {
			v["$ref"] = other
		}
		for _, member := range v {
			redirect(member, to)
		}
	case []any:
		for _, item := range v {
			redirect(item, to)
		}
	}
}

// openSchema takes from a schema and what it consists of that there are no other members.
func openSchema(schema any) {
	s, ok := schema.(object)
	if !ok {
		return
	}
	if s["additionalProperties"] == false {
		delete(s, "additionalProperties")
	}
	for _, key := range []string{"properties", "patternProperties"} {
		members, _ := s[key].(object)
		for _, member := range members {
			openSchema(member)
		}
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf", "prefixItems"} {
		for _, branch := range list(s[key]) {
			openSchema(branch)
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		openSchema(s[key])
	}
}

// eachResponse gives every response of every operation, by status.
func eachResponse(doc object, f func(op object, status string, response object)) {
	for op := range operations(doc) {
		responses, _ := op["responses"].(object)
		for _, status := range slices.Sorted(maps.Keys(responses)) {
			if response, ok := responses[status].(object); ok {
				f(op, status, response)
			}
		}
	}
}

const responsePrefix = "#/components/responses/"

// resolveResponse follows a reference to a shared response.
func resolveResponse(doc, response object) object {
	name, ok := strings.CutPrefix(text(response["$ref"]), responsePrefix)
	if !ok {
		return response
	}
	components, _ := doc["components"].(object)
	responses, _ := components["responses"].(object)
	shared, _ := responses[name].(object)
	return shared
}
