//go:build external

package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db/dbtest"
)

// descriptionTools is a directory with the npm packages that read descriptions.
func descriptionTools(t *testing.T) string {
	t.Helper()
	return npmInstalled(t, filepath.Join("..", "tools", "npm", "description"), "parse.mjs", "redocly.yaml", "spectral.yaml", "use.ts")
}

// writeDescription saves a form of the description as waypost openapi prints it.
func writeDescription(t *testing.T, format string) string {
	t.Helper()
	code, out, errOut := command(t, nil, "", "openapi", "--format", format)
	if code != 0 {
		t.Fatalf("waypost openapi --format %s: exit %d, %s", format, code, errOut)
	}
	return save(t, "openapi-"+format+".json", []byte(out))
}

func save(t *testing.T, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(dbtest.TempDir(t), name)
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// breakDescription has a fault that every reader must see: a reference to a
// schema that there is not.
func breakDescription(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	broken := bytes.Replace(raw, []byte(`"#/components/schemas/CreatePost"`), []byte(`"#/components/schemas/Nowhere"`), 1)
	if bytes.Equal(raw, broken) {
		t.Fatal("nothing refers to CreatePost")
	}
	return save(t, "broken.json", broken)
}

// finding is what a linter has against the description: an error or a warning.
type finding struct{ rule, text string }

// linter reads a description with its recommended rules.
type linter struct {
	lint func(t *testing.T, file string) []finding
	// accepted are the rules that are not followed, with the reason.
	accepted map[string]string
}

const (
	unused      = "every model has its three schemas, also the one that no operation takes yet"
	ambiguous   = "the two paths take different methods"
	noLicence   = "the licence is the operator's to choose"
	redirecting = "starting a sign-in elsewhere redirects and has no other success"
	undescribed = "the name and the properties' descriptions say it"
)

func TestLintersFindNothingWrongInTheDescription(t *testing.T) {
	t.Parallel()
	npm := descriptionTools(t)
	linters := map[string]linter{
		"Redocly": {redocly(npm), map[string]string{
			"info-license": noLicence, "no-ambiguous-paths": ambiguous, "operation-2xx-response": redirecting, "no-unused-components": unused,
		}},
		"Spectral": {spectral(npm), map[string]string{"oas3-unused-component": unused}},
		"vacuum": {vacuum(t), map[string]string{
			"no-ambiguous-paths": ambiguous, "oas3-unused-component": unused,
			"component-description": undescribed, "operation-description": undescribed, "oas3-missing-example": "the whole answer has one",
		}},
	}
	for name, l := range linters {
		for _, format := range []string{"json", "json-3.0"} {
			t.Run(name+"/"+format, func(t *testing.T) {
				t.Parallel()
				file := writeDescription(t, format)
				for _, f := range l.lint(t, file) {
					if l.accepted[f.rule] == "" {
						t.Errorf("%s: %s", f.rule, f.text)
					}
				}
				faults := l.lint(t, breakDescription(t, file))
				if !slices.ContainsFunc(faults, func(f finding) bool { return l.accepted[f.rule] == "" }) {
					t.Error("a reference to nowhere was not seen")
				}
			})
		}
	}
}

// report decodes what a program prints on standard output, whatever its status:
// linters end with one that tells of findings.
func report(t *testing.T, v any, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, v); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", name, err, tail(string(out), 4000), tail(stderr.String(), 4000))
	}
}

func redocly(npm string) func(t *testing.T, file string) []finding {
	return func(t *testing.T, file string) []finding {
		t.Helper()
		var r struct {
			Problems []struct{ RuleID, Message string }
		}
		report(t, &r, npm, "node", filepath.Join("node_modules", "@redocly", "cli", "bin", "cli.js"),
			"lint", "--config", "redocly.yaml", "--format", "json", file)
		var found []finding
		for _, p := range r.Problems {
			found = append(found, finding{p.RuleID, p.Message})
		}
		return found
	}
}

func spectral(npm string) func(t *testing.T, file string) []finding {
	return func(t *testing.T, file string) []finding {
		t.Helper()
		var r []struct {
			Code, Message string
			Path          []any
		}
		report(t, &r, npm, "node", filepath.Join("node_modules", "@stoplight", "spectral-cli", "dist", "index.js"),
			"lint", "--ruleset", "spectral.yaml", "--format", "json", "--quiet", file)
		var found []finding
		for _, p := range r {
			found = append(found, finding{p.Code, p.Message})
		}
		return found
	}
}

// vacuum is built from its module of its own, which takes minutes the first time.
func vacuum(t *testing.T) func(t *testing.T, file string) []finding {
	t.Helper()
	program := filepath.Join(dbtest.TempDir(t), "vacuum")
	run(t, filepath.Join("..", "tools", "vacuum"), "go", "build", "-o", program, "github.com/daveshanley/vacuum")
	return func(t *testing.T, file string) []finding {
		t.Helper()
		var r struct {
			ResultSet struct {
				Results []struct{ RuleID, RuleSeverity, Message, Path string }
			}
		}
		// A rule that takes longer than its time is left out: let none.
		report(t, &r, dbtest.TempDir(t), program, "report", "--stdout", "--no-pretty", "--no-style", "--timeout", "300", file)
		if len(r.ResultSet.Results) == 0 {
			t.Fatal("vacuum ran no rule: it used to remark on repeated descriptions")
		}
		var found []finding
		for _, p := range r.ResultSet.Results {
			// It doesn't know the nullable of 3.0; Redocly does, and reads the same examples.
			nullable := p.RuleID == "oas3-valid-schema-example" && strings.Contains(p.Message, "got null, want")
			if p.RuleSeverity != "info" && !nullable {
				found = append(found, finding{p.RuleID, p.Path + ": " + p.Message})
			}
		}
		return found
	}
}

// newerNode is the Node.js that the packages bring for swagger-parser, which
// needs 22.19, or the system's where they bring none.
func newerNode(npm string) string {
	if found, err := filepath.Glob(filepath.Join(npm, "node_modules", "node-*", "bin", "node")); err == nil && len(found) > 0 {
		return found[0]
	}
	return "node"
}

func TestSwaggerParserReadsBothVersionsOfTheDescription(t *testing.T) {
	t.Parallel()
	npm := descriptionTools(t)
	newer, older := writeDescription(t, "json"), writeDescription(t, "json-3.0")
	var operations []int
	report(t, &operations, npm, newerNode(npm), "parse.mjs", newer, older)
	want := countOperations(t, newer)
	if diff := cmp.Diff([]int{want, want}, operations); diff != "" {
		t.Errorf("operations: %s", diff)
	}
	for _, file := range []string{newer, older} {
		cmd := exec.CommandContext(t.Context(), newerNode(npm), "parse.mjs", breakDescription(t, file))
		cmd.Dir = npm
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "Nowhere") {
			t.Errorf("a reference to nowhere was not seen: %v %s", err, out)
		}
	}
}

func countOperations(t *testing.T, file string) int {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, item := range doc.Paths {
		n += len(item)
	}
	return n
}
