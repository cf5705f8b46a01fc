package export_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// guests is a description in which a second account does what would spoil the
// first one's session.
const guests = `{
	"openapi": "3.1.0", "info": {"title": "Guests", "version": "1"}, "security": [{"bearer": []}], "tags": [{"name": "Doors"}, {"name": "Rooms"}],
	"components": {"securitySchemes": {
		"bearer": {"type": "http", "scheme": "bearer"},
		"roomKey": {"type": "apiKey", "in": "header", "name": "X-Room-Key"}
	}},
	"paths": {
		"/sessions": {
			"post": {"operationId": "sign-in", "summary": "Sign in", "tags": ["Doors"], "security": [], "responses": {"200": {}, "409": {}},
				"x-waypost-export": {"order": -10, "capture": {"accessToken": "/token"}, "variants": [
					{"name": "host", "summary": "Sign in"},
					{"name": "guest", "order": -5, "capture": {"guestToken": "/token"}, "status": [200, 409]}
				]}},
			"delete": {"operationId": "sign-out", "summary": "Sign out", "tags": ["Doors"], "responses": {"204": {}}, "x-waypost-export": {"variants": [
				{"name": "guest", "summary": "Send the guest away", "order": 900, "credential": "guestToken"},
				{"name": "host", "summary": "Sign out", "order": 1000}
			]}}
		},
		"/rooms": {"get": {"operationId": "rooms", "tags": ["Rooms"], "security": [{"roomKey": []}], "responses": {"200": {}}, "x-waypost-export": {"variants": [
			{"name": "all"}, {"name": "mine", "order": -7, "credential": "ownKey"}
		]}}},
		"/rooms/{id}": {"delete": {"operationId": "clear", "tags": ["Rooms"], "responses": {"204": {}}, "parameters": [{"in": "path", "name": "id", "required": true}],
			"x-waypost-export": {"parameters": {"id": "{{roomId}}"}}}},
		"/safe": {"post": {"operationId": "open", "tags": ["Rooms"], "responses": {"200": {}}, "x-waypost-export": {
			"body": {"code": "{{safeCode}}"}, "totp": {"secret": "safeSecret", "code": "safeCode"}
		}}}
	}
}`

