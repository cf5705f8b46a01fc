package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/webhook"
	"github.com/waypost/waypost/internal/webhook/signature"
)

// follow signs as a recipe says, and as somebody would who knows nothing else.
func follow(t *testing.T, r signature.Recipe, secret, id string, now time.Time, body []byte) http.Header {
	t.Helper()
	key, encode := []byte(secret), hex.EncodeToString
	if r.Base64 {
		var err error
		if key, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_")); err != nil {
			t.Fatal(err)
		}
		encode = base64.StdEncoding.EncodeToString
	}
	if r.Base64Sum {
		encode = base64.StdEncoding.EncodeToString
	}
	values := []string{"{id}", id, "{timestamp}", strconv.FormatInt(now.Unix(), 10), "{body}", string(body), "{secret}", secret}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.NewReplacer(values...).Replace(r.Message)))
	fill := strings.NewReplacer(append(values, "{hmac}", encode(mac.Sum(nil)))...)
	h := http.Header{}
	h.Set(r.Header, fill.Replace(r.Value))
	for name, value := range r.More {
		h.Set(name, fill.Replace(value))
	}
	return h
}

func TestWhatAProviderShowsOfItselfIsADeliveryThatItTakes(t *testing.T) {
	t.Parallel()
	declared, err := webhook.ParseYAML("waypost.yaml", []byte(`webhooks:
  providers:
    - {name: plain, secret_env: A, verifier: {type: hmac, header: X-Sum}, extractor: {type: json, type_field: kind, id_field: meta.uid}}
    - {name: hosted, secret_env: B, verifier: {type: code-host}, extractor: {type: code-host}}
    - {name: timed, secret_env: C, verifier: {type: timestamped-hmac, header: X-Timed}, extractor: {type: payment}}
    - {name: modern, secret_env: D, verifier: {type: standard-webhooks}, extractor: {type: standard-webhooks}}
    - {name: mixed, secret_env: E, verifier: {type: standard-webhooks}, extractor: {type: json, id_field: id}}
`))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte("a key of thirty-two bytes, or so"))
	for _, p := range append(declared.Providers, webhook.BuiltIn()...) {
		example, err := p.Example()
		if err != nil {
			t.Fatal(err)
		}
		renamed, err := p.Renamed("another")
		if err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(example.Body)
		if err != nil {
			t.Fatal(err)
		}
		recipe, known := p.Signing()
		if !known {
			t.Errorf("%s: nobody says how it signs", p.Name)
			continue
		}
		h := follow(t, recipe, secret, "evt_1", now, body)
		if err := p.Verifier.Verify([]byte(secret), body, h, now); err != nil {
			t.Errorf("%s: signed as its recipe says: %v", p.Name, err)
		}
		for name, value := range example.Headers {
			h.Set(name, value)
		}
		eventType, id, err := p.Extractor.Extract(body, h)
		if err != nil || id == "" || eventType == "" && p.Name != "mixed" {
			t.Errorf("%s: its example is of type %q and id %q, %v", p.Name, eventType, id, err)
		}
		for name, value := range renamed.Headers {
			h.Set(name, value)
		}
		if patch := renamed.Body.(map[string]any); len(patch) > 0 {
			body, err = json.Marshal(patch)
		}
		if _, id, extracted := p.Extractor.Extract(body, h); id != "another" || err != nil || extracted != nil {
			t.Errorf("%s: renamed, its id is %q, %v, %v", p.Name, id, err, extracted)
		}
	}
}

func TestAnExampleThatTheExtractorReadsOtherwiseStopsTheStart(t *testing.T) {
	t.Parallel()
	p := webhook.Payment()
	p.About.ExternalID = "evt_2" // the body says evt_1
	if _, err := webhook.NewRegistry([]webhook.Registration{p}); err == nil || !strings.Contains(err.Error(), `"payment"`) || !strings.Contains(err.Error(), "evt_2") {
		t.Error(err)
	}
	p = webhook.Payment()
	p.About.Signing.Value = "{secret}"
	if _, err := webhook.NewRegistry([]webhook.Registration{p}); err == nil {
		t.Error("a recipe without a header is taken")
	}
}
