package pages_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/account/oauth/oauthtest"
	"github.com/waypost/waypost/internal/identity"
)

var grace = oauthtest.Person{Subject: 7, Email: root, Verified: true, Name: "Grace Hopper"}

func TestAnAdministratorSignsInToThePagesThroughAProvider(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	o.google.Person, o.github.Person = grace, grace
	for _, provider := range []string{"google", "github"} {
		g := o.guest()
		g.through(t, provider, "/admin/account?x=1").leads(t, provider, "/admin/account?x=1")
		if len(g.cookies[visitCookie]) != len("wpv_")+43 {
			t.Fatalf("cookies %v", g.cookies)
		}
		g.ask(t, "GET", "/admin/account", "").wants(t, provider, 200, "Your account")
		g.ask(t, "GET", "/api/auth/me", "").wants(t, "the API with the cookie", 401, "unauthenticated")
	}
	if n := o.count(t, `select count(*) from auth_sessions s join page_sessions p on p.session_id = s.id where s.methods = '{fed}'`); n != 2 {
		t.Errorf("%d sessions of the pages by a provider", n)
	}
	if n := o.count(t, `select (select count(*) from oauth_codes) + (select count(*) from oauth_flows)`); n != 0 {
		t.Errorf("%d flows and codes are left", n)
	}
	if log := o.log.String(); strings.Contains(log, "wpv_") || strings.Contains(log, "code=") || strings.Contains(log, "pl4nted") {
		t.Errorf("log %s", log)
	}
}

func TestASecondFactorIsAskedForAfterTheProvider(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	o.google.Person = grace
	g := o.guest()
	g.through(t, "google", "").leads(t, "without one", "/admin")
	setUp := g.ask(t, "POST", "/admin/two-factor/set-up", "")
	secret := shownKey(t, setUp)
	g.ask(t, "POST", "/admin/two-factor/enable", "code="+o.totp(t, secret)).wants(t, "enable", 200, "recovery codes")

	g = o.guest()
	asked := g.through(t, "google", "/admin/two-factor")
	asked.wants(t, "with one", 200, "Code of your authenticator")
	if g.cookies[visitCookie] != "" {
		t.Fatal("a session before the code")
	}
	form := url.Values{}
	for _, f := range hiddenFields.FindAllStringSubmatch(asked.body, -1) {
		form.Set(f[1], f[2])
	}
	form.Set("code", "000000")
	g.ask(t, "POST", "/admin/sign-in", form.Encode()).wants(t, "a wrong code", 401, "Code of your authenticator")
	form.Set("code", o.totp(t, secret))
	g.ask(t, "POST", "/admin/sign-in", form.Encode()).leads(t, "the code", "/admin/two-factor")
	if n := o.count(t, `select count(*) from auth_sessions where methods = '{fed,otp}'`); n != 1 {
		t.Errorf("%d sessions by a provider and a code", n)
	}
}

