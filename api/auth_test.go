package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

// signIn returns the tokens of a sign-in over HTTP.
func (p people) signIn(t *testing.T, email string) (access func(*http.Request), refresh string) {
	t.Helper()
	a := p.do(t, "POST", "/api/auth/login", login(email, password))
	a.wants(t, "sign in "+email, 200, "")
	data := a.data(t)
	return bearer(data["access_token"].(string)), data["refresh_token"].(string)
}

func refreshing(token string) string { return object(map[string]any{"refresh_token": token}) }

func TestARegistrationSignsInVerifiesAndIsAUser(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	a := p.do(t, "POST", "/api/auth/register", registration("ada@example.com"))
	a.wants(t, "register", 201, "")
	if got := a.data(t); got["role"] != "USER" || a.header.Get("Location") != "/api/users/"+p.id(t, "ada@example.com") {
		t.Errorf("%s at %s", a.text, a.header.Get("Location"))
	}
	ada, _ := p.signIn(t, "ada@example.com")
	p.add(t, "eve@example.com", identity.User)
	eve, _ := p.signIn(t, "eve@example.com")
	code := object(map[string]any{"token": p.code(t, "ada@example.com", mail.VerifyEmail)})
	// A mail scanner that follows the link changes nothing.
	if status := p.page(t, "GET", "/api/auth/verify-email?token=x"); status != 405 {
		t.Errorf("GET: %d", status)
	}
	p.do(t, "POST", "/api/auth/verify-email", code).wants(t, "who may not have made the account", 403, "password_required")
	p.do(t, "POST", "/api/auth/verify-email", code, eve).wants(t, "somebody else", 403, "password_required")
	a = p.do(t, "POST", "/api/auth/verify-email", code, ada)
	a.wants(t, "verify", 200, "")
	if a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("Cache-Control: %q", a.header.Get("Cache-Control"))
	}
	p.do(t, "POST", "/api/auth/verify-email", code).wants(t, "verify again", 400, "link_invalid")
	for _, bad := range []string{"password1", "short", strings.Repeat("x", 129)} {
		body := strings.Replace(registration("eve@example.com"), password, bad, 1)
		p.do(t, "POST", "/api/auth/register", body).wants(t, bad, 422, "validation_failed")
	}
}

func TestCase09ARefreshTokenIsGoodOnce(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "ada@example.com", identity.User)
	_, first := p.signIn(t, "ada@example.com")
	a := p.do(t, "POST", "/api/auth/refresh", refreshing(first))
	a.wants(t, "refresh", 200, "")
	if a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("Cache-Control %q", a.header.Get("Cache-Control"))
	}
	next := bearer(a.data(t)["access_token"].(string))
	p.do(t, "GET", "/api/auth/me", "", next).wants(t, "its access token", 200, "")
	p.do(t, "POST", "/api/auth/refresh", refreshing(first)).wants(t, "replay", 401, "refresh_reused")
	p.do(t, "GET", "/api/auth/me", "", next).wants(t, "the family", 401, "session_revoked")
	p.do(t, "POST", "/api/auth/refresh", refreshing(a.data(t)["refresh_token"].(string))).wants(t, "the successor", 401, "session_revoked")
	p.do(t, "POST", "/api/auth/refresh", refreshing("wprt_x")).wants(t, "made up", 401, "token_invalid")
}

func TestCase10OfTwentyParallelRefreshesAtMostOneSucceeds(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "ada@example.com", identity.User)
	_, refresh := p.signIn(t, "ada@example.com")
	answers := make([]answer, 20)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() { answers[i] = p.do(t, "POST", "/api/auth/refresh", refreshing(refresh)) })
	}
	wg.Wait()
	count := map[int]int{}
	for _, a := range answers {
		count[a.status]++
		if a.status == 200 { // and it is a thief's as likely as the owner's
			next := bearer(a.data(t)["access_token"].(string))
			p.do(t, "GET", "/api/auth/me", "", next).wants(t, "the family", 401, "session_revoked")
		}
	}
	if count[200] > 1 || count[200]+count[401] != 20 {
		t.Errorf("statuses %v", count)
	}
}

func TestCase06NoOtherSecretIsAnAccessToken(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.do(t, "POST", "/api/auth/register", registration("ada@example.com"))
	_, refresh := p.signIn(t, "ada@example.com")
	for _, secret := range []string{refresh, p.code(t, "ada@example.com", mail.VerifyEmail)} {
		p.do(t, "GET", "/api/auth/me", "", bearer(secret)).wants(t, secret[:5], 401, "token_invalid")
	}
}

