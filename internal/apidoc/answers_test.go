package apidoc

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnswersAreOpenAndBodiesAreClosedAlsoWhereTheyShareASchema(t *testing.T) {
	t.Parallel()
	closed := func(properties string) string {
		return `{"type": "object", "properties": {` + properties + `}, "additionalProperties": false, "examples": [{"additionalProperties": false}]}`
	}
	open := func(properties string) string {
		return `{"type": "object", "properties": {` + properties + `}, "examples": [{"additionalProperties": false}]}`
	}
	to := func(name string) string { return `{"$ref": "#/components/schemas/` + name + `"}` }
	media := func(schema string) string { return `{"content": {"application/json": {"schema": ` + schema + `}}}` }
	doc := func(request, response, schemas string) string {
		return `{"paths": {"/a": {"post": {"requestBody": ` + media(request) + `, "responses": {"200": ` + media(response) + `}}}}, "components": {"schemas": ` + schemas + `}}`
	}
	for name, c := range map[string]struct{ before, after string }{
		"an inline answer": {
			doc(`{}`, closed(`"a": {"type": "array", "items": `+closed("")+`}`), `{}`),
			doc(`{}`, open(`"a": {"type": "array", "items": `+open("")+`}`), `{}`),
		},
		"what nobody sends": {
			doc(to("In"), to("Out"), `{"In": `+closed("")+`, "Out": {"oneOf": [`+closed("")+`]}, "Spare": `+closed("")+`, "CreateSpare": `+closed("")+`}`),
			doc(to("In"), to("Out"), `{"In": `+closed("")+`, "Out": {"oneOf": [`+open("")+`]}, "Spare": `+open("")+`, "CreateSpare": `+closed("")+`}`),
		},
		"both": {
			doc(to("In"), to("Out"), `{"In": `+closed(`"p": `+to("Pair"))+`, "Out": `+closed(`"p": `+to("Pair"))+`, "Pair": `+closed(`"d": `+to("Deep"))+`, "Deep": `+closed("")+`, "PairAnswer": {}}`),
			doc(to("In"), to("Out"), `{"In": `+closed(`"p": `+to("Pair"))+`, "Out": `+open(`"p": `+to("PairAnswer_"))+`, "Pair": `+closed(`"d": `+to("Deep"))+`, "Deep": `+closed("")+
				`, "PairAnswer": {}, "PairAnswer_": `+open(`"d": `+to("DeepAnswer"))+`, "DeepAnswer": `+open("")+`}`),
		},
	} {
		got, want := jsonObject(t, c.before), jsonObject(t, c.after)
		(&Docs{sent: []string{"CreateSpare"}}).openAnswers(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func jsonObject(t *testing.T, text string) object {
	t.Helper()
	var o object
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestEqualFailuresAreOneComponentNamedAfterItsCodes(t *testing.T) {
	t.Parallel()
	failure := func(description string, codes ...string) string {
		examples := make([]string, len(codes))
		for i, code := range codes {
			examples[i] = `"` + code + `": {"value": 1}`
		}
		return `{"description": "` + description + `", "content": {"application/json": {"examples": {` + strings.Join(examples, ",") + `}}}}`
	}
	doc := jsonObject(t, `{"paths": {
		"/a": {"get": {"operationId": "get-a", "responses": {"200": {"description": "ok"}, "404": `+failure("no a", "not_found")+`, "403": `+failure("three", "a", "b", "c")+`}}},
		"/b": {"get": {"operationId": "get-b", "responses": {"404": `+failure("no b", "not_found")+`, "409": `+failure("two", "too_many", "taken")+`, "default": {"description": "any"}}}},
		"/c": {"get": {"operationId": "get-c", "responses": {"404": `+failure("no b", "not_found")+`, "599": `+failure("odd")+`}}}},
		"webhooks": {"w": {"post": {"operationId": "post-w", "responses": {"422": `+failure("w", "w")+`}}}}}`)
	if err := shareFailures(doc); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for op := range operations(doc) {
		for status, r := range op["responses"].(object) {
			got[op["operationId"].(string)+" "+status] = strings.TrimPrefix(text(r.(object)["$ref"]), responsePrefix) + ": " + text(resolveResponse(doc, r.(object))["description"])
		}
	}
	want := map[string]string{
		"get-a 200": ": ok", "get-a 403": "Forbidden: three", "get-a 404": "NotFoundInGetA: no a",
		"get-b 404": "NotFound: no b", "get-b 409": "TakenOrTooMany: two", "get-b default": ": any",
		"get-c 404": "NotFound: no b", "get-c 599": "Status599: odd", "post-w 422": "W: w",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	delete(doc, "webhooks")
	pruneResponses(doc)
	names := keys(doc["components"].(object)["responses"].(object))
	if want := []string{"Forbidden", "NotFound", "NotFoundInGetA", "Status599", "TakenOrTooMany"}; !slices.Equal(names, want) {
		t.Errorf("left are %q", names)
	}
}
