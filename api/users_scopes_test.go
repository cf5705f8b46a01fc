package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/identity"
)

// everyScope is what a set holds that holds everything.
func everyScope() []identity.Scope { return (^identity.Scopes(0)).List() }

// scopeSets are all sets of scopes but the empty one.
func scopeSets() [][]identity.Scope {
	var sets [][]identity.Scope
	all := everyScope()
	for bits := 1; bits < 1<<len(all); bits++ {
		var set []identity.Scope
		for i, s := range all {
			if bits&(1<<i) != 0 {
				set = append(set, s)
			}
		}
		sets = append(sets, set)
	}
	return sets
}

// attemptOnAccount is one thing that somebody may want to do to an account.
type attemptOnAccount struct {
	method string
	own    bool // the token's owner's account
	field  string
	body   string
}

var attemptsOnAccounts = func() []attemptOnAccount {
	var list []attemptOnAccount
	for _, own := range []bool{false, true} {
		list = append(list, attemptOnAccount{method: http.MethodGet, own: own})
		for _, method := range []string{http.MethodPatch, http.MethodPut} {
			for field, body := range map[string]string{
				"names": `{"first_name":"Augusta","last_name":"King"}`, "email": `{"email":"moved@example.com"}`,
				"role": `{"role":"%s"}`, "active": `{"active":false}`, "role among names": `{"first_name":"Augusta","role":"%s"}`,
			} {
				list = append(list, attemptOnAccount{method, own, field, body})
			}
		}
		list = append(list, attemptOnAccount{method: http.MethodDelete, own: own})
	}
	return list
}()

// want is the status that a token of an owner with that role gets, and the code.
func (a attemptOnAccount) want(role identity.Role, scopes []identity.Scope) (int, string) {
	has := func(s identity.Scope) bool { return slices.Contains(scopes, s) }
	admin := role == identity.Admin
	switch {
	case a.method == http.MethodGet && !has(identity.Read), a.method != http.MethodGet && !has(identity.Write):
		return 403, "forbidden"
	case a.method == http.MethodDelete && admin && has(identity.Administer):
		return 204, ""
	case a.method == http.MethodDelete:
		return 403, "forbidden"
	case !a.own && !admin:
		return 404, "not_found"
	case !a.own && !has(identity.Administer):
		return 403, "forbidden"
	case a.own && a.field == "email":
		return 403, "reauthentication_required"
	case a.own && !admin && a.field != "names" && a.method != http.MethodGet:
		return 422, "validation_failed"
	case a.own && a.field != "names" && a.method != http.MethodGet && !has(identity.Administer):
		return 403, "forbidden"
	}
	return 200, ""
}

// An API token of every owner with every set of scopes tries everything on its
// owner's and on another's account. What it is refused changes nothing.
func TestAnAPITokenTouchesOthersAccountsRolesAndActivityOnlyWithScopeAdmin(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "root@example.com", identity.Admin) // so that nobody else is the last
	for _, role := range identity.Roles() {
		for n, scopes := range scopeSets() {
			owner, bearsToken := p.ownerOfToken(t, fmt.Sprintf("%s-%d@example.com", role, n), role, scopes)
			for _, a := range attemptsOnAccounts {
				target := owner
				if !a.own {
					p.add(t, "victim@example.com", identity.User)
					target = p.id(t, "victim@example.com")
				}
				body := a.body
				if strings.Contains(body, "%s") {
					body = fmt.Sprintf(body, map[identity.Role]identity.Role{identity.Admin: identity.Editor, identity.Editor: identity.User, identity.User: identity.Editor}[p.roleOf(t, target)])
				}
				before := p.state(t, target)
				got := p.do(t, a.method, "/api/users/"+target, body, bearsToken)
				status, code := a.want(role, scopes)
				got.wants(t, fmt.Sprintf("%s's token with %v: %s %s, own %v", role, scopes, a.method, a.field, a.own), status, code)
				after := p.state(t, target)
				if changed, may := before != after, status < 300 && a.method != http.MethodGet; changed != may {
					t.Errorf("%s's token with %v: %s %s, own %v: %q became %q", role, scopes, a.method, a.field, a.own, before, after)
				}
				p.restore(t, fmt.Sprintf("%s-%d@example.com", role, n), role)
			}
		}
	}
}

