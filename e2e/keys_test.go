package e2e_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/waypost/waypost/e2e/outside"
)

// states are the second column of `waypost keys list`.
func states(listed string) string {
	var list []string
	for _, row := range regexp.MustCompile(`(?m)^\S{43}  +(\S+) `).FindAllStringSubmatch(listed, -1) {
		list = append(list, row[1])
	}
	return strings.Join(list, " ")
}

func TestSigningKeysAreRotatedFromTheCommandLine(t *testing.T) {
	t.Parallel()
	p, url := serve(t)
	token := admin(t, p, url)
	secret := "WAYPOST_SECRET_KEY=a secret key for tests, longer than 32 bytes"
	run := func(want string, env []string, args ...string) {
		t.Helper()
		code, out, errOut := command(t, append([]string{"DATABASE_URL=" + url}, env...), "", append([]string{"keys"}, args...)...)
		if got := states(out); code != 0 || got != want {
			t.Errorf("keys %v: %d, %q, want %q\n%s%s", args, code, got, want, out, errOut)
		}
	}
	run("signing", nil, "list")
	run("published signing", []string{secret}, "rotate")
	if a := outside.Do(t, "GET", p.url+"/api/auth/me", "", "Authorization", "Bearer "+token); a.Status != 200 {
		t.Errorf("a token from before the rotation: %d %s", a.Status, a.Body)
	}
	run("signing", []string{secret}, "rotate", "--compromised")
	p.stop(t)
	next := startServe(t, url)
	wantError(t, outside.Do(t, "GET", next.url+"/api/auth/me", "", "Authorization", "Bearer "+token), 401, "token_invalid")
	var set struct{ Keys []struct{ Kid string } }
	outside.Do(t, "GET", next.url+"/.well-known/jwks.json", "").Into(t, &set)
	if len(set.Keys) != 1 {
		t.Errorf("key set %v", set)
	}
	signIn(t, next, "root@example.com", outside.Password)

	for name, c := range map[string]struct {
		env  []string
		code int
		says string
	}{
		"no secret key":      {nil, 2, "WAYPOST_SECRET_KEY is missing"},
		"another secret key": {[]string{"WAYPOST_SECRET_KEY=quite another key for tests, longer than 32 bytes"}, 1, "WAYPOST_SECRET_KEY_PREVIOUS"},
	} {
		if code, _, errOut := command(t, append([]string{"DATABASE_URL=" + url}, c.env...), "", "keys", "rotate"); code != c.code || !strings.Contains(errOut, c.says) {
			t.Errorf("%s: %d %s", name, code, errOut)
		}
	}
}

func TestTheOperatorLetsPeopleBackIn(t *testing.T) {
	t.Parallel()
	p, url := serve(t)
	old := admin(t, p, url)
	env := []string{"DATABASE_URL=" + url}
	if code, out, errOut := command(t, env, "another battery staple\n", "user", "set-password", "root@example.com"); code != 0 {
		t.Fatalf("set-password: %s %s", out, errOut)
	}
	wantError(t, outside.Do(t, "GET", p.url+"/api/auth/me", "", "Authorization", "Bearer "+old), 401, "session_revoked")
	signIn(t, p, "root@example.com", "another battery staple")
	code, _, errOut := command(t, env, "", "user", "remove-2fa", "root@example.com")
	if code != 1 || !strings.Contains(errOut, "wo-factor") {
		t.Errorf("remove-2fa of who has none: %d %s", code, errOut)
	}
	post := func(token, path, body string) outside.Answer {
		t.Helper()
		return outside.Do(t, "POST", p.url+path, body, "Authorization", "Bearer "+token, "Content-Type", "application/json")
	}
	outside.Do(t, "POST", p.url+"/api/auth/register", `{"first_name":"Ada","last_name":"Lovelace","email":"ada@example.com","password":"`+outside.Password+`"}`, "Content-Type", "application/json")
	ada := signIn(t, p, "ada@example.com", outside.Password)
	wantError(t, post(ada, "/api/auth/2fa/setup", ""), 403, "email_unverified")
	if code, _, errOut := command(t, env, "", "user", "verify", "ADA@example.com"); code != 0 {
		t.Fatalf("verify: %s", errOut)
	}
	if a := post(ada, "/api/auth/2fa/setup", ""); a.Status != 200 {
		t.Errorf("after the operator's word: %d %s", a.Status, a.Body)
	}
	if code, _, errOut := command(t, env, "", "user", "verify", "nobody@example.com"); code != 1 {
		t.Errorf("verify of nobody: %d %s", code, errOut)
	}
	body, err := json.Marshal(map[string]string{"email": "root@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	if a := outside.Do(t, "POST", p.url+"/api/auth/verify-email/resend", string(body), "Content-Type", "application/json"); a.Status != 200 {
		t.Errorf("resend: %d %s", a.Status, a.Body)
	}
}
