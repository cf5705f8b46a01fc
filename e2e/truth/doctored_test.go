package truth_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/waypost/waypost/e2e/outside"
)

// tiny describes one operation, truthfully for tinyAnswers.
const tiny = `{
  "openapi": "3.1.0", "info": {"title": "Tiny", "version": "1"},
  "paths": {"/things": {"get": {
    "operationId": "list-things", "description": "Access: role ` + "`ADMIN` or `EDITOR`; an API token needs scope `read`" + `.",
    "security": [{"bearer": []}, {"apiToken": []}],
    "parameters": [{"name": "limit", "in": "query", "schema": {"type": "integer", "examples": [1]}, "example": 20}],
    "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Wish"}, "example": {}}}},
    "responses": {
      "200": {
        "headers": {"Retry-After": {"$ref": "#/components/headers/Retry-After"}},
        "content": {
          "application/json": {"schema": {"$ref": "#/components/schemas/Thing"}, "example": {"id": 1}},
          "text/csv": {"schema": {"type": "string"}}
        }
      },
      "204": {},
      "404": {"$ref": "#/components/responses/Missing"},
      "503": {"content": {"application/json": {"schema": {}, "examples": {"unavailable": {"value": {}}}}}}
    }
  }}},
  "components": {
    "headers": {"Retry-After": {"schema": {"type": "integer"}}},
    "responses": {"Missing": {"content": {"application/json": {"schema": {}, "examples": {
      "not_found": {"value": {"error": {"code": "not_found"}}}, "gone": {"value": {"error": {"code": "gone"}}}
    }}}}},
    "schemas": {
      "ID": {"type": "integer"},
      "Thing": {"type": "object", "properties": {"id": {"$ref": "#/components/schemas/ID"}}, "required": ["id"], "examples": [{"id": 2}]},
      "Wish": {"type": "object", "properties": {"for": {"type": "string"}}, "additionalProperties": false}
    }
  }
}`

func tinyAnswer(status int, body string, header ...string) outside.Answer {
	a := outside.Answer{Status: status, Header: http.Header{}, Body: []byte(body)}
	if body != "" {
		a.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		a.Header.Set(header[i], header[i+1])
	}
	return a
}

func tinyError(status int, code string) outside.Answer {
	return tinyAnswer(status, `{"error":{"code":"`+code+`"}}`)
}

func tinyAnswers() []outside.Answer {
	return []outside.Answer{
		tinyAnswer(200, `{"id":1}`, "Retry-After", "1"), tinyAnswer(200, "id\n1\n", "Content-Type", "text/csv"), tinyAnswer(204, ""),
		tinyError(404, "not_found"), tinyError(404, "gone"),
	}
}

// wrongIn says what one operation's answers are wrong in, one by one and together.
func wrongIn(d *description, answers []outside.Answer) []string {
	var wrong []string
	var seen sightings
	for _, a := range answers {
		wrong = append(wrong, d.check(d.operations[0], a)...)
		seen.add(a)
	}
	return append(wrong, d.unseen(d.operations[0], seen)...)
}

func TestTheWalkFindsAnswersThatAreNotAsDescribed(t *testing.T) {
	t.Parallel()
	d := readDescription(t, []byte(tiny))
	if wrong := wrongIn(d, tinyAnswers()); len(wrong) != 0 {
		t.Fatalf("wrong although true: %q", wrong)
	}
	for want, a := range map[string]outside.Answer{
		"undocumented status 418":                      tinyAnswer(418, ""),
		"undocumented error code \"lost\"":             tinyError(404, "lost"),
		"undocumented header X-Surprise":               tinyAnswer(204, "", "X-Surprise", "1"),
		"header Retry-After":                           tinyAnswer(200, `{"id":1}`, "Retry-After", "soon"),
		"undocumented media type \"text/html\"":        tinyAnswer(200, "<p>", "Content-Type", "text/html"),
		"undocumented media type \"application/json\"": tinyAnswer(204, "{}"),
		"additional properties 'surprise' not allowed": tinyAnswer(200, `{"id":1,"surprise":2}`),
		"missing property 'id'":                        tinyAnswer(200, `{}`),
		"got string, want integer":                     tinyAnswer(200, `{"id":"1"}`),
		"not JSON":                                     tinyAnswer(200, `{`),
		"a body is documented, and there is none":      tinyAnswer(200, ""),
	} {
		if wrong := wrongIn(d, append(tinyAnswers(), a)); len(wrong) != 1 || !strings.Contains(wrong[0], want) {
			t.Errorf("want one with %q, got %q", want, wrong)
		}
	}
}

