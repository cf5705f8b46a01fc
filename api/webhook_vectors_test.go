package api_test

import (
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/webhook"
)

// Section 3a of the catalogue of vectors: the sum over the body.
func TestVectors3aBodyHMAC(t *testing.T) {
	t.Parallel()
	c := newCases(t)
	const yo = "b1f8020f5b4cd42042f807dd939015c4a418bc1ff7f604dd55b0a19b5d953d9b"
	for _, v := range []struct {
		secret, body, hex string
		status            int
	}{
		{"It's a Secret to Everybody", "Hello, World!", "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17", 400},
		{"0123456789abcdef", `{"yo":true}`, yo, 200},
		{"", `{"yo":true}`, yo, 401},
		{"mysecret", `{"foo":"bar"}`, "4864d2759938a15468b5df9ade20bf161da9b4f737ea61794142f3484236bda3", 200},
		{"foo", `{"foo":"bar"}`, "4864d2759938a15468b5df9ade20bf161da9b4f737ea61794142f3484236bda3", 401},
		{"secret", "", "f9e66e179b6747ae54108f82f8ade8b3c25d76fd30afde6c395822c530196169", 400},
	} {
		c.setenv("CODEHOST_WEBHOOK_SECRET", v.secret)
		c.setenv("ACME", v.secret)
		c.try(t, []attack{
			{"code host, secret " + v.secret, "codehost", v.body, hub("sha256=" + v.hex), v.status},
			{"generic, secret " + v.secret, "acme", v.body, acme(v.hex), v.status},
		})
	}
	c.setenv("CODEHOST_WEBHOOK_SECRET", "0123456789abcdef")
	for _, value := range []string{"yo", "sha1=yo", "sha1=012345", "sha1=126f2c800419c60137ce748d7672e77b65cf16d6", ""} {
		c.try(t, []attack{
			{"value " + value, "codehost", `{"yo":true}`, hub(value), 401},
			{"old header " + value, "codehost", `{"yo":true}`, http.Header{"X-Hub-Signature": {value}}, 401},
		})
	}
	c.try(t, []attack{{"absent", "codehost", `{"yo":true}`, http.Header{}, 401}})
}

// Section 3b: the sum over timestamp and body.
func TestVectors3bTimestamped(t *testing.T) {
	t.Parallel()
	c := newCases(t)
	const p = "{\n  \"id\": \"evt_test_webhook\",\n  \"object\": \"event\"\n}"
	const ok = "4f1cd7feda9826e746b7d482c4badebb657398df1099e1046364f6196a230150"
	const rolled = "dc80d0334b78e0dbbc3d5352c151a428b746163b94ad381096bb293b9e650f1e"
	good := "t=1700000000,v1=" + ok
	at := func(t int64) string {
		s := strconv.FormatInt(t, 10)
		return "t=" + s + ",v1=" + mac(casesPayment, s, ".", p)
	}
	for value, want := range map[string]int{
		good: 200, good + ",v1=bad_signature": 200, good + ",v1=potato": 200, "t=1700000000,v1=" + rolled + ",v1=" + ok: 200,
		"t=1700000000,v0=" + ok: 401, "t=1700000000,v1=bad_signature": 401, "t=1700000000,v1=" + hex.EncodeToString([]byte("deadbeef")): 401,
		"bad_header": 401, "I'm not even a real signature header": 401, "": 401, "v1,t=1": 401, "t=": 401,
		"t=12345,v1=2672d138c9a412830f3bfe2ecc5bfb3277cf6f5b49d0119d77dd6cb64da1257e": 401,
		at(casesNow - 299): 200, at(casesNow - 300): 200, at(casesNow - 301): 401, at(casesNow - 400): 401,
		at(casesNow + 299): 200, at(casesNow + 300): 200, at(casesNow + 301): 401,
	} {
		c.try(t, []attack{{"header " + value, "payment", p, pay(value), want}})
	}
	c.try(t, []attack{
		{"absent", "payment", p, http.Header{}, 401},
		{"not JSON", "payment", "} I am not valid JSON; 123][", pay("t=1700000000,v1=f51cb471b499dfae7485cba9aa31df6549b8e098e60f2a2d2a42829d963fe5a4"), 400},
		{"not JSON either", "payment", "this is not valid JSON", pay("t=1700000000,v1=3fa12e00c43599d0fb01131fe7ea14cf2b14a671c09b15a72db83cbbc5fb1ff8"), 400},
	})
	c.setenv("PAYMENT_WEBHOOK_SECRET", "whsec_test_secret_rolled_key")
	c.try(t, []attack{{"the other secret of two signatures", "payment", p, pay("t=1700000000,v1=" + rolled + ",v1=" + ok), 200}})
	c.setenv("PAYMENT_WEBHOOK_SECRET", casesPayment+" ")
	c.try(t, []attack{{"a secret with a trailing space", "payment", p, pay(good), 401}})
}

// Section 3c: Standard Webhooks.
func TestVectors3cStandardWebhooks(t *testing.T) {
	t.Parallel()
	const at, body, id = 1614265330, `{"test": 2432232314}`, "msg_p5jXN8AQM9LWM0D4loKWxJek"
	const good = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	bad := strings.Replace(good, "OE=", "OA=", 1)
	h := func(id, t, signature string) http.Header {
		h := http.Header{}
		for name, value := range map[string]string{"Webhook-Id": id, "Webhook-Timestamp": t, "Webhook-Signature": signature} {
			if value != "" {
				h.Set(name, value)
			}
		}
		return h
	}
	for _, clock := range []struct {
		offset int64
		status int
	}{{0, 200}, {300, 200}, {301, 401}, {-300, 200}, {-301, 401}} {
		declared, err := webhook.ParseYAML("f", []byte("webhooks: {providers: [{name: modern, secret_env: MODERN, verifier: {type: standard-webhooks}, extractor: {type: standard-webhooks}}]}"))
		if err != nil {
			t.Fatal(err)
		}
		registry, err := webhook.NewRegistry(declared.Providers)
		if err != nil {
			t.Fatal(err)
		}
		secret := casesStandard
		c := &cases{hooks: newHooks(t, func(o *webhook.Options) {
			o.Registry = registry
			o.Now = func() time.Time { return time.Unix(at+clock.offset, 0) }
			o.LookupSecret = func(name string) string {
				if name == "MODERN" {
					return secret
				}
				return ""
			}
		})}
		c.try(t, []attack{{"now " + strconv.FormatInt(clock.offset, 10), "modern", body, h(id, "1614265330", good), clock.status}})
		if clock.offset != 0 {
			continue
		}
		c.try(t, []attack{
			{"list", "modern", body, h(id, "1614265330", "v1,BAD v2,BAD "+good+" v1,BAD"), 200},
			{"ending", "modern", body, h(id, "1614265330", bad), 401},
			{"empty v1", "modern", body, h(id, "1614265330", "v1,"), 401},
			{"no id", "modern", body, h("", "1614265330", good), 401},
			{"no timestamp", "modern", body, h(id, "", good), 401},
			{"no signature", "modern", body, h(id, "1614265330", ""), 401},
			{"timestamp hello", "modern", body, h(id, "hello", good), 401},
		})
		for _, secret = range []string{"", "whsec_"} {
			c.try(t, []attack{{"secret " + secret, "modern", body, h(id, "1614265330", good), 401}})
		}
		secret = strings.TrimPrefix(casesStandard, "whsec_")
		c.try(t, []attack{{"secret without whsec_", "modern", body, h(id, "1614265330", good), 200}})
	}
}
