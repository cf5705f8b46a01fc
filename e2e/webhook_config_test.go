package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/webhook/signature"
)

// delivered is what a forward's or an alert's target got.
type delivered struct {
	path   string
	header http.Header
	body   []byte
}

// target answers with status and hands on what it gets.
func target(t *testing.T, status *atomic.Int64) (string, <-chan delivered) {
	t.Helper()
	got := make(chan delivered, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- delivered{r.URL.Path, r.Header, body}
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(s.Close)
	return s.URL, got
}

// next waits for the next request that passes want.
func next(t *testing.T, got <-chan delivered, path string) delivered {
	t.Helper()
	timeout := time.After(outside.Patience)
	for {
		select {
		case d := <-got:
			if d.path == path {
				return d
			}
		case <-timeout:
			t.Fatalf("nothing came to %s", path)
		}
	}
}

// The example of docs/webhooks.md, with the target's address put in.
func TestAProviderOfTheFileWorksFromTheCommandLineToTheTarget(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	status.Store(http.StatusNoContent)
	url, got := target(t, &status)
	page, err := os.ReadFile("../docs/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	file := filepath.Join(dbtest.TempDir(t), "waypost.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(example, "http://127.0.0.1:9000", url)), 0o600); err != nil {
		t.Fatal(err)
	}
	key := "whsec_" + base64.StdEncoding.EncodeToString([]byte("a key of the forward and of the alert"))
	env := []string{
		"WAYPOST_CONFIG=" + file, "ACME_SECRET=an acme secret", "FORWARD_SECRET=" + key, "MODERN_SECRET=" + key,
		"PAYMENT_WEBHOOK_SECRET=x", "CODEHOST_WEBHOOK_SECRET=y", "WAYPOST_METRICS_TOKEN=a token of metrics",
		"WAYPOST_WEBHOOK_ALERT_STREAK=2", "WAYPOST_WEBHOOK_ALERT_URL=" + url + "/alert", "WAYPOST_WEBHOOK_ALERT_SECRET=" + key,
	}
	p, databaseURL := serve(t, env...)
	token := admin(t, p, databaseURL)
	webhookSend := func(provider, id, want string) {
		t.Helper()
		code, out, errOut := command(t, env, "", "webhook", "send", "--url", p.url, "--provider", provider, "--type", "order.paid", "--id", id)
		if code != 0 || !strings.Contains(out, `"status":"`+want+`"`) {
			t.Errorf("%s: exit %d\n%s%s", provider, code, out, errOut)
		}
	}
	webhookSend("payment", "1", "processed")
	webhookSend("codehost", "1", "processed")
	webhookSend("modern", "1", "processed")
	webhookSend("acme", "1", "pending")

	d := next(t, got, "/in")
	if err := (signature.Standard{}).Verify([]byte(key), d.body, d.header, time.Now()); err != nil {
		t.Errorf("the forward's signature: %v", err)
	}
	if want := `{"meta":{"uid":"1"},"kind":"order.paid"}`; string(d.body) != want || d.header.Get("Waypost-Provider") != "acme" {
		t.Errorf("forwarded %s, %v", d.body, d.header)
	}
	status.Store(http.StatusInternalServerError)
	webhookSend("acme", "2", "pending")
	webhookSend("acme", "3", "pending")
	alert := next(t, got, "/alert")
	if err := (signature.Standard{}).Verify([]byte(key), alert.body, alert.header, time.Now()); err != nil {
		t.Errorf("the alert's signature: %v", err)
	}
	var told struct {
		Type string
		Data struct {
			Provider      string
			FailureStreak int `json:"failure_streak"`
		}
	}
	if err := json.Unmarshal(alert.body, &told); err != nil || told.Type != "waypost.webhooks.failing" || told.Data.Provider != "acme" || told.Data.FailureStreak != 2 {
		t.Errorf("alert %s, %v", alert.body, err)
	}

	wantError(t, outside.Do(t, "POST", p.url+"/webhooks/acme", `{}`), 401, "invalid_signature")
	wantError(t, outside.Do(t, "GET", p.url+"/metrics", ""), 401, "unauthenticated")
	wantError(t, outside.Do(t, "GET", p.url+"/metrics", "", "Authorization", "Bearer "+token), 401, "unauthenticated")
	a := outside.Do(t, "GET", p.url+"/metrics", "", "Authorization", "Bearer a token of metrics")
	for _, line := range []string{
		`waypost_webhook_received_total{provider="acme"} 4`, `waypost_webhook_rejected_total{provider="acme",reason="signature_missing"} 1`,
		`waypost_webhook_failure_streak{provider="acme"} 2`, `waypost_webhook_failure_streak{provider="payment"} 0`,
	} {
		if a.Status != 200 || !strings.Contains(string(a.Body), line+"\n") {
			t.Errorf("%d, no %s in the metrics", a.Status, line)
		}
	}
	var list struct {
		Data []struct {
			Name      string
			SecretSet bool `json:"secret_set"`
		}
	}
	outside.Do(t, "GET", p.url+"/api/admin/webhooks/providers", "", "Authorization", "Bearer "+token).Into(t, &list)
	if text := fmt.Sprint(list.Data); text != "[{acme true} {codehost true} {modern true} {payment true}]" {
		t.Errorf("providers %s", text)
	}
}

