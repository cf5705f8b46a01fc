package e2e_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

// buildWith builds waypost with files in place of its own, or beside them.
func buildWith(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := dbtest.TempDir(t)
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, text := range files {
		path, err := filepath.Abs(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		overlay.Replace[path] = filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(overlay.Replace[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "waypost")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "../cmd/waypost").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// The example of docs/webhooks.md, as it is printed there, migration included.
func TestAProviderInCodeIsOneFileAndReachesTheService(t *testing.T) {
	t.Parallel()
	program := buildWith(t, map[string]string{
		"cmd/waypost/extensions.go":           blocks(t, "webhooks.md", "go")[0],
		"db/migrations/99999_orders_paid.sql": blocks(t, "webhooks.md", "sql")[0],
	})
	dir := dbtest.TempDir(t)
	p := startDevOf(t, program, dir)
	env := devValues(t, dir)
	deliver := func(secret, body string) outside.Answer {
		return outside.Do(t, http.MethodPost, p.url+"/webhooks/acme", body, "X-Token", secret)
	}
	const paid = `{"kind":"order.paid","meta":{"uid":"o-1"}}`
	for i, want := range []string{"processed", "skipped"} {
		var r outside.Receipt
		deliver(env["ACME_SECRET"], paid).Into(t, &r)
		if r.Status != want {
			t.Errorf("delivery %d: %+v, want %s", i, r, want)
		}
	}
	wantError(t, deliver("another secret", paid), http.StatusUnauthorized, "invalid_signature")
	if n := countNow(t, env["PSQL_URL"], `select count(*) from orders_paid`); n != 1 {
		t.Errorf("%d effects of one event", n)
	}
	description := string(outside.Do(t, http.MethodGet, p.url+"/docs/openapi.json", "").Body)
	for _, want := range []string{"An order at acme", `"acmeSignature"`, "What happened."} {
		if !strings.Contains(description, want) {
			t.Errorf("the description lacks %s", want)
		}
	}
	if export := string(outside.Do(t, http.MethodGet, p.url+"/docs/export/collection", "").Body); !strings.Contains(export, "acmeSecret") {
		t.Error("the exported collection has no variable for the secret")
	}
}

// The operations and the override of docs/extending.md.
func TestOperationsAndOverridesOfAForkReachTheDescriptionAndTheGuard(t *testing.T) {
	t.Parallel()
	parts := blocks(t, "extending.md", "go")
	program := buildWith(t, map[string]string{
		"api/greetings.go": parts[1],
		"cmd/waypost/extensions.go": `package main

import (
	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/internal/apidoc"
	"github.com/waypost/waypost/internal/app"
)

func extensions() app.Extensions {
	return app.Extensions{
` + parts[0] + parts[2] + `	}
}
`,
	})
	url := dbtest.NewURL(t)
	p := startServeOf(t, program, url.App)
	wantError(t, outside.Do(t, http.MethodGet, p.url+"/api/greeting", ""), http.StatusUnauthorized, "unauthenticated")
	a := outside.Do(t, http.MethodGet, p.url+"/api/greeting", "", "Authorization", "Bearer "+admin(t, p, url.App))
	if a.Status != http.StatusOK || !strings.Contains(string(a.Body), "Hello.") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	description := string(outside.Do(t, http.MethodGet, p.url+"/docs/openapi.json", "").Body)
	for _, want := range []string{"get-greeting", "Somebody says hello.", "Post to the notice board"} {
		if !strings.Contains(description, want) {
			t.Errorf("the description lacks %s", want)
		}
	}
}
