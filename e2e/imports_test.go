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

// allowed lists, for every package, which of our own packages it imports directly,
// layer by layer: only downwards. Test files don't count, but in e2e they do. A new
// package or a new edge is a decision, and is written here; one that is gone is
// struck out.
var allowed = map[string][]string{
	// Layer 0.
	"internal/fault":    {},
	"internal/identity": {},
	"internal/config":   {},
	"internal/seal":     {},
	"internal/text":     {},
	"db/dbsqlc":         {},
	"db/where":          {},
	"db/page":           {"db/where", "internal/text"},
	// Assets from other people's packages, and what fetches them.
	"third_party/browser":        {},
	"third_party/browser/origin": {},
	"third_party/browser/fetch":  {"third_party/browser/origin"},
	// Layer 1.
	"db":                   {"internal/fault", "internal/identity", "internal/text"},
	"db/embedded":          {"db/embedded/filelock", "db/embedded/process"},
	"db/embedded/filelock": {},
	"db/embedded/process":  {},
	"db/dbtest":            {"db", "db/dbtest/fastdir", "db/embedded", "db/embedded/filelock", "db/embedded/process"},
	"db/dbtest/fastdir":    {},
	"internal/groupcommit": {"internal/fault"},
	"internal/fairqueue":   {"internal/fault"},
	// Layer 2.
	"internal/queue":         {"internal/fault", "db/where"},
	"internal/telemetry":     {"internal/identity", "db", "db/dbsqlc"},
	"internal/mail":          {"internal/fault", "internal/identity", "internal/seal", "internal/text", "db", "db/dbsqlc", "db/where", "internal/queue"},
	"internal/blob":          {"internal/fault", "internal/config"},
	"internal/blob/blobtest": {"internal/blob"},
	"internal/blob/s3test":   {"internal/blob"},
	"internal/mail/mailtest": {"internal/mail"},
	"internal/mail/smtptest": {},
	"internal/throttle":      {"internal/fault", "internal/identity", "db", "db/dbsqlc"},
	"internal/idempotency":   {"internal/fault", "internal/identity", "internal/seal", "db", "db/dbsqlc"},
	"internal/token":         {"internal/fault", "internal/identity", "internal/seal", "db", "db/dbsqlc"},
	"internal/audit":         {"internal/fault", "internal/identity", "internal/seal", "db", "db/dbsqlc", "db/where"},
	"internal/site":          {"internal/fault", "internal/identity", "internal/text", "db", "db/dbsqlc"},
	// Layer 3.
	"internal/account":                 {"internal/fault", "internal/identity", "internal/text", "db", "db/dbsqlc", "db/page", "db/where", "internal/fairqueue", "internal/queue", "internal/mail", "internal/throttle", "internal/token", "internal/seal", "internal/account/commonpassword", "internal/account/oauth", "internal/audit"},
	"internal/account/commonpassword":  {},
	"internal/account/oauth":           {"internal/fault"},
	"internal/account/oauth/oauthtest": {"internal/account/oauth"},
	"internal/content":                 {"internal/fault", "internal/identity", "internal/text", "db", "db/dbsqlc", "db/page", "db/where", "internal/content/slug", "internal/content/words"},
	"internal/content/slug":            {},
	"internal/content/words":           {},
	"internal/upload":                  {"internal/fault", "internal/identity", "internal/text", "db", "db/dbsqlc", "db/where", "internal/fairqueue", "internal/groupcommit", "internal/queue", "internal/seal", "internal/audit", "internal/blob"},
	"internal/aigateway":               {"internal/aigateway/anthropic", "internal/aigateway/echo", "internal/aigateway/openai", "internal/aigateway/sse", "internal/aigateway/upstream", "internal/config", "internal/fault", "internal/identity", "db", "db/dbsqlc", "internal/fairqueue", "internal/telemetry"},
	"internal/aigateway/aitest":        {},
	"internal/aigateway/anthropic":     {"internal/aigateway/openai", "internal/aigateway/sse"},
	"internal/aigateway/echo":          {},
	"internal/aigateway/openai":        {},
	"internal/aigateway/sse":           {},
	"internal/aigateway/upstream":      {},
	"internal/webhook":                 {"internal/config", "internal/fault", "internal/identity", "internal/text", "db", "db/dbsqlc", "db/where", "internal/groupcommit", "internal/queue", "internal/seal", "internal/telemetry", "internal/webhook/signature"},
	"internal/webhook/signature":       {},
	"internal/dbview":                  {"internal/fault", "internal/identity", "internal/text", "db", "db/where", "internal/audit"},
	"internal/security":                {"internal/fault", "internal/identity", "db", "db/dbsqlc", "internal/audit", "internal/throttle"},
	"internal/stats":                   {"internal/fault", "internal/seal", "internal/identity", "internal/text", "db", "db/dbsqlc", "db/where", "internal/groupcommit", "internal/fairqueue", "internal/queue", "internal/site", "internal/stats/calendar", "internal/stats/client", "internal/stats/columns", "internal/stats/drop", "internal/stats/eventid", "internal/stats/hit", "internal/stats/session", "internal/stats/visitor"},
	"internal/stats/accesslog":         {},
	"internal/stats/calendar":          {"internal/fault", "internal/site"},
	"internal/stats/client":            {},
	"internal/stats/columns":           {},
	"internal/stats/country":           {},
	"internal/stats/country/mmdbtest":  {},
	"internal/stats/drop":              {"db", "db/dbsqlc", "internal/groupcommit", "internal/identity", "internal/site", "internal/stats/calendar"},
	"internal/stats/eventid":           {"db", "db/dbsqlc"},
	"internal/stats/hit":               {"internal/fault", "internal/site", "internal/text", "internal/stats/calendar", "internal/stats/client", "internal/stats/drop", "internal/stats/session"},
	"internal/stats/imports":           {"internal/fault", "internal/identity", "internal/seal", "internal/text", "db", "db/dbsqlc", "internal/site", "internal/stats/accesslog", "internal/stats/calendar", "internal/stats/client", "internal/stats/drop", "internal/stats/eventid", "internal/stats/hit", "internal/stats/session", "internal/stats/visitor"},
	"internal/stats/session":           {"internal/identity", "db", "db/dbsqlc", "internal/site", "internal/stats/calendar"},
	"internal/stats/visitor":           {"internal/fault", "internal/identity", "internal/seal", "db", "db/dbsqlc", "internal/site", "internal/stats/calendar", "internal/stats/hit", "internal/stats/session"},
	"internal/apidoc":                  {"internal/apidoc/export", "internal/apidoc/model", "internal/apidoc/precompressed", "internal/apidoc/ui"},
	"internal/apidoc/export":           {},
	"internal/apidoc/model":            {"internal/text"},
	"internal/apidoc/model/modeltest":  {},
	"internal/apidoc/precompressed":    {},
	"internal/apidoc/ui":               {"internal/apidoc/precompressed", "third_party/browser", "third_party/browser/origin"},
	// Layer 4.
	"internal/httpedge": {"internal/fault", "internal/identity", "internal/telemetry", "internal/text"},
	// Layer 5.
	"api": {
		"db/page", "internal/fault", "internal/identity", "internal/text", "internal/httpedge", "internal/apidoc", "internal/apidoc/export", "internal/apidoc/model", "internal/apidoc/precompressed",
		"internal/fairqueue", "internal/groupcommit", "internal/queue", "internal/audit", "internal/blob", "internal/upload", "internal/account", "internal/account/oauth", "internal/aigateway", "internal/content", "internal/idempotency", "internal/mail", "internal/site", "internal/stats", "internal/stats/calendar", "internal/stats/drop", "internal/stats/hit", "internal/throttle", "internal/token", "internal/webhook", "internal/webhook/signature",
	},
	"internal/pages": {"db/page", "internal/fault", "internal/httpedge", "internal/account", "internal/aigateway", "internal/identity", "internal/audit", "internal/dbview", "internal/mail", "internal/queue", "internal/security", "internal/site", "internal/stats", "internal/stats/calendar", "internal/telemetry", "internal/throttle", "internal/upload", "internal/webhook", "third_party/browser"},
	"internal/mcp":   {"internal/fault", "internal/identity", "internal/httpedge"},
	"internal/jobs":  {"internal/fault", "internal/identity", "internal/text", "db", "db/dbsqlc", "internal/queue", "internal/audit"},
	// Layer 8. The naive count and the verifier of the audit log share nothing with the
	// program that they are held against.
	"e2e/naive":            {},
	"e2e/auditproof":       {},
	"e2e":                  {"db", "db/dbtest", "db/embedded", "e2e/auditproof", "e2e/naive", "e2e/outside", "internal/aigateway/aitest", "internal/audit", "internal/blob/s3test", "internal/browsertest", "internal/identity", "internal/mail/smtptest", "internal/stats/client", "internal/webhook/signature"},
	"e2e/processes":        {"db/dbtest", "db/embedded", "e2e/auditproof", "e2e/naive", "e2e/outside", "internal/stats/client"},
	"e2e/outside":          {},
	"e2e/truth":            {"db", "db/dbtest", "e2e/outside", "internal/aigateway/aitest", "internal/account", "internal/account/oauth/oauthtest", "internal/app", "internal/config", "internal/identity", "internal/queue", "internal/site", "internal/webhook"},
	"e2e/description":      {"internal/apidoc", "internal/apidoc/model/modeltest", "internal/app", "internal/config"},
	"e2e/bench":            {"db", "db/page", "internal/telemetry", "db/embedded", "internal/account", "internal/app", "internal/config", "internal/queue", "internal/site", "internal/stats", "internal/stats/calendar", "internal/webhook", "internal/audit", "internal/identity"},
	"internal/browsertest": {},
}