func TestWithoutATokenThereAreNoMetrics(t *testing.T) {
	t.Parallel()
	p, _ := serve(t)
	wantError(t, outside.Do(t, "GET", p.url+"/metrics", "", "Authorization", "Bearer "), 404, "not_found")
}

func TestAFaultyFileStopsTheStartAndIsNamed(t *testing.T) {
	t.Parallel()
	databaseURL := dbtest.NewURL(t).App
	for content, want := range map[string]string{
		"webhooks:\n  providers:\n    - {name: Acme, secret_env: A, verifier: {type: code-host}, extractor: {type: payment}}\n":    `waypost.yaml:3: webhook provider "Acme"`,
		"webhooks:\n  providers:\n    - {name: payment, secret_env: A, verifier: {type: code-host}, extractor: {type: payment}}\n": `provider "payment": registered twice`,
		"webhooks:\n  handlers:\n    - {provider: nobody, event: x, forward: {url: \"http://h/\", secret_env: S}}\n":               `"nobody"`,
		"webhoks: {}\n": `unknown section "webhoks"`,
	} {
		file := filepath.Join(dbtest.TempDir(t), "waypost.yaml")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, errOut := command(t, []string{
			"WAYPOST_CONFIG=" + file, "DATABASE_URL=" + databaseURL, "WAYPOST_URL=https://waypost.example",
			"WAYPOST_SECRET_KEY=a secret key for tests, longer than 32 bytes",
		}, "", "serve", "--addr", "127.0.0.1:0"); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("serve: exit %d, %q, want %s", code, errOut, want)
		}
		code, _, errOut := command(t, []string{"WAYPOST_CONFIG=" + file}, "", "webhook", "send", "--url", "http://127.0.0.1:1", "--provider", "payment", "--type", "x")
		if code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("exit %d, %q, want %s", code, errOut, want)
		}
	}
}

func TestTheConfigurationFileIsCheckedFromTheCommandLine(t *testing.T) {
	t.Parallel()
	file := func(text string) string {
		path := filepath.Join(dbtest.TempDir(t), "waypost.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("webhooks:\n  providers:\n    - {name: forge, secret_env: FORGE_SECRET, preset: github}\n    - {name: chat, secret_env: CHAT_SECRET, preset: slack}\n")
	code, out, errOut := command(t, []string{"FORGE_SECRET=hunter2"}, "", "webhook", "check", "--config", good)
	for _, want := range []string{
		"forge     github  hmac              headers    -          FORGE_SECRET",
		"chat      slack   hmac              json       POST       CHAT_SECRET",
		"CHAT_SECRET: it is not set, so every delivery is refused",
	} {
		if code != 0 || !strings.Contains(out, want) || strings.Contains(out, "hunter2") {
			t.Errorf("exit %d, %s: the output has no %q:\n%s", code, errOut, want, out)
		}
	}
	bad := file("webhooks:\n  providers:\n    - {name: forge, secret_env: FORGE_SECRET, preset: gihub}\n    - {nam: x}\nai: {limits: {rps: 1}}\n")
	code, out, errOut = command(t, nil, "", "webhook", "check", "--config", bad)
	for _, want := range []string{`waypost.yaml:4: webhooks.providers[1]: unknown member "nam"; did you mean name?`, `waypost.yaml:5: ai.limits: unknown member "rps"; did you mean rpm?`} {
		if code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("exit %d, %s%s: nothing like %q", code, out, errOut, want)
		}
	}
}
