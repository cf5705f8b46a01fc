package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/waypost/waypost/e2e/outside"
)

func TestPostsAndUsersByRole(t *testing.T) {
	t.Parallel()
	p, url := serve(t)
	root := admin(t, p, url)
	code, _, errOut := command(t, []string{"DATABASE_URL=" + url}, outside.Password,
		"user", "create", "--email", "eve@example.com", "--first-name", "Eve", "--last-name", "Ve")
	if code != 0 {
		t.Fatal(errOut)
	}
	eve := signIn(t, p, "eve@example.com", outside.Password)
	as := func(token string) []string { return []string{"Authorization", "Bearer " + token} }

	for i := range 3 {
		body := fmt.Sprintf(`{"title":"Post %d","body":"Text","tags":["a","b"]}`, i)
		if a := outside.Do(t, "POST", p.url+"/api/posts", body, as(eve)...); a.Status != 200 {
			t.Fatalf("create a post: %d %s", a.Status, a.Body)
		}
	}
	wantError(t, outside.Do(t, "POST", p.url+"/api/posts", `{"title":"x","body":"y","tags":[],"author_id":1}`, as(eve)...), 422, "validation_failed")
	wantError(t, outside.Do(t, "GET", p.url+"/api/users", "", as(eve)...), 403, "forbidden")

	var page struct {
		Data []struct{ Title string }
		Meta struct {
			HasMore    bool   `json:"has_more"`
			NextCursor string `json:"next_cursor"`
			Total      int
		}
	}
	outside.Do(t, "GET", p.url+"/posts?limit=2&total=true", "", as(root)...).Into(t, &page)
	if len(page.Data) != 2 || page.Data[0].Title != "Post 2" || !page.Meta.HasMore || page.Meta.Total != 3 {
		t.Errorf("first page: %+v", page)
	}
	outside.Do(t, "GET", p.url+"/api/posts?limit=2&cursor="+page.Meta.NextCursor, "", as(root)...).Into(t, &page)
	if len(page.Data) != 1 || page.Data[0].Title != "Post 0" || page.Meta.HasMore {
		t.Errorf("second page: %+v", page)
	}
	users := outside.Do(t, "GET", p.url+"/api/users", "", as(root)...)
	if users.Status != 200 || !bytesContain(users.Body, "eve@example.com") || bytesContain(users.Body, "argon2") || bytesContain(users.Body, "password") {
		t.Errorf("users: %d %s", users.Status, users.Body)
	}

	// A demotion bites on the next request.
	if code, _, errOut := command(t, []string{"DATABASE_URL=" + url}, "", "user", "set-role", "root@example.com", "USER"); code == 0 {
		t.Error("the last ADMIN was demoted")
	} else if !bytesContain([]byte(errOut), "last active administrator") {
		t.Errorf("set-role says %q", errOut)
	}
	if code, _, errOut := command(t, []string{"DATABASE_URL=" + url}, "", "user", "set-role", "eve@example.com", "ADMIN"); code != 0 {
		t.Fatal(errOut)
	}
	if a := outside.Do(t, "GET", p.url+"/api/users", "", as(eve)...); a.Status != 200 {
		t.Errorf("after promotion: %d %s", a.Status, a.Body)
	}
}

// What happens at one process holds at another that shares the database, on the
// next request: nothing about a session is cached.
func TestLogoutDemotionAndDeactivationBiteOnEveryProcessAtOnce(t *testing.T) {
	t.Parallel()
	here, url := serve(t)
	there := startServe(t, url)
	root := admin(t, here, url)
	code, _, errOut := command(t, []string{"DATABASE_URL=" + url}, outside.Password,
		"user", "create", "--email", "eve@example.com", "--first-name", "Eve", "--last-name", "Ve", "--role", "admin")
	if code != 0 {
		t.Fatal(errOut)
	}
	call := func(p *process, token, method, path, body string) outside.Answer {
		t.Helper()
		return outside.Do(t, method, p.url+path, body, "Authorization", "Bearer "+token, "Content-Type", "application/json")
	}
	want := func(what string, a outside.Answer, status int) {
		t.Helper()
		if a.Status != status {
			t.Errorf("%s: %d %s, want %d", what, a.Status, a.Body, status)
		}
	}
	first, second := signIn(t, here, "eve@example.com", outside.Password), signIn(t, there, "eve@example.com", outside.Password)
	want("there", call(there, first, "GET", "/api/users", ""), 200)
	want("logout here", call(here, first, "POST", "/api/auth/logout", ""), 204)
	want("after logout, there", call(there, first, "GET", "/api/auth/me", ""), 401)
	want("another session", call(there, second, "GET", "/api/users", ""), 200)
	var me struct{ Data struct{ ID json.Number } }
	call(here, second, "GET", "/api/auth/me", "").Into(t, &me)
	want("demote", call(here, root, "PATCH", "/api/users/"+me.Data.ID.String(), `{"role":"EDITOR"}`), 200)
	want("after demotion, there", call(there, second, "GET", "/api/users", ""), 403)
	want("deactivate", call(here, root, "PATCH", "/api/users/"+me.Data.ID.String(), `{"active":false}`), 200)
	want("after deactivation, there", call(there, second, "GET", "/api/auth/me", ""), 401)
}

func bytesContain(b []byte, s string) bool { return bytes.Contains(b, []byte(s)) }
