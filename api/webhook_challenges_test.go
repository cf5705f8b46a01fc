package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/webhook"
)

// withProviders makes the registry one of providers that a file declares, one a line.
func withProviders(t *testing.T, lines ...string) func(*webhook.Options) {
	t.Helper()
	declared, err := webhook.ParseYAML("f", []byte("webhooks:\n  providers:\n    - "+strings.Join(lines, "\n    - ")))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := webhook.NewRegistry(append(webhook.BuiltIn(), declared.Providers...))
	if err != nil {
		t.Fatal(err)
	}
	return func(o *webhook.Options) {
		o.Registry = registry
		o.LookupSecret = func(name string) string {
			return map[string]string{"SECRET": webhookSecret, "TOKEN": "verify me", "TOKEN_PREVIOUS": "verify me still"}[name]
		}
	}
}

const (
	meta      = `{name: meta, secret_env: SECRET, verifier: {type: hmac, header: X-Hub-Signature-256, prefix: "sha256="}, extractor: {type: json, type_field: object}, challenge: {method: GET, token_field: hub.verify_token, token_env: TOKEN, field: hub.challenge}}`
	tokenless = `{name: tokenless, secret_env: SECRET, preset: github, challenge: {method: GET, token_field: token, token_env: UNSET, field: challenge}}`
	slack     = `{name: slack, secret_env: SECRET, preset: slack}`
)