func TestTheWalkFindsWhatIsDocumentedAndNeverOccurs(t *testing.T) {
	t.Parallel()
	d := readDescription(t, []byte(tiny))
	for i, want := range []string{
		"200 never has the documented header Retry-After", "200 never has the documented media type text/csv", "the documented 204 never occurs",
		"404 never has the documented error code not_found", "404 never has the documented error code gone",
	} {
		all := tinyAnswers()
		if i == 0 {
			all[0].Header.Del("Retry-After")
		} else {
			all = append(all[:i:i], all[i+1:]...)
		}
		if wrong := wrongIn(d, all); len(wrong) != 1 || wrong[0] != want {
			t.Errorf("want %q, got %q", want, wrong)
		}
	}
}

func TestTheWalkFindsAccessThatIsNotAsDescribed(t *testing.T) {
	t.Parallel()
	o := readDescription(t, []byte(tiny)).operations[0]
	ok, forbidden, unknown := tinyAnswer(200, `{"id":1}`), tinyError(403, "forbidden"), tinyError(401, "unauthenticated")
	for caller, right := range map[string]outside.Answer{
		callerAdmin: ok, callerEditor: ok, callerUser: forbidden, callerToken: ok, callerWeakToken: forbidden,
		callerNobody: unknown, callerForger: unknown, callerReader: unknown, callerMustEnroll: ok,
	} {
		if wrong := o.checkAccess(caller, right); len(wrong) != 0 {
			t.Errorf("%s: %q although true", caller, wrong)
		}
		for _, a := range []outside.Answer{ok, forbidden, unknown, tinyError(403, enrollFirst)} {
			same := a.Status == right.Status && a.ErrorCode() == right.ErrorCode()
			enrolls := a.ErrorCode() == enrollFirst || a.Status == 403 && caller == callerMustEnroll
			if !same && !enrolls && len(o.checkAccess(caller, a)) == 0 {
				t.Errorf("%s may get %d %s", caller, a.Status, a.ErrorCode())
			}
		}
	}
	if len(o.checkAccess(callerMustEnroll, tinyError(403, enrollFirst))) == 0 {
		t.Error("an undocumented demand to enroll is not found")
	}
	o.doc.Security = nil
	if len(o.checkAccess(callerNobody, unknown)) == 0 || len(o.checkAccess(callerNobody, ok)) != 0 {
		t.Error("who needs no credentials may be asked for some")
	}
}

func TestTheWalkFindsAnswersThatOthersMayKeep(t *testing.T) {
	t.Parallel()
	o := readDescription(t, []byte(tiny)).operations[0]
	w := &world{credentials: map[string][]string{callerUser: outside.Bearer("x")}}
	for kept, right := range map[string]bool{
		"no-store": true, "private": true, "private, no-cache": true, "": false, "no-cache": false, "max-age=60": false, "public, max-age=60": false,
	} {
		a := tinyAnswer(200, `{"id":1}`, "Cache-Control", kept)
		if wrong := o.checkKept(w, request{caller: callerUser}, a); (len(wrong) == 0) != right {
			t.Errorf("%q: %q", kept, wrong)
		}
	}
	everybodys := tinyAnswer(200, `{"id":1}`, "Cache-Control", "public, max-age=60")
	o.doc.Security = append(o.doc.Security, map[string][]string{})
	if wrong := o.checkKept(w, request{caller: callerNobody}, everybodys); len(wrong) != 0 {
		t.Errorf("what everybody gets: %q", wrong)
	}
	if len(o.checkKept(w, request{caller: callerUser}, everybodys)) == 0 {
		t.Error("what somebody gets is taken for everybody's")
	}
}

func TestExamplesThatTheirSchemaRefusesAreFound(t *testing.T) {
	t.Parallel()
	d := readDescription(t, []byte(tiny))
	if wrong := append(append(d.wrongExamples(), d.withoutExample()...), d.wrongRoom()...); len(wrong) != 0 {
		t.Fatalf("wrong although true: %q", wrong)
	}
	for what, change := range map[string][2]string{
		"a body's":               {`"example": {"id": 1}`, `"example": {"id": "one"}`},
		"a parameter's":          {`"example": 20`, `"example": "twenty"`},
		"a parameter's schema's": {`"examples": [1]`, `"examples": ["one"]`},
		"a model's":              {`"examples": [{"id": 2}]`, `"examples": [{"id": 2, "surprise": 3}]`},
		"none":                   {`, "example": {"id": 1}`, ``},
		"a body's room":          {`, "additionalProperties": false}`, `}`},
		"an answer's closing":    {`"required": ["id"], `, `"required": ["id"], "additionalProperties": false, `},
		"both sent and answered": {`"for": {"type": "string"}`, `"for": {"$ref": "#/components/schemas/ID"}`},
	} {
		text := strings.Replace(tiny, change[0], change[1], 1)
		d := readDescription(t, []byte(text))
		if wrong := append(append(d.wrongExamples(), d.withoutExample()...), d.wrongRoom()...); text == tiny || len(wrong) != 1 {
			t.Errorf("%s: %q", what, wrong)
		}
	}
}
