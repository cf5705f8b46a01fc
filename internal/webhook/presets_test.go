package webhook_test

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/webhook"
	"github.com/waypost/waypost/internal/webhook/signature"
)

// providersOf reads the section webhooks.providers of a file with these lines.
func providersOf(t *testing.T, lines ...string) []webhook.Registration {
	t.Helper()
	declared, err := webhook.ParseYAML("waypost.yaml", []byte("webhooks:\n  providers:\n    - "+strings.Join(lines, "\n    - ")+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return declared.Providers
}

func TestAPresetIsTheVerifierTheExtractorAndTheChallengeOfItsService(t *testing.T) {
	t.Parallel()
	want := map[string]webhook.Registration{
		"stripe": {
			Verifier:  signature.Scheme{Header: "Stripe-Signature", Separator: ",", TimestampPrefix: "t=", Prefix: "v1=", Template: "{timestamp}.{body}"},
			Extractor: webhook.Fields{TypeField: "type", IDField: "id"},
		},
		"github": {
			Verifier:  signature.Scheme{Header: "X-Hub-Signature-256", Prefix: "sha256="},
			Extractor: webhook.Fields{TypeHeader: "X-GitHub-Event", IDHeader: "X-GitHub-Delivery"},
		},
		"gitlab": {
			Verifier:  signature.Token{Header: "X-Gitlab-Token"},
			Extractor: webhook.Fields{TypeHeader: "X-Gitlab-Event", IDHeader: "Idempotency-Key"},
		},
		"shopify": {
			Verifier:  signature.Scheme{Header: "X-Shopify-Hmac-Sha256", Encoding: signature.Base64},
			Extractor: webhook.Fields{TypeHeader: "X-Shopify-Topic", IDHeader: "X-Shopify-Webhook-Id"},
		},
		"slack": {
			Verifier:  signature.Scheme{Header: "X-Slack-Signature", Prefix: "v0=", Template: "v0:{timestamp}:{body}", TimestampHeader: "X-Slack-Request-Timestamp"},
			Extractor: webhook.Fields{TypeField: "event.type", IDField: "event_id"},
			Challenge: webhook.Challenge{Method: "POST", Field: "challenge", IfField: "type", IfValue: "url_verification"},
		},
		"paddle": {
			Verifier:  signature.Scheme{Header: "Paddle-Signature", Separator: ";", TimestampPrefix: "ts=", Prefix: "h1=", Template: "{timestamp}:{body}"},
			Extractor: webhook.Fields{TypeField: "event_type", IDField: "event_id"},
		},
		"linear": {
			Verifier:  signature.Scheme{Header: "Linear-Signature", TimestampField: "webhookTimestamp", Milliseconds: true},
			Extractor: webhook.Fields{TypeField: "type", IDHeader: "Linear-Delivery"},
		},
		"standard-webhooks": {
			Verifier: signature.Scheme{
				Header: "webhook-signature", Encoding: signature.Base64, Separator: " ", Prefix: "v1,", Template: "{id}.{timestamp}.{body}",
				TimestampHeader: "webhook-timestamp", IDHeader: "webhook-id", Key: signature.Base64Key,
			},
			Extractor: webhook.Fields{TypeField: "type", IDHeader: "webhook-id"},
		},
		"svix": {
			Verifier: signature.Scheme{
				Header: "svix-signature", Encoding: signature.Base64, Separator: " ", Prefix: "v1,", Template: "{id}.{timestamp}.{body}",
				TimestampHeader: "svix-timestamp", IDHeader: "svix-id", Key: signature.Base64Key,
			},
			Extractor: webhook.Fields{TypeField: "type", IDHeader: "svix-id"},
		},
	}
	if len(webhook.Presets()) != len(want) {
		t.Errorf("the presets are %v", webhook.Presets())
	}
	for _, preset := range webhook.Presets() {
		p := providersOf(t, "{name: a, secret_env: A, preset: "+preset+"}")[0]
		got := webhook.Registration{Verifier: p.Verifier, Extractor: p.Extractor, Challenge: p.Challenge}
		if diff := cmp.Diff(want[preset], got); diff != "" || p.Preset != preset {
			t.Errorf("%s (-want +got):\n%s", preset, diff)
		}
		inCode, ok := webhook.Preset(preset, "a", "A")
		if diff := cmp.Diff(p, inCode); diff != "" || !ok {
			t.Errorf("%s in code (-file +code):\n%s", preset, diff)
		}
	}
	if _, ok := webhook.Preset("gihub", "a", "A"); ok {
		t.Error("there is a preset gihub")
	}
}

func TestPartsOfAPresetAreReplacedByWhatTheFileSays(t *testing.T) {
	t.Parallel()
	got := providersOf(t,
		"{name: a, secret_env: A, preset: stripe, verifier: {header: My-Signature, tolerance: 10s}}",
		"{name: b, secret_env: A, preset: gitlab, verifier: {type: standard-webhooks}}",
		"{name: c, secret_env: A, preset: shopify, extractor: {id_header: X-Shopify-Event-Id}}",
		"{name: d, secret_env: A, preset: github, extractor: {type: form, type_header: X-GitHub-Event, id_header: X-GitHub-Delivery}}",
		"{name: e, secret_env: A, preset: slack, challenge: {method: POST, field: other}}",
	)
	want := []webhook.Registration{
		{Verifier: signature.Scheme{Header: "My-Signature", Separator: ",", TimestampPrefix: "t=", Prefix: "v1=", Template: "{timestamp}.{body}", Tolerance: 10 * time.Second}},
		{Verifier: signature.Standard{}},
		{Extractor: webhook.Fields{TypeHeader: "X-Shopify-Topic", IDHeader: "X-Shopify-Event-Id"}},
		{Extractor: webhook.Fields{TypeHeader: "X-GitHub-Event", IDHeader: "X-GitHub-Delivery", Form: true}},
		{Challenge: webhook.Challenge{Method: "POST", Field: "other"}},
	}
	for i, w := range want {
		g := webhook.Registration{}
		switch {
		case w.Verifier != nil:
			g.Verifier = got[i].Verifier
		case w.Extractor != nil:
			g.Extractor = got[i].Extractor
		default:
			g.Challenge = got[i].Challenge
		}
		if diff := cmp.Diff(w, g); diff != "" {
			t.Errorf("%s (-want +got):\n%s", got[i].Name, diff)
		}
	}
}

func TestWhatAPresetOrASchemeGetsWrongIsNamed(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]string{
		"preset: gihub": "preset: it is not one of github, gitlab, linear, paddle, shopify, slack, standard-webhooks, stripe, svix; did you mean github?",
		"preset: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw":                                                                    "preset: it is not one of",
		"preset: github, verifier: {heder: X}":                                                                              `webhooks.providers[0].verifier: unknown member "heder"; did you mean header?`,
		"preset: gitlab, verifier: {digest: sha1}":                                                                          "verifier: token takes no more than type, header; hmac takes all the others",
		"preset: github, verifier: {template: \"{timestamp}{body}\"}":                                                       "verifier: template: it has {timestamp}; say where",
		"preset: github, verifier: {tolerance: 5m}":                                                                         "verifier: tolerance: there is no timestamp",
		"preset: stripe, verifier: {tolerance: soon}":                                                                       "verifier: tolerance: write a duration",
		"preset: stripe, verifier: {tolerance: 48h}":                                                                        "verifier: tolerance: it is 1s to 24h",
		"preset: stripe, verifier: {timestamp_unit: us}":                                                                    "verifier: timestamp_unit: it is not one of s, ms",
		"preset: stripe, verifier: {digest: md5}":                                                                           "verifier: digest: it is one of sha1, sha256, sha512",
		"preset: stripe, extractor: {id_header: X}":                                                                         "extractor: give id_field or id_header, not both",
		"preset: github, extractor: {type_field: x}":                                                                        "extractor: headers takes type_header and id_header",
		"preset: github, extractor: {type: headers}":                                                                        "extractor: it says neither where",
		"preset: github, extractor: {type: headers, id_header: \"a b\"}":                                                    "extractor: id_header: it is no name for a header",
		"preset: github, challenge: {method: HEAD, field: c}":                                                               "challenge: its method is not one of GET, POST",
		"preset: github, challenge: {method: GET, field: c}":                                                                "challenge: by GET it needs token_field and token_env",
		"preset: github, challenge: {method: GET, field: c, token_field: t, token_env: \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZ=\"}": "challenge: its token_env is not a valid name",
		"preset: github, challenge: {method: POST, field: c, if_field: t}":                                                  "challenge: if_field and if_value go together",
		"preset: github, challenge: {method: POST}":                                                                         "challenge: no field",
		"preset: github, challenge: {method: POST, field: c, token_env: T}":                                                 "challenge: by POST it is signed",
	} {
		_, err := webhook.ParseYAML("c.yaml", []byte("webhooks:\n  providers:\n    - {name: a, secret_env: A, "+fields+"}\n"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "c.yaml:3") {
			t.Errorf("%s: %v, want one that says %q", fields, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "MfKQ9r8") {
			t.Errorf("%s: the error shows a secret: %v", fields, err)
		}
	}
}

func TestEveryPresetNamesItsSourceAndIsInTheDocumentation(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("presets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, preset := range webhook.Presets() {
		if !bytes.Contains(table, []byte("\n"+preset+": #")) {
			t.Errorf("%s names no source in presets.yaml", preset)
		}
		if !bytes.Contains(page, []byte("`"+preset+"`")) {
			t.Errorf("%s is not in docs/webhooks.md", preset)
		}
	}
}

// key is a secret that every scheme takes.
const key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func TestATestDeliveryOfEveryPresetIsTakenByItselfAndByNoOther(t *testing.T) {
	t.Parallel()
	now := time.Unix(1700000000, 0)
	var all []webhook.Registration
	for _, preset := range webhook.Presets() {
		all = append(all, providersOf(t, "{name: "+preset+", secret_env: A, preset: "+preset+"}")...)
	}
	registry, err := webhook.NewRegistry(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		body, h, err := registry.Compose(p.Name, webhook.TestDelivery{EventType: "a.b", ExternalID: "id_1", Data: []byte(`{"x": [1, 2.50]}`), Secret: key, Now: now})
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		for _, other := range all {
			err := other.Verifier.Verify([]byte(key), body, h, now)
			if (err == nil) != (other.Name == p.Name) {
				t.Errorf("a delivery of %s to %s: %v", p.Name, other.Name, err)
			}
		}
		eventType, id, err := p.Extractor.Extract(body, h)
		if eventType != "a.b" || id != "id_1" || err != nil {
			t.Errorf("%s: type %q, id %q, %v", p.Name, eventType, id, err)
		}
		if err := p.Verifier.Verify([]byte(key+"A"), body, h, now); err == nil {
			t.Errorf("%s takes another secret", p.Name)
		}
	}
}

func TestWhatAPresetShowsOfItselfIsADeliveryThatItTakes(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, preset := range webhook.Presets() {
		p := providersOf(t, "{name: a, secret_env: A, preset: "+preset+"}")[0]
		recipe, known := p.Signing()
		if !known {
			t.Errorf("%s: nobody says how it signs", preset)
			continue
		}
		example, err := p.Example()
		if err != nil {
			t.Fatal(err)
		}
		if recipe.ByHand {
			continue
		}
		body := []byte(`{"a":1}`)
		if err := p.Verifier.Verify([]byte(key), body, follow(t, recipe, key, "evt_1", now, body), now); err != nil {
			t.Errorf("%s: signed as its recipe says: %v", preset, err)
		}
		for name := range recipe.More {
			if http.CanonicalHeaderKey(name) != name {
				t.Errorf("%s: the header %s would be described twice, beside %v", preset, name, example.Headers)
			}
		}
	}
}
