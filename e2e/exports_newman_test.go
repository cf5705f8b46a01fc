//go:build newman

package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// download saves what the service answers.
func download(t *testing.T, url, file string) string {
	t.Helper()
	a := do(t, "GET", url, "")
	if a.status != 200 {
		t.Fatalf("GET %s: %d", url, a.status)
	}
	path := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(path, a.body, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExternalToolsReadTheExportsAndRunThem(t *testing.T) {
	t.Parallel()
	tools, dir := npmTools(t), t.TempDir()
	p := startDev(t, dir)
	openapi := download(t, p.url+"/docs/openapi.json", "openapi.json")
	collection := download(t, p.url+"/docs/export/collection", "collection.json")
	workspace := download(t, p.url+"/docs/export/workspace", "workspace.json")
	requests := countRequests(t, collection)

	t.Run("they find every operation", func(t *testing.T) {
		type found struct {
			Reader   string
			Requests int
		}
		var report struct {
			Ours, Theirs          []string
			Collection, Workspace found
		}
		if err := json.Unmarshal(run(t, tools, "node", "exports.cjs", openapi, collection, workspace), &report); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(report.Theirs, report.Ours); diff != "" || len(report.Ours) == 0 {
			t.Errorf("the collection against openapi-to-postmanv2's:\n%s", diff)
		}
		want := []found{{"postman", requests}, {"insomnia-4", requests}}
		if diff := cmp.Diff(want, []found{report.Collection, report.Workspace}); diff != "" {
			t.Errorf("Insomnia's importers:\n%s", diff)
		}
	})

	variables := exportVariables(devValues(t, dir))
	// What the first run leaves behind must not trouble the second.
	for _, name := range []string{"newman runs the collection as it is downloaded", "and once more"} {
		t.Run(name, func(t *testing.T) {
			stats := newman(t, tools, collection, variables)
			if stats.Requests.Total != requests || stats.Requests.Failed > 0 ||
				stats.Assertions.Total < requests || stats.Assertions.Failed > 0 || stats.Scripts.Failed > 0 {
				t.Errorf("%d requests in the collection, newman: %+v", requests, stats)
			}
		})
	}

	t.Run("Insomnia's requests and scripts pass too", func(t *testing.T) {
		var report struct {
			Requests, Tests int
			Failures        []string
		}
		if err := json.Unmarshal(run(t, tools, "node", append([]string{"insomnia.cjs", workspace}, variables...)...), &report); err != nil {
			t.Fatal(err)
		}
		if report.Requests != requests || report.Tests < requests || len(report.Failures) > 0 {
			t.Errorf("%d requests in the workspace, %+v", requests, report)
		}
	})
}

// newman runs a collection, and fails the test when a check in it fails.
func newman(t *testing.T, tools, collection string, variables []string) newmanStats {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.json")
	args := []string{filepath.Join("node_modules", "newman", "bin", "newman.js"), "run", collection,
		"--color", "off", "--reporters", "cli,json", "--reporter-json-export", report}
	for _, v := range variables {
		args = append(args, "--env-var", v)
	}
	run(t, tools, "node", args...)
	raw, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var r struct{ Run struct{ Stats newmanStats } }
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r.Run.Stats
}

// exportVariables fills the exports' variables with what dev made up.
func exportVariables(dev map[string]string) []string {
	return []string{
		"adminEmail=" + dev["WAYPOST_ADMIN_EMAIL"], "adminPassword=" + dev["WAYPOST_ADMIN_PASSWORD"],
		"siteKey=" + dev["ANALYTICS_SITE_KEY"], "siteApiKey=" + dev["ANALYTICS_API_KEY"],
		"paymentSecret=" + dev["PAYMENT_WEBHOOK_SECRET"], "codehostSecret=" + dev["CODEHOST_WEBHOOK_SECRET"],
	}
}

type newmanStats struct{ Requests, Assertions, Scripts struct{ Total, Failed int } }

func countRequests(t *testing.T, collection string) int {
	t.Helper()
	raw, err := os.ReadFile(collection)
	if err != nil {
		t.Fatal(err)
	}
	type item struct {
		Item    []json.RawMessage
		Request *json.RawMessage
	}
	var count func(raw json.RawMessage) int
	count = func(raw json.RawMessage) int {
		var i item
		if err := json.Unmarshal(raw, &i); err != nil {
			t.Fatal(err)
		}
		if i.Request != nil {
			return 1
		}
		n := 0
		for _, child := range i.Item {
			n += count(child)
		}
		return n
	}
	return count(raw)
}
