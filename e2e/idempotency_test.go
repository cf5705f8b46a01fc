package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

func TestAStoredAnswerIsForItsCallerAloneAndAsLongAsTheyMay(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	p := startServe(t, urls.App)
	first := admin(t, p, urls.App)
	if code, out, errOut := command(t, []string{"DATABASE_URL=" + urls.App}, outside.Password+"\n",
		"user", "create", "--email", "second@example.com", "--first-name", "Second", "--last-name", "Admin", "--role", "ADMIN"); code != 0 {
		t.Fatal(code, out, errOut)
	}
	second := signIn(t, p, "second@example.com", outside.Password)
	create := func(token string) outside.Answer {
		return outside.Do(t, "POST", p.url+"/api/users", `{"first_name":"Ada","last_name":"Lovelace","email":"ada@example.com"}`,
			"Authorization", "Bearer "+token, "Idempotency-Key", "the-same")
	}
	if a := create(first); a.Status != http.StatusCreated {
		t.Fatal(a.Status, string(a.Body))
	}
	if a := create(first); a.Status != http.StatusCreated || a.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("again: %d %v", a.Status, a.Header)
	}
	wantError(t, create(second), http.StatusConflict, "email_taken") // their own request, which is carried out
	var me struct{ Data struct{ ID int } }
	outside.Do(t, "GET", p.url+"/api/auth/me", "", "Authorization", "Bearer "+first).Into(t, &me)
	if a := outside.Do(t, "PATCH", p.url+fmt.Sprintf("/api/users/%d", me.Data.ID), `{"role":"USER"}`, "Authorization", "Bearer "+second); a.Status != http.StatusOK {
		t.Fatal(a.Status, string(a.Body))
	}
	if a := create(first); a.Status != http.StatusForbidden && a.Status != http.StatusUnauthorized {
		t.Errorf("who is no ADMIN any more got %d %s", a.Status, a.Body)
	}
}

func TestAnAPITokenWithARateIsToldWhatIsLeft(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	p := startServe(t, urls.App)
	var made struct{ Data struct{ Token string } }
	outside.Do(t, "POST", p.url+"/api/auth/tokens", `{"name":"slow","scopes":["read"],"rate":2}`, "Authorization", "Bearer "+admin(t, p, urls.App)).Into(t, &made)
	for i, want := range []string{`"token";r=1;t=60`, `"token";r=0;t=60`, `"token";r=0;t=60`} {
		a := outside.Do(t, "GET", p.url+"/api/posts", "", "Authorization", "Bearer "+made.Data.Token)
		var left, reset int
		_, err := fmt.Sscanf(a.Header.Get("RateLimit"), `"token";r=%d;t=%d`, &left, &reset)
		if policy := a.Header.Get("RateLimit-Policy"); err != nil || left != 1-min(i, 1) || reset < 1 || reset > 60 || policy != `"token";q=2;w=60` {
			t.Errorf("%d: %d, %q, %q; want about %s", i, a.Status, a.Header.Get("RateLimit"), policy, want)
		}
		if (a.Status == http.StatusTooManyRequests) != (i == 2) {
			t.Errorf("%d: %d %s", i, a.Status, a.Body)
		}
	}
}
