package webhook_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/webhook"
	"github.com/waypost/waypost/internal/webhook/signature"
)

func TestDottedPathsLeadThroughObjects(t *testing.T) {
	t.Parallel()
	fields := webhook.BodyFields{Type: "kind", ID: "meta.uid"}
	for body, want := range map[string][2]string{ // type "!" for an error
		`{"kind":"a","meta":{"uid":"1"}}`:              {"a", "1"},
		`{"meta":{"uid":9007199254740993}}`:            {"", "9007199254740993"},
		`{"meta":{"uid":"x","UID":"y"},"META":{}}`:     {"", "x"},
		`{"meta":{"uid":"1"},"meta":{"uid":"2"}}`:      {"", "2"},
		`{"meta":{"uid":"1"},"meta":{}}`:               {"", ""},
		`{"meta.uid":"literal"}`:                       {"", ""},
		`{"meta":{"uid":null}}`:                        {"", ""},
		`{"meta":null}`:                                {"", ""},
		`{"meta":"text"}`:                              {"", ""},
		`{"meta":[{"uid":"1"}]}`:                       {"", ""},
		`{"meta":{"uid":{}}}`:                          {"!", ""},
		`{"meta":{"uid":"\ud800"}}`:                    {"!", ""},
		`{"kind":true}`:                                {"!", ""},
		` { "meta" : { "uid" : "1" } , "kind" : "a" }`: {"a", "1"},
	} {
		eventType, id, err := fields.Extract([]byte(body), nil)
		if err != nil {
			eventType, id = "!", ""
		}
		if diff := cmp.Diff(want, [2]string{eventType, id}); diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", body, err, diff)
		}
	}
}

func TestStandardWebhooksTakeTheSignedIDAndTheTypeOfTheBody(t *testing.T) {
	t.Parallel()
	h := http.Header{"Webhook-Id": {"msg_1"}}
	if eventType, id, err := (webhook.StandardFields{}).Extract([]byte(`{"type":"user.created","id":"other"}`), h); eventType != "user.created" || id != "msg_1" || err != nil {
		t.Errorf("%q, %q, %v", eventType, id, err)
	}
	for _, c := range []struct {
		body   string
		header http.Header
	}{{`{"type":[]}`, h}, {`{}`, http.Header{"Webhook-Id": {"a", "b"}}}} {
		if _, _, err := (webhook.StandardFields{}).Extract([]byte(c.body), c.header); err == nil {
			t.Errorf("%s %v: accepted", c.body, c.header)
		}
	}
}