// Lists and new accounts are for an ADMIN's token with scope admin beside the
// method's own.
func TestAnAPITokenListsAndMakesAccountsOnlyWithScopeAdmin(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	for _, role := range identity.Roles() {
		for n, scopes := range scopeSets() {
			_, bearsToken := p.ownerOfToken(t, fmt.Sprintf("%s-%d@example.com", role, n), role, scopes)
			may := func(s identity.Scope) bool {
				return role == identity.Admin && slices.Contains(scopes, s) && slices.Contains(scopes, identity.Administer)
			}
			made := fmt.Sprintf(`{"first_name":"Ada","last_name":"Lovelace","email":"made-%s-%d@example.com"}`, role, n)
			for name, got := range map[string]struct {
				a    answer
				want bool
			}{
				"list": {p.do(t, "GET", "/api/users", "", bearsToken), may(identity.Read)},
				"make": {p.do(t, "POST", "/api/users", made, bearsToken), may(identity.Write)},
			} {
				if allowed := got.a.status < 300; allowed != got.want || !allowed && got.a.status != 403 {
					t.Errorf("%s's token with %v, %s: %d %s, want allowed %v", role, scopes, name, got.a.status, got.a.text, got.want)
				}
			}
		}
	}
}

// A refusal for a scope tells nothing of who exists.
func TestATokenWithoutScopeAdminIsRefusedAlikeWhetherTheAccountExists(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	_, bearsToken := p.ownerOfToken(t, "root@example.com", identity.Admin, []identity.Scope{identity.Read, identity.Write})
	p.add(t, "victim@example.com", identity.User)
	for _, method := range []string{"GET", "PATCH", "PUT"} {
		body := ""
		if method != "GET" {
			body = `{"first_name":"Augusta"}`
		}
		there := p.do(t, method, "/api/users/"+p.id(t, "victim@example.com"), body, bearsToken)
		there.wants(t, method, 403, "forbidden")
		if diff := cmp.Diff(there.text, p.do(t, method, "/api/users/987654321", body, bearsToken).text); diff != "" {
			t.Errorf("%s: %s", method, diff)
		}
	}
}

// A bot writes back what it read of its owner.
func TestAWritingTokenRepeatsItsOwnersRoleAndActivity(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	for _, role := range identity.Roles() {
		id, bearsToken := p.ownerOfToken(t, string(role)+"@example.com", role, []identity.Scope{identity.Read, identity.Write})
		me := p.do(t, "GET", "/api/users/"+id, "", bearsToken).data(t)
		me["first_name"] = "Augusta"
		for _, method := range []string{"PUT", "PATCH"} {
			p.do(t, method, "/api/users/"+id, object(me), bearsToken).wants(t, string(role)+" "+method, 200, "")
		}
	}
}

// ownerOfToken makes an account with an API token. Its role is set afterwards, as a
// demotion does, because only an ADMIN gives scope admin.
func (p people) ownerOfToken(t *testing.T, email string, role identity.Role, scopes []identity.Scope) (string, func(*http.Request)) {
	t.Helper()
	p.add(t, email, identity.Admin)
	s, err := p.accounts.SignIn(t.Context(), email, password)
	if err != nil {
		t.Fatal(err)
	}
	acting, err := p.accounts.Authenticate(t.Context(), s.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	_, secret, err := p.accounts.CreateAPIToken(identity.NewContext(t.Context(), acting), account.NewAPIToken{Name: "bot", Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	p.restore(t, email, role)
	return p.id(t, email), bearer(secret)
}

// restore undoes what an attempt was allowed to do.
func (p people) restore(t *testing.T, owner string, role identity.Role) {
	t.Helper()
	p.exec(t, `delete from users where email in ('victim@example.com', 'moved@example.com')`)
	p.exec(t, fmt.Sprintf(`update users set role = '%s', active = true, first_name = 'Ada', last_name = 'Lovelace' where email = '%s'`, role, owner))
}

// state is what an attempt may change of an account, empty when there is none.
func (p people) state(t *testing.T, id string) string {
	t.Helper()
	u, err := p.accounts.FindByID(t.Context(), number(t, id))
	if errors.Is(err, account.ErrNotFound) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(u.FirstName, u.LastName, u.Email, u.Role, u.Active)
}

func (p people) roleOf(t *testing.T, id string) identity.Role {
	t.Helper()
	u, err := p.accounts.FindByID(t.Context(), number(t, id))
	if err != nil {
		t.Fatal(err)
	}
	return u.Role
}

func number(t *testing.T, id string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
