package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waypost/waypost/internal/config"
)

func TestTheFileIsReadWholeAndItsSectionsAreKnown(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{ // want: within the error, "" for none
		"":                                   "",
		"# nothing yet\n":                    "",
		"webhooks:\n  providers: []\n":       "",
		"webhook:\n  providers: []\n":        `:2: unknown section "webhook"`,
		"webhooks: {}\nsecret: hunter2":      `unknown section "secret"`,
		"- a\n":                              "not a YAML mapping",
		"webhooks: [":                        "not a YAML mapping",
		"webhooks: {}\n---\nwebhooks: {}\n":  "more than one document",
		"#" + strings.Repeat("x", 1<<20):     "larger than",
		"hunter2":                            "not a YAML mapping",
		"webhooks: &a {}\nwebhooks: {b: *a}": "not a YAML mapping",
	} {
		path := filepath.Join(t.TempDir(), "waypost.yaml")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := config.ReadFile(path)
		switch {
		case want == "" && (err != nil || string(f.Data) != content || f.Path != path):
			t.Errorf("%q: %+v, %v", content, f, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%.40q: %v, want one that says %q", content, err, want)
		}
	}
	if f, err := config.ReadFile(""); err != nil || f.Data != nil {
		t.Errorf("no file: %+v, %v", f, err)
	}
	if _, err := config.ReadFile(filepath.Join(t.TempDir(), "absent.yaml")); err == nil || !strings.Contains(err.Error(), "WAYPOST_CONFIG") {
		t.Errorf("an absent file: %v", err)
	}
}
