//go:build external

package e2e_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

// download saves what the service answers.
func download(t *testing.T, url, file string) string {
	t.Helper()
	a := outside.Do(t, "GET", url, "")
	if a.Status != 200 {
		t.Fatalf("GET %s: %d", url, a.Status)
	}
	path := filepath.Join(dbtest.TempDir(t), file)
	if err := os.WriteFile(path, a.Body, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// moreProviders is a configuration with providers of an operator's, which are described and
// signed like the built-in ones.
func moreProviders(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "waypost.yaml")
	err := os.WriteFile(file, []byte(`webhooks:
  providers:
    - {name: modern, secret_env: MODERN_SECRET, verifier: {type: standard-webhooks}, extractor: {type: standard-webhooks}}
    - {name: my-shop, secret_env: SHOP_SECRET, verifier: {type: hmac, header: X-Shop}, extractor: {type: json, type_field: kind, id_field: meta.uid}}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestExternalToolsReadTheExportsAndRunThem(t *testing.T) {
	t.Parallel()
	tools, dir := npmTools(t), dbtest.TempDir(t)
	p := startDev(t, dir, "WAYPOST_CONFIG="+moreProviders(t))
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
			r := newman(t, tools, collection, variables)
			if r.Stats.Requests.Total != requests || r.Stats.Requests.Failed > 0 ||
				r.Stats.Assertions.Total < requests || r.Stats.Assertions.Failed > 0 || r.Stats.Scripts.Failed > 0 {
				t.Errorf("%d requests in the collection, newman: %+v", requests, r.Stats)
			}
			if diff := cmp.Diff(needSomebodyElse, r.refused()); diff != "" {
				t.Errorf("refused:\n%s", diff)
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
func newman(t *testing.T, tools, collection string, variables []string) newmanRun {
	t.Helper()
	report := filepath.Join(dbtest.TempDir(t), "report.json")
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
	var r struct{ Run newmanRun }
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r.Run
}

// exportVariables fills the exports' variables with what dev made up.
func exportVariables(dev map[string]string) []string {
	return []string{
		"adminEmail=" + dev["WAYPOST_ADMIN_EMAIL"], "adminPassword=" + dev["WAYPOST_ADMIN_PASSWORD"],
		"siteKey=" + dev["ANALYTICS_SITE_KEY"], "siteApiKey=" + dev["ANALYTICS_API_KEY"],
		"paymentSecret=" + dev["PAYMENT_WEBHOOK_SECRET"], "codehostSecret=" + dev["CODEHOST_WEBHOOK_SECRET"],
		"modernSecret=" + dev["MODERN_SECRET"], "my_shopSecret=" + dev["SHOP_SECRET"],
	}
}

// newmanRun is what newman reports of a run.
type newmanRun struct {
	Stats      struct{ Requests, Assertions, Scripts struct{ Total, Failed int } }
	Executions []struct {
		Item     struct{ Name string }
		Response struct{ Code int }
	}
}

// refused are the answers that were no success, by request.
func (r newmanRun) refused() map[string]int {
	out := map[string]int{}
	// 409 while a job runs, and once a replay has finished: either may be so.
	inTime := []string{"Cancel a bulk replay", "Delete a job"}
	for _, e := range r.Executions {
		if e.Response.Code >= 400 && !(e.Response.Code == http.StatusConflict && slices.Contains(inTime, e.Item.Name)) {
			out[e.Item.Name] = e.Response.Code
		}
	}
	return out
}

// needSomebodyElse are the requests that nobody succeeds with alone: they take the
// code of a mail or an address that such a code verified, an outside provider, of which dev has none, an image, a target
// of webhooks, of which dev has none either, or a file that is sent to a signed address.
var needSomebodyElse = map[string]int{
	"Verify an e-mail address":            400,
	"Reset a password":                    400,
	"Confirm an e-mail change":            400,
	"Undo an e-mail change":               400,
	"Set up two-factor authentication":    403, // the address is not verified
	"Enable two-factor authentication":    409,
	"Sign in with a second factor":        422,
	"Replace the recovery codes":          422,
	"Disable two-factor authentication":   422,
	"Exchange a one-time code for tokens": 400,
	"Link an identity":                    400,
	"Sign in with a provider":             404,
	"Finish a sign-in with a provider":    404,
	"Unlink an identity":                  404,
	"Download an image's thumbnail":       404,
	"Pause a webhook target":              404,
	"Resume a webhook target":             404,
	"Complete a presigned upload":         422,
}

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
