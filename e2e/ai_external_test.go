//go:build external

package e2e_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/aigateway/aitest"
)

// misfortunes configures models named like an upstream's, those of the other kind with
// claude before their names.
func misfortunes(t *testing.T, upstream string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, `ai:
  upstreams:
    - {name: main, kind: openai, base_url: %q, key_env: UPSTREAM_KEY, allow_private: true}
    - {name: claude, kind: anthropic, base_url: %q, key_env: UPSTREAM_KEY, allow_private: true}
  limits: {rpm: 100000, tpm: 10000000, timeout: 2s}
  models:
    - {name: editors, price: {}, roles: [EDITOR], targets: [{upstream: main, model: fine}]}
    - {name: fine, price: {input: 1, output: 1}, targets: [{upstream: main, model: fine}]}
    - {name: claude, price: {}, targets: [{upstream: claude, model: fine}]}
`, upstream+"/v1", upstream)
	for _, m := range []string{aitest.Slow, aitest.Silent, aitest.Hangs, aitest.Cut, aitest.Busy, aitest.Broken, aitest.Flaky, aitest.Malformed, aitest.NoUsage, aitest.Quoting, aitest.Refusing, aitest.Endless, aitest.Tool} {
		fmt.Fprintf(&b, "    - {name: %s, price: {}, targets: [{upstream: main, model: %s}]}\n    - {name: claude-%s, price: {}, targets: [{upstream: claude, model: %s}]}\n", m, m, m, m)
	}
	file := filepath.Join(dbtest.TempDir(t), "waypost.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// OpenAI's own clients need a base URL and a key, and nothing else, whatever the upstream
// is and whatever becomes of it.
func TestOpenAIsOwnClientsWorkWithBaseURLAndKeyAlone(t *testing.T) {
	t.Parallel()
	upstream, closeUpstream := aitest.New()
	t.Cleanup(closeUpstream)
	data := dbtest.TempDir(t)
	p := startDev(t, data, "WAYPOST_CONFIG="+misfortunes(t, upstream.URL), "UPSTREAM_KEY=sk-of-the-upstream")
	dev := devValues(t, data)
	admin := outside.Bearer(signIn(t, p, dev["WAYPOST_ADMIN_EMAIL"], dev["WAYPOST_ADMIN_PASSWORD"]))
	call := func(method, path string, body any) (made struct {
		Data struct {
			ID    int64
			Token string
		}
	}) {
		a := outside.Do(t, method, p.url+path, outside.JSON(body), slices.Concat(admin, []string{"Content-Type", "application/json"})...)
		if a.Status >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
		}
		a.Into(t, &made)
		return made
	}
	bot := map[string]any{"name": "A bot", "scopes": []string{"ai"}}
	key := call("POST", "/api/auth/tokens", bot).Data.Token
	poor := call("POST", "/api/admin/service-accounts", map[string]any{"name": "Poor", "role": "USER"}).Data.ID
	call("PUT", fmt.Sprintf("/api/admin/ai/budgets/%d", poor), map[string]any{"budget": 0})
	poorKey := call("POST", fmt.Sprintf("/api/admin/service-accounts/%d/tokens", poor), bot).Data.Token
	clients := map[string]func() *exec.Cmd{
		"npm": func() *exec.Cmd {
			return exec.CommandContext(t.Context(), "node", filepath.Join(npmInstalled(t, filepath.Join("..", "tools", "npm", "openai"), "openai.mjs"), "openai.mjs"))
		},
		"Go": func() *exec.Cmd {
			program := filepath.Join(dbtest.TempDir(t), "openai-go")
			run(t, filepath.Join("..", "tools", "openai-go"), "go", "build", "-o", program, ".")
			return exec.CommandContext(t.Context(), program)
		},
	}
	for name, command := range clients {
		cmd := command()
		cmd.Env = append(os.Environ(), "BASE_URL="+p.url+"/api/ai/v1", "KEY="+key, "POOR_KEY="+poorKey)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// The gateway is no better known to this upstream than to any other: a mock of other
// people's, of both kinds, with its own misfortunes.
func TestOpenAIsClientWorksBeforeAMockOfOthers(t *testing.T) {
	t.Parallel()
	tools := npmInstalled(t, filepath.Join("..", "tools", "npm", "aimock"), "upstream.mjs", "client.mjs")
	mock := exec.CommandContext(t.Context(), "node", filepath.Join(tools, "upstream.mjs"))
	printed, err := mock.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := mock.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mock.Wait() })
	lines := bufio.NewScanner(printed)
	if !lines.Scan() {
		t.Fatal("the mock did not start")
	}
	upstream := lines.Text()
	file := filepath.Join(dbtest.TempDir(t), "waypost.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, `ai:
  upstreams:
    - {name: main, kind: openai, base_url: %q, key_env: UPSTREAM_KEY, allow_private: true}
    - {name: claude, kind: anthropic, base_url: %q, key_env: UPSTREAM_KEY, allow_private: true}
  limits: {rpm: 100000, tpm: 10000000, timeout: 5s}
  models:
    - {name: main, price: {}, targets: [{upstream: main, model: main}]}
    - {name: claude, price: {}, targets: [{upstream: claude, model: claude}]}
`, upstream+"/v1", upstream), 0o600); err != nil {
		t.Fatal(err)
	}
	data := dbtest.TempDir(t)
	p := startDev(t, data, "WAYPOST_CONFIG="+file, "UPSTREAM_KEY=sk-of-the-upstream")
	dev := devValues(t, data)
	made := outside.Do(t, "POST", p.url+"/api/auth/tokens", outside.JSON(map[string]any{"name": "A bot", "scopes": []string{"ai"}}),
		slices.Concat(outside.Bearer(signIn(t, p, dev["WAYPOST_ADMIN_EMAIL"], dev["WAYPOST_ADMIN_PASSWORD"])), []string{"Content-Type", "application/json"})...)
	var key struct{ Data struct{ Token string } }
	made.Into(t, &key)
	client := exec.CommandContext(t.Context(), "node", filepath.Join(tools, "client.mjs"))
	client.Env = append(os.Environ(), "BASE_URL="+p.url+"/api/ai/v1", "KEY="+key.Data.Token, "UPSTREAM="+upstream)
	if out, err := client.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
