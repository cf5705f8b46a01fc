package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/identity"
)

func TestASignInAnswersTokensThatWork(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "ada@example.com", identity.Editor)
	a := p.do(t, "POST", "/api/auth/login", login("ADA@example.com", password))
	a.wants(t, "login", 200, "")
	if got := a.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control: %q", got)
	}
	var data map[string]any
	if err := json.Unmarshal(a.body.Data, &data); err != nil {
		t.Fatal(err)
	}
	user, _ := data["user"].(map[string]any)
	if data["token_type"] != "Bearer" || data["expires_in"] != 900.0 || data["refresh_token"] == "" || a.body.Message == "" {
		t.Errorf("login answers %s", a.text)
	}
	names := []string{"active", "created_at", "email", "first_name", "id", "last_name", "role", "updated_at"}
	if diff := cmp.Diff(names, slices.Sorted(maps.Keys(user))); diff != "" {
		t.Errorf("user's members: %s", diff)
	}

	me := p.do(t, "GET", "/api/auth/me", "", bearer(data["access_token"].(string)))
	me.wants(t, "me", 200, "")
	var again map[string]any
	if err := json.Unmarshal(me.body.Data, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(user, again); diff != "" {
		t.Errorf("me differs from the login's user: %s", diff)
	}
}

// Abuse case 13.
func TestCase13UnknownAndWrongGetTheSameAnswerToTheByte(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "ada@example.com", identity.User)
	wrong := p.do(t, "POST", "/api/auth/login", login("ada@example.com", "not the one"))
	unknown := p.do(t, "POST", "/api/auth/login", login("eve@example.com", "not the one"))
	wrong.wants(t, "wrong password", 401, "invalid_credentials")
	if wrong.status != unknown.status || wrong.text != unknown.text {
		t.Errorf("wrong: %d %s; unknown: %d %s", wrong.status, wrong.text, unknown.status, unknown.text)
	}
	for _, h := range []http.Header{wrong.header, unknown.header} {
		h.Del("X-Request-Id")
	}
	if diff := cmp.Diff(wrong.header, unknown.header); diff != "" {
		t.Errorf("headers differ: %s", diff)
	}
}

func TestBadSignInBodiesAreRefused(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	for name, tc := range map[string]struct {
		body  string
		field string
	}{
		"abuse 16: 1 MB password":   {login("ada@example.com", strings.Repeat("x", 1_000_000)), "body.password"},
		"abuse 32: role on the way": {`{"email":"ada@example.com","password":"x","role":"ADMIN"}`, "body.role"},
		"no password":               {`{"email":"ada@example.com"}`, "body.password"},
		"null":                      {`{"email":null,"password":"x"}`, "body.email"},
		"another type":              {`{"email":"ada@example.com","password":5}`, "body.password"},
		"another case":              {`{"Email":"ada@example.com","password":"x"}`, "body.Email"},
	} {
		t.Run(name, func(t *testing.T) {
			a := p.do(t, "POST", "/api/auth/login", tc.body)
			a.wants(t, name, 422, "validation_failed")
			if a.body.Error.Details[tc.field] == "" {
				t.Errorf("details %v", a.body.Error.Details)
			}
		})
	}
	p.do(t, "POST", "/api/auth/login", `{"email":`).wants(t, "broken JSON", 400, "invalid_json")
}

func TestOnlyOneBearerTokenInTheHeaderSignsIn(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	ada := p.add(t, "ada@example.com", identity.User)
	probe := httptest.NewRequest("GET", "/", nil)
	ada(probe)
	good := strings.TrimPrefix(probe.Header.Get("Authorization"), "Bearer ")
	raw := func(values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header["Authorization"] = values }
	}
	for name, tc := range map[string]struct {
		path   string
		change func(*http.Request)
		code   string
	}{
		"nothing":                      {"/api/auth/me", raw(), "unauthenticated"},
		"another scheme":               {"/api/auth/me", raw("Basic " + good), "unauthenticated"},
		"no token":                     {"/api/auth/me", raw("Bearer "), "unauthenticated"},
		"abuse 11: token in the query": {"/api/auth/me?access_token=" + good + "&token=" + good, raw(), "unauthenticated"},
		"abuse 12: two headers":        {"/api/auth/me", raw("Bearer "+good, "Bearer "+good), "unauthenticated"},
		"two tokens in one":            {"/api/auth/me", raw("Bearer " + good + ", Bearer " + good), "token_invalid"},
		"abuse 12: a 100 KB token":     {"/api/auth/me", raw("Bearer " + good + strings.Repeat("A", 100<<10)), "token_invalid"},
		"garbage":                      {"/api/auth/me", raw("Bearer a.b.c"), "token_invalid"},
		"an edited signature":          {"/api/auth/me", raw("Bearer " + good[:len(good)-4] + "AAAA"), "token_invalid"},
		"for the list of posts":        {"/api/posts", raw(), "unauthenticated"},
		"for the list of users":        {"/api/users", raw(), "unauthenticated"},
	} {
		t.Run(name, func(t *testing.T) {
			a := p.do(t, "GET", tc.path, "", tc.change)
			a.wants(t, name, 401, tc.code)
			if !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("WWW-Authenticate is %q", a.header.Get("WWW-Authenticate"))
			}
		})
	}
	p.do(t, "GET", "/api/auth/me", "", raw("bearer "+good)).wants(t, "scheme in lower case", 200, "")
}