func TestAllWhomThePagesRefuseAfterAProviderSeeTheSame(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	gone := o.person(t, "gone@example.com", identity.Admin)
	if _, err := o.accounts.Update(identity.NewContext(t.Context(), identity.System("test")), gone.ID, account.Change{Active: new(false)}); err != nil {
		t.Fatal(err)
	}
	before := o.count(t, `select count(*) from users`)
	bodies := map[string]string{}
	for name, person := range map[string]oauthtest.Person{
		"nobody":          {Subject: 20, Email: "nobody@example.com", Verified: true, Name: "No Body"},
		"nobody verified": {Subject: 21, Email: "nobody@example.com", Name: "No Body"},
		"a namesake":      {Subject: 22, Email: root, Name: "Grace Hopper"},
		"deactivated":     {Subject: 23, Email: "gone@example.com", Verified: true, Name: "Gone"},
	} {
		o.google.Person = person
		g := o.guest()
		a := g.through(t, "google", "")
		a.wants(t, name, 403, "No account can be signed in with that identity.")
		bodies[regexp.MustCompile(`nonce="[^"]*"`).ReplaceAllString(a.body, "")] = name
		if g.cookies[visitCookie] != "" {
			t.Errorf("%s got a session", name)
		}
	}
	if len(bodies) != 1 {
		t.Errorf("the answers differ: %v", bodies)
	}
	if n := o.count(t, `select count(*) from users`); n != before {
		t.Errorf("%d accounts were made", n-before)
	}
	o.person(t, ada, identity.User)
	o.google.Person = oauthtest.Person{Subject: 24, Email: ada, Verified: true, Name: "Ada"}
	g := o.guest()
	g.through(t, "google", "").leads(t, "a USER", "/admin")
	g.ask(t, "GET", "/admin", "").wants(t, "a USER", 403, "These pages are for administrators.")

	o.google.Deny = true
	o.guest().through(t, "google", "").wants(t, "declined", 400, "declined at the provider")
	o.google.Deny, o.google.Down = false, true
	o.guest().through(t, "google", "").wants(t, "a provider in trouble", 400, "did not confirm who you are")
	o.google.Close()
	_, o.handler = o.instance(t, nil)
	o.guest().ask(t, "GET", "/admin/sign-in/google", "").wants(t, "a provider that is away", 502, `name="password"`)
}

