package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/waypost/waypost/e2e/outside"
)

// visitor is a browser without redirects that keeps the pages' cookie by itself: it is
// Secure, and the test speaks http.
type visitor struct {
	t      *testing.T
	url    string
	cookie string
	dev    bool // a service that is reached by http, and has another cookie
}

// name is that of the cookie.
func (v *visitor) name() string {
	if v.dev {
		return "waypost"
	}
	return "__Host-waypost"
}

func (v *visitor) ask(method, path, form string, header ...string) outside.Answer {
	v.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if v.cookie != "" {
		header = append(header, "Cookie", v.name()+"="+v.cookie)
	}
	if method == "POST" {
		header = append(header, "Content-Type", "application/x-www-form-urlencoded")
	}
	a := outside.Exchange(v.t, client, method, v.url+path, form, header...)
	for _, c := range (&http.Response{Header: a.Header}).Cookies() {
		if c.Name != v.name() || !c.HttpOnly || c.Secure == v.dev || c.SameSite != http.SameSiteLaxMode || c.Path != "/" {
			v.t.Errorf("cookie %+v", c)
		}
		v.cookie = c.Value
	}
	return a
}

func (v *visitor) signIn(email, password string) outside.Answer {
	return v.ask("POST", "/admin/sign-in", url.Values{"email": {email}, "password": {password}, "next": {"/admin/jobs?state=discarded"}}.Encode())
}

func (v *visitor) want(a outside.Answer, status int, text string) {
	v.t.Helper()
	if a.Status != status || !strings.Contains(string(a.Body)+a.Header.Get("Location"), text) {
		v.t.Errorf("%d %s %.600s; want %d with %q", a.Status, a.Header.Get("Location"), a.Body, status, text)
	}
}

// pages lists every page of the desk that has no id in its path.
var pages = []string{"", "/users", "/users/invite", "/service-accounts", "/service-accounts/new", "/uploads", "/uploads/owners", "/stats", "/sites/new", "/webhooks", "/webhooks/targets", "/webhooks/providers", "/webhooks/rejected", "/webhooks/replays", "/jobs", "/queues", "/cron", "/mails", "/ai", "/ai/1", "/audit", "/audit/chain", "/audit/checkpoints", "/database", "/database/console", "/database/activity", "/database/tables/users", "/database/tables/users/structure", "/observability", "/security", "/account", "/two-factor"}

// Abuse case 58.
func TestCase58ThePagesAreForAdministratorsWhoSignedInThere(t *testing.T) {
	t.Parallel()
	p, database := serve(t)
	bearer := admin(t, p, database)
	if code, _, errOut := command(t, []string{"DATABASE_URL=" + database}, outside.Password, "user", "create", "--email", "eve@example.com", "--first-name", "Eve", "--last-name", "Ve"); code != 0 {
		t.Fatal(errOut)
	}
	v := &visitor{t: t, url: p.url}
	for _, path := range pages {
		a := v.ask("GET", "/admin"+path, "", "Authorization", "Bearer "+bearer)
		v.want(a, 303, "/admin/sign-in")
	}
	v.want(v.ask("GET", "/admin/jobs?state=running", ""), 303, "/admin/sign-in?next="+url.QueryEscape("/admin/jobs?state=running"))
	for _, next := range []string{"//evil.example", "https://evil.example/admin", "/admin/../api", "/api/users", `/admin\evil`, "/admin//evil.example", "javascript:alert(1)"} {
		v.want(v.ask("GET", "/admin/sign-in?next="+url.QueryEscape(next), ""), 200, `name="next" value="/admin"`)
	}
	v.want(v.signIn("root@example.com", "a wrong password"), 401, "The e-mail address or the password is wrong.")
	v.want(v.signIn("nobody@example.com", "a wrong password"), 401, "The e-mail address or the password is wrong.")
	v.want(v.signIn("root@example.com", outside.Password), 303, "/admin/jobs?state=discarded")
	for _, path := range pages {
		a := v.ask("GET", "/admin"+path, "")
		v.want(a, 200, "<h1>")
		policy := a.Header.Get("Content-Security-Policy")
		if strings.Contains(policy, "unsafe") || !regexp.MustCompile(`^default-src 'none'; script-src 'nonce-[\w-]{22}'; style-src 'nonce-[\w-]{22}'; .*frame-ancestors 'none'; report-uri /csp-reports; report-to csp$`).MatchString(policy) || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, a.Header)
		}
	}
	// The cookie is for the pages alone, and the session is one as every other.
	v.want(v.ask("GET", "/api/auth/me", ""), 401, "unauthenticated")
	sessions := outside.Do(t, "GET", p.url+"/api/auth/sessions", "", "Authorization", "Bearer "+bearer)
	var list struct {
		Data []struct {
			Current   bool
			ID        string
			ExpiresAt time.Time `json:"expires_at"`
		}
	}
	sessions.Into(t, &list)
	if len(list.Data) != 2 || list.Data[0].Current || time.Until(list.Data[0].ExpiresAt) > 30*time.Minute {
		t.Fatalf("%s", sessions.Body)
	}
	outside.Do(t, "DELETE", p.url+"/api/auth/sessions/"+list.Data[0].ID, "", "Authorization", "Bearer "+bearer)
	v.want(v.ask("GET", "/admin", ""), 303, "/admin/sign-in")

	v.want(v.signIn("eve@example.com", outside.Password), 303, "/admin")
	v.want(v.ask("GET", "/admin/jobs", ""), 403, "These pages are for administrators.")
	cookie := v.cookie
	v.want(v.ask("POST", "/admin/sign-out", ""), 303, "/admin/sign-in")
	v.cookie = cookie
	v.want(v.ask("GET", "/admin/jobs", ""), 303, "/admin/sign-in")
}

