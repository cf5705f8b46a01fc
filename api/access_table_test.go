package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/waypost/waypost/internal/identity"
)

// alike are operations that let in the same callers. The first stands for all.
type alike []Permission

// targets are what their calls can be about, one at least.
func (g alike) targets() []Target {
	if len(g[0].Targets) == 0 {
		return []Target{{About: aboutNobodys, Roles: g[0].Roles}}
	}
	return g[0].Targets
}

// groupAlike puts those together that behave alike: what needs nothing comes first, what
// is for few and for sites' keys last.
func groupAlike(list []Permission) []alike {
	byKey := map[string]alike{}
	for _, p := range list {
		key, err := json.Marshal([]any{p.Anonymous, p.Roles, p.Scopes, p.SiteScope, p.Targets})
		if err != nil {
			panic(err) // texts and numbers have JSON
		}
		byKey[string(key)] = append(byKey[string(key)], p)
	}
	groups := make([]alike, 0, len(byKey))
	for _, g := range byKey {
		groups = append(groups, g)
	}
	rank := func(g alike) int {
		switch p := g[0]; {
		case p.SiteScope != "":
			return 10
		case p.Anonymous:
			return len(p.Roles) - 10
		default:
			return -len(p.Roles)
		}
	}
	slices.SortFunc(groups, func(a, b alike) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a[0].Path, b[0].Path), cmp.Compare(a[0].Method, b[0].Method))
	})
	return groups
}

// name is what a row is called: the group's number, and what the call is about.
func (g alike) name(number int, t Target) string { return fmt.Sprintf("%d, %s", number+1, t.About) }

// operations are the group's, by path with the methods before it.
func (g alike) operations() string {
	var paths []string
	methods := map[string][]string{}
	for _, p := range g {
		if methods[p.Path] == nil {
			paths = append(paths, p.Path)
		}
		methods[p.Path] = append(methods[p.Path], p.Method)
	}
	for i, path := range paths {
		paths[i] = "`" + strings.Join(methods[path], " ") + " " + path + "`"
	}
	return strings.Join(paths, " ")
}

// AccessTable says as Markdown what each kind of caller gets, of its own and of others:
// one table with a row for operations that behave alike, and one of what each set of
// scopes opens.
func AccessTable(list []Permission) string {
	groups := groupAlike(list)
	var b strings.Builder
	b.WriteString("| row | nobody |")
	for _, r := range slices.Backward(identity.Roles()) {
		fmt.Fprintf(&b, " %s |", r)
	}
	b.WriteString(" a service account | an API token needs | a site's key needs | operations |\n|---|---|" + strings.Repeat("---|", len(identity.Roles())) + "---|---|---|---|\n")
	for n, g := range groups {
		operations := g.operations()
		for _, t := range g.targets() {
			p := g[0]
			fmt.Fprintf(&b, "| %s | %s |", g.name(n, t), verdict(p.anonymous(t)))
			for _, r := range slices.Backward(identity.Roles()) {
				fmt.Fprintf(&b, " %s |", verdict(p.status(t, credential{role: r})))
			}
			fmt.Fprintf(&b, " %s |", bots(p, t))
			needs, key := strings.Join(quoted(t.Scopes), " "), ""
			if p.SiteScope != "" {
				key = "`" + p.SiteScope + "`"
			}
			fmt.Fprintf(&b, " %s | %s | %s |\n", needs, key, operations)
			operations = ""
		}
	}
	b.WriteString("\n")
	writeScopeSets(&b, groups)
	return b.String()
}

// bots says what a service account gets that another account of its role with the same
// API token would get too, or what else.
func bots(p Permission, t Target) string {
	one := credential{role: identity.Admin, token: true, scopes: ^identity.Scopes(0), bot: true}
	if status := p.status(t, one); t.Bots != 0 || len(t.Scopes) == 0 {
		return verdict(status)
	}
	return "as its role"
}

// verdict is a status as a cell of the table.
func verdict(status int) string {
	if status == http.StatusOK {
		return "yes"
	}
	return fmt.Sprint(status)
}

// writeScopeSets writes, for each set of scopes that behaves in a way of its own, the
// roles whose API tokens are let in.
func writeScopeSets(b *strings.Builder, groups []alike) {
	sets := scopeSets(groups)
	b.WriteString("| row |")
	for _, set := range sets {
		fmt.Fprintf(b, " %s |", strings.Join(quoted(set.List()), " "))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(sets)) + "\n")
	for n, g := range groups {
		for _, t := range g.targets() {
			if len(t.Scopes) == 0 {
				continue
			}
			fmt.Fprintf(b, "| %s |", g.name(n, t))
			for _, set := range sets {
				fmt.Fprintf(b, " %s |", strings.Join(letIn(g[0], t, set), " "))
			}
			b.WriteString("\n")
		}
	}
}

// letIn are the roles whose API tokens with that set may call p about t.
func letIn(p Permission, t Target, set identity.Scopes) []string {
	var list []string
	for _, r := range slices.Backward(identity.Roles()) {
		if p.status(t, credential{role: r, token: true, scopes: set}) == http.StatusOK {
			list = append(list, string(r))
		}
	}
	return list
}

// scopeSets are all sets of scopes but the empty one, without scopes that no operation
// asks for.
func scopeSets(groups []alike) []identity.Scopes {
	var asked []identity.Scope
	for _, s := range (^identity.Scopes(0)).List() {
		if slices.ContainsFunc(groups, func(g alike) bool {
			return slices.ContainsFunc(g.targets(), func(t Target) bool { return slices.Contains(t.Scopes, s) })
		}) {
			asked = append(asked, s)
		}
	}
	var sets []identity.Scopes
	for bits := 1; bits < 1<<len(asked); bits++ {
		var set []identity.Scope
		for i, s := range asked {
			if bits&(1<<i) != 0 {
				set = append(set, s)
			}
		}
		sets = append(sets, identity.NewScopes(set...))
	}
	return sets
}

// credential is what an account's holder or its bot brings.
type credential struct {
	role   identity.Role
	token  bool // an API token, with scopes
	scopes identity.Scopes
	bot    bool // the account is a service account
}

// status is what a credential gets in a call of the operation about t: 200 if it may.
func (p Permission) status(t Target, c credential) int {
	switch {
	case p.SiteScope != "":
		return http.StatusUnauthorized
	case p.Anonymous && len(p.Roles) == 0:
		return http.StatusOK
	case !slices.Contains(p.Roles, c.role), c.token && (len(p.Scopes) == 0 || !c.scopes.Has(p.Scopes...)):
		return http.StatusForbidden
	case c.bot && t.Bots != 0:
		return t.Bots
	case !slices.Contains(t.Roles, c.role):
		return t.Otherwise
	case c.token && !c.scopes.Has(t.Scopes...):
		return http.StatusForbidden
	}
	return http.StatusOK
}

// anonymous is what nobody gets in a call of the operation about t.
func (p Permission) anonymous(t Target) int {
	switch {
	case !p.Anonymous:
		return http.StatusUnauthorized
	case len(t.Roles) < len(p.Roles):
		return t.Otherwise
	}
	return http.StatusOK
}
