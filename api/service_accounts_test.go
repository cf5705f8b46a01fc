package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/identity"
)

// acting is somebody who has just signed in.
func (p people) acting(t *testing.T, email string) identity.Principal {
	t.Helper()
	s, err := p.accounts.SignIn(t.Context(), email, password)
	if err != nil {
		t.Fatal(err)
	}
	who, err := p.accounts.Authenticate(t.Context(), s.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	return who
}

// bot is the token of a new service account.
func (p people) bot(t *testing.T, acting context.Context, role identity.Role, scopes []identity.Scope) string {
	t.Helper()
	made, err := p.accounts.CreateServiceAccount(acting, account.NewServiceAccount{Name: "bot", Role: role, Active: true})
	if err != nil {
		t.Fatal(err)
	}
	_, secret, err := p.accounts.CreateServiceToken(acting, made.ID, account.NewAPIToken{Name: "bot", Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func TestAServiceAccountIsMadeAndWorks(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "root@example.com", identity.Admin)
	root, _ := p.signIn(t, "root@example.com")
	a := p.do(t, "POST", "/api/admin/service-accounts", `{"name":"Nightly export","role":"EDITOR"}`, root)
	a.wants(t, "create", 201, "")
	made := a.data(t)
	path := a.header.Get("Location")
	if path != fmt.Sprintf("/api/admin/service-accounts/%.0f", made["id"]) {
		t.Errorf("location %s", path)
	}
	want := map[string]any{"id": made["id"], "name": "Nightly export", "role": "EDITOR", "active": true, "created_at": made["created_at"]}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Error(diff)
	}
	a = p.do(t, "POST", path+"/tokens", `{"name":"bot","scopes":["read","write"],"allowed_networks":["192.0.2.1","10.1.2.3/8"],"rate":1000}`, root)
	a.wants(t, "token", 201, "")
	token := a.data(t)
	secret, _ := token["token"].(string)
	if a.header.Get("Cache-Control") != "no-store" || a.header.Get("Location") != fmt.Sprintf("%s/tokens/%.0f", path, token["id"]) {
		t.Errorf("%v", a.header)
	}
	expires, err := time.Parse(time.RFC3339, fmt.Sprint(token["expires_at"]))
	if left := time.Until(expires); err != nil || left < 89*24*time.Hour || left > 90*24*time.Hour {
		t.Errorf("it lives %s, %v", left, err)
	}
	if diff := cmp.Diff([]any{"192.0.2.1/32", "10.0.0.0/8"}, token["allowed_networks"]); diff != "" || token["rate"] != 1000.0 || token["last_address"] != nil {
		t.Errorf("%v %s", token, diff)
	}
	bot := func(address string) func(*http.Request) {
		return func(r *http.Request) { bearer(secret)(r); r.RemoteAddr = address + ":1234" }
	}
	p.do(t, "POST", "/api/blogs", `{"title":"T","content":"C"}`, bot("10.9.8.7")).wants(t, "a blog", 201, "")
	p.do(t, "GET", "/api/auth/me", "", bot("10.9.8.7")).wants(t, "me", 403, "service_account")
	p.do(t, "GET", "/api/users/"+fmt.Sprintf("%.0f", made["id"]), "", bot("10.9.8.7")).wants(t, "itself as a user", 404, "not_found")
	p.do(t, "GET", "/api/users/"+fmt.Sprintf("%.0f", made["id"]), "", root).wants(t, "as a user", 404, "not_found")
	foreign := p.do(t, "GET", "/api/posts", "", bot("192.0.2.2"))
	if foreign.wants(t, "from elsewhere", 403, "network_not_allowed"); !strings.Contains(foreign.body.Error.Message, "192.0.2.2") {
		t.Errorf("it says %q", foreign.body.Error.Message)
	}
	list := p.do(t, "GET", path+"/tokens?total=true", "", root)
	if list.wants(t, "list", 200, ""); strings.Contains(list.text, secret) || *list.body.Meta.Total != 1 || !strings.Contains(list.text, `"last_address":"10.9.8.7"`) {
		t.Errorf("%s", list.text)
	}
	p.do(t, "PATCH", path, `{"active":false}`, root).wants(t, "deactivate", 200, "")
	p.do(t, "GET", "/api/posts", "", bot("10.9.8.7")).wants(t, "deactivated", 401, "token_invalid")
	p.do(t, "DELETE", path, "", root).wants(t, "delete", 204, "")
	p.do(t, "GET", path, "", root).wants(t, "deleted", 404, "not_found")
}

func TestATokensRateIsAnsweredWithATime(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "root@example.com", identity.User)
	root, _ := p.signIn(t, "root@example.com")
	a := p.do(t, "POST", "/api/auth/tokens", `{"name":"bot","scopes":["read"],"rate":2}`, root)
	a.wants(t, "create", 201, "")
	bot := bearer(a.data(t)["token"].(string))
	for range 2 {
		p.do(t, "GET", "/api/posts", "", bot).wants(t, "within", 200, "")
	}
	a = p.do(t, "GET", "/api/posts", "", bot)
	if a.wants(t, "beyond", 429, "rate_limited"); a.header.Get("Retry-After") == "" {
		t.Errorf("%v", a.header)
	}
	p.do(t, "GET", "/api/posts", "", root).wants(t, "its owner", 200, "")
}

func TestOnlyNullMakesATokenThatNeverExpires(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "ada@example.com", identity.User)
	ada, _ := p.signIn(t, "ada@example.com")
	for body, never := range map[string]bool{
		`{"name":"bot","scopes":["read"]}`: false, `{"name":"bot","scopes":["read"],"expires_at":null}`: true,
		`{"name":"bot","scopes":["read"],"rate":null,"allowed_networks":[]}`: false,
	} {
		a := p.do(t, "POST", "/api/auth/tokens", body, ada)
		if a.wants(t, body, 201, ""); (a.data(t)["expires_at"] == nil) != never {
			t.Errorf("%s: %s", body, a.text)
		}
	}
	for body, field := range map[string]string{
		`{"name":"bot","scopes":["read"],"rate":0}`:                             "body.rate",
		`{"name":"bot","scopes":["read"],"rate":100001}`:                        "body.rate",
		`{"name":"bot","scopes":["read"],"allowed_networks":null}`:              "body.allowed_networks",
		`{"name":"bot","scopes":["read"],"allowed_networks":["example.com"]}`:   "body.allowed_networks",
		`{"name":"bot","scopes":["read"],"allowed_networks":["203.0.113.7",1]}`: "body.allowed_networks[1]",
	} {
		a := p.do(t, "POST", "/api/auth/tokens", body, ada)
		if a.wants(t, body, 422, "validation_failed"); a.body.Error.Details[field] == "" {
			t.Errorf("%s: %v", body, a.body.Error.Details)
		}
	}
}