// libraries says which packages may import a library that shapes its users.
var libraries = map[string][]string{
	"github.com/danielgtaylor/huma/v2": {"api", "internal/apidoc", "internal/apidoc/model"},
	"github.com/go-chi/chi/v5":         {"api", "internal/httpedge", "internal/pages", "internal/app"},
	"github.com/riverqueue/river":      {"db", "internal/queue", "internal/jobs"},
	"github.com/lestrrat-go/jwx/v2":    {"internal/token"},
	"github.com/wneessen/go-mail":      {"internal/mail"},
	"github.com/boombuler/barcode":     {"internal/pages"},
	"github.com/minio/minio-go/v7":     {"internal/blob"},

	"github.com/modelcontextprotocol/go-sdk": {"internal/mcp", "e2e/truth"},
}

// open are packages of layers 6 to 8 that may import anything below.
var open = []string{"internal/demo", "internal/app", "cmd/waypost"}

func TestEveryImportGoesDownwardsAndIsListed(t *testing.T) {
	t.Parallel()
	stale := make(map[[2]string]bool)
	for name, list := range allowed {
		for _, imported := range append(slices.Clone(list), "") { // "" for the package itself
			stale[[2]string{name, imported}] = true
		}
	}
	for library, users := range libraries {
		for _, user := range users {
			stale[[2]string{user, library}] = true
		}
	}
	for _, name := range open {
		stale[[2]string{name, ""}] = true
	}
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(name, "tools") {
			continue
		}
		list, known := allowed[name]
		if !known && !slices.Contains(open, name) {
			t.Errorf("%s is in no layer: add it to the list with what it may import", name)
			continue
		}
		delete(stale, [2]string{name, ""})
		for _, imported := range p.imports() {
			if own, ok := strings.CutPrefix(imported, module); ok {
				if delete(stale, [2]string{name, own}); known && !slices.Contains(list, own) {
					t.Errorf("%s imports %s, which its layer does not allow", name, own)
				}
				continue
			}
			for library, users := range libraries {
				if imported != library && !strings.HasPrefix(imported, library+"/") {
					continue
				}
				if delete(stale, [2]string{name, library}); !slices.Contains(users, name) {
					t.Errorf("%s imports %s; only %s may", name, imported, strings.Join(users, ", "))
				}
			}
		}
	}
	for edge := range stale {
		if edge[1] == "" {
			t.Errorf("%s is listed, and there is no such package", edge[0])
		} else {
			t.Errorf("%s may import %s, and doesn't", edge[0], edge[1])
		}
	}
}

type listedPackage struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

// imports are those of a package's program; in e2e, tests are the program.
func (p listedPackage) imports() []string {
	if !strings.HasPrefix(p.ImportPath, module+"e2e") {
		return p.Imports
	}
	all := slices.Concat(p.Imports, p.TestImports, p.XTestImports)
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(imported string) bool { return imported == p.ImportPath })
}

func listPackages(t *testing.T) []listedPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-tags=external,browser", "-json=ImportPath,Imports,TestImports,XTestImports", module+"...").Output()
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