func TestAProviderOfFunctionsReceives(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	custom := webhook.Registration{
		Name: "custom", SecretEnv: "CUSTOM_SECRET",
		Verifier: webhook.VerifyWith(func(secret, body []byte, h http.Header) error {
			switch {
			case h.Get("X-Token") == "panic":
				panic("a bug in the verifier")
			case h.Get("X-Token") != string(secret):
				return errors.New("wrong token")
			}
			clear(body) // its copy, not what is stored
			h.Set("X-Trace", "changed")
			return nil
		}, "X-Token"),
		Extractor: webhook.ExtractWith(func(body []byte, h http.Header) (string, string, error) {
			switch string(body) {
			case `"panic"`:
				panic("a bug in the extractor")
			case `"field"`:
				return "", "", &webhook.FieldError{Field: "event_type", Reason: "There is none."}
			case `"error"`:
				return "", "", errors.New("internal text")
			case `"long"`:
				return strings.Repeat("x", 101), "", nil
			}
			clear(body)
			return h.Get("X-Kind"), "c1", nil
		}),
	}
	registry, err := webhook.NewRegistry([]webhook.Registration{custom})
	if err != nil {
		t.Fatal(err)
	}
	r := f.receiver(t, setup{secrets: map[string]string{"CUSTOM_SECRET": "s3cret"}, change: func(o *webhook.Options) { o.Registry = registry }})
	deliver := func(token, body string) (webhook.Receipt, error) {
		return r.Receive(t.Context(), webhook.Inbound{Provider: "custom", Body: []byte(body), Header: http.Header{"X-Token": {token}, "X-Kind": {"k"}, "X-Trace": {"as sent"}}})
	}
	for _, c := range []struct {
		token, body string
		want        error
	}{
		{"wrong", `{}`, webhook.ErrSignature},
		{"panic", `{}`, webhook.ErrSignature},
		{"s3cret", `"panic"`, webhook.ErrPayload},
		{"s3cret", `"field"`, webhook.ErrPayload},
		{"s3cret", `"error"`, webhook.ErrPayload},
		{"s3cret", `"long"`, webhook.ErrPayload},
		{"s3cret", `not JSON`, webhook.ErrPayload},
	} {
		if _, err := deliver(c.token, c.body); !errors.Is(err, c.want) {
			t.Errorf("token %s, body %s: %v, want %v", c.token, c.body, err, c.want)
		}
	}
	got, err := deliver("s3cret", `{"a":1}`)
	if diff := cmp.Diff(webhook.Receipt{Status: webhook.Processed, ID: got.ID, EventType: "k", ExternalID: "c1"}, got); diff != "" || err != nil {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	if n := f.count(t, `select count(*) from webhook_events where raw = $1 and headers->'X-Token'->>0 = '[redacted]' and headers->'X-Trace'->>0 = 'as sent'`, []byte(`{"a":1}`)); n != 1 {
		t.Error("what was stored is not what was sent, or shows the token")
	}
}

func TestAProviderNeedsCompleteParts(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*webhook.Registration){
		"no verifier":                  func(p *webhook.Registration) { p.Verifier = webhook.VerifyWith(nil) },
		"no extractor":                 func(p *webhook.Registration) { p.Extractor = webhook.ExtractWith(nil) },
		"signature's header":           func(p *webhook.Registration) { p.Verifier = signature.HMAC{} },
		"neither a field":              func(p *webhook.Registration) { p.Extractor = webhook.BodyFields{} },
		`".id" is no path`:             func(p *webhook.Registration) { p.Extractor = webhook.BodyFields{ID: ".id"} },
		"its secret_env is the secret": func(p *webhook.Registration) { p.SecretEnv = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" },
	} {
		p := webhook.StandardWebhooks("acme", "ACME_SECRET")
		change(&p)
		_, err := webhook.NewRegistry([]webhook.Registration{p})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "MfKQ") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestATestDeliveryIsMadeForEveryKindOfProvider(t *testing.T) {
	t.Parallel()
	declared, err := webhook.ParseYAML("f", []byte(declaredYAML))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := webhook.NewRegistry(append(declared.Providers, webhook.Payment(), webhook.CodeHost()))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, p := range registry.Providers() {
		const secret = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" // also a key in base64
		for _, data := range []string{"", `{"meta":{"a":1},"n":1E2}`} {
			body, h, err := registry.Compose(p.Name, webhook.TestDelivery{EventType: "paid", ExternalID: "evt_1", Data: []byte(data), Secret: secret, Now: now})
			if err != nil {
				t.Errorf("%s: %v", p.Name, err)
				continue
			}
			if err := p.Verifier.Verify([]byte(secret), body, h, now); err != nil {
				t.Errorf("%s: %v", p.Name, err)
			}
			eventType, id, err := p.Extractor.Extract(body, h)
			wantID := "evt_1"
			if p.Name == "only-type" {
				wantID = ""
			}
			if eventType != "paid" || id != wantID || err != nil {
				t.Errorf("%s: %s extracts %q, %q, %v", p.Name, body, eventType, id, err)
			}
		}
	}
	for data, want := range map[string]string{ // of acme: kind and meta.uid
		``:                                  `{"meta":{"uid":"1"},"kind":"k"}`,
		`{"meta":{ "a":1E2 },"z":-0}`:       `{"kind":"k","meta":{"uid":"1", "a":1E2 },"z":-0}`,
		`{"meta":{"uid":"1"},"kind":"k"}`:   `{"meta":{"uid":"1"},"kind":"k"}`,
		`{"meta":1}`:                        "",
		`{"meta":{"uid":"2"}}`:              "",
		`{"kind":"other","meta":{"uid":1}}`: "",
	} {
		body, _, err := registry.Compose("acme", webhook.TestDelivery{EventType: "k", ExternalID: "1", Data: []byte(data), Secret: "s", Now: now})
		if string(body) != want || (err != nil) != (want == "") {
			t.Errorf("%s: %s, %v", data, body, err)
		}
	}
	if _, _, err := registry.Compose("modern", webhook.TestDelivery{EventType: "k", ExternalID: "1", Secret: "not base64!", Now: now}); err == nil || !strings.Contains(err.Error(), "MODERN_SECRET") {
		t.Errorf("a secret that is no key: %v", err)
	}
}
