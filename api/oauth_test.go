package api_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/pquerna/otp/totp"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/account/oauth"
	"github.com/waypost/waypost/internal/account/oauth/oauthtest"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/seal"
	"github.com/waypost/waypost/internal/token"
)

const (
	appURL   = "https://app.example/signed-in"
	verifier = "a-verifier-of-the-application-s-own-of-43-or-more"
)

// outside is the API over accounts with two providers and two-factor
// authentication, and the log of it.
type outside struct {
	people
	google, github *oauthtest.Server
	log            *bytes.Buffer
}

func newOutside(t *testing.T, base string, change func(*account.Options)) outside {
	t.Helper()
	o := outside{google: oauthtest.NewOpenID(t, time.Now), github: oauthtest.NewGitHub(t), log: &bytes.Buffer{}}
	o.google.Person = oauthtest.Person{Subject: 7, Email: "ada@example.com", Verified: true, Name: "Ada Lovelace"}
	o.github.Person = o.google.Person
	o.ctx, o.db = t.Context(), dbtest.New(t)
	google, err := oauth.NewGoogle(o.google.Options(base + "/api/auth/oauth/google/callback"))
	if err != nil {
		t.Fatal(err)
	}
	github, err := oauth.NewGitHub(o.github.Options(base + "/api/auth/oauth/github/callback"))
	if err != nil {
		t.Fatal(err)
	}
	secret := bytes.Repeat([]byte{'k'}, seal.MinSecretKey)
	tokens, err := token.New(t.Context(), token.Options{DB: o.db, Issuer: base, SecretKey: secret})
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := seal.New(account.SealPurpose, secret, nil)
	if err != nil {
		t.Fatal(err)
	}
	options := account.Options{
		DB: o.db, Tokens: tokens, PasswordCost: account.PasswordCost{MemoryKiB: 64, Passes: 1, Lanes: 1},
		OAuth:     account.OAuthOptions{Providers: []*oauth.Provider{google, github}, ReturnURLs: []string{appURL}},
		TwoFactor: account.TwoFactorOptions{Sealer: sealer},
	}
	if change != nil {
		change(&options)
	}
	if o.accounts, err = account.New(options); err != nil {
		t.Fatal(err)
	}
	r := chi.NewRouter()
	if err := httpedge.Use(r, httpedge.Options{Logger: slog.New(slog.NewTextHandler(o.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}); err != nil {
		t.Fatal(err)
	}
	_, err = api.Mount(r, api.Options{
		BaseURL: base, Authenticator: o.accounts,
		Resources: []api.Resource{api.SignIn(o.accounts, tokens, base), api.Users(o.accounts)},
	})
	if err != nil {
		t.Fatal(err)
	}
	o.handler = r
	return o
}

// raw is an answer that may be no JSON.
func (o outside) raw(t *testing.T, path string, cookies ...*http.Cookie) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	o.handler.ServeHTTP(w, r)
	return w.Result()
}

// start begins a sign-in, lets the person agree, and returns the callback's path
// with what the provider sent, and the browser's cookie.
func (o outside) start(t *testing.T, provider, query string) (string, *http.Cookie) {
	t.Helper()
	a := o.raw(t, "/api/auth/oauth/"+provider+"/start"+query)
	if a.StatusCode != http.StatusFound || a.Header.Get("Cache-Control") != "no-store" || len(a.Cookies()) != 1 {
		body, _ := io.ReadAll(a.Body)
		t.Fatalf("start: %d %v %s", a.StatusCode, a.Header, body)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.Header.Get("Location"), nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	agreed, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = agreed.Body.Close() }()
	back, err := agreed.Location()
	if err != nil {
		t.Fatalf("the provider answered %d: %v", agreed.StatusCode, err)
	}
	return back.RequestURI(), a.Cookies()[0]
}

func with(c *http.Cookie) func(*http.Request) { return func(r *http.Request) { r.AddCookie(c) } }

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func member(t *testing.T, a answer, name string) string {
	t.Helper()
	var data map[string]any
	if err := json.Unmarshal(a.body.Data, &data); err != nil {
		t.Fatalf("%s: %v", a.text, err)
	}
	s, _ := data[name].(string)
	return s
}

// returned goes through a sign-in that returns to the application, and gives the
// parameter that it returned with.
func (o outside) returned(t *testing.T, provider, parameter string) string {
	t.Helper()
	path, cookie := o.start(t, provider, "?redirect_to="+url.QueryEscape(appURL)+"&code_challenge="+oauthtest.Challenge(verifier))
	a := o.raw(t, path, cookie)
	body, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	u, err := a.Location()
	if err != nil || a.StatusCode != http.StatusFound || len(body) != 0 || a.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("callback: %d %v %q", a.StatusCode, a.Header, body)
	}
	if !strings.HasPrefix(u.String(), appURL+"?"+parameter+"=") || strings.Contains(u.String(), "eyJ") {
		t.Fatalf("returned to %s", u)
	}
	return u.Query().Get(parameter)
}