// Another site can neither begin a sign-in here nor end one in a browser that did not
// begin it.
func TestCase25And28AnotherSiteSignsNobodyInToThePages(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	o.google.Person = grace
	for _, site := range []string{"cross-site", "same-site"} {
		a := o.guest().ask(t, "GET", "/admin/sign-in/google?next=/admin/account", "", "Sec-Fetch-Site", site)
		a.leads(t, site, "/admin/sign-in?next=%2Fadmin%2Faccount")
		if a.header.Get("Set-Cookie") != "" {
			t.Error("a cookie")
		}
	}
	thief, victim := o.guest(), o.guest()
	link := thief.approach(t, "google", "")
	victim.ask(t, "GET", link, "").wants(t, "without a cookie", 400, "Sign in")
	victim.cookies["__Host-waypost_oauth"] = strings.Repeat("A", 43)
	victim.ask(t, "GET", link, "").wants(t, "with another cookie", 400, "Sign in")
	if victim.cookies[visitCookie] != "" {
		t.Fatal("the victim is signed in as somebody else")
	}
	if a := thief.ask(t, "HEAD", link, ""); a.status != 200 || thief.cookies[visitCookie] != "" {
		t.Errorf("HEAD: %d", a.status)
	}
	thief.ask(t, "GET", link, "").leads(t, "in its own browser", "/admin")
	thief.ask(t, "GET", link, "").wants(t, "again", 400, "Sign in")

	// The answer of a provider in another browser, twice, or too late.
	late := o.guest()
	a := late.ask(t, "GET", "/admin/sign-in/google", "")
	u, err := url.Parse(a.header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	*o.now = o.now.Add(account.OAuthFlowTTL)
	callback := "/api/auth/oauth/google/callback?code=x&state=" + url.QueryEscape(u.Query().Get("state"))
	lost := late.ask(t, "GET", callback, "")
	if lost.status != http.StatusFound || lost.header.Get("Location") != deskURL+"/admin/sign-in/lost" {
		t.Fatalf("%d %v", lost.status, lost.header)
	}
	late.ask(t, "GET", lost.header.Get("Location"), "").wants(t, "too late", 400, "Sign in with Google")

	for _, next := range []string{"//evil.example", "https://evil.example/admin", "/admin/../api", "/api/users", `/admin\evil`, "/admin//evil.example", "javascript:alert(1)", "/admin/sign-in/google", "/admin/" + strings.Repeat("x", 2000)} {
		o.guest().through(t, "google", next).leads(t, next, "/admin")
		// and also where somebody writes it into the last address
		g := o.guest()
		at, err := url.Parse(g.approach(t, "google", ""))
		if err != nil {
			t.Fatal(err)
		}
		q := at.Query()
		q.Set("next", next)
		g.ask(t, "GET", at.Path+"?"+q.Encode(), "").leads(t, next, "/admin")
	}
}

func TestSignInsThroughAProviderAreLimitedByNetwork(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	g := o.guest()
	for range 600 {
		if a := g.ask(t, "GET", "/admin/sign-in/google", ""); a.status != 303 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	over := g.ask(t, "GET", "/admin/sign-in/google", "")
	over.wants(t, "over the limit", 429, "Too many tries")
	if over.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

// Abuse case 58 and its neighbours: what a session of the pages is good for, and until
// when, at every instance.
func TestCase58ASessionOfThePagesEndsEverywhereAtOnce(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	_, other := o.instance(t, nil)
	g := o.guest()
	g.cookies[visitCookie] = "wpv_" + strings.Repeat("A", 43) // planted
	g.signIn(t, root, "/admin/account").leads(t, "sign-in", "/admin/account")
	first := g.cookies[visitCookie]
	if first == "wpv_"+strings.Repeat("A", 43) {
		t.Fatal("the planted cookie became the session's")
	}
	g.signIn(t, root, "").leads(t, "again", "/admin")
	if g.cookies[visitCookie] == first {
		t.Error("two sign-ins share a secret")
	}
	there := &guest{o, other, map[string]string{visitCookie: g.cookies[visitCookie]}}
	there.ask(t, "GET", "/admin/account", "").wants(t, "the other instance", 200, "this one")
	g.ask(t, "GET", "/admin/sign-out", "").wants(t, "sign-out by GET", 405, "")
	for _, site := range []string{"cross-site", "same-site"} {
		g.ask(t, "POST", "/admin/sign-out", "", "Sec-Fetch-Site", site).wants(t, "another site's sign-out", 403, "another site")
	}
	there.ask(t, "GET", "/admin/account", "").wants(t, "still", 200, "this one")
	g.ask(t, "POST", "/admin/sign-out", "", "Sec-Fetch-Site", "same-origin").leads(t, "sign-out", "/admin/sign-in")
	if g.cookies[visitCookie] != "" {
		t.Error("the cookie stays")
	}
	there.ask(t, "GET", "/admin/account", "").leads(t, "after the sign-out", "/admin/sign-in?next=%2Fadmin%2Faccount")

	endsVisit(t, o, other, "a revoked session", func() error {
		u, err := o.accounts.FindByEmail(t.Context(), root)
		if err != nil {
			return err
		}
		return o.accounts.EndAllOf(identity.NewContext(t.Context(), identity.System("test")), u.ID)
	})
	endsVisit(t, o, other, "half an hour without a look", func() error { *o.now = o.now.Add(30 * time.Minute); return nil })
	g.signIn(t, root, "").leads(t, "sign-in", "/admin")
	o.person(t, "second@example.com", identity.Admin)
	if _, err := o.accounts.SetRole(identity.NewContext(t.Context(), identity.System("test")), root, identity.User); err != nil {
		t.Fatal(err)
	}
	there.cookies[visitCookie] = g.cookies[visitCookie]
	there.ask(t, "GET", "/admin/account", "").wants(t, "after a demotion", 403, "These pages are for administrators.")
}

// endsVisit signs in at one instance and looks at the other one after end.
func endsVisit(t *testing.T, o *office, other http.Handler, name string, end func() error) {
	t.Helper()
	g := o.guest()
	g.signIn(t, root, "").leads(t, "sign-in", "/admin")
	there := &guest{o, other, g.cookies}
	there.ask(t, "GET", "/admin/account", "").wants(t, name, 200, "this one")
	if err := end(); err != nil {
		t.Fatal(err)
	}
	there.ask(t, "GET", "/admin/account", "").leads(t, name, "/admin/sign-in?next=%2Fadmin%2Faccount")
}