func TestEachVariantHasItsOwnPlaceAndCredential(t *testing.T) {
	t.Parallel()
	c := decoded[collection](t, postman, []byte(guests), strictJSON)
	var got []string
	for _, f := range c.Item {
		for _, i := range f.Item {
			credential := "inherited"
			if a := i.Request.Auth; a != nil {
				credential = a.Type
				for _, v := range append(a.Bearer, a.APIKey...) {
					credential += " " + v.Value
				}
			}
			got = append(got, f.Name+": "+i.Name+": "+credential)
		}
	}
	want := []string{
		"Doors: Sign in: noauth",
		"Doors: Sign in (guest): noauth",
		"Rooms: rooms (mine): apikey X-Room-Key {{ownKey}} header",
		"Rooms: rooms (all): apikey X-Room-Key {{roomKey}} header",
		"Rooms: open: inherited",
		"Removal and sign-out: clear: inherited",
		"Removal and sign-out: Send the guest away: bearer {{guestToken}}",
		"Removal and sign-out: Sign out: inherited",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	tokens := map[string]string{}
	for _, r := range decoded[v4Export](t, insomnia, []byte(guests), strictJSON).inOrder() {
		tokens[r.Name] = r.Authentication["token"] + r.Authentication["value"]
	}
	for name, want := range map[string]string{"Send the guest away": "{{ _.guestToken }}", "Sign out": "{{ _.accessToken }}", "rooms (mine)": "{{ _.ownKey }}"} {
		if tokens[name] != want {
			t.Errorf("Insomnia sends %s with %q", name, tokens[name])
		}
	}
}

func TestEachVariantHasItsOwnStatusesAndCaptures(t *testing.T) {
	t.Parallel()
	scripts := map[string]string{}
	for _, i := range requestsOf(decoded[collection](t, postman, []byte(guests), strictJSON).Item) {
		scripts[i.Name] = script(i, "test")
	}
	for name, want := range map[string][2]string{
		"Sign in":         {`oneOf([200])`, `set("accessToken"`},
		"Sign in (guest)": {`oneOf([200, 409])`, `set("guestToken"`},
	} {
		for _, text := range want {
			if !strings.Contains(scripts[name], text) {
				t.Errorf("%s lacks %s: %s", name, text, scripts[name])
			}
		}
	}
	if strings.Contains(scripts["Sign in (guest)"], "accessToken") {
		t.Error("the guest's sign-in replaces the host's token")
	}
}

func TestAOneTimePasswordIsComputedBeforeItIsSent(t *testing.T) {
	t.Parallel()
	c := decoded[collection](t, postman, []byte(guests), strictJSON)
	described := map[string]string{}
	for _, v := range c.Variable {
		described[v.Key] = v.Description
	}
	if _, ok := described["safeSecret"]; !ok || described["safeCode"] != "Computed before “open”." {
		t.Errorf("variables %v", described)
	}
	for _, i := range requestsOf(c.Item) {
		before := script(i, "prerequest")
		if (i.Name == "open") != (before != "") {
			t.Errorf("%s: %s", i.Name, before)
		}
		if i.Name == "open" && (!strings.Contains(before, `pm.variables.replaceIn("{{safeSecret}}")`) || !strings.Contains(before, `pm.collectionVariables.set("safeCode"`)) {
			t.Error(before)
		}
	}
	for _, r := range decoded[v4Export](t, insomnia, []byte(guests), strictJSON).inOrder() {
		if r.Name == "open" && !strings.Contains(r.PreRequestScript, `insomnia.collectionVariables.set("safeCode"`) {
			t.Error(r.PreRequestScript)
		}
	}
}

// senders is a description of deliveries that are signed in other ways than with one
// header and a sum in hexadecimal digits.
const senders = `{
	"openapi": "3.1.0", "info": {"title": "Senders", "version": "1"},
	"paths": {"/in": {"post": {"operationId": "receive", "responses": {"200": {}},
		"requestBody": {"content": {"application/json": {"schema": {"type": "object"}, "example": {}}}},
		"parameters": [{"in": "header", "name": "Webhook-Id", "schema": {"type": "string"}}],
		"x-waypost-export": {"variants": [
			{"name": "modern", "signature": {"header": "Webhook-Signature", "secret": "modernSecret", "message": "{id}.{body}", "value": "v1,{hmac}", "base64": true, "headers": {"webhook-id": "{id}"}}},
			{"name": "simple", "signature": {"header": "X-Token", "secret": "simpleSecret", "value": "{secret}"}}
		]}
	}}}
}`

func TestScriptsSignWithKeysInBase64SetMoreHeadersAndSendPlainSecrets(t *testing.T) {
	t.Parallel()
	requests := map[string]item{}
	for _, i := range requestsOf(decoded[collection](t, postman, []byte(senders), strictJSON).Item) {
		requests[i.Name] = i
	}
	modern, simple := requests["receive (modern)"], requests["receive (simple)"]
	for _, want := range []string{
		"const id = ", "HmacSHA256(`${id}.${body}`, enc.Base64.parse(secret.replace(/^whsec_/, \"\"))).toString(enc.Base64)",
		"{ key: \"Webhook-Signature\", value: `v1,${hmac}` }", "{ key: \"webhook-id\", value: `${id}` }",
	} {
		if got := script(modern, "prerequest"); !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	for _, h := range modern.Request.Header {
		if strings.EqualFold(h.Key, "Webhook-Id") {
			t.Error("a header that the script sets is there before, and would be there twice")
		}
	}
	if got := script(simple, "prerequest"); strings.Contains(got, "hmac =") || strings.Contains(got, "const id") || !strings.Contains(got, "{ key: \"X-Token\", value: `${secret}` }") {
		t.Error(got)
	}
}
