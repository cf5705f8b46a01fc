package openapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/oasdiff/oasdiff/checker"
	"github.com/oasdiff/oasdiff/diff"
	"github.com/oasdiff/oasdiff/load"
)

const (
	committed = "../../api/openapi.json"
	// released has a description per version, VERSION.json.gz, which
	// tools/release-description writes.
	released = "../../api/released"
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
	name, base, err := newest(os.DirFS(released))
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range unannounced(t, base, read(t, committed)) {
		t.Errorf("breaks clients of %s without a new major version (api.Version): %s", name, change)
	}
}

// newest returns the released description of the highest version, and its file's
// name. It fails for a file that is no description of the version it is named for.
func newest(dir fs.FS) (string, []byte, error) {
	names, err := fs.Glob(dir, "*")
	if err != nil {
		return "", nil, err
	}
	if len(names) == 0 {
		return "", nil, errors.New("no description is released")
	}
	var last string
	var highest version
	for _, name := range names {
		text, compressed := strings.CutSuffix(name, ".json.gz")
		v, err := parseVersion(text)
		if err != nil || !compressed {
			return "", nil, fmt.Errorf("%s is not named VERSION.json.gz", name)
		}
		if last == "" || slices.Compare(v[:], highest[:]) > 0 {
			last, highest = name, v
		}
	}
	f, err := dir.Open(last)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", last, err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", last, err)
	}
	var doc struct{ Info struct{ Version string } }
	if err := json.Unmarshal(b, &doc); err != nil {
		return "", nil, fmt.Errorf("%s: %w", last, err)
	}
	if doc.Info.Version+".json.gz" != last {
		return "", nil, fmt.Errorf("%s describes version %s", last, doc.Info.Version)
	}
	return last, b, nil
}

// version is a semantic version without a pre-release.
type version [3]int

func parseVersion(text string) (version, error) {
	var v version
	parts := strings.Split(text, ".")
	if len(parts) != len(v) {
		return v, fmt.Errorf("version %q has not three numbers", text)
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return v, fmt.Errorf("version %q has not three numbers", text)
		}
		v[i] = n
	}
	return v, nil
}

func TestTheGateComparesWithTheNewestReleasedVersion(t *testing.T) {
	t.Parallel()
	file := func(version string) *fstest.MapFile {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		fmt.Fprintf(z, `{"info":{"version":%q}}`, version)
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return &fstest.MapFile{Data: b.Bytes()}
	}
	for want, dir := range map[string]fstest.MapFS{
		"1.10.0.json.gz": {"1.9.3.json.gz": file("1.9.3"), "1.10.0.json.gz": file("1.10.0"), "1.2.11.json.gz": file("1.2.11")},
		"2.0.0.json.gz":  {"2.0.0.json.gz": file("2.0.0"), "1.10.0.json.gz": file("1.10.0")},
		"1.0.10.json.gz": {"1.0.9.json.gz": file("1.0.9"), "1.0.10.json.gz": file("1.0.10")},
		"0.1.0.json.gz":  {"0.1.0.json.gz": file("0.1.0")},
	} {
		if name, b, err := newest(dir); name != want || len(b) == 0 || err != nil {
			t.Errorf("%s instead of %s: %v", name, want, err)
		}
	}
	for what, dir := range map[string]fstest.MapFS{
		"none":            {},
		"no version":      {"1.0.0.json.gz": file("1.0.0"), "latest.json.gz": file("1.0.0")},
		"two numbers":     {"1.0.json.gz": file("1.0")},
		"not compressed":  {"1.0.0.json": file("1.0.0")},
		"another version": {"1.1.0.json.gz": file("1.0.0")},
		"cut off":         {"1.0.0.json.gz": {Data: file("1.0.0").Data[:20]}},
	} {
		if name, _, err := newest(dir); err == nil {
			t.Errorf("%s: %s is taken", what, name)
		}
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
	if versionOf(t, revision)[0] > versionOf(t, base)[0] {
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

func versionOf(t *testing.T, s *load.SpecInfo) version {
	t.Helper()
	v, err := parseVersion(s.Version)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
