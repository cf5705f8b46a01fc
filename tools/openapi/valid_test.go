// Package openapi_test holds the API's description against other people's
// readers of OpenAPI. It is a module of its own, because they are many packages
// that nothing else here needs.
package openapi_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// binary is waypost, built once for the package.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "waypost-openapi")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "waypost")
		build := exec.Command("go", "build", "-o", binary, "./cmd/waypost")
		build.Dir = filepath.Join("..", "..")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "build:", err)
			return 1
		}
		return m.Run()
	}())
}

// described is what waypost openapi prints.
func described(t *testing.T, format string) []byte {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary, "openapi", "--format", format).Output()
	if err != nil {
		t.Fatalf("waypost openapi --format %s: %v", format, err)
	}
	return out
}

func TestBothVersionsOfTheDescriptionAreValid(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json", "yaml", "json-3.0"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			raw := described(t, format)
			if err := kin(t, raw); err != nil {
				t.Errorf("kin-openapi: %v", err)
			}
			for _, problem := range pb33f(t, raw) {
				t.Errorf("libopenapi-validator: %s", problem)
			}
		})
	}
}

// TestTheReadersRefuseAnInvalidDescription keeps the test above from passing for
// a reason of its own.
func TestTheReadersRefuseAnInvalidDescription(t *testing.T) {
	t.Parallel()
	broken := bytes.Replace(described(t, "json-3.0"), []byte(`"in": "path"`), []byte(`"in": "nowhere"`), 1)
	if kin(t, broken) == nil {
		t.Error("kin-openapi accepts a parameter in nowhere")
	}
	if len(pb33f(t, broken)) == 0 {
		t.Error("libopenapi-validator accepts a parameter in nowhere")
	}
}

func kin(t *testing.T, raw []byte) error {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(raw)
	if err != nil {
		return err
	}
	return doc.Validate(t.Context())
}

var codePoint = regexp.MustCompile(`\\u([0-9A-Fa-f]{4})`)

// compilePattern compiles a pattern in ECMA-262's syntax, which is that of JSON
// Schema; unlike kin-openapi, libopenapi-validator takes Go's unless told.
func compilePattern(pattern string) (jsonschema.Regexp, error) {
	return regexp.Compile(codePoint.ReplaceAllString(pattern, `\x{$1}`))
}

func pb33f(t *testing.T, raw []byte) []string {
	t.Helper()
	doc, err := libopenapi.NewDocument(raw)
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(doc, config.WithRegexEngine(compilePattern))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var problems []string
	_, found := v.ValidateDocument()
	for _, f := range found {
		problems = append(problems, f.Error())
		for _, s := range f.SchemaValidationErrors {
			problems = append(problems, s.Error())
		}
	}
	return problems
}
