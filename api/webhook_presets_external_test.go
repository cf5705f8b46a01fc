//go:build external

package api_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	npm "github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/webhook"
	"github.com/waypost/waypost/internal/webhook/signature"
)

// providerKey is a secret that every provider's library takes.
const providerKey = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// libraryTask is something that a provider's own library does, in tools/npm/webhooks.
type libraryTask struct {
	Preset  string            `json:"preset"`
	Act     string            `json:"act"` // "sign", "verify"
	Secret  string            `json:"secret"`
	Body    string            `json:"body"`
	Headers map[string]string `json:"headers"`
}

type libraryAnswer struct {
	Headers map[string]string
	OK      bool
	Cannot  bool // the library only verifies
	Error   string
}

// libraries does tasks with the providers' own libraries.
func libraries(t *testing.T, tasks []libraryTask) []libraryAnswer {
	t.Helper()
	dir := npm.Installed(t, filepath.Join("..", "tools", "npm", "webhooks"), "deliveries.mjs")
	text, err := json.Marshal(tasks)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tasks.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var answers []libraryAnswer
	if err := json.Unmarshal(npm.Run(t, dir, "node", "deliveries.mjs", file), &answers); err != nil || len(answers) != len(tasks) {
		t.Fatalf("%d answers to %d tasks, %v", len(answers), len(tasks), err)
	}
	return answers
}

// signs says which libraries make signatures; the others only verify. GitLab has no
// library: it sends a token.
var signs = map[string]bool{"stripe": true, "github": true, "standard-webhooks": true, "svix": true}

// libraryBody is text that a careless reader would change: it is signed as it stands.
const libraryBody = "{ \"id\":\"evt_1\",  \"type\":\"a.b\", \"text\":\"\\u00fc ü \\/ 1E2\",\n\"n\":1.50 }"

func TestWhatAProvidersOwnLibrarySignsIsTakenAndNothingElse(t *testing.T) {
	t.Parallel()
	h := newHooks(t, withAllPresets(t))
	var tasks []libraryTask
	for preset := range signs {
		tasks = append(tasks, libraryTask{Preset: preset, Act: "sign", Secret: providerKey, Body: libraryBody})
	}
	for i, signed := range libraries(t, tasks) {
		preset := tasks[i].Preset
		if len(signed.Headers) == 0 {
			t.Errorf("%s: its library doesn't sign: %+v", preset, signed)
			continue
		}
		post := func(body string) int {
			r := h.request(t, http.MethodPost, "/webhooks/"+preset, []byte(body))
			for name, value := range signed.Headers {
				r.Header.Set(name, value)
			}
			status, _, _ := send(t, r)
			return status
		}
		if status := post(strings.Replace(libraryBody, "1.50", "1.51", 1)); status != http.StatusUnauthorized {
			t.Errorf("%s: one byte changed: %d", preset, status)
		}
		if status := post(libraryBody); status != http.StatusOK {
			t.Errorf("%s: %d, %v", preset, status, signed.Headers)
		}
	}
}

func TestWhatIsSignedLikeAProviderItsOwnLibraryTakesToo(t *testing.T) {
	t.Parallel()
	h := newHooks(t, withAllPresets(t))
	var tasks []libraryTask
	for _, preset := range webhook.Presets() {
		if preset == "gitlab" {
			continue
		}
		at := time.Now()
		if preset == "paddle" {
			at = at.Add(time.Minute) // its library takes 5 seconds of age, less than a busy machine needs, and any future
		}
		body, header, err := h.registry.Compose(preset, webhook.TestDelivery{
			EventType: "a.b", ExternalID: "evt_1", Data: []byte(strings.Replace(libraryBody, `"type":"a.b", `, "", 1)), Secret: providerKey, Now: at,
		})
		if err != nil {
			t.Fatalf("%s: %v", preset, err)
		}
		task := libraryTask{Preset: preset, Act: "verify", Secret: providerKey, Body: string(body), Headers: map[string]string{}}
		for name := range header {
			task.Headers[strings.ToLower(name)] = header.Get(name)
		}
		changed := task
		changed.Body = strings.Replace(task.Body, "1.50", "1.51", 1)
		another := task
		another.Secret = "whsec_" + strings.Repeat("QUJD", 8)
		tasks = append(tasks, task, changed, another)
		// Waypost itself, beside the library.
		r := h.request(t, http.MethodPost, "/webhooks/"+preset, body)
		r.Header = header
		if status, _, got := send(t, r); status != http.StatusOK || got["event_type"] != "a.b" {
			t.Errorf("%s: %d %v", preset, status, got)
		}
	}
	for i, got := range libraries(t, tasks) {
		if want := i%3 == 0; got.OK != want || got.Cannot {
			t.Errorf("%s, %s: %+v", tasks[i].Preset, []string{"as signed", "one byte changed", "another secret"}[i%3], got)
		}
	}
}

func TestTheOfficialStandardWebhooksLibraryVerifiesAForwardWithEitherSecretOfARotation(t *testing.T) {
	t.Parallel()
	fresh, old := "whsec_"+strings.Repeat("QUJD", 8), providerKey
	header := http.Header{"Webhook-Id": {"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10_r1"}}
	signature.Standard{}.SignAll(header, []byte(libraryBody), time.Now(), []byte(fresh), []byte(old))
	var tasks []libraryTask
	for _, secret := range []string{fresh, old, "whsec_" + strings.Repeat("REVG", 8)} {
		task := libraryTask{Preset: "standard-webhooks", Act: "verify", Secret: secret, Body: libraryBody, Headers: map[string]string{}}
		for name := range header {
			task.Headers[strings.ToLower(name)] = header.Get(name)
		}
		tasks = append(tasks, task)
	}
	for i, got := range libraries(t, tasks) {
		if want := i < 2; got.OK != want {
			t.Errorf("with %s: %+v", []string{"the new secret", "the old one", "a third"}[i], got)
		}
	}
}

func withAllPresets(t *testing.T) func(*webhook.Options) {
	t.Helper()
	var lines []string
	for _, preset := range webhook.Presets() {
		lines = append(lines, "{name: "+preset+", secret_env: KEY, preset: "+preset+"}")
	}
	change := withProviders(t, lines...)
	return func(o *webhook.Options) {
		change(o)
		o.LookupSecret = func(name string) string { return map[string]string{"KEY": providerKey}[name] }
	}
}