// Abuse case 53.
func TestCase53AFormOfAnotherSiteDoesNothing(t *testing.T) {
	t.Parallel()
	p, database := serve(t)
	admin(t, p, database)
	v := &visitor{t: t, url: p.url}
	form := url.Values{"email": {"root@example.com"}, "password": {outside.Password}}.Encode()
	for _, foreign := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}} {
		v.want(v.ask("POST", "/admin/sign-in", form, foreign...), 403, "sent from another site")
	}
	v.want(v.signIn("root@example.com", outside.Password), 303, "/admin")
	for _, foreign := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}} {
		for _, path := range []string{"/queues/pause", "/sign-out", "/mails/test"} {
			v.want(v.ask("POST", "/admin"+path, "name=default&to=ada@example.com", foreign...), 403, "sent from another site")
		}
	}
	v.want(v.ask("GET", "/admin/queues", ""), 200, "running")
	v.want(v.ask("POST", "/admin/queues/pause", "name=default", "Sec-Fetch-Site", "same-origin"), 303, "/admin/queues")
	v.want(v.ask("GET", "/admin/queues", ""), 200, "paused")
	v.want(v.ask("POST", "/admin/queues/resume", "name=default"), 303, "/admin/queues")
	v.want(v.ask("POST", "/admin/queues/pause", "name="+strings.Repeat("x", 20<<10)), 413, "too large")
}

