package truth_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/aigateway/aitest"
)

// modelsFile configures models that fail, beside the one that needs no upstream.
func (w *world) modelsFile(t *testing.T) string {
	t.Helper()
	upstream, closeUpstream := aitest.New()
	t.Cleanup(closeUpstream)
	var b strings.Builder
	fmt.Fprintf(&b, `webhooks:
  providers:
    - {name: asking, secret_env: ASKING_SECRET, preset: github, challenge: {method: GET, token_field: token, token_env: ASKING_TOKEN, field: challenge}}
ai:
  upstreams: [{name: mock, kind: openai, base_url: %q, allow_private: true}]
  limits: {rpm: 100000, tpm: 100000, timeout: 1s}
  models:
    - {name: theirs, price: {}, roles: [ADMIN], targets: [{upstream: mock, model: fine}]}
    - {name: long, price: {}, max_output: 1000000, targets: [{upstream: mock, model: fine}]}
    - {name: dear, price: {input: 1000, output: 1000}, targets: [{upstream: mock, model: fine}]}
`, upstream.URL+"/v1")
	for _, m := range []string{"fine", aitest.Broken, aitest.Silent, aitest.Refusing} {
		fmt.Fprintf(&b, "    - {name: %s, price: {}, targets: [{upstream: mock, model: %s}]}\n", m, m)
	}
	file := filepath.Join(t.TempDir(), "waypost.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// specialCalls are those of models that fail, with a body whose rest is that.
func specialCalls(rest, long string) func(*testing.T, *world, func(request) outside.Answer) {
	return func(t *testing.T, w *world, call func(request) outside.Answer) {
		ask := func(name, model, more string) {
			call(request{name: name, caller: callerUser, body: fmt.Appendf(nil, `{"model":%q%s}`, model, more)})
		}
		for _, model := range []string{"fine", "unknown", "theirs", aitest.Broken, aitest.Silent, aitest.Refusing} {
			ask("the model "+model, model, rest)
		}
		ask("more than a minute has", "long", long)
		p := w.newcomer(t)
		w.must(t, "PUT", "/api/admin/ai/budgets/"+w.idOf(t, p.credentials)["id"], w.credentials[callerAdmin], map[string]any{"budget": 0})
		call(request{name: "without a budget", caller: aNewcomer, credentials: p.credentials, body: fmt.Appendf(nil, `{"model":"dear"%s}`, rest)})
		ask("more than 20 MiB", strings.Repeat("x", 20<<20), "")
		ask("a number for a name", "x", `,"stream":7`+rest)
	}
}

const (
	aMessage = `,"messages":[{"role":"user","content":"Hello there"}]`
	anInput  = `,"input":"Hello there"`
)

func specialChats(t *testing.T, w *world, call func(request) outside.Answer) {
	specialCalls(aMessage, aMessage)(t, w, call)
	call(request{name: "a stream", caller: callerUser, body: []byte(`{"model":"echo","stream":true` + aMessage + `}`)})
}

func specialEmbeddings(t *testing.T, w *world, call func(request) outside.Answer) {
	specialCalls(anInput, fmt.Sprintf(`,"input":%q`, strings.Repeat("word ", 100_000)))(t, w, call)
}

// withUsage lists what somebody used.
func withUsage(t *testing.T, w *world, call func(request) outside.Answer) {
	w.must(t, "POST", "/api/ai/v1/chat/completions", w.credentials[callerAdmin], map[string]any{"model": "fine", "messages": []any{map[string]string{"role": "user", "content": "Hi"}}})
	call(request{name: "with usage", caller: callerAdmin})
}
