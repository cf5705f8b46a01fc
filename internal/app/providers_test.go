package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/apidoc"
	"github.com/waypost/waypost/internal/app"
	"github.com/waypost/waypost/internal/webhook"
)

// providersFile declares these providers, one a line.
func providersFile(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "waypost.yaml")
	if err := os.WriteFile(path, []byte("webhooks:\n  providers:\n    - "+strings.Join(lines, "\n    - ")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPresetsChallengesAndFormsAreInTheDescriptionAndTheExports(t *testing.T) {
	t.Parallel()
	lines := []string{
		`{name: meta, secret_env: A, preset: github, challenge: {method: GET, token_field: hub.verify_token, token_env: T, field: hub.challenge}}`,
		`{name: shop, secret_env: A, verifier: {type: hmac, header: X-Sum, digest: sha512, encoding: base64}, extractor: {type: form, type_field: kind}}`,
	}
	for _, preset := range webhook.Presets() {
		lines = append(lines, fmt.Sprintf("{name: %s, secret_env: A, preset: %s}", preset, preset))
	}
	docs, err := app.Describe(configured(t, "WAYPOST_CONFIG="+providersFile(t, lines...)), app.Extensions{})
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Paths map[string]map[string]struct {
			OperationID string
			Responses   map[string]struct{ Content map[string]any }
			Parameters  []struct{ Name, In string }
		}
		Webhooks map[string]map[string]struct {
			RequestBody struct{ Content map[string]any }
		}
		Components struct {
			SecuritySchemes map[string]struct{ Name, Description string }
		}
	}
	if err := json.Unmarshal(form(t, docs, apidoc.JSON), &d); err != nil {
		t.Fatal(err)
	}
	ask := d.Paths["/webhooks/{provider}"]["get"]
	if ask.OperationID != "get-webhook-challenge" || ask.Responses["200"].Content["text/plain"] == nil {
		t.Errorf("GET is described as %+v", ask)
	}
	for _, status := range []string{"400", "403", "405"} {
		if _, ok := ask.Responses[status]; !ok {
			t.Errorf("GET has no %s", status)
		}
	}
	named := map[string]bool{}
	for _, p := range ask.Parameters {
		named[p.In+" "+p.Name] = true
	}
	if !named["query hub.verify_token"] || !named["query hub.challenge"] || !named["path provider"] {
		t.Errorf("its parameters are %v", named)
	}
	if taken := d.Paths["/webhooks/{provider}"]["post"].Responses["200"].Content; taken["text/plain"] == nil || taken["application/json"] == nil {
		t.Errorf("POST answers %v, though Slack asks for a challenge's value", taken)
	}
	if body := d.Webhooks["shop"]["post"].RequestBody.Content; body["application/x-www-form-urlencoded"] == nil {
		t.Errorf("a form is described as %v", body)
	}
	for _, preset := range webhook.Presets() {
		if s := d.Components.SecuritySchemes[preset+"Signature"]; s.Name == "" || s.Description == "" {
			t.Errorf("%s: its signature is described as %+v", preset, s)
		}
	}
	for _, f := range apidoc.Forms() {
		form(t, docs, f)
	}
	if collection := string(form(t, docs, apidoc.Postman)); !strings.Contains(collection, "HmacSHA512") || !strings.Contains(collection, "v0:${timestamp}:${body}") {
		t.Error("the collection doesn't sign as the schemes say")
	}
}

// form is the documentation in one of its forms.
func form(t *testing.T, docs *apidoc.Docs, f apidoc.Form) []byte {
	t.Helper()
	b, err := docs.Bytes(f)
	if err != nil {
		t.Fatalf("%s: %v", f, err)
	}
	return b
}

func TestWithoutAProviderThatAsksByGETThereIsNoSuchOperation(t *testing.T) {
	t.Parallel()
	docs, err := app.Describe(configured(t, "WAYPOST_CONFIG="+providersFile(t, "{name: slack, secret_env: A, preset: slack}")), app.Extensions{})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(form(t, docs, apidoc.JSON)), "get-webhook-challenge") {
		t.Error("there is")
	}
}

