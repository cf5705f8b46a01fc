//go:build external

package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

func TestGeneratedTypeScriptCompilesInStrictMode(t *testing.T) {
	t.Parallel()
	npm := descriptionTools(t)
	for _, format := range []string{"json", "json-3.0"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			dir := dbtest.TempDir(t)
			types := filepath.Join(dir, "waypost.d.ts")
			run(t, npm, "node", filepath.Join("node_modules", "openapi-typescript", "bin", "cli.js"), writeDescription(t, format), "--output", types)
			use, err := os.ReadFile(filepath.Join(npm, "use.ts"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "use.ts"), use, 0o644); err != nil {
				t.Fatal(err)
			}
			// Not in the packages' directory, whose own types it would read too.
			run(t, dir, "node", filepath.Join(npm, "node_modules", "typescript", "bin", "tsc"),
				"--strict", "--noEmit", "--target", "es2022", types, filepath.Join(dir, "use.ts"))
		})
	}
}

// generatedClient builds tools/client with what oapi-codegen makes of a description.
func generatedClient(t *testing.T, description string) string {
	t.Helper()
	dir, source := dbtest.TempDir(t), filepath.Join("..", "tools", "client")
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		content, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "waypost"), 0o755); err != nil {
		t.Fatal(err)
	}
	// Pruning, it forgets that the section webhooks has schemas too.
	run(t, dir, "go", "tool", "oapi-codegen", "-generate", "types,client,skip-prune", "-package", "waypost",
		"-o", filepath.Join("waypost", "waypost.gen.go"), description)
	run(t, dir, "go", "vet", "./...")
	run(t, dir, "go", "build", "-o", "client", ".")
	return filepath.Join(dir, "client")
}

func TestAGeneratedGoClientSignsInWritesAPostAndReadsStatistics(t *testing.T) {
	t.Parallel()
	data := dbtest.TempDir(t)
	p := startDev(t, data)
	dev := devValues(t, data)
	var summary struct{ Pageviews, Sessions int64 }
	day := func(ago int) string { return time.Now().UTC().AddDate(0, 0, -ago).Format(time.DateOnly) } // as the client has it
	outside.Do(t, "GET", p.url+"/api/stats/summary?from="+day(9)+"&to="+day(2), "", "X-Analytics-API-Key", dev["ANALYTICS_API_KEY"]).Into(t, &summary)
	if summary.Pageviews == 0 || summary.Sessions == 0 {
		t.Fatalf("dev has no traffic: %+v", summary)
	}
	for name, path := range map[string]string{"of 3.1": "/docs/openapi.json", "of 3.0.3": "/docs/openapi-3.0.json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			description := save(t, "openapi.json", outside.Do(t, "GET", p.url+path, "").Body)
			client := generatedClient(t, description)
			out := run(t, dbtest.TempDir(t), client, p.url, dev["WAYPOST_ADMIN_EMAIL"], dev["WAYPOST_ADMIN_PASSWORD"], dev["ANALYTICS_API_KEY"])
			var saw map[string]any
			if err := json.Unmarshal(out, &saw); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			want := map[string]any{
				"user": strings.ToLower(dev["WAYPOST_ADMIN_EMAIL"]), "post": "Written by a generated client", "listed": true,
				"pageviews": float64(summary.Pageviews), "sessions": float64(summary.Sessions), "refused": "invalid_credentials",
			}
			if diff := cmp.Diff(want, saw); diff != "" {
				t.Error(diff)
			}
		})
	}
}
