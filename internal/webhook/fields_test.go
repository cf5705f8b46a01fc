package webhook_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/webhook"
)

func TestFieldsAreFoundInBodiesFormsAndHeaders(t *testing.T) {
	t.Parallel()
	headers := http.Header{"X-Type": {"push"}, "X-Id": {"7"}, "X-Twice": {"a", "b"}}
	for _, c := range []struct {
		fields        webhook.Fields
		body          string
		eventType, id string
		field         string // that an error names
	}{
		{webhook.Fields{TypeHeader: "X-Type", IDHeader: "x-id"}, `{}`, "push", "7", ""},
		{webhook.Fields{TypeHeader: "X-None", IDHeader: "X-Id"}, `{}`, "", "7", ""},
		{webhook.Fields{TypeHeader: "X-Twice", IDHeader: "X-Id"}, `{}`, "", "", "event_type"},
		{webhook.Fields{TypeField: "a.b", IDHeader: "X-Id"}, `{"a":{"b":"c"}}`, "c", "7", ""},
		{webhook.Fields{TypeHeader: "X-Type", IDField: "n"}, `{"n":9007199254740993}`, "push", "9007199254740993", ""},
		{webhook.Fields{TypeField: "a", IDField: "b"}, `{"b":{}}`, "", "", "external_id"},
		{webhook.Fields{TypeField: "a"}, `[1]`, "", "", ""},
		{webhook.Fields{TypeField: "type", IDField: "p.id", Form: true}, `type=x+y&p=%7B%22id%22%3A%22e%22%7D`, "x y", "e", ""},
		{webhook.Fields{TypeField: "p.a.b", IDField: "p.id", Form: true}, `p={"a":{"b":"t"},"id":12.50}`, "t", "12.50", ""},
		{webhook.Fields{TypeField: "p.a", IDField: "q", Form: true}, `p.a=whole&p={"a":"inner"}`, "whole", "", ""},
		{webhook.Fields{TypeField: "p.a", Form: true}, `p=not+JSON`, "", "", ""},
		{webhook.Fields{TypeField: "p.a", Form: true}, `p=` + strings.Repeat("[", 2000), "", "", ""},
		{webhook.Fields{TypeField: "p.a", Form: true}, `p={"a":[]}`, "", "", "event_type"},
		{webhook.Fields{TypeField: "a", IDHeader: "X-Id", Form: true}, `a=1&a=2`, "", "", "event_type"},
		{webhook.Fields{TypeHeader: "X-Type", IDField: "z", Form: true}, `a=1`, "push", "", ""},
	} {
		eventType, id, err := c.fields.Extract([]byte(c.body), headers)
		f, _ := errors.AsType[*webhook.FieldError](err)
		if eventType != c.eventType || id != c.id || (err != nil) != (c.field != "") || f != nil && f.Field != c.field {
			t.Errorf("%+v of %.60s: %q, %q, %v", c.fields, c.body, eventType, id, err)
		}
	}
}

func TestWhatFieldsComposeTheyExtract(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		place := func(name string) (field, header string) {
			field = rapid.SampledFrom([]string{name, "deep." + name, ""}).Draw(rt, name)
			if field == "" {
				header = "X-" + name
			}
			return field, header
		}
		var f webhook.Fields
		f.TypeField, f.TypeHeader = place("kind")
		f.IDField, f.IDHeader = place("uid")
		f.Form = rapid.Bool().Draw(rt, "form")
		if err := f.Validate(); err != nil {
			rt.Fatal(err)
		}
		eventType := rapid.StringMatching(`[a-z.]{1,20}`).Draw(rt, "type")
		id := rapid.StringMatching(`[A-Za-z0-9 +&=%]{1,20}`).Draw(rt, "id")
		h := http.Header{}
		body, err := f.Compose(eventType, id, []byte(`{"x":"y"}`), h)
		if err != nil {
			rt.Fatal(err)
		}
		gotType, gotID, err := f.Extract(body, h)
		if gotType != eventType || gotID != id || err != nil {
			rt.Fatalf("%+v: %s: %q, %q, %v", f, body, gotType, gotID, err)
		}
	})
}

// FuzzForm checks that every body that a provider of forms may send is shown as JSON,
// and that none makes the extractor fail otherwise than with an error.
func FuzzForm(f *testing.F) {
	f.Add([]byte("a=1&b=%00&c=%ff&=&a=2"), "p.a")
	f.Add([]byte(`p={"a":{"b":[]}}`), "p.a.b")
	f.Add([]byte("%"), "a")
	f.Fuzz(func(t *testing.T, body []byte, path string) {
		fields := webhook.Fields{TypeField: path, Form: true}
		if fields.Validate() != nil {
			return
		}
		_, _, err := fields.Extract(body, nil)
		if _, isField := errors.AsType[*webhook.FieldError](err); err != nil && !isField {
			t.Fatalf("%v is no error of a field", err)
		}
		if payload := webhook.Payload(body); !json.Valid(payload) {
			t.Fatalf("%q is shown as %q", body, payload)
		}
	})
}

// FuzzChallenge checks that nothing is sent back but what is harmless in a page.
func FuzzChallenge(f *testing.F) {
	f.Add([]byte(`{"type":"url_verification","challenge":"abc"}`))
	f.Add([]byte(`{"type":"url_verification","challenge":"<script>"}`))
	f.Add([]byte("{\"type\":\"url_verification\",\"challenge\":\"\\u0061\\n\"}"))
	c := webhook.Challenge{Method: "POST", Field: "challenge", IfField: "type", IfValue: "url_verification"}
	f.Fuzz(func(t *testing.T, body []byte) {
		value := webhook.Asked(c, body)
		if len(value) > 256 || strings.Trim(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") != "" {
			t.Fatalf("%q is sent back", value)
		}
	})
}

// FuzzQuestion checks that a challenge by GET sends back nothing but what is harmless in a
// page, and that to nobody without the token.
func FuzzQuestion(f *testing.F) {
	f.Add("hub.verify_token=verify+me&hub.challenge=123")
	f.Add("hub.challenge=123&hub.verify_token=verify%20me&hub.verify_token=x")
	f.Add("hub.verify_token=verify+me&hub.challenge=%3Cb%3E")
	f.Add("hub.verify_token=&hub.challenge=a;b=%zz")
	c := webhook.Challenge{Method: "GET", Field: "hub.challenge", TokenField: "hub.verify_token", TokenEnv: "TOKEN"}
	f.Fuzz(func(t *testing.T, query string) {
		value, err := webhook.Answered(c, "verify me", query)
		if err != nil {
			return
		}
		if value == "" || len(value) > 256 || strings.Trim(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") != "" {
			t.Fatalf("%q is sent back", value)
		}
		given, err := url.ParseQuery(query)
		if err != nil || len(given["hub.verify_token"]) != 1 || given.Get("hub.verify_token") != "verify me" {
			t.Fatalf("%q is sent back to who asks with %q", value, query)
		}
	})
}