func (o outside) exchange(t *testing.T, code string) answer {
	t.Helper()
	return o.do(t, "POST", "/api/auth/oauth/exchange", jsonOf(t, map[string]string{"code": code, "code_verifier": verifier}))
}

func TestABrowserSignsInThroughAProvider(t *testing.T) {
	t.Parallel()
	o := newOutside(t, baseURL, nil)
	list := o.do(t, "GET", "/api/auth/oauth/providers", "")
	list.wants(t, "providers", 200, "")
	if !strings.Contains(list.text, baseURL+"/api/auth/oauth/github/start") {
		t.Errorf("providers: %s", list.text)
	}
	for _, provider := range []string{"google", "github"} {
		path, cookie := o.start(t, provider, "")
		if cookie.Name != "__Host-waypost_oauth" || !cookie.Secure || !cookie.HttpOnly || cookie.Path != "/" || cookie.Domain != "" ||
			cookie.SameSite != http.SameSiteLaxMode || cookie.MaxAge != 600 {
			t.Errorf("cookie %s", cookie)
		}
		a := o.do(t, "GET", path, "", with(cookie))
		a.wants(t, provider, 200, "")
		if a.header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
			t.Errorf("headers %v", a.header)
		}
		o.do(t, "GET", "/api/auth/me", "", bearer(member(t, a, "access_token"))).wants(t, "me", 200, "")
		o.do(t, "GET", path, "", with(cookie)).wants(t, "the same answer again", 400, "oauth_state_invalid")
	}
	for _, secret := range []string{"code=", "state=", "pl4nted"} {
		if strings.Contains(o.log.String(), secret) {
			t.Errorf("%q is in the log", secret)
		}
	}
}

// Abuse cases 25 and 27.
func TestCase25And27AnswersThatThisBrowserDidNotAskForGet400(t *testing.T) {
	t.Parallel()
	o := newOutside(t, baseURL, nil)
	path, cookie := o.start(t, "google", "")
	foreign := *cookie
	foreign.Value = strings.Repeat("A", 43)
	plain := *cookie
	plain.Name = "waypost_oauth"
	for name, request := range map[string]struct {
		path   string
		cookie *http.Cookie
	}{
		"foreign browser":           {path, &foreign},
		"the cookie's plain name":   {path, &plain},
		"no state":                  {"/api/auth/oauth/google/callback?code=x", cookie},
		"wrong state":               {"/api/auth/oauth/google/callback?code=x&state=y", cookie},
		"other provider's callback": {strings.Replace(path, "/google/", "/github/", 1), cookie},
	} {
		o.do(t, "GET", request.path, "", with(request.cookie)).wants(t, name, 400, "oauth_state_invalid")
	}
	o.do(t, "GET", path, "").wants(t, "no cookie", 400, "oauth_state_invalid")
	o.do(t, "GET", "/api/auth/oauth/gitlab/callback?state=x", "").wants(t, "unknown provider", 404, "not_found")
	o.do(t, "GET", "/api/auth/oauth/gitlab/start", "").wants(t, "unknown provider", 404, "not_found")
	o.google.Issuer = "https://evil.example"
	path, cookie = o.start(t, "google", "")
	o.do(t, "GET", path, "", with(cookie)).wants(t, "another issuer", 400, "oauth_state_invalid")
}

// Abuse case 28.
func TestCase28OpenRedirectsGet400(t *testing.T) {
	t.Parallel()
	o := newOutside(t, baseURL, nil)
	for _, bad := range []string{"//evil", `\evil`, "https://app.example@evil.example", appURL + "/", appURL + "?x=1", "javascript:alert(1)"} {
		o.do(t, "GET", "/api/auth/oauth/google/start?code_challenge="+oauthtest.Challenge(verifier)+"&redirect_to="+url.QueryEscape(bad), "").
			wants(t, bad, 400, "redirect_not_allowed")
	}
	o.do(t, "GET", "/api/auth/oauth/google/start?redirect_to="+url.QueryEscape(appURL), "").wants(t, "no challenge", 422, "validation_failed")
}

func TestFailuresAtTheProviderGetTheirAnswers(t *testing.T) {
	t.Parallel()
	o := newOutside(t, baseURL, nil)
	finish := func(provider string) answer {
		path, cookie := o.start(t, provider, "")
		return o.do(t, "GET", path, "", with(cookie))
	}
	o.google.Deny = true
	finish("google").wants(t, "declined", 400, "oauth_denied")
	if got := o.returned(t, "google", "error"); got != "oauth_denied" {
		t.Errorf("returned with %s", got)
	}
	o.google.Deny = false
	// Abuse case 31.
	o.google.Claims = func(c map[string]any) { c["nonce"] = "another" }
	finish("google").wants(t, "another nonce", 401, "oauth_token_invalid")
	o.google.Claims = nil
	o.github.Down = true
	finish("github").wants(t, "down", 502, "oauth_exchange_failed")
}

