package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

func (a answer) data(t *testing.T) map[string]any {
	t.Helper()
	var data map[string]any
	if err := json.Unmarshal(a.body.Data, &data); err != nil {
		t.Fatalf("%s: %v", a.text, err)
	}
	return data
}

// code is the secret of the newest mail of a kind to an address.
func (p people) code(t *testing.T, to string, kind mail.Kind) string {
	t.Helper()
	code := ""
	for _, m := range p.mail.Sent(to) {
		if m.Kind == kind {
			code = m.Code
		}
	}
	if code == "" {
		t.Fatalf("no %s to %s", kind, to)
	}
	return code
}

func object(members map[string]any) string {
	b, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestAnAdministratorKeepsAccountsWithoutEverSettingAPassword(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	root := p.add(t, "root@example.com", identity.Admin)
	made := p.do(t, "POST", "/api/users", `{"first_name":"Ada","last_name":"Lovelace","email":"ada@example.com","role":"EDITOR"}`, root)
	made.wants(t, "create", 201, "")
	user := made.data(t)
	path := fmt.Sprintf("/api/users/%.0f", user["id"])
	if made.header.Get("Location") != path || user["role"] != "EDITOR" || user["active"] != true {
		t.Errorf("%s at %s", made.text, made.header.Get("Location"))
	}
	p.do(t, "POST", "/api/auth/login", login("ada@example.com", password)).wants(t, "before a password is set", 401, "invalid_credentials")
	link := object(map[string]any{"token": p.code(t, "ada@example.com", mail.SetPassword), "password": password})
	p.do(t, "POST", "/api/auth/password/reset", link).wants(t, "set the password", 200, "")
	p.do(t, "POST", "/api/auth/login", login("ada@example.com", password)).wants(t, "sign in", 200, "")

	if diff := cmp.Diff(user, p.do(t, "GET", path, "", root).data(t), ignoreUpdatedAt); diff != "" {
		t.Error(diff)
	}
	// A client writes back what it read, with one change.
	user["first_name"] = "Augusta"
	for _, method := range []string{"PUT", "PATCH"} {
		a := p.do(t, method, path, object(user), root)
		a.wants(t, method, 200, "")
		if diff := cmp.Diff(user, a.data(t), ignoreUpdatedAt); diff != "" {
			t.Errorf("%s: %s", method, diff)
		}
		a = p.do(t, method, path, `{"last_name":"King"}`, root)
		a.wants(t, method+" in part", 200, "")
		if got := a.data(t); got["last_name"] != "King" || got["first_name"] != "Augusta" {
			t.Errorf("%s in part: %s", method, a.text)
		}
		user["last_name"] = "King"
	}
	a := p.do(t, "DELETE", path, "", root)
	if a.status != 204 || a.text != "" {
		t.Errorf("delete: %d %q", a.status, a.text)
	}
	p.do(t, "GET", path, "", root).wants(t, "deleted", 404, "not_found")
	p.do(t, "DELETE", path, "", root).wants(t, "delete again", 404, "not_found")
}

var ignoreUpdatedAt = cmp.FilterPath(func(p cmp.Path) bool { return strings.Contains(p.GoString(), `["updated_at"]`) }, cmp.Ignore())

func TestCase17ATwinIsNeverASecondAccount(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	root := p.add(t, "root@example.com", identity.Admin)
	ada := p.add(t, "ada@example.com", identity.User)
	me := "/api/users/" + p.id(t, "ada@example.com")
	p.do(t, "POST", "/api/auth/register", registration("ROOT@example.com")).wants(t, "register", 409, "email_taken")
	p.do(t, "POST", "/api/users", `{"first_name":"Ada","last_name":"Lovelace","email":"Root@Example.com"}`, root).wants(t, "create", 409, "email_taken")
	// One's own wish is answered alike for every address, and changes nothing by itself.
	twin, free := p.do(t, "PATCH", me, `{"email":"rOOt@example.com"}`, ada), p.do(t, "PATCH", me, `{"email":"free@example.com"}`, ada)
	for what, a := range map[string]answer{"a twin": twin, "a free one": free} {
		a.wants(t, what, 200, "")
		if a.data(t)["email"] != "ada@example.com" {
			t.Errorf("%s: %s", what, a.text)
		}
	}
	p.do(t, "PATCH", me, `{"email":"rOOt@example.com"}`, root).wants(t, "by an ADMIN", 409, "email_taken")
	// A Unicode twin is no address by the schema's format, so the answer is 422 and
	// not 409: what the schema forbids, no other rule has a say in.
	for _, twin := range []string{"ｒｏｏｔ@example.com", "róot@example.com", "root@example。com", "rооt@example.com", "root@exаmple.com", "ro\u200bot@example.com", "ﬁ@example.com"} {
		p.do(t, "POST", "/api/auth/register", registration(twin)).wants(t, "look-alike "+twin, 422, "validation_failed")
	}
}

func registration(email string) string {
	return object(map[string]any{"first_name": "Ada", "last_name": "Lovelace", "email": email, "password": password})
}

func TestCase32ARoleCanNotBeTaken(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	ada := p.add(t, "ada@example.com", identity.User)
	me := "/api/users/" + p.id(t, "ada@example.com")
	p.do(t, "POST", "/api/auth/register", strings.Replace(registration("eve@example.com"), "{", `{"role":"ADMIN",`, 1)).wants(t, "register", 422, "validation_failed")
	for _, body := range []string{`{"role":"ADMIN"}`, `{"active":false}`, `{"Role":"ADMIN"}`, `{"role":"ADMIN","first_name":"Ada"}`, `{"password":"x"}`} {
		for _, method := range []string{"PUT", "PATCH"} {
			p.do(t, method, me, body, ada).wants(t, method+" "+body, 422, "validation_failed")
		}
	}
	a := p.do(t, "PUT", me, `{"role":"USER","active":true,"first_name":"Augusta"}`, ada)
	a.wants(t, "repeating them", 200, "")
	if got := a.data(t); got["role"] != "USER" || got["active"] != true || got["first_name"] != "Augusta" {
		t.Errorf("%s", a.text)
	}
}

func TestCase33GeneratedFieldsAreRefusedOnCreateAndIgnoredOnUpdate(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	root := p.add(t, "root@example.com", identity.Admin)
	for _, field := range []string{`"id":7`, `"created_at":"2020-01-01T00:00:00Z"`, `"updated_at":"2020-01-01T00:00:00Z"`, `"password":"x"`} {
		body := `{"first_name":"Ada","last_name":"Lovelace","email":"ada@example.com",` + field + `}`
		p.do(t, "POST", "/api/users", body, root).wants(t, field, 422, "validation_failed")
	}
	p.do(t, "POST", "/api/posts", `{"title":"t","body":"b","author_id":1}`, root).wants(t, "author_id", 422, "validation_failed")
	before := p.do(t, "GET", "/api/auth/me", "", root).data(t)
	a := p.do(t, "PUT", "/api/users/"+p.id(t, "root@example.com"), `{"id":99,"created_at":"2020-01-01T00:00:00Z"}`, root)
	a.wants(t, "update", 200, "")
	if diff := cmp.Diff(before, a.data(t), ignoreUpdatedAt); diff != "" {
		t.Error(diff)
	}
}

func TestForeignAccountsAreUnknownAndAdministrationForbidden(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "root@example.com", identity.Admin)
	other := "/api/users/" + p.id(t, "root@example.com")
	for _, role := range []identity.Role{identity.User, identity.Editor} {
		email := string(role) + "@example.com"
		who := p.add(t, email, role)
		p.do(t, "GET", other, "", who).wants(t, "read a foreign account", 404, "not_found")
		p.do(t, "PATCH", other, `{"first_name":"Eve"}`, who).wants(t, "change a foreign account", 404, "not_found")
		p.do(t, "DELETE", other, "", who).wants(t, "delete a foreign account", 403, "forbidden")
		p.do(t, "DELETE", "/api/users/"+p.id(t, email), "", who).wants(t, "delete one's own", 403, "forbidden")
		p.do(t, "POST", "/api/users", `{}`, who).wants(t, "create", 403, "forbidden")
		p.do(t, "GET", "/api/users/"+p.id(t, email), "", who).wants(t, "read one's own", 200, "")
	}
	for _, id := range []string{"0", "-1", "x", "99999999999999999999"} {
		p.do(t, "GET", "/api/users/"+id, "", p.add(t, "u"+strings.Trim(id, "-")+"@example.com", identity.Admin)).wants(t, "id "+id, 422, "validation_failed")
	}
}