func TestAChallengeByGETIsAnsweredOnlyWithTheToken(t *testing.T) {
	t.Parallel()
	h := newHooks(t, withProviders(t, meta, tokenless, slack))
	const good = "hub.mode=subscribe&hub.verify_token=verify+me&hub.challenge=1158201444"
	for path, want := range map[string]struct {
		status       int
		code, answer string
	}{
		"meta?" + good: {200, "", "1158201444"},
		"meta?hub.verify_token=verify+me+still&hub.challenge=A.b_c-9":                {200, "", "A.b_c-9"},
		"meta?hub.verify_token=verify+me&hub.challenge=" + strings.Repeat("x", 256):  {200, "", strings.Repeat("x", 256)},
		"meta?hub.verify_token=verify+me&hub.challenge=" + strings.Repeat("x", 257):  {400, "invalid_payload", ""},
		"meta?hub.verify_token=verify+me&hub.challenge=%3Cscript%3E":                 {400, "invalid_payload", ""},
		"meta?hub.verify_token=verify+me&hub.challenge=a%0Ab":                        {400, "invalid_payload", ""},
		"meta?hub.verify_token=verify+me&hub.challenge=":                             {400, "invalid_payload", ""},
		"meta?hub.verify_token=verify+me":                                            {400, "invalid_payload", ""},
		"meta?hub.verify_token=verify+me&hub.challenge=a&hub.challenge=b":            {400, "invalid_payload", ""},
		"meta?" + good + "&x=%zz":                                                    {400, "invalid_payload", ""},
		"meta?hub.verify_token=Verify+me&hub.challenge=1":                            {403, "challenge_refused", ""},
		"meta?hub.verify_token=verify+m&hub.challenge=1":                             {403, "challenge_refused", ""},
		"meta?hub.verify_token=&hub.challenge=1":                                     {403, "challenge_refused", ""},
		"meta?hub.challenge=1":                                                       {403, "challenge_refused", ""},
		"meta?hub.verify_token=verify+me&hub.verify_token=verify+me&hub.challenge=1": {403, "challenge_refused", ""},
		"meta":                          {403, "challenge_refused", ""},
		"tokenless?token=&challenge=1":  {403, "challenge_refused", ""},
		"tokenless?token=x&challenge=1": {403, "challenge_refused", ""},
		"payment?" + good:               {405, "method_not_allowed", ""},
		"slack?" + good:                 {405, "method_not_allowed", ""},
		"nobody?" + good:                {405, "method_not_allowed", ""},
		"metal?" + good:                 {405, "method_not_allowed", ""},
	} {
		resp, err := http.DefaultClient.Do(h.request(t, http.MethodGet, "/webhooks/"+path, nil))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.Body.Close() != nil {
			t.Fatal(err)
		}
		var refused struct {
			Error struct{ Code string }
		}
		_ = json.Unmarshal(body, &refused)
		if resp.StatusCode != want.status || refused.Error.Code != want.code || want.status == 200 && string(body) != want.answer {
			t.Errorf("GET %.80s: %d %s", path, resp.StatusCode, body)
		}
		if want.status == 200 && (resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" || resp.Header.Get("X-Content-Type-Options") != "nosniff" || resp.Header.Get("Cache-Control") != "no-store") {
			t.Errorf("GET %.80s: %v", path, resp.Header)
		}
		if want.status == 405 && resp.Header.Get("Allow") != "POST" {
			t.Errorf("GET %.80s: Allow is %q", path, resp.Header.Get("Allow"))
		}
	}
	for provider, want := range map[string]string{"meta": "GET, HEAD, POST", "tokenless": "GET, HEAD, POST", "slack": "POST", "payment": "POST", "nobody": "POST"} {
		resp, err := http.DefaultClient.Do(h.request(t, http.MethodPut, "/webhooks/"+provider, nil))
		if err != nil || resp.Body.Close() != nil {
			t.Fatal(err)
		}
		if got := resp.Header.Get("Allow"); resp.StatusCode != 405 || got != want {
			t.Errorf("PUT %s: %d, Allow is %q, want %q", provider, resp.StatusCode, got, want)
		}
	}
	if n := h.rows(t); n != 0 {
		t.Errorf("%d events were stored", n)
	}
	// Refused challenges are in the log of refusals, and say nothing of the token.
	deadline := time.Now().Add(30 * time.Second)
	for {
		_, _, got := send(t, h.admin(t, http.MethodGet, "/api/admin/webhooks/rejected?reason=challenge_refused&provider=meta"))
		if list, _ := got["data"].([]any); len(list) == 6 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log has %v", got)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestAChallengeByPOSTIsAnsweredOnceTheSignatureHeldAndAllElseIsStored(t *testing.T) {
	t.Parallel()
	h := newHooks(t, withProviders(t, slack))
	post := func(body string, sign bool) (int, string, string) {
		r := h.sign(t, "slack", []byte(body))
		if !sign {
			r.Header.Set("X-Slack-Signature", "v0="+strings.Repeat("0", 64))
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.Body.Close() != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header.Get("Content-Type"), string(text)
	}
	// The body is of Slack's documentation of url_verification.
	const asked = `{"token": "Jhj5dZrVaK7ZwHHjRyZWjbDl", "challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P", "type": "url_verification"}`
	if status, media, text := post(asked, true); status != 200 || media != "text/plain; charset=utf-8" || text != "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P" {
		t.Errorf("%d %s %s", status, media, text)
	}
	if status, _, text := post(asked, false); status != 401 || strings.Contains(text, "3eZbrw") {
		t.Errorf("unsigned: %d %s", status, text)
	}
	if n := h.rows(t); n != 0 {
		t.Fatalf("%d events were stored", n)
	}
	events := []string{
		`{"type":"event_callback","event_id":"Ev1","event":{"type":"app_mention"},"challenge":"abc"}`, // another type
		`{"type":"url_verification","event_id":"Ev2","challenge":"<b>"}`,                              // nothing to send back
		`{"type":"url_verification","event_id":"Ev3","challenge":7}`,
		`{"type":"url_verification","event_id":"Ev4"}`,
	}
	for _, body := range events {
		if status, media, text := post(body, true); status != 200 || media != "application/json" || !strings.Contains(text, `"processed"`) {
			t.Errorf("%s: %d %s %s", body, status, media, text)
		}
	}
	if n := h.rows(t); n != len(events) {
		t.Errorf("%d events were stored", n)
	}
	if status, _, _ := post(`{"type":"url_verification","challenge":"abc"`, true); status != 400 {
		t.Errorf("broken JSON: %d", status)
	}
}

func TestAFormIsStoredAsSentAndShownAsItsFields(t *testing.T) {
	t.Parallel()
	h := newHooks(t, withProviders(t,
		`{name: shop, secret_env: SECRET, verifier: {type: hmac, header: X-Sum, digest: sha1, encoding: base64}, extractor: {type: form, type_field: kind, id_field: order.id}}`))
	const body = "kind=paid&item=b&item=a+1&order=%7B%22id%22%3A9007199254740993%7D&n=%3C%26&z="
	status, _, got := send(t, h.sign(t, "shop", []byte(body)))
	if status != 200 || got["event_type"] != "paid" || got["external_id"] != "9007199254740993" {
		t.Fatalf("%d %v", status, got)
	}
	id, _ := got["id"].(string)
	resp, err := http.DefaultClient.Do(h.admin(t, http.MethodGet, "/api/admin/webhooks/"+id+"?raw=true"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.Body.Close() != nil || string(raw) != body {
		t.Errorf("raw: %q, %v", raw, err)
	}
	want := map[string]any{"item": []any{"b", "a 1"}, "kind": []any{"paid"}, "order": []any{`{"id":9007199254740993}`}, "n": []any{"<&"}, "z": []any{""}}
	for _, path := range []string{"/api/admin/webhooks/" + id, "/api/admin/webhooks?provider=shop"} {
		_, _, got := send(t, h.admin(t, http.MethodGet, path))
		data := got["data"]
		if list, ok := data.([]any); ok {
			data = list[0]
		}
		if diff := cmp.Diff(want, data.(map[string]any)["payload"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	if status, code, details := refusal(t, h.sign(t, "shop", []byte(`{"kind":"paid"}`))); status != 400 || code != "invalid_payload" || details["body"] != "It is JSON, but the provider sends forms." {
		t.Errorf("JSON: %d %s %v", status, code, details)
	}
	for body, field := range map[string]string{"": "body", "kind=%zz": "body", "&": "body", "a;b=c": "body", "\xff=1": "body", "kind=a&kind=b": "event_type", "kind=%00": "event_type", "kind=%ff": "event_type", "kind=" + strings.Repeat("x", 101): "event_type"} {
		if status, code, details := refusal(t, h.sign(t, "shop", []byte(body))); status != 400 || code != "invalid_payload" || details[field] == nil {
			t.Errorf("%.40q: %d %s %v", body, status, code, details)
		}
	}
	// What the command sends as a test is a form, too.
	if status, _, got := send(t, h.delivery(t, "shop", "refunded", "o-2", "")); status != 200 || got["event_type"] != "refunded" || got["external_id"] != "o-2" {
		t.Errorf("a test delivery: %d %v", status, got)
	}
}

func TestThePresetsOfTheDescriptionAreAllThatThereAre(t *testing.T) {
	t.Parallel()
	for _, name := range webhook.Presets() {
		if !slices.Contains(enumOf(t, "preset"), any(name)) {
			t.Errorf("%s is not among them", name)
		}
	}
	if n := len(enumOf(t, "preset")); n != len(webhook.Presets()) {
		t.Errorf("there are %d", n)
	}
}

// enumOf is what a member of a described provider can be.
func enumOf(t *testing.T, member string) []any {
	t.Helper()
	for _, s := range described(t).Components.Schemas.Map() {
		if s.Properties["previous_secret_set"] != nil {
			return s.Properties[member].Enum
		}
	}
	t.Fatal("no schema is of a provider")
	return nil
}