func TestARotatedTokenOverlapsWithTheNext(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "ada@example.com", identity.User)
	ada, _ := p.signIn(t, "ada@example.com")
	a := p.do(t, "POST", "/api/auth/tokens", `{"name":"bot","scopes":["read"]}`, ada)
	a.wants(t, "create", 201, "")
	old, path := bearer(a.data(t)["token"].(string)), a.header.Get("Location")
	p.do(t, "POST", path+"/rotate?grace=2592001", "", ada).wants(t, "too much grace", 422, "validation_failed")
	a = p.do(t, "POST", path+"/rotate", "", ada)
	a.wants(t, "rotate", 201, "")
	next, nextPath := bearer(a.data(t)["token"].(string)), a.header.Get("Location")
	p.do(t, "POST", path+"/rotate", "", ada).wants(t, "again", 409, "token_replaced")
	for what, bot := range map[string]func(*http.Request){"old": old, "new": next} {
		p.do(t, "GET", "/api/posts", "", bot).wants(t, what, 200, "")
	}
	p.do(t, "POST", nextPath+"/rotate?grace=0", "", ada).wants(t, "at once", 201, "")
	p.do(t, "GET", "/api/posts", "", next).wants(t, "without grace", 401, "token_expired")
	p.do(t, "POST", nextPath+"/rotate", "", old).wants(t, "by a token", 403, "forbidden")
}
