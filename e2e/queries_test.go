package e2e_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryStatementHasACaller finds in queries/ what nothing runs any more. Callers
// name the generated statements queries, which tells their methods from a service's.
func TestEveryStatementHasACaller(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../queries/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	unused := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`(?m)^-- name: (\w+)`).FindAllStringSubmatch(string(text), -1) {
			unused[name[1]] = file
		}
	}
	if err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && isQueries(s.X) {
				delete(unused, s.Sel.Name)
			}
			return true
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for name, file := range unused {
		t.Errorf("nothing runs %s of %s", name, filepath.Base(file))
	}
}

// isQueries reports whether e is written as queries, q, x.queries or dbsqlc.New().
func isQueries(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "queries" || e.Name == "q"
	case *ast.SelectorExpr:
		return e.Sel.Name == "queries"
	case *ast.CallExpr:
		f, ok := e.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		pkg, ok := f.X.(*ast.Ident)
		return ok && pkg.Name == "dbsqlc" && f.Sel.Name == "New"
	}
	return false
}