// Abuse case 8, and demotion.
func TestCase08DeactivationLogoutAndDemotionBiteOnTheNextRequest(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "root@example.com", identity.Admin)
	ada := p.add(t, "ada@example.com", identity.Admin)
	p.do(t, "GET", "/api/users", "", ada).wants(t, "as ADMIN", 200, "")
	if _, err := p.accounts.SetRole(t.Context(), "ada@example.com", identity.Editor); err != nil {
		t.Fatal(err)
	}
	p.do(t, "GET", "/api/users", "", ada).wants(t, "after demotion", 403, "forbidden")
	p.do(t, "GET", "/api/auth/me", "", ada).wants(t, "me after demotion", 200, "")

	p.exec(t, `update users set active = false where email = 'ada@example.com'`)
	p.do(t, "GET", "/api/auth/me", "", ada).wants(t, "after deactivation", 401, "session_revoked")
	p.do(t, "POST", "/api/auth/login", login("ada@example.com", password)).wants(t, "sign-in when deactivated", 403, "account_inactive")
	p.do(t, "POST", "/api/auth/login", login("ada@example.com", "wrong")).wants(t, "guess when deactivated", 401, "invalid_credentials")

	p.exec(t, `update users set active = true`)
	p.do(t, "GET", "/api/auth/me", "", ada).wants(t, "active again", 200, "")
	p.exec(t, `update auth_sessions set revoked_at = now()`)
	p.do(t, "GET", "/api/auth/me", "", ada).wants(t, "after logout", 401, "session_revoked")
}

func TestOnlyAdministratorsListAccounts(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	for _, role := range identity.Roles() {
		a := p.do(t, "GET", "/api/users", "", p.add(t, strings.ToLower(string(role))+"@example.com", role))
		if role == identity.Admin {
			a.wants(t, string(role), 200, "")
		} else {
			a.wants(t, string(role), 403, "forbidden")
		}
	}
}

func TestTheListOfAccountsPagesFiltersAndSorts(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	root := p.add(t, "root@example.com", identity.Admin)
	for i := range 4 {
		p.add(t, fmt.Sprintf("user%d@example.com", i), identity.User)
	}
	emails := func(a answer) []string {
		t.Helper()
		a.wants(t, "list", 200, "")
		var users []struct{ Email string }
		if err := json.Unmarshal(a.body.Data, &users); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, u := range users {
			out = append(out, u.Email)
		}
		return out
	}
	var all []string
	cursor := ""
	for {
		a := p.do(t, "GET", "/api/users?limit=2&total=true&sort=email&cursor="+url.QueryEscape(cursor), "", root)
		all = append(all, emails(a)...)
		if *a.body.Meta.Total != 5 || a.body.Meta.Limit != 2 {
			t.Errorf("meta %+v", a.body.Meta)
		}
		if cursor = a.body.Meta.NextCursor; !a.body.Meta.HasMore {
			break
		}
		p.do(t, "GET", "/api/users?sort=-email&cursor="+url.QueryEscape(cursor), "", root).wants(t, "cursor of another sort", 422, "validation_failed")
	}
	want := []string{"root@example.com", "user0@example.com", "user1@example.com", "user2@example.com", "user3@example.com"}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
	for query, want := range map[string][]string{
		"role=ADMIN":              {"root@example.com"},
		"q=USER3":                 {"user3@example.com"},
		"active=false":            nil,
		"active=true&limit=1":     {"user3@example.com"},
		"sort=created_at&limit=1": {"root@example.com"},
		"unknown=ignored&limit=1": {"user3@example.com"},
	} {
		a := p.do(t, "GET", "/api/users?"+query, "", root)
		if diff := cmp.Diff(want, emails(a)); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
		if strings.Contains(a.text, `"data":null`) {
			t.Errorf("%s: data is null", query)
		}
	}
}

func TestBadListParametersAreRefused(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	root := p.add(t, "root@example.com", identity.Admin)
	for query, field := range map[string]string{
		"limit=0":                             "query.limit",
		"limit=101":                           "query.limit",
		"limit=x":                             "query.limit",
		"sort=password_hash":                  "query.sort",
		"role=ROOT":                           "query.role",
		"active=maybe":                        "query.active",
		"cursor=%25":                          "query.cursor",
		"cursor=bm8":                          "query.cursor",
		"cursor=eyJlIjoiXHUwMDAwIiwicyI6IiJ9": "query.cursor",
		"q=%00":                               "query.q",
		"q=%ff":                               "query.q",
		"q=" + strings.Repeat("x", 201):       "query.q",
	} {
		a := p.do(t, "GET", "/api/users?"+query, "", root)
		a.wants(t, query, 422, "validation_failed")
		if a.body.Error.Details[field] == "" {
			t.Errorf("%.40s: details %v", query, a.body.Error.Details)
		}
	}
	for _, query := range []string{"author_id=0", "author_id=-1", "author_id=99999999999999999999", "tag=%00", "q=%ff", "cursor=e30x", "limit=1000"} {
		p.do(t, "GET", "/api/posts?"+query, "", root).wants(t, "posts "+query, 422, "validation_failed")
	}
}