func TestThePagesAskForTheSecondFactor(t *testing.T) {
	t.Parallel()
	p, database := serve(t)
	bearer := []string{"Authorization", "Bearer " + admin(t, p, database), "Content-Type", "application/json"}
	var begun struct{ Data struct{ Secret string } }
	outside.Do(t, "POST", p.url+"/api/auth/2fa/setup", "", bearer...).Into(t, &begun)
	code := func(periods int) string {
		c, err := totp.GenerateCode(begun.Data.Secret, time.Now().Add(time.Duration(periods)*30*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if a := outside.Do(t, "POST", p.url+"/api/auth/2fa/enable", fmt.Sprintf(`{"code":%q}`, code(0)), bearer...); a.Status != 200 {
		t.Fatalf("%s", a.Body)
	}
	v := &visitor{t: t, url: p.url}
	a := v.signIn("root@example.com", outside.Password)
	v.want(a, 200, "Code of your authenticator")
	if v.cookie != "" {
		t.Error("a cookie before the code")
	}
	form := url.Values{"challenge": {string(regexp.MustCompile(`name="challenge" value="([^"]+)"`).FindSubmatch(a.Body)[1])}, "next": {"/admin/audit"}}
	form.Set("code", "000000")
	v.want(v.ask("POST", "/admin/sign-in", form.Encode()), 401, "Code of your authenticator")
	form.Set("code", code(1))
	v.want(v.ask("POST", "/admin/sign-in", form.Encode()), 303, "/admin/audit")
	v.want(v.ask("GET", "/admin/audit", ""), 200, "Audit log")
	v.want((&visitor{t: t, url: p.url}).ask("POST", "/admin/sign-in", form.Encode()), 401, "code")
}

// Reports are the one thing below that anybody may send.
func TestCase58WhatIsForAdministratorsIsShownToNobodyElse(t *testing.T) {
	t.Parallel()
	p, _ := serve(t)
	v := &visitor{t: t, url: p.url}
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/vars", "/csp-reports/all"} {
		v.want(v.ask("GET", path, ""), 404, "not_found")
	}
	for _, path := range append(pages, "/security/clear-reports", "/nothing") {
		v.want(v.ask("GET", "/admin"+path, ""), 303, "/admin/sign-in")
	}
	v.want(v.ask("POST", "/admin/security/clear-reports", ""), 303, "/admin/sign-in")
	v.want(v.ask("GET", "/csp-reports", ""), 405, "method_not_allowed")
	for _, path := range []string{"/account/reset-password?token=x", "/docs", "/admin/sign-in"} {
		h := v.ask("GET", path, "").Header
		if !strings.HasSuffix(h.Get("Content-Security-Policy"), "; report-uri /csp-reports; report-to csp") || h.Get("Reporting-Endpoints") != `csp="/csp-reports"` {
			t.Errorf("%s: %v", path, h)
		}
	}
	const report = `{"csp-report":{"document-uri":"` + "https://a.example/account/reset-password?token=secret" + `","effective-directive":"img-src","blocked-uri":"inline"}}`
	if a := outside.Do(t, "POST", p.url+"/csp-reports", report, "Content-Type", "application/csp-report"); a.Status != 204 || a.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d %v %s", a.Status, a.Header, a.Body)
	}
}

// Abuse case 54.
func TestCase54ScriptsInWhatThePagesShowAreText(t *testing.T) {
	t.Parallel()
	p, database := serve(t)
	admin(t, p, database)
	const script = `<script>alert(1)</script>`
	outside.Do(t, "POST", p.url+"/webhooks/"+url.PathEscape(script), "{}", "User-Agent", script, "X-Note", script)
	v := &visitor{t: t, url: p.url}
	v.want(v.signIn("root@example.com", outside.Password), 303, "/admin")
	p.waitFor(t, "the refused delivery on its page", func() bool {
		return strings.Contains(string(v.ask("GET", "/admin/webhooks/rejected", "").Body), "&lt;script&gt;alert(1)")
	})
	for _, path := range append(pages, "/jobs?kind="+url.QueryEscape(script), "/webhooks?provider="+url.QueryEscape(script)+"&from="+url.QueryEscape(script), "/audit?cursor="+url.QueryEscape(script), "/jobs?said="+url.QueryEscape(script), "/nothing"+url.PathEscape(script)) {
		if a := v.ask("GET", "/admin"+path, ""); strings.Contains(string(a.Body), "<script>alert") {
			t.Errorf("%s: %s", path, a.Body)
		}
	}
}

func TestTheOverviewNamesWhatNeedsSomebodyUntilItIsDealtWith(t *testing.T) {
	t.Parallel()
	p, database := serve(t)
	admin(t, p, database)
	v := &visitor{t: t, url: p.url}
	v.want(v.signIn("root@example.com", outside.Password), 303, "/admin")
	link := regexp.MustCompile(`<a href="(/admin[^"]*)">([^<]+)</a>`)
	shows := func(text string) func() bool {
		return func() bool {
			body := string(v.ask("GET", "/admin", "").Body)
			return strings.Contains(body, text) && !strings.Contains(body, "could not be read")
		}
	}
	p.waitFor(t, "every part", shows("Parts</h2>"))
	for _, m := range link.FindAllStringSubmatch(string(v.ask("GET", "/admin", "").Body), -1) {
		v.want(v.ask("GET", strings.ReplaceAll(m[1], "&amp;", "&"), ""), 200, "<h1>")
	}
	v.want(v.ask("POST", "/admin/queues/pause", "name=default"), 303, "/admin/queues")
	p.waitFor(t, "the paused queue", shows("The queue default is paused"))
	v.want(v.ask("POST", "/admin/queues/resume", "name=default"), 303, "/admin/queues")
	p.waitFor(t, "that it runs again", func() bool {
		return !strings.Contains(string(v.ask("GET", "/admin", "").Body), "is paused")
	})
}

func TestAnAdministratorEndsWhatOthersAreSignedInWith(t *testing.T) {
	t.Parallel()
	p, database := serve(t)
	admin(t, p, database)
	if code, _, errOut := command(t, []string{"DATABASE_URL=" + database}, outside.Password, "user", "create", "--email", "eve@example.com", "--first-name", "Eve", "--last-name", "Ve"); code != 0 {
		t.Fatal(errOut)
	}
	eve := signIn(t, p, "eve@example.com", outside.Password)
	as := func(token string) []string {
		return []string{"Authorization", "Bearer " + token, "Content-Type", "application/json"}
	}
	var bot struct{ Data struct{ Token string } }
	outside.Do(t, "POST", p.url+"/api/auth/tokens", `{"name":"nightly","scopes":["read"]}`, as(eve)...).Into(t, &bot)
	v := &visitor{t: t, url: p.url}
	v.want(v.signIn("root@example.com", outside.Password), 303, "/admin")
	list := v.ask("GET", "/admin/users?q=eve", "")
	path := string(regexp.MustCompile(`/admin/users/\d+`).Find(list.Body))
	page := v.ask("GET", path, "")
	v.want(page, 200, "nightly")
	form := func(name string) string {
		m := regexp.MustCompile(`name="` + name + `" value="([^"]+)"`).FindSubmatch(page.Body)
		if m == nil {
			t.Fatalf("no %s on %s", name, page.Body)
		}
		return url.Values{name: {string(m[1])}}.Encode()
	}
	v.want(v.ask("POST", path+"/end-session", form("session")), 303, path)
	if a := outside.Do(t, "GET", p.url+"/api/auth/me", "", as(eve)...); a.Status != 401 {
		t.Errorf("her session: %d", a.Status)
	}
	if a := outside.Do(t, "GET", p.url+"/api/auth/me", "", as(bot.Data.Token)...); a.Status != 200 {
		t.Errorf("her token: %d %s", a.Status, a.Body)
	}
	asked := regexp.MustCompile(regexp.QuoteMeta(path) + `/revoke-token\?(token=\d+)`).FindSubmatch(page.Body)
	if asked == nil {
		t.Fatalf("no token to revoke on %s", page.Body)
	}
	v.want(v.ask("GET", string(asked[0]), ""), 200, "Revoke the token")
	v.want(v.ask("POST", path+"/revoke-token", string(asked[1])), 303, path)
	if a := outside.Do(t, "GET", p.url+"/api/auth/me", "", as(bot.Data.Token)...); a.Status != 401 {
		t.Errorf("her token: %d", a.Status)
	}
	again := signIn(t, p, "eve@example.com", outside.Password)
	v.want(v.ask("GET", path+"/end-all", ""), 200, "End them all")
	v.want(v.ask("POST", path+"/end-all", ""), 303, path)
	if a := outside.Do(t, "GET", p.url+"/api/auth/me", "", as(again)...); a.Status != 401 {
		t.Errorf("her new session: %d", a.Status)
	}
	v.want(v.ask("POST", path+"/deactivate", ""), 303, path)
	v.want(v.ask("GET", path, ""), 200, "deactivated")
	v.want(v.ask("POST", "/admin/users/1/deactivate", ""), 409, "last active administrator")
	v.want(v.ask("POST", path+"/end-session", "session=nonsense"), 404, "no")
}
