package openapi_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/oasdiff/oasdiff/checker"
	"github.com/oasdiff/oasdiff/diff"
	"github.com/oasdiff/oasdiff/load"
)

const (
	committed = "../../api/openapi.json"
	// released is the description of the last release. Releasing copies committed
	// over it, together with the new version.
	released = "../../api/openapi.released.json"
)

func read(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestABreakingChangeNeedsANewMajorVersion(t *testing.T) {
	t.Parallel()
	for _, change := range unannounced(t, read(t, released), read(t, committed)) {
		t.Errorf("breaks clients of the released API without a new major version (api.Version): %s", change)
	}
}

// TestTheGateSeesABreakingChange keeps the test above from passing for a reason of its own.
func TestTheGateSeesABreakingChange(t *testing.T) {
	t.Parallel()
	base := read(t, committed)
	for name, change := range map[string]func(doc map[string]any){
		"an operation is gone": func(doc map[string]any) { delete(doc["paths"].(map[string]any), "/api/posts") },
		"a parameter is required": func(doc map[string]any) {
			at(doc, "paths", "/api/posts", "get")["parameters"].([]any)[0].(map[string]any)["required"] = true
		},
		"a value is refused": func(doc map[string]any) {
			at(doc, "components", "schemas", "CreatePost", "properties", "title")["maxLength"] = 10
		},
		"a member may be missing": func(doc map[string]any) {
			delete(at(doc, "components", "schemas", "User", "properties"), "email")
			at(doc, "components", "schemas", "User")["required"] = []any{"id"}
		},
	} {
		var doc map[string]any
		if err := json.Unmarshal(base, &doc); err != nil {
			t.Fatal(err)
		}
		change(doc)
		if got := unannounced(t, base, encode(t, doc)); len(got) == 0 {
			t.Errorf("%s: not seen", name)
		}
		at(doc, "info")["version"] = "2.0.0"
		if got := unannounced(t, base, encode(t, doc)); len(got) > 0 {
			t.Errorf("%s: refused in a new major version: %s", name, got)
		}
	}
	if got := unannounced(t, base, base); len(got) > 0 {
		t.Errorf("no change breaks: %s", got)
	}
}

func at(v map[string]any, path ...string) map[string]any {
	for _, key := range path {
		v = v[key].(map[string]any)
	}
	return v
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// unannounced lists the changes from one description to a later one that break
// clients, none when the major version is higher (https://semver.org, point 8).
func unannounced(t *testing.T, from, to []byte) []string {
	t.Helper()
	base, revision := loaded(t, from), loaded(t, to)
	if major(t, revision) > major(t, base) {
		return nil
	}
	report, sources, err := diff.GetWithOperationsSourcesMap(diff.NewConfig(), base, revision)
	if err != nil {
		t.Fatal(err)
	}
	var breaking []string
	config := checker.NewConfig(checker.GetAllChecks())
	for _, c := range checker.CheckBackwardCompatibilityUntilLevel(config, report, sources, checker.ERR) {
		breaking = append(breaking, c.SingleLineError(checker.NewDefaultLocalizer(), checker.ColorNever))
	}
	return breaking
}

func loaded(t *testing.T, raw []byte) *load.SpecInfo {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &load.SpecInfo{Spec: doc, Version: doc.Info.Version, Url: "description"}
}

func major(t *testing.T, s *load.SpecInfo) int {
	t.Helper()
	first, _, _ := strings.Cut(s.Version, ".")
	n, err := strconv.Atoi(first)
	if err != nil {
		t.Fatalf("version %q is no semantic version", s.Version)
	}
	return n
}