func TestCase08LogoutAndTheEndOfSessionsBiteOnTheNextRequest(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "ada@example.com", identity.User)
	here, refresh := p.signIn(t, "ada@example.com")
	there, _ := p.signIn(t, "ada@example.com")
	if a := p.do(t, "POST", "/api/auth/logout", "", here); a.status != 204 || a.text != "" {
		t.Errorf("logout: %d %q", a.status, a.text)
	}
	p.do(t, "GET", "/api/auth/me", "", here).wants(t, "after logout", 401, "session_revoked")
	p.do(t, "POST", "/api/auth/logout", "", here).wants(t, "logout again", 401, "session_revoked")
	p.do(t, "POST", "/api/auth/refresh", refreshing(refresh)).wants(t, "refresh after logout", 401, "session_revoked")
	p.do(t, "GET", "/api/auth/me", "", there).wants(t, "another session", 200, "")

	third, _ := p.signIn(t, "ada@example.com")
	a := p.do(t, "GET", "/api/auth/sessions?total=true&limit=1", "", there)
	a.wants(t, "sessions", 200, "")
	var list []struct {
		ID      string
		Current bool
		Methods []string
	}
	if err := json.Unmarshal(a.body.Data, &list); err != nil || len(list) != 1 || list[0].Current || fmt.Sprint(list[0].Methods) != "[pwd]" || !a.body.Meta.HasMore {
		t.Fatalf("%s, %v", a.text, err)
	}
	p.do(t, "DELETE", "/api/auth/sessions/"+list[0].ID, "", there).wants(t, "end one", 204, "")
	p.do(t, "GET", "/api/auth/me", "", third).wants(t, "the ended one", 401, "session_revoked")
	for _, id := range []string{list[0].ID, "x", "00000000-0000-0000-0000-000000000000"} {
		p.do(t, "DELETE", "/api/auth/sessions/"+id, "", there).wants(t, "end "+id, 404, "not_found")
	}
	p.do(t, "DELETE", "/api/auth/sessions", "", there).wants(t, "end all", 204, "")
	p.do(t, "GET", "/api/auth/me", "", there).wants(t, "after all ended", 401, "session_revoked")
}

// Abuse cases 14 and 15: httptest's client has one address, whatever it claims.
func TestCase14And15FailuresAreLimitedWhateverTheClientClaims(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "ada@example.com", identity.User)
	p.exec(t, `delete from sign_in_networks`)
	claim := 0
	spoof := func(r *http.Request) {
		claim++
		for _, h := range []string{"X-Forwarded-For", "X-Real-IP", "True-Client-IP", "CF-Connecting-IP", "Forwarded"} {
			r.Header.Set(h, "198.51.100."+strconv.Itoa(claim%250))
		}
	}
	for i := range 10 {
		p.do(t, "POST", "/api/auth/login", login("ada@example.com", "wrong"), spoof).wants(t, fmt.Sprint("failure ", i+1), 401, "invalid_credentials")
	}
	a := p.do(t, "POST", "/api/auth/login", login("ada@example.com", password), spoof)
	a.wants(t, "the right password", 429, "rate_limited")
	if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 60 {
		t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
	}
	for i := range 90 {
		p.do(t, "POST", "/api/auth/login", login(fmt.Sprintf("user%d@example.com", i), "wrong"), spoof).wants(t, "another account", 401, "invalid_credentials")
	}
	p.do(t, "POST", "/api/auth/login", login("fresh@example.com", "wrong"), spoof).wants(t, "the address", 429, "rate_limited")
}

func TestCase18And19ForgottenPasswords(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "ada@example.com", identity.User)
	here, _ := p.signIn(t, "ada@example.com")
	known := p.do(t, "POST", "/api/auth/password/forgot", `{"email":"ada@example.com"}`)
	unknown := p.do(t, "POST", "/api/auth/password/forgot", `{"email":"eve@example.com"}`)
	known.wants(t, "forgot", 200, "")
	if known.text != unknown.text || known.status != unknown.status {
		t.Errorf("%s and %s differ", known.text, unknown.text)
	}
	p.work(t)
	if n := len(p.mail.Sent("eve@example.com")); n != 0 {
		t.Errorf("%d mails to nobody", n)
	}
	body := object(map[string]any{"token": p.code(t, "ada@example.com", mail.ResetPassword), "password": "another pl4nted staple"})
	p.do(t, "POST", "/api/auth/password/reset", body).wants(t, "reset", 200, "")
	p.do(t, "POST", "/api/auth/password/reset", body).wants(t, "reset again", 400, "link_invalid")
	p.do(t, "GET", "/api/auth/me", "", here).wants(t, "a session from before", 401, "session_revoked")
	p.do(t, "POST", "/api/auth/login", login("ada@example.com", "another pl4nted staple")).wants(t, "the new password", 200, "")
}

