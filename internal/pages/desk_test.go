package pages_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/pquerna/otp/totp"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/account/oauth"
	"github.com/waypost/waypost/internal/account/oauth/oauthtest"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/pages"
	"github.com/waypost/waypost/internal/seal"
	"github.com/waypost/waypost/internal/token"
)

const (
	deskURL = "https://waypost.example"
	root    = "root@example.com"
)

// office is the desk and the API's sign-in over real accounts with two providers.
type office struct {
	site
	db             *db.DB
	now            *time.Time
	google, github *oauthtest.Server
	ready          error
}

// newOffice has one ADMIN, root. change may set further options.
func newOffice(t *testing.T, change func(*account.Options)) *office {
	t.Helper()
	return newOfficeOn(t, dbtest.New(t), change)
}

func newOfficeOn(t *testing.T, d *db.DB, change func(*account.Options)) *office {
	t.Helper()
	now := time.Now().Truncate(time.Second)
	o := &office{db: d, now: &now}
	o.log = &bytes.Buffer{}
	o.google, o.github = oauthtest.NewOpenID(t, func() time.Time { return *o.now }), oauthtest.NewGitHub(t)
	o.accounts, o.handler = o.instance(t, change)
	if _, err := o.accounts.Create(t.Context(), account.NewUser{FirstName: "Grace", LastName: "Hopper", Email: root, Password: password, Role: identity.Admin}); err != nil {
		t.Fatal(err)
	}
	if err := o.accounts.Vouch(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	return o
}

// instance is one more process of the same service.
func (o *office) instance(t *testing.T, change func(*account.Options)) (*account.Service, http.Handler) {
	t.Helper()
	google, err := oauth.NewGoogle(o.google.Options(deskURL + "/api/auth/oauth/google/callback"))
	if err != nil {
		t.Fatal(err)
	}
	github, err := oauth.NewGitHub(o.github.Options(deskURL + "/api/auth/oauth/github/callback"))
	if err != nil {
		t.Fatal(err)
	}
	secret := bytes.Repeat([]byte{'k'}, seal.MinSecretKey)
	clock := func() time.Time { return *o.now }
	tokens, err := token.New(t.Context(), token.Options{DB: o.db, Issuer: deskURL, SecretKey: secret, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := seal.New(account.SealPurpose, secret, nil)
	if err != nil {
		t.Fatal(err)
	}
	options := account.Options{
		DB: o.db, Tokens: tokens, URL: deskURL, Now: clock, PasswordCost: account.PasswordCost{MemoryKiB: 64, Passes: 1, Lanes: 1},
		OAuth: account.OAuthOptions{Providers: []*oauth.Provider{google, github}}, TwoFactor: account.TwoFactorOptions{Sealer: sealer},
		Visits: account.VisitOptions{Lost: pages.LostVisitPath},
	}
	if change != nil {
		change(&options)
	}
	accounts, err := account.New(options)
	if err != nil {
		t.Fatal(err)
	}
	broken := pages.Section{Label: "Broken", Screens: []pages.Screen{
		{Path: "", Title: "Overview", View: "problem", Read: func(*http.Request) (any, error) { return nil, nil }},
		{Path: "/panic", Title: "Panic", View: "problem", Read: func(*http.Request) (any, error) { panic("pl4nted") }},
	}}
	p, err := pages.New(pages.Desk(pages.DeskOptions{
		Visits: accounts, Secure: true, Now: clock, Ready: func(context.Context) error { return o.ready },
		Providers: []pages.Provider{{Name: "google", Title: "Google"}, {Name: "github", Title: "GitHub"}},
		Sections:  []pages.Section{broken, pages.OwnPages(accounts)},
	}))
	if err != nil {
		t.Fatal(err)
	}
	r := chi.NewRouter()
	if err := httpedge.Use(r, httpedge.Options{Logger: slog.New(slog.NewJSONHandler(o.log, nil)), HTTPS: true, Fail: p.Fail}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.Mount(r, api.Options{BaseURL: deskURL, Authenticator: accounts, Resources: []api.Resource{api.SignIn(accounts, tokens, deskURL)}}); err != nil {
		t.Fatal(err)
	}
	for _, e := range p.Routes() {
		r.Method(e.Method, e.Pattern, e.Handler)
	}
	return accounts, r
}

func (o *office) person(t *testing.T, email string, role identity.Role) account.User {
	t.Helper()
	u, err := o.accounts.Create(t.Context(), account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: email, Password: password, Role: role})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.accounts.Vouch(t.Context(), email); err != nil {
		t.Fatal(err)
	}
	return u
}

// guest is a browser at an instance, which keeps cookies and follows nothing.
type guest struct {
	o       *office
	at      http.Handler
	cookies map[string]string
}

func (o *office) guest() *guest { return &guest{o, o.handler, map[string]string{}} }

func (g *guest) ask(t *testing.T, method, path, form string, header ...string) page {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, deskURL+strings.TrimPrefix(path, deskURL), strings.NewReader(form))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	for name, value := range g.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	g.at.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if !strings.HasPrefix(c.Name, "__Host-") || c.Path != "/" || c.Domain != "" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode {
			t.Errorf("%s %s sets %v", method, path, c)
		}
		if g.cookies[c.Name] = c.Value; c.MaxAge < 0 {
			delete(g.cookies, c.Name)
		}
	}
	return page{w.Code, w.Header(), w.Body.String(), r.URL}
}

func (p page) leads(t *testing.T, what, to string) {
	t.Helper()
	if p.status != http.StatusSeeOther || p.header.Get("Location") != to {
		t.Errorf("%s: %d to %q, want 303 to %q: %s", what, p.status, p.header.Get("Location"), to, p.body)
	}
}

const visitCookie = "__Host-waypost"

func (g *guest) signIn(t *testing.T, email, next string) page {
	t.Helper()
	return g.ask(t, "POST", "/admin/sign-in", url.Values{"email": {email}, "password": {password}, "next": {next}}.Encode())
}

// approach goes to a provider by the page's link, agrees or not, comes back to the API's
// callback, and returns where that sends the browser.
func (g *guest) approach(t *testing.T, provider, next string) string {
	t.Helper()
	form := g.ask(t, "GET", "/admin/sign-in?next="+url.QueryEscape(next), "")
	link := regexp.MustCompile(`href="(/admin/sign-in/` + provider + `[^"]*)"`).FindStringSubmatch(form.body)
	if link == nil {
		t.Fatalf("no link to %s: %s", provider, form.body)
	}
	left := g.ask(t, "GET", link[1], "", "Sec-Fetch-Site", "same-origin")
	if left.status != http.StatusSeeOther || left.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%s: %d %v %s", link[1], left.status, left.header, left.body)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, left.header.Get("Location"), nil)
	if err != nil {
		t.Fatal(err)
	}
	agreed, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(agreed.Body)
	_ = agreed.Body.Close()
	callback := agreed.Header.Get("Location")
	if !strings.HasPrefix(callback, deskURL+"/api/auth/oauth/"+provider+"/callback?") {
		t.Fatalf("the provider sends the browser to %q: %s", callback, text)
	}
	back := g.ask(t, "GET", callback, "", "Sec-Fetch-Site", "cross-site")
	if back.status != http.StatusFound {
		t.Fatalf("callback: %d %s", back.status, back.body)
	}
	return back.header.Get("Location")
}

// through is the end of approach.
func (g *guest) through(t *testing.T, provider, next string) page {
	t.Helper()
	return g.ask(t, "GET", g.approach(t, provider, next), "", "Sec-Fetch-Site", "cross-site")
}

func (o *office) totp(t *testing.T, secret string) string {
	t.Helper()
	*o.now = o.now.Add(30 * time.Second) // a code works once
	code, err := totp.GenerateCode(strings.ReplaceAll(secret, " ", ""), *o.now)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func (o *office) count(t *testing.T, sql string) int {
	t.Helper()
	var n int
	if err := o.db.Pool().QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
