//go:build external

package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db/dbtest"
)

// TestSignedDeliveriesSurviveBrunosImport: Bruno translates the scripts of a Postman
// collection into its own, and signs with them.
func TestSignedDeliveriesSurviveBrunosImport(t *testing.T) {
	t.Parallel()
	tools := npmInstalled(t, filepath.Join("..", "tools", "npm", "bruno"), "convert.cjs")
	dir := dbtest.TempDir(t)
	p := startDev(t, dir, "WAYPOST_CONFIG="+moreProviders(t))
	collection := download(t, p.url+"/docs/export/collection", "collection.json")
	converted := filepath.Join(t.TempDir(), "bruno")

	var report struct {
		Requests             int
		Untranslated, Signed []string
	}
	if err := json.Unmarshal(run(t, tools, "node", "convert.cjs", collection, converted), &report); err != nil {
		t.Fatal(err)
	}
	if want := countRequests(t, collection); report.Requests != want || len(report.Untranslated) > 0 {
		t.Errorf("%d requests of %d, in Postman's language still: %q", report.Requests, want, report.Untranslated)
	}
	if len(report.Signed) != 4 {
		t.Fatalf("the two built-in providers and the two of the operator's are signed by scripts: %q", report.Signed)
	}

	results := filepath.Join(t.TempDir(), "results.json")
	bru := filepath.Join(tools, "node_modules", "@usebruno", "cli", "bin", "bru.js")
	args := append([]string{bru, "run"}, report.Signed...)
	args = append(args, "--noproxy", "--reporter-json", results)
	for _, v := range exportVariables(devValues(t, dir)) {
		args = append(args, "--env-var", v)
	}
	run(t, converted, "node", args...)
	raw, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	var runs []struct {
		Results []struct {
			Name     string
			Response struct {
				Status int
				Data   struct{ Status string }
			}
		}
	}
	if err := json.Unmarshal(raw, &runs); err != nil || len(runs) != 1 {
		t.Fatalf("%v\n%s", err, raw)
	}
	taken := 0
	for _, r := range runs[0].Results {
		if diff := cmp.Diff([]any{200, "processed"}, []any{r.Response.Status, r.Response.Data.Status}); diff != "" {
			t.Errorf("%s:\n%s", r.Name, diff)
			continue
		}
		taken++
	}
	if taken != len(report.Signed) {
		t.Errorf("%d signed deliveries of %d were taken", taken, len(report.Signed))
	}
}
