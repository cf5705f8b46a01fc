package aigateway_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/aigateway"
	"github.com/waypost/waypost/internal/identity"
)

const whole = `webhooks: {}
ai:
  upstreams:
    - {name: main, kind: openai, base_url: "https://llm.internal/v1/", key_env: MAIN_KEY}
    - {name: spare, kind: anthropic, base_url: "http://127.0.0.1:9100", key_env: SPARE_KEY, allow_private: true}
  models:
    - name: fast
      targets: [{upstream: main, model: small-1}, {upstream: spare, model: small-2, price: {input: 1, output: 2.5}, roles: [ADMIN]}]
      price: {input: 0.15, output: 0.60}
      roles: [USER, EDITOR, ADMIN]
      max_output: 4096
    - {name: "a/b:c", price: {output: 1e-6}, targets: [{upstream: main, model: "x"}]}
  limits: {rpm: 60, tpm: 100000, budget: 5.00, period: month, timeout: 60s}
`

func TestTheFilesSectionIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	got, err := aigateway.ParseYAML("waypost.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	everybody := []identity.Role{identity.User, identity.Editor, identity.Admin}
	want := aigateway.Declared{
		Upstreams: []aigateway.Upstream{
			{Name: "main", Kind: aigateway.OpenAI, BaseURL: "https://llm.internal/v1", KeyEnv: "MAIN_KEY"},
			{Name: "spare", Kind: aigateway.Anthropic, BaseURL: "http://127.0.0.1:9100", KeyEnv: "SPARE_KEY", AllowPrivate: true},
		},
		Models: []aigateway.Model{
			{Name: "fast", Roles: everybody, MaxOutput: 4096, Targets: []aigateway.Target{
				{Upstream: "main", Model: "small-1", Price: aigateway.Price{Input: 150_000, Output: 600_000}, Roles: everybody},
				{Upstream: "spare", Model: "small-2", Price: aigateway.Price{Input: 1_000_000, Output: 2_500_000}, Roles: []identity.Role{identity.Admin}},
			}},
			{Name: "a/b:c", Roles: identity.Roles(), MaxOutput: 4096, Targets: []aigateway.Target{{Upstream: "main", Model: "x", Price: aigateway.Price{Output: 1}, Roles: identity.Roles()}}},
		},
		Limits: aigateway.Limits{RPM: 60, TPM: 100_000, Budget: 5_000_000_000_000, Period: aigateway.Month, Timeout: time.Minute},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if none, err := aigateway.ParseYAML("", nil); err != nil || len(none.Models) != 0 || none.Limits != aigateway.DefaultLimits() {
		t.Errorf("%+v, %v", none, err)
	}
}

func TestAMistakeInTheFileIsNamedWithItsLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, new, want string }{
		"unknown member":   {"rpm: 60", "rps: 60", `unknown member "rps"; did you mean rpm?`},
		"kind":             {"kind: openai", "kind: gemini", `f:4: ai upstream "main": kind: write openai or anthropic`},
		"no URL":           {`"https://llm.internal/v1/"`, `"llm.internal"`, `f:4: ai upstream "main": base_url: write an absolute http(s) URL`},
		"a user in a URL":  {"https://llm", "https://user:hunter2@llm", "base_url: it holds a user"},
		"a key":            {"MAIN_KEY", "sk-123", "key_env: write the name of the environment variable that has the key, not the key"},
		"twice":            {"name: spare", "name: main", `f:5: ai upstream "main": there is another of that name`},
		"unknown upstream": {"{upstream: main, model: small-1}", "{upstream: other, model: small-1}", `f:7: ai model "fast": target 1: upstream: there is none of the name "other"`},
		"no price":         {"      price: {input: 0.15, output: 0.60}\n", "", "price: write what a million tokens cost"},
		"a fine price":     {"0.15", "0.1234567", "price: input: write what a million tokens cost"},
		"a negative price": {"0.15", "-1", "price: input: write"},
		"a role":           {"[USER, EDITOR, ADMIN]", "[ROOT]", `roles: "ROOT" is not one of USER, EDITOR, ADMIN`},
		"no output":        {"max_output: 4096", "max_output: 0", "max_output: write how many tokens"},
		"rpm":              {"rpm: 60", "rpm: 0", "f:13: ai limits: rpm: write how many calls"},
		"tpm":              {"tpm: 100000", "tpm: -1", "tpm: write how many tokens"},
		"budget":           {"budget: 5.00", "budget: lots", "budget: write an amount"},
		"period":           {"period: month", "period: year", "period: write day, week or month"},
		"timeout":          {"timeout: 60s", "timeout: 60", "timeout: write a time"},
	} {
		text := strings.Replace(whole, c.old, c.new, 1)
		if _, err := aigateway.ParseYAML("f", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "sk-123") {
			t.Errorf("%s: %v, not %s", name, err, c.want)
		}
	}
}

func TestAmountsAreExact(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{0: "0", 5: "5", 0.1: "0.1", 0.000001: "0.000001", 1000000: "1000000", 123456.654321: "123456.654321"} {
		if m, err := aigateway.MoneyOf(f); err != nil || m.String() != want || m.Float() != f {
			t.Errorf("%v: %v, %v", f, m, err)
		}
	}
	for _, f := range []float64{-1, 0.0000001, 1000000.000001, 1e300} {
		if m, err := aigateway.MoneyOf(f); err == nil {
			t.Errorf("%v is %v", f, m)
		}
	}
}
