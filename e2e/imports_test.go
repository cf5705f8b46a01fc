package e2e_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/waypost/waypost/"

// allowed lists, for every package, which of our own packages it may import
// directly (test files apart), layer by layer: only downwards. A new package or
// a new edge is a decision, and is written here.
var allowed = map[string][]string{
	// Layer 0.
	"internal/fault":    {},
	"internal/identity": {},
	"internal/config":   {},
	"internal/seal":     {},
	"internal/textline": {},
	"db/dbsqlc":         {},
	// Assets from other people's packages, and what fetches them.
	"third_party/docsui":        {},
	"third_party/docsui/origin": {},
	"third_party/docsui/fetch":  {"third_party/docsui/origin"},
	// Layer 1.
	"db":                   {"internal/fault", "internal/identity"},
	"db/embedded":          {"db", "db/embedded/filelock", "db/embedded/process"},
	"db/embedded/filelock": {},
	"db/embedded/process":  {},
	"db/dbtest":            {"db", "db/dbtest/fastdir", "db/embedded", "db/embedded/filelock", "db/embedded/process"},
	"db/dbtest/fastdir":    {},
	"internal/groupcommit": {"internal/fault"},
	"internal/fairqueue":   {"internal/fault"},
	// Layer 2.
	"internal/queue":     {},
	"internal/telemetry": {},
	"internal/mail":      {"internal/textline"},
	"internal/throttle":  {"internal/fault", "internal/identity", "db", "db/dbsqlc"},
	"internal/token":     {"internal/fault", "internal/identity", "internal/seal", "db", "db/dbsqlc"},
	"internal/site":      {"internal/fault", "internal/identity", "internal/textline", "db", "db/dbsqlc"},
	// Layer 3.
	"internal/account":                 {"internal/fault", "internal/identity", "internal/textline", "db", "db/dbsqlc", "internal/fairqueue", "internal/queue", "internal/mail", "internal/throttle", "internal/token", "internal/seal", "internal/account/commonpassword", "internal/account/oauth"},
	"internal/account/commonpassword":  {},
	"internal/account/oauth":           {"internal/fault"},
	"internal/account/oauth/oauthtest": {"internal/account/oauth"},
	"internal/content":                 {"internal/fault", "internal/identity", "internal/textline", "db", "db/dbsqlc"},
	"internal/webhook":                 {"internal/fault", "internal/identity", "db", "db/dbsqlc", "internal/groupcommit", "internal/queue", "internal/webhook/signature"},
	"internal/webhook/signature":       {},
	"internal/stats":                   {"internal/fault", "internal/identity", "db", "db/dbsqlc", "internal/groupcommit", "internal/fairqueue", "internal/queue", "internal/site", "internal/stats/accesslog", "internal/stats/client"},
	"internal/stats/accesslog":         {},
	"internal/stats/client":            {},
	"internal/stats/country":           {},
	"internal/stats/country/mmdbtest":  {},
	"internal/apidoc":                  {"internal/apidoc/export", "internal/apidoc/model", "internal/apidoc/precompressed", "internal/apidoc/ui"},
	"internal/apidoc/export":           {},
	"internal/apidoc/model":            {"internal/textline"},
	"internal/apidoc/precompressed":    {},
	"internal/apidoc/ui":               {"internal/apidoc/precompressed", "third_party/docsui", "third_party/docsui/origin"},
	// Layer 4.
	"internal/httpedge": {"internal/fault", "internal/identity"},
	// Layer 5.
	"api": {
		"internal/fault", "internal/identity", "internal/httpedge", "internal/apidoc", "internal/apidoc/export", "internal/apidoc/model", "internal/apidoc/precompressed",
		"internal/fairqueue", "internal/groupcommit", "internal/account", "internal/account/oauth", "internal/content", "internal/site", "internal/stats", "internal/throttle", "internal/token", "internal/webhook",
	},
	"internal/pages": {"internal/fault", "internal/httpedge", "internal/account"},
	"internal/jobs":  {"internal/account", "internal/queue", "internal/stats", "internal/webhook"},
}

// outside says which packages may import a library that shapes its users.
var outside = map[string][]string{
	"github.com/danielgtaylor/huma/v2": {"api", "internal/apidoc", "internal/apidoc/model"},
	"github.com/go-chi/chi/v5":         {"api", "internal/httpedge", "internal/app"},
	"github.com/riverqueue/river":      {"db", "internal/queue", "internal/jobs", "internal/app"},
	"github.com/lestrrat-go/jwx/v2":    {"internal/token"},
}

// open are the packages of layers 6 to 8, which may import anything below.
var open = []string{"internal/demo", "internal/app", "cmd/waypost", "e2e"}

func TestEveryImportGoesDownwardsAndIsListed(t *testing.T) {
	t.Parallel()
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(name, "tools") {
			continue
		}
		list, known := allowed[name]
		isOpen := slices.ContainsFunc(open, func(o string) bool { return name == o || strings.HasPrefix(name, o+"/") })
		if !known && !isOpen {
			t.Errorf("%s is in no layer: add it to the list with what it may import", name)
			continue
		}
		for _, imported := range p.Imports {
			if own, ok := strings.CutPrefix(imported, module); ok {
				if known && !slices.Contains(list, own) {
					t.Errorf("%s imports %s, which its layer does not allow", name, own)
				}
				continue
			}
			for library, users := range outside {
				if (imported == library || strings.HasPrefix(imported, library+"/")) && !slices.Contains(users, name) {
					t.Errorf("%s imports %s; only %s may", name, imported, strings.Join(users, ", "))
				}
			}
		}
	}
}

type listedPackage struct {
	ImportPath string
	Imports    []string
}

func listPackages(t *testing.T) []listedPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []listedPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listedPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}