// Abuse case 60: nothing that a client sends decides where a link leads.
func TestCase60LinksLeadToTheConfiguredURL(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.do(t, "POST", "/api/auth/register", registration("ada@example.com"), func(r *http.Request) {
		r.Host = "evil.example"
		r.Header.Set("X-Forwarded-Host", "evil.example")
		r.Header.Set("Origin", "https://evil.example")
	}).wants(t, "register", 201, "")
	if link := p.mail.Sent("ada@example.com")[0].Link; !strings.HasPrefix(link, baseURL+account.VerifyEmailPath+"?token=") {
		t.Errorf("link %s", link)
	}
}

func TestAChangeOfPasswordNeedsTheCurrentOne(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "ada@example.com", identity.User)
	here, _ := p.signIn(t, "ada@example.com")
	there, _ := p.signIn(t, "ada@example.com")
	change := func(current, next string) string {
		return object(map[string]any{"current_password": current, "new_password": next})
	}
	p.do(t, "POST", "/api/auth/password/change", change("wrong", "another pl4nted staple"), here).wants(t, "wrong", 403, "reauthentication_required")
	p.do(t, "POST", "/api/auth/password/change", change(password, "password1"), here).wants(t, "common", 422, "validation_failed")
	p.do(t, "POST", "/api/auth/password/change", change(password, "another pl4nted staple"), here).wants(t, "change", 200, "")
	p.do(t, "GET", "/api/auth/me", "", here).wants(t, "here", 200, "")
	p.do(t, "GET", "/api/auth/me", "", there).wants(t, "there", 401, "session_revoked")
}

func TestAnAPITokenIsShownOnceAndWorksWithinItsScopes(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "ada@example.com", identity.User)
	ada, _ := p.signIn(t, "ada@example.com")
	a := p.do(t, "POST", "/api/auth/tokens", `{"name":"bot","scopes":["read"],"expires_at":null}`, ada)
	a.wants(t, "create", 201, "")
	made := a.data(t)
	secret, _ := made["token"].(string)
	if a.header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(secret, "wp_") || a.header.Get("Location") != fmt.Sprintf("/api/auth/tokens/%.0f", made["id"]) {
		t.Errorf("%s %v", a.text, a.header)
	}
	bot := bearer(secret)
	p.do(t, "GET", "/api/posts", "", bot).wants(t, "read", 200, "")
	p.do(t, "GET", "/api/auth/me", "", bot).wants(t, "me", 200, "")
	p.do(t, "POST", "/api/posts", `{"title":"t","body":"b"}`, bot).wants(t, "write without the scope", 403, "forbidden")
	p.do(t, "GET", "/api/auth/sessions", "", bot).wants(t, "in person only", 403, "forbidden")
	list := p.do(t, "GET", "/api/auth/tokens?total=true", "", ada)
	if list.wants(t, "list", 200, ""); strings.Contains(list.text, secret) || *list.body.Meta.Total != 1 || !strings.Contains(list.text, `"last_used_at":"2`) {
		t.Errorf("%s", list.text)
	}
	for body, field := range map[string]string{
		`{"name":"bot","scopes":["admin"]}`: "body.scopes", `{"name":"bot","scopes":[]}`: "body.scopes", `{"name":"bot","scopes":["root"]}`: "body.scopes[0]",
		`{"name":" ","scopes":["read"]}`: "body.name", `{"name":"bot","scopes":["read"],"expires_at":"2020-01-01T00:00:00Z"}`: "body.expires_at", `{"scopes":["read"]}`: "body.name",
	} {
		bad := p.do(t, "POST", "/api/auth/tokens", body, ada)
		if bad.wants(t, body, 422, "validation_failed"); bad.body.Error.Details[field] == "" {
			t.Errorf("%s: %v", body, bad.body.Error.Details)
		}
	}
	path := a.header.Get("Location")
	p.do(t, "DELETE", path, "", p.add(t, "eve@example.com", identity.Admin)).wants(t, "another's", 404, "not_found")
	p.do(t, "DELETE", path, "", ada).wants(t, "revoke", 204, "")
	p.do(t, "GET", "/api/posts", "", bot).wants(t, "revoked", 401, "token_invalid")
	p.do(t, "DELETE", path, "", ada).wants(t, "revoke again", 404, "not_found")
}

func TestTheKeySetVerifiesTheTokens(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	a := p.do(t, "GET", "/.well-known/jwks.json", "")
	var set struct{ Keys []map[string]string }
	if err := json.Unmarshal([]byte(a.text), &set); err != nil || len(set.Keys) != 1 || a.header.Get("Cache-Control") != "public, max-age=300" {
		t.Fatalf("%s %v %v", a.text, a.header, err)
	}
	for _, member := range []string{"kty", "crv", "x", "y", "kid", "alg", "use"} {
		if set.Keys[0][member] == "" {
			t.Errorf("%s is missing", member)
		}
	}
	if len(set.Keys[0]) != 7 {
		t.Errorf("members %v", set.Keys[0])
	}
}
