package app

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/internal/apidoc"
	"github.com/waypost/waypost/internal/config"
)

var updateTools = flag.Bool("update-tools", false, "write the operations that are no tools into docs/bots.md")

// declaredTools are those of the whole service, and its description.
func declaredTools(t *testing.T) ([]api.Tool, *apidoc.Docs) {
	t.Helper()
	c, err := config.Read(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := resources(c, new(Services), nil, api.Condition{}, Extensions{})
	if err != nil {
		t.Fatal(err)
	}
	docs, tools, err := mount(chi.NewRouter(), c.Docs, api.Options{BaseURL: baseURL(c), Resources: list}, Extensions{}, false)
	if err != nil {
		t.Fatal(err)
	}
	return tools, docs
}

// Operators decide by this table whether they let assistants in.
func TestTheOperationsThatAreNoToolsAreDocumented(t *testing.T) {
	t.Parallel()
	tools, _ := declaredTools(t)
	reasons, operations := []string{}, map[string][]string{}
	for _, tool := range tools {
		if tool.Withheld != "" {
			if operations[tool.Withheld] == nil {
				reasons = append(reasons, tool.Withheld)
			}
			operations[tool.Withheld] = append(operations[tool.Withheld], "`"+tool.OperationID+"`")
		}
	}
	slices.Sort(reasons)
	var table strings.Builder
	table.WriteString("| no tools | because |\n|---|---|\n")
	for _, reason := range reasons {
		fmt.Fprintf(&table, "| %s | %s |\n", strings.Join(operations[reason], " "), reason)
	}
	file := filepath.Join("..", "..", "docs", "bots.md")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(page), "<!-- no tools -->\n")
	there, after, found := strings.Cut(rest, "<!-- /no tools -->")
	if !found {
		t.Fatal("docs/bots.md has no marks for the table")
	}
	if *updateTools {
		if err := os.WriteFile(file, []byte(before+"<!-- no tools -->\n"+table.String()+"<!-- /no tools -->"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(table.String(), there); diff != "" {
		t.Errorf("run `go test ./internal/app -run %s -update-tools`: %s", t.Name(), diff)
	}
}

// A tool whose parameter asks for something else than JSON would fail for whoever uses it.
func TestToolsHaveNoParameterForOtherThanJSON(t *testing.T) {
	t.Parallel()
	tools, docs := declaredTools(t)
	raw, err := docs.Bytes(apidoc.JSON)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string
			Parameters  []struct{ Name string }
			Responses   map[string]struct{ Content map[string]any }
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	for _, item := range doc.Paths {
		for _, op := range item {
			i := slices.IndexFunc(tools, func(tool api.Tool) bool { return tool.OperationID == op.OperationID })
			if i < 0 || tools[i].Withheld != "" {
				continue
			}
			several := false
			for status, answer := range op.Responses {
				several = several || status < "300" && len(answer.Content) > 1
			}
			if several != (len(tools[i].Without) > 0) {
				t.Errorf("%s answers several media types: %v; without %v", op.OperationID, several, tools[i].Without)
			}
			for _, name := range tools[i].Without {
				if !slices.ContainsFunc(op.Parameters, func(p struct{ Name string }) bool { return p.Name == name }) {
					t.Errorf("%s has no parameter %s", op.OperationID, name)
				}
			}
		}
	}
}
