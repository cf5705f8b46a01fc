package api_test

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/identity"
)

var update = flag.Bool("update", false, "write the permission matrix into docs/security.md")

func permissions(t *testing.T) []api.Permission {
	t.Helper()
	return api.Permissions(described(t))
}

// committed is the matrix of the whole service, as the committed description has it, which
// another test holds against the operations.
func committed(t *testing.T) []api.Permission {
	t.Helper()
	b, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Permissions []api.Permission `json:"x-permissions"`
	}
	if err := json.Unmarshal(b, &doc); err != nil || len(doc.Permissions) < 100 {
		t.Fatalf("%d operations, %v", len(doc.Permissions), err)
	}
	return doc.Permissions
}

func TestTheDocumentedPermissionsAreTheDeclaredOnes(t *testing.T) {
	t.Parallel()
	list := committed(t)
	for name, want := range map[string]string{"permissions": api.PermissionTable(list), "access": api.AccessTable(list)} {
		documented(t, name, want)
	}
}

// Who forgets to declare whose things an operation is about would have it documented as if
// it made no difference.
func TestEveryOperationSaysWhoseThingsItIsAbout(t *testing.T) {
	t.Parallel()
	for _, p := range committed(t) {
		own := len(p.Targets) == 1 && p.Targets[0].About == "own"
		if named := strings.Contains(p.Path, "{"); named && own {
			t.Errorf("%s %s names something: what of another's?", p.Method, p.Path)
		}
		if len(p.Roles) > 1 && (len(p.Targets) == 0 || p.Targets[0].About == "the service's") {
			t.Errorf("%s %s is for more than an ADMIN: whose things are these?", p.Method, p.Path)
		}
	}
}

// updating is held by whoever changes the page.
var updating sync.Mutex

// documented holds a table against the one between the marks of that name in
// docs/security.md, or writes it there.
func documented(t *testing.T, name, want string) {
	t.Helper()
	updating.Lock()
	defer updating.Unlock()
	file, begin, end := "../docs/security.md", "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(b), begin)
	there, after, found := strings.Cut(rest, end)
	if !found {
		t.Fatalf("%s has no marks for %s", file, name)
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, there); diff != "" {
		t.Errorf("run `go test ./api -run %s -update`: %s", t.Name(), diff)
	}
}

func TestTheDescriptionHoldsThePermissions(t *testing.T) {
	t.Parallel()
	doc := described(t)
	api.DescribePermissions(doc, func(string) bool { return true })
	list := api.Permissions(doc)
	if diff := cmp.Diff(any(list), doc.Extensions["x-permissions"]); diff != "" {
		t.Error(diff)
	}
	if len(list) < 30 || strings.Contains(doc.Info.Description, "|---|") {
		t.Errorf("%d operations; the introduction is no place for tables: %s", len(list), doc.Info.Description)
	}
}

// caller is a kind of credential, and what the guard must make of it.
type caller struct {
	name   string
	change func(*http.Request)
	role   identity.Role // empty for nobody
	scopes identity.Scopes
	token  bool // an API token
	forged bool
}

func (c caller) may(p api.Permission) bool {
	switch {
	case p.Anonymous && len(p.Roles) > 0 && c.role == "": // only who brings nothing at all
		return !c.forged
	case p.Anonymous && len(p.Roles) == 0:
		return true
	case p.SiteScope != "" || !slices.Contains(p.Roles, c.role):
		return false
	case c.token && c.role == identity.Admin && len(p.OthersScopes) > 0: // the walk names nothing of its own
		return c.scopes.Has(p.OthersScopes...)
	case c.token:
		return len(p.Scopes) > 0 && c.scopes.Has(p.Scopes...)
	}
	return true
}

var parameter = regexp.MustCompile(`\{[^}]*\}`)

// Every operation is called by every kind of caller. A refused call is refused by
// the guard, before the body is read; an allowed one comes as far as its own work.
func TestEveryOperationAllowsWhoItDeclaresAndNobodyElse(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	for _, permission := range permissions(t) {
		for _, c := range p.callers(t) {
			path := parameter.ReplaceAllString(permission.Path, "987654321")
			a := p.attempt(t, permission.Method, path, c.change)
			refused := a.status == http.StatusUnauthorized || a.status == http.StatusForbidden && slices.Contains(guardSentences, a.body.Error.Message)
			if refused == c.may(permission) {
				t.Errorf("%s: %s %s: %d %s, may is %v", c.name, permission.Method, permission.Path, a.status, a.text, c.may(permission))
			}
			if refused && c.role == "" && a.status != http.StatusUnauthorized {
				t.Errorf("%s %s: nobody gets %d", permission.Method, permission.Path, a.status)
			}
			p.exec(t, `update auth_sessions set revoked_at = null`) // what an allowed call may have ended
			p.exec(t, `update api_tokens set revoked_at = null`)
		}
	}
}

