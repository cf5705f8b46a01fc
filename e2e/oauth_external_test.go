//go:build external

package e2e_test

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/waypost/waypost/e2e/outside"
)

const (
	publicURL = "https://waypost.example"
	returnURL = "https://app.example/signed-in"
)

// openID is a certified provider: oidc-provider from npm.
type openID struct {
	issuer string
	input  io.WriteCloser
	output *bufio.Scanner
}

func startOpenID(t *testing.T) *openID {
	t.Helper()
	script, err := os.ReadFile(filepath.Join("..", "tools", "npm", "openid.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "--input-type=module", "--eval", string(script))
	cmd.Dir = npmTools(t)
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p := &openID{input: input, output: bufio.NewScanner(output)}
	p.issuer = p.line(t, "http://")
	return p
}

// line is the next line with that beginning.
func (p *openID) line(t *testing.T, beginning string) string {
	t.Helper()
	for p.output.Scan() {
		if strings.HasPrefix(p.output.Text(), beginning) {
			return p.output.Text()
		}
	}
	t.Fatalf("the provider said no %q: %v", beginning, p.output.Err())
	return ""
}

// browser keeps cookies for the provider and stops before it leaves it.
func (p *openID) browser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if !strings.HasPrefix(r.URL.String(), p.issuer) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
}

var formAction = regexp.MustCompile(`<form[^>]* action="([^"]+)"`)

// agree walks through the provider's pages as who, and returns where it sends the
// browser at last.
func (p *openID) agree(t *testing.T, client *http.Client, address, who string) *url.URL {
	t.Helper()
	answer, err := client.Get(address)
	for range 3 {
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := answer.Location(); err == nil {
			return back
		}
		action := formAction.FindSubmatch(page)
		if answer.StatusCode != http.StatusOK || action == nil {
			t.Fatalf("the provider answered %d: %s", answer.StatusCode, tail(string(page), 2000))
		}
		form := url.Values{"prompt": {"consent"}}
		if strings.Contains(string(page), `name="login"`) {
			form = url.Values{"prompt": {"login"}, "login": {who}, "password": {"any"}}
		}
		target, err := answer.Request.URL.Parse(string(action[1]))
		if err != nil {
			t.Fatal(err)
		}
		answer, err = client.PostForm(target.String(), form)
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the provider's pages do not end")
	return nil
}

// visit asks the service, without following.
func visit(t *testing.T, address string, cookies ...*http.Cookie) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cookies {
		r.AddCookie(c)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// federated is sign-in with the provider at a service, for an application that keeps
// the verifier.
type federated struct {
	provider        *openID
	url             string // the service's
	start, verifier string
}

// approach sends a browser to the provider and back as who, and returns where the
// service sends it in the end. A foreign browser gets nowhere with the answer, and
// this one only once.
func (f federated) approach(t *testing.T, who string) *url.URL {
	t.Helper()
	left := visit(t, f.start)
	if left.StatusCode != http.StatusFound || len(left.Cookies()) != 1 {
		t.Fatalf("start: %d %v", left.StatusCode, left.Header)
	}
	asked, err := left.Location()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"code_challenge", "nonce", "state"} {
		if len(asked.Query().Get(name)) != 43 {
			t.Errorf("%s is %q", name, asked.Query().Get(name))
		}
	}
	back := f.provider.agree(t, f.provider.browser(t), asked.String(), who)
	if !strings.HasPrefix(back.String(), publicURL) || back.Query().Get("iss") != f.provider.issuer {
		t.Fatalf("the provider sent the browser to %s", back)
	}
	callback := f.url + back.RequestURI()
	if stranger := visit(t, callback); stranger.StatusCode != http.StatusBadRequest {
		t.Errorf("in a foreign browser: %d", stranger.StatusCode)
	}
	returned := visit(t, callback, left.Cookies()[0])
	if again := visit(t, callback, left.Cookies()[0]); again.StatusCode != http.StatusBadRequest {
		t.Errorf("the same answer again: %d", again.StatusCode)
	}
	at, err := returned.Location()
	if err != nil || !strings.HasPrefix(at.String(), returnURL+"?code=") {
		t.Fatalf("callback: %d to %v", returned.StatusCode, at)
	}
	return at
}

// signIn approaches as who and exchanges the code for tokens.
func (f federated) signIn(t *testing.T, who string) map[string]any {
	t.Helper()
	code := f.approach(t, who).Query().Get("code")
	body, err := json.Marshal(map[string]string{"code": code, "code_verifier": f.verifier})
	if err != nil {
		t.Fatal(err)
	}
	a := outside.Do(t, "POST", f.url+"/api/auth/oauth/exchange", string(body), "Content-Type", "application/json")
	var out struct{ Data map[string]any }
	if a.Into(t, &out); a.Status != http.StatusOK {
		t.Fatalf("%s: %d %s", who, a.Status, a.Body)
	}
	return out.Data
}

func TestExternalSignInThroughACertifiedOpenIDProvider(t *testing.T) {
	t.Parallel()
	provider := startOpenID(t)
	p, database := serve(t,
		"WAYPOST_OAUTH_GOOGLE_CLIENT_ID=waypost", "WAYPOST_OAUTH_GOOGLE_CLIENT_SECRET=pl4nted client secret: with + and %",
		"WAYPOST_OAUTH_GOOGLE_URL="+provider.issuer, "WAYPOST_OAUTH_RETURN_URLS="+returnURL)
	if _, err := fmt.Fprintln(provider.input, publicURL+"/api/auth/oauth/google/callback"); err != nil {
		t.Fatal(err)
	}
	provider.line(t, "ready")

	f := federated{provider: provider, url: p.url, verifier: rand.Text() + rand.Text()}
	sum := sha256.Sum256([]byte(f.verifier))
	f.start = p.url + "/api/auth/oauth/google/start?redirect_to=" + url.QueryEscape(returnURL) +
		"&code_challenge=" + base64.RawURLEncoding.EncodeToString(sum[:])
	first := f.signIn(t, "ada")
	user, _ := first["user"].(map[string]any)
	if user["email"] != "ada@example.com" || user["first_name"] != "Ada" || user["last_name"] != "Lovelace" {
		t.Errorf("signed in as %v", user)
	}
	token, _ := first["access_token"].(string)
	if me := outside.Do(t, "GET", p.url+"/api/auth/me", "", "Authorization", "Bearer "+token); me.Status != http.StatusOK {
		t.Errorf("me: %d %s", me.Status, me.Body)
	}
	if second := f.signIn(t, "ada"); second["user"].(map[string]any)["id"] != user["id"] {
		t.Errorf("another account the second time: %v", second["user"])
	}
	if code, _, errOut := command(t, []string{"DATABASE_URL=" + database}, "", "user", "set-role", "ada@example.com", "ADMIN"); code != 0 {
		t.Fatal(errOut)
	}
	cookie := f.visit(t, "ada", 303, "/admin/account")
	if page := visit(t, p.url+"/admin/account", cookie); page.StatusCode != http.StatusOK {
		t.Errorf("the page: %d", page.StatusCode)
	}
	f.visit(t, "somebody", 403, "")
	f.visit(t, "eve", 403, "")
	for _, secret := range []string{"pl4nted", token, cookie.Value, "code="} {
		if strings.Contains(p.stderr.String(), secret) {
			t.Errorf("%q is in the log", secret)
		}
	}
}

// visit signs who in to the pages by the link there, and returns the session's cookie,
// nil unless the end is a redirect to a page.
func (f federated) visit(t *testing.T, who string, status int, to string) *http.Cookie {
	t.Helper()
	left := visit(t, f.url+"/admin/sign-in/google?next=/admin/account")
	if left.StatusCode != http.StatusSeeOther || len(left.Cookies()) != 1 {
		t.Fatalf("start: %d %v", left.StatusCode, left.Header)
	}
	back := f.provider.agree(t, f.provider.browser(t), left.Header.Get("Location"), who)
	answered := visit(t, f.url+back.RequestURI(), left.Cookies()[0])
	at, err := answered.Location()
	if err != nil || answered.StatusCode != http.StatusFound || !strings.HasPrefix(at.String(), publicURL+"/admin/sign-in/google/return?") {
		t.Fatalf("callback: %d to %v", answered.StatusCode, at)
	}
	if stranger := visit(t, f.url+at.RequestURI()); stranger.StatusCode != http.StatusBadRequest || len(stranger.Cookies()) != 0 {
		t.Errorf("in a foreign browser: %d", stranger.StatusCode)
	}
	end := visit(t, f.url+at.RequestURI(), left.Cookies()[0])
	if end.StatusCode != status || end.Header.Get("Location") != to {
		t.Errorf("%s: %d to %q", who, end.StatusCode, end.Header.Get("Location"))
	}
	for _, c := range end.Cookies() {
		if c.Name == "__Host-waypost" {
			return c
		}
	}
	return nil
}