func TestCase38TwoAdministratorsDemoteEachOtherAndOneStays(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	one, two := p.add(t, "one@example.com", identity.Admin), p.add(t, "two@example.com", identity.Admin)
	paths := []string{"/api/users/" + p.id(t, "two@example.com"), "/api/users/" + p.id(t, "one@example.com")}
	answers := make([]answer, 2)
	var wg sync.WaitGroup
	for i, who := range []func(*http.Request){one, two} {
		wg.Go(func() { answers[i] = p.do(t, "PATCH", paths[i], `{"role":"USER"}`, who) })
	}
	wg.Wait()
	succeeded := 0
	for _, a := range answers {
		switch {
		case a.status == 200:
			succeeded++
		// The other was demoted first: the guard or the change itself notices.
		case a.body.Error.Code != "last_admin" && a.body.Error.Code != "forbidden" && a.body.Error.Code != "not_found":
			t.Errorf("%d %s", a.status, a.text)
		}
	}
	if succeeded != 1 {
		t.Errorf("%d demotions succeeded", succeeded)
	}
	solo := newPeople(t)
	root := solo.add(t, "root@example.com", identity.Admin)
	me := "/api/users/" + solo.id(t, "root@example.com")
	solo.do(t, "PATCH", me, `{"role":"USER"}`, root).wants(t, "demote itself", 409, "last_admin")
	solo.do(t, "PATCH", me, `{"active":false}`, root).wants(t, "deactivate itself", 409, "last_admin")
	solo.do(t, "DELETE", me, "", root).wants(t, "delete itself", 409, "last_admin")
	solo.do(t, "GET", "/api/users", "", root).wants(t, "and goes on", 200, "")
}