var guardSentences = []string{
	"Your role does not allow this.", "An API token can't do this. Sign in instead.", "This API token's scopes do not allow this.", "This key's scope does not allow this.",
}

// callers are made once: they survive what the operations do.
func (p people) callers(t *testing.T) []caller {
	t.Helper()
	if len(*p.known) > 0 {
		return *p.known
	}
	list := []caller{
		{name: "nobody", change: func(*http.Request) {}},
		{name: "a made-up token", change: bearer("a.b.c"), forged: true},
		{name: "a made-up API token", change: bearer("wp_" + strings.Repeat("A", 43)), forged: true},
		{name: "a token in the query", change: func(r *http.Request) { r.URL.RawQuery = "access_token=x" }},
	}
	for _, role := range identity.Roles() {
		email := strings.ToLower(string(role)) + "@example.com"
		list = append(list, caller{name: string(role), change: p.add(t, email, role), role: role})
		s, err := p.accounts.SignIn(t.Context(), email, password)
		if err != nil {
			t.Fatal(err)
		}
		acting, err := p.accounts.Authenticate(t.Context(), s.AccessToken)
		if err != nil {
			t.Fatal(err)
		}
		for _, scopes := range [][]identity.Scope{{identity.Read}, {identity.Write}, {identity.AI}, {identity.Read, identity.Write, identity.AI}, everyScope()} {
			if role != identity.Admin && slices.Contains(scopes, identity.Administer) {
				continue
			}
			_, secret, err := p.accounts.CreateAPIToken(identity.NewContext(t.Context(), acting), account.NewAPIToken{Name: "bot", Scopes: scopes})
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, caller{
				name: string(role) + "'s API token", change: bearer(secret), role: role, scopes: identity.NewScopes(scopes...), token: true,
			})
		}
	}
	acting := identity.NewContext(t.Context(), p.acting(t, "admin@example.com"))
	for _, role := range identity.Roles() {
		scopes := everyScope()
		if role != identity.Admin {
			scopes = slices.DeleteFunc(scopes, func(s identity.Scope) bool { return s == identity.Administer })
		}
		list = append(list, caller{
			name: "a service account with role " + string(role), change: bearer(p.bot(t, acting, role, scopes)), role: role,
			scopes: identity.NewScopes(scopes...), token: true,
		})
	}
	*p.known = list
	return list
}

// attempt sends an empty object. Its context ends soon, for services that the
// test has none of are nil: their operations answer 500.
func (p people) attempt(t *testing.T, method, path string, change func(*http.Request)) answer {
	t.Helper()
	body := "{}"
	if method == http.MethodGet || method == http.MethodDelete {
		body = ""
	}
	return p.do(t, method, path, body, change)
}

func TestCase37AGuardedOperationHidesBehindNoSpelling(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	user := p.add(t, "ada@example.com", identity.User)
	override := func(r *http.Request) {
		user(r)
		for _, h := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
			r.Header.Set(h, http.MethodDelete)
		}
	}
	for _, path := range []string{"/api/users/", "//api/users", "/api//users", "/api/users/.", "/api/./users", "/api/x/../users", "/api/%75sers", "/API/users", "/api/users%2F", "/users", "/users/", "/api/users;x=1", "/api/users?_method=GET"} {
		for _, change := range []func(*http.Request){func(*http.Request) {}, user, override} {
			a := p.page(t, http.MethodGet, path, change)
			if a == http.StatusOK || a >= 500 {
				t.Errorf("%s: %d", path, a)
			}
		}
	}
	ada := p.id(t, "ada@example.com")
	if a := p.page(t, http.MethodGet, "/api/users/"+ada, override); a != http.StatusOK {
		t.Errorf("a method override changed GET: %d", a)
	}
	p.do(t, http.MethodGet, "/api/auth/me", "", user).wants(t, "the account is still there", 200, "")
}
