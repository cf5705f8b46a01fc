package e2e_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// screen is a page: the names of what can be done there, or a file.
type screen struct {
	acts []string
	file bool
}

// screens reads the paths of the pages from their source, each with the names of what
// can be done there, so that none can be forgotten.
func screens(t *testing.T) map[string]screen {
	t.Helper()
	files, err := filepath.Glob("../internal/pages/*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]screen{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			members, path := literal(n, "Path")
			if members["View"] == nil && members["Serve"] == nil {
				return true
			}
			var acts []string
			if members["Acts"] != nil {
				ast.Inspect(members["Acts"], func(n ast.Node) bool {
					if act, called := literal(n, "Name"); act["Operation"] != nil {
						acts = append(acts, called)
					}
					return true
				})
			}
			all[path] = screen{acts, members["Serve"] != nil}
			return false
		})
	}
	return all
}

// literal are the members of a composite literal, and the text of one of them.
func literal(n ast.Node, name string) (map[string]ast.Expr, string) {
	lit, ok := n.(*ast.CompositeLit)
	if !ok {
		return nil, ""
	}
	members := map[string]ast.Expr{}
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok {
				members[key.Name] = kv.Value
			}
		}
	}
	if value, ok := members[name].(*ast.BasicLit); ok {
		text, _ := strconv.Unquote(value.Value)
		return members, text
	}
	return members, ""
}