func TestVariablesOfProvidersThatNeedAValueAreNamedInTheLogAtStart(t *testing.T) {
	t.Parallel()
	path := providersFile(t,
		"{name: empty, secret_env: EMPTY, preset: github}",
		"{name: blank, secret_env: BLANK, preset: gitlab}",
		"{name: bad, secret_env: BAD, preset: svix}",
		"{name: good, secret_env: GOOD, preset: stripe}",
		"{name: asks, secret_env: GOOD, preset: github, challenge: {method: GET, token_field: t, token_env: TOKEN, field: c}}")
	secrets := map[string]string{
		"PAYMENT_WEBHOOK_SECRET": "s", "CODEHOST_WEBHOOK_SECRET": "s", "BLANK": " \n", "BAD": "hunter2 is no base64!", "GOOD": "s",
	}
	var log bytes.Buffer
	a, err := app.New(t.Context(), app.Options{
		Config: configured(t, "WAYPOST_CONFIG="+path), Areas: db.Undivided(dbtest.New(t)),
		Logger:       slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		LookupSecret: func(name string) string { return secrets[name] },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	const needs = `msg="a webhook provider's variable needs a value"`
	for _, want := range []string{
		`provider=empty variable=EMPTY reason="it is not set, so every delivery is refused"`,
		`provider=blank variable=BLANK reason="it is not set, so every delivery is refused"`,
		`provider=bad variable=BAD reason="it holds no key in base64, so every delivery is refused"`,
		`provider=asks variable=TOKEN reason="it is not set, so every challenge is refused"`,
	} {
		if !strings.Contains(log.String(), needs+" "+want) {
			t.Errorf("the log says nothing like %s", want)
		}
	}
	if n := strings.Count(log.String(), needs); n != 4 || strings.Contains(log.String(), "hunter2") {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}

func TestVariablesOfTargetsThatNeedAValueAreNamedByTheStartTheCheckAndTheDoctor(t *testing.T) {
	t.Parallel()
	path := providersFile(t, "{name: good, secret_env: GOOD, preset: stripe}")
	const handlers = `  handlers:
    - {provider: good, event: a, forward: [{name: unset, url: "http://127.0.0.1:1", secret_env: UNSET}, {name: right, url: "http://127.0.0.1:1", secret_env: RIGHT}]}
    - {provider: payment, event: b, forward: {url: "http://127.0.0.1:1", secret_env: WRONG}}
`
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(handlers); err != nil || file.Close() != nil {
		t.Fatal(err)
	}
	lookup := func(name string) string {
		return map[string]string{
			"PAYMENT_WEBHOOK_SECRET": "s", "CODEHOST_WEBHOOK_SECRET": "s", "GOOD": "s", "WRONG": "hunter2 is no base64!", "RIGHT": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		}[name]
	}
	var log bytes.Buffer
	a, err := app.New(t.Context(), app.Options{
		Config: configured(t, "WAYPOST_CONFIG="+path), Areas: db.Undivided(dbtest.New(t)),
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})), LookupSecret: lookup,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	checked, err := app.CheckConfig(configured(t, "WAYPOST_CONFIG="+path), app.Extensions{}, lookup)
	if err != nil {
		t.Fatal(err)
	}
	var states strings.Builder
	for _, p := range checked {
		fmt.Fprintf(&states, "%s %s\n", p.Name, p.State())
	}
	var found strings.Builder
	for _, f := range app.Diagnose(t.Context(), configured(t, "WAYPOST_CONFIG="+path, "DATABASE_URL="+dbtest.NewURL(t).App), app.DoctorOptions{LookupSecret: lookup, Now: time.Now}) {
		fmt.Fprintf(&found, "%+v\n", f)
	}
	for text, wants := range map[string][]string{
		log.String(): {
			`msg="a webhook target's variable needs a value" provider=good target=unset variable=UNSET reason="it is not set, so every forward to the target unset fails"`,
			`provider=payment target=b variable=WRONG reason="it holds no key in base64, so every forward to the target b fails"`,
		},
		states.String(): {"good UNSET: it is not set, so every forward to the target unset fails", "payment WRONG: it holds no key", "codehost ready"},
		found.String():  {"the target unset of good and UNSET: it is not set", "the target b of payment and WRONG: it holds no key"},
	} {
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in\n%s", want, text)
			}
		}
		if strings.Contains(text, "hunter2") || strings.Contains(text, "target right") {
			t.Errorf("a secret, or a target that has one:\n%s", text)
		}
	}
}
