package api

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/identity"
)

// permissionsExtension holds the permission matrix in the description, for programs. People
// read each operation's access in its text, and the whole in docs/security.md.
const permissionsExtension = "x-permissions"

// Permission is one line of the permission matrix: who may call an operation.
type Permission struct {
	Method      string `json:"method"`
	Path        string `json:"path"`
	OperationID string `json:"operation_id"`
	// Anonymous needs no credential at all. Where there are Roles as well, a credential
	// that is sent must hold.
	Anonymous bool            `json:"anonymous"`
	Roles     []identity.Role `json:"roles"`
	// Scopes are what an API token needs besides its owner's role; none where no API
	// token will do.
	Scopes []identity.Scope `json:"token_scopes"`
	// OthersScopes are what it needs instead for others' accounts and files, and to
	// change a role or who is active; none where that is no matter.
	OthersScopes []identity.Scope `json:"token_scopes_for_others,omitempty"`
	// Targets are what a call can be about; none where no account's token is asked for.
	Targets []Target `json:"targets,omitempty"`
	// SiteScope is what a site's secret key needs.
	SiteScope string `json:"site_key_scope,omitempty"`
}

// Permissions reads the matrix from what the operations themselves declare,
// sorted by path and method.
func Permissions(doc *huma.OpenAPI) []Permission {
	var list []Permission
	for path, item := range doc.Paths {
		for method, op := range methodsOf(item) {
			a, declared := op.Metadata[accessKey].(Access)
			if !declared {
				continue // a plain route: its handler checks signatures or public keys
			}
			p := Permission{
				Method: method, Path: path, OperationID: op.OperationID, Anonymous: a.scheme == "" || a.optional,
				Roles: []identity.Role{}, Scopes: []identity.Scope{}, SiteScope: string(a.scope),
			}
			if a.scheme == schemeBearer {
				p.Roles = a.roles
				p.Targets = a.targets(method)
				if !a.session {
					p.Scopes, p.OthersScopes = a.scopes(method), a.othersScopes(method)
				}
			}
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b Permission) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(slices.Index(methodOrder, a.Method), slices.Index(methodOrder, b.Method)))
	})
	return list
}

var methodOrder = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// methodsOf returns the operations of a path by method.
func methodsOf(item *huma.PathItem) map[string]*huma.Operation {
	all := map[string]*huma.Operation{
		http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
	}
	maps.DeleteFunc(all, func(_ string, op *huma.Operation) bool { return op == nil })
	return all
}

// PermissionTable is the matrix as a Markdown table.
func PermissionTable(list []Permission) string {
	var b strings.Builder
	b.WriteString("| operation | anybody |")
	for _, r := range slices.Backward(identity.Roles()) {
		fmt.Fprintf(&b, " %s |", r)
	}
	b.WriteString(" API token | site's key |\n|---|---|" + strings.Repeat("---|", len(identity.Roles())) + "---|---|\n")
	for _, p := range list {
		fmt.Fprintf(&b, "| `%s %s` | %s |", p.Method, p.Path, tick(p.Anonymous))
		for _, r := range slices.Backward(identity.Roles()) {
			fmt.Fprintf(&b, " %s |", tick(p.Anonymous || slices.Contains(p.Roles, r)))
		}
		scopes := strings.Join(quoted(p.Scopes), " ")
		if len(p.OthersScopes) > 0 {
			scopes += "; others' " + strings.Join(quoted(p.OthersScopes), " ")
		}
		site := ""
		if p.SiteScope != "" {
			site = "`" + p.SiteScope + "`"
		}
		fmt.Fprintf(&b, " %s | %s |\n", scopes, site)
	}
	return b.String()
}

func tick(yes bool) string {
	if yes {
		return "yes"
	}
	return ""
}

// DescribePermissions puts the matrix into a description, without the operations
// of paths that are not shown.
func DescribePermissions(doc *huma.OpenAPI, shown func(path string) bool) {
	list := slices.DeleteFunc(Permissions(doc), func(p Permission) bool { return !shown(p.Path) })
	if doc.Extensions == nil {
		doc.Extensions = map[string]any{}
	}
	doc.Extensions[permissionsExtension] = list
}
