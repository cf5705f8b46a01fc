//go:build external

package e2e_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
)

func TestAForwardIsVerifiedByTheOfficialLibraryWithBothSecretsWhileTheyRotate(t *testing.T) {
	t.Parallel()
	npm := npmInstalled(t, filepath.Join("..", "tools", "npm", "webhooks"), "deliveries.mjs")
	var status atomic.Int64
	status.Store(http.StatusNoContent)
	url, got := target(t, &status)
	fresh, old := "whsec_"+strings.Repeat("QUJD", 8), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	file := save(t, "waypost.yaml", []byte("webhooks:\n  providers:\n    - {name: forge, secret_env: FORGE_SECRET, preset: github}\n"+
		"  handlers:\n    - {provider: forge, event: push, forward: {url: "+url+"/in, secret_env: OUT}}\n"))
	env := []string{"WAYPOST_CONFIG=" + file, "FORGE_SECRET=s", "OUT=" + fresh, "OUT_PREVIOUS=" + old, "PAYMENT_WEBHOOK_SECRET=x", "CODEHOST_WEBHOOK_SECRET=y"}
	p, _ := serve(t, env...)
	code, out, errOut := command(t, env, "", "webhook", "send", "--url", p.url, "--provider", "forge", "--type", "push", "--id", "d-1")
	if code != 0 || !strings.Contains(out, `"status":"pending"`) {
		t.Fatalf("exit %d\n%s%s", code, out, errOut)
	}
	d := next(t, got, "/in")
	type task struct {
		Preset  string            `json:"preset"`
		Act     string            `json:"act"`
		Secret  string            `json:"secret"`
		Body    string            `json:"body"`
		Headers map[string]string `json:"headers"`
	}
	headers := map[string]string{}
	for name := range d.header {
		headers[strings.ToLower(name)] = d.header.Get(name)
	}
	third := "whsec_" + strings.Repeat("REVG", 8)
	tasks := []task{
		{"standard-webhooks", "verify", fresh, string(d.body), headers},
		{"standard-webhooks", "verify", old, string(d.body), headers},
		{"standard-webhooks", "verify", third, string(d.body), headers},
		{"standard-webhooks", "verify", fresh, string(d.body) + " ", headers},
	}
	text, err := json.Marshal(tasks)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dbtest.TempDir(t), "tasks.json")
	if err := os.WriteFile(list, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var answers []struct {
		OK    bool
		Error string
	}
	if err := json.Unmarshal(run(t, npm, "node", "deliveries.mjs", list), &answers); err != nil || len(answers) != len(tasks) {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	for i, name := range []string{"the new secret", "the old secret", "a third", "a byte more"} {
		if answers[i].OK != (i < 2) {
			t.Errorf("with %s: %+v", name, answers[i])
		}
	}
}