// Abuse case 29, and the way out of it.
func TestCase29AnUnverifiedTwinIsLinkedOnlyWhileSignedIn(t *testing.T) {
	t.Parallel()
	o := newOutside(t, baseURL, nil)
	o.github.Person.Verified = false
	ada := o.add(t, "ada@example.com", identity.User)
	path, cookie := o.start(t, "github", "")
	o.do(t, "GET", path, "", with(cookie)).wants(t, "callback", 409, "email_exists_link_required")
	code := o.returned(t, "github", "code")
	o.exchange(t, code).wants(t, "exchange", 409, "email_exists_link_required")
	body := jsonOf(t, map[string]string{"code": code, "code_verifier": verifier})
	o.do(t, "POST", "/api/auth/identities", body).wants(t, "link, not signed in", 401, "unauthenticated")
	linked := o.do(t, "POST", "/api/auth/identities", body, ada)
	linked.wants(t, "link", 201, "")
	location := linked.header.Get("Location")
	if !strings.HasPrefix(location, "/api/auth/identities/") {
		t.Errorf("Location %q", location)
	}
	o.do(t, "POST", "/api/auth/identities", body, ada).wants(t, "link with a spent code", 400, "oauth_code_invalid")
	signed := o.exchange(t, o.returned(t, "github", "code"))
	signed.wants(t, "sign in with it", 200, "")
	if signed.header.Get("Cache-Control") != "no-store" {
		t.Error("tokens may be kept")
	}
	list := o.do(t, "GET", "/api/auth/identities", "", ada)
	list.wants(t, "list", 200, "")
	if !strings.Contains(list.text, `"provider":"github"`) || strings.Contains(list.text, "subject") {
		t.Errorf("identities: %s", list.text)
	}
	eve := o.add(t, "eve@example.com", identity.User)
	o.do(t, "DELETE", location, "", eve).wants(t, "unlink somebody else's", 404, "not_found")
	if r := o.bare(t, "DELETE", location, ada); r.Code != http.StatusNoContent {
		t.Errorf("unlink: %d %s", r.Code, r.Body)
	}
	o.do(t, "GET", "/api/auth/identities", "", ada).wants(t, "list", 200, "")
	o.exchange(t, o.returned(t, "github", "code")).wants(t, "after unlinking", 409, "email_exists_link_required")
}

// bare is an answer without a body.
func (o outside) bare(t *testing.T, method, path string, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	change(r)
	w := httptest.NewRecorder()
	o.handler.ServeHTTP(w, r)
	return w
}

func TestTheLastIdentityOfAnAccountWithoutPasswordStays(t *testing.T) {
	t.Parallel()
	o := newOutside(t, baseURL, nil)
	signed := o.exchange(t, o.returned(t, "google", "code"))
	signed.wants(t, "exchange", 200, "")
	ada := bearer(member(t, signed, "access_token"))
	o.do(t, "DELETE", "/api/auth/identities/1", "", ada).wants(t, "unlink", 422, "last_identity")
	o.exchange(t, o.returned(t, "google", "code")).wants(t, "still linked", 200, "")
}

func TestOnPlainHTTPTheCookieHasItsPlainName(t *testing.T) {
	t.Parallel()
	o := newOutside(t, "http://127.0.0.1:8080", nil)
	path, cookie := o.start(t, "google", "")
	if cookie.Name != "waypost_oauth" || cookie.Secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode {
		t.Errorf("cookie %s", cookie)
	}
	o.do(t, "GET", path, "", with(cookie)).wants(t, "callback", 200, "")
}

// linked links google's identity to an account, and returns a code of it.
func (o outside) linked(t *testing.T, who func(*http.Request)) string {
	t.Helper()
	body := jsonOf(t, map[string]string{"code": o.returned(t, "google", "code"), "code_verifier": verifier})
	o.do(t, "POST", "/api/auth/identities", body, who).wants(t, "link", 201, "")
	return o.returned(t, "google", "code")
}

func TestWhereItIsRequiredAnAdministratorCanOnlySetItUp(t *testing.T) {
	t.Parallel()
	o := newOutside(t, baseURL, func(a *account.Options) { a.TwoFactor.RequiredForAdmin = true })
	root := o.add(t, "root@example.com", identity.Admin)
	editor := o.add(t, "editor@example.com", identity.Editor)
	o.do(t, "GET", "/api/users", "", root).wants(t, "users", 403, "two_factor_required")
	o.do(t, "GET", "/api/auth/identities", "", root).wants(t, "identities", 403, "two_factor_required")
	o.do(t, "GET", "/api/auth/me", "", root).wants(t, "me", 200, "")
	o.do(t, "GET", "/api/auth/identities", "", editor).wants(t, "an editor", 200, "")
	setup := o.do(t, "POST", "/api/auth/2fa/setup", "", root)
	setup.wants(t, "setup", 200, "")
	code, err := totp.GenerateCode(member(t, setup, "secret"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	o.do(t, "POST", "/api/auth/2fa/enable", jsonOf(t, map[string]string{"code": code}), root).wants(t, "enable", 200, "")
	o.do(t, "GET", "/api/users", "", root).wants(t, "users", 200, "")
	o.do(t, "POST", "/api/auth/2fa/disable", jsonOf(t, map[string]string{"password": password, "code": "123456"}), root).
		wants(t, "disable", 403, "two_factor_required")
}
