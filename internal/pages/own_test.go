package pages_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/account"
)

// shownKey is the key on the page that shows it once.
func shownKey(t *testing.T, p page) string {
	t.Helper()
	key := regexp.MustCompile(`<pre tabindex="0">((?:[A-Z2-7]{4} ){7}[A-Z2-7]{4})</pre>`).FindStringSubmatch(p.body)
	if key == nil || p.status != 200 || p.header.Get("Cache-Control") != "no-store" || !strings.Contains(p.body, `<svg class="qr"`) {
		t.Fatalf("no key: %d %v %s", p.status, p.header, p.body)
	}
	return key[1]
}

var recoveryCode = regexp.MustCompile(`<code>([A-Z2-7]{6}(?:-[A-Z2-7]{6}){3})</code>`)

func TestAnAdministratorWhoNeedsASecondFactorSetsItUpOnAPage(t *testing.T) {
	t.Parallel()
	o := newOffice(t, func(o *account.Options) { o.TwoFactor.RequiredForAdmin = true })
	g := o.guest()
	g.signIn(t, root, "/admin/panic").leads(t, "sign-in", "/admin/panic")
	g.ask(t, "GET", "/admin/panic", "").leads(t, "any page", "/admin/two-factor")
	g.ask(t, "GET", "/admin", "").leads(t, "the first page", "/admin/two-factor")
	g.ask(t, "POST", "/admin/two-factor/off/confirm", "").wants(t, "a form", 403, "Set up two-factor authentication")
	off := g.ask(t, "GET", "/admin/two-factor", "")
	off.wants(t, "the page", 200, "Set it up now")
	if strings.Contains(off.body, "<nav") {
		t.Error("pages are offered that can't be opened")
	}
	first := shownKey(t, g.ask(t, "POST", "/admin/two-factor/set-up", ""))
	pending := g.ask(t, "GET", "/admin/two-factor", "")
	pending.wants(t, "pending", 200, "Enter the code that it shows")
	if strings.Contains(pending.body, first) || strings.Contains(pending.body, "<svg") {
		t.Error("the key is shown again")
	}
	second := shownKey(t, g.ask(t, "POST", "/admin/two-factor/set-up", ""))
	g.ask(t, "POST", "/admin/two-factor/enable", "code="+o.totp(t, first)).wants(t, "a code of the key before", 401, "The code is wrong")
	on := g.ask(t, "POST", "/admin/two-factor/enable", "code="+o.totp(t, second))
	on.wants(t, "the code", 200, "Two-factor authentication is on.")
	codes := recoveryCode.FindAllStringSubmatch(on.body, -1)
	if len(codes) != 10 || on.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d codes, %v", len(codes), on.header)
	}
	if strings.Contains(on.body, "Set it up now") {
		t.Error("it still demands what was done")
	}
	g.ask(t, "GET", "/admin", "").wants(t, "the first page", 200, "Overview")
	after := g.ask(t, "GET", "/admin/two-factor", "")
	after.wants(t, "the page after", 200, "10 are left")
	if recoveryCode.MatchString(after.body) {
		t.Error("recovery codes are shown again")
	}
	g.ask(t, "POST", "/admin/two-factor/set-up", "").wants(t, "a key over an active one", 409, "already")

	g.ask(t, "POST", "/admin/two-factor/recovery-codes", "code=000000").wants(t, "new codes with a wrong one", 401, "The code is wrong")
	fresh := g.ask(t, "POST", "/admin/two-factor/recovery-codes", "code="+codes[0][1])
	fresh.wants(t, "new codes", 200, "shown this once")
	if n := recoveryCode.FindAllString(fresh.body, -1); len(n) != 10 || strings.Contains(fresh.body, codes[1][1]) {
		t.Errorf("codes %v", n)
	}
	g.ask(t, "GET", "/admin/two-factor/off", "").wants(t, "turning it off", 200, "be turned off")
	g.ask(t, "POST", "/admin/two-factor/off/confirm", "password="+strings.ReplaceAll(password, " ", "+")+"&code="+o.totp(t, second)).wants(t, "turning it off", 403, "Administrators need two-factor")
}

func TestTurningASecondFactorOffTakesPasswordAndCodeWithinTheLimits(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	g := o.guest()
	g.signIn(t, root, "").leads(t, "sign-in", "/admin")
	secret := shownKey(t, g.ask(t, "POST", "/admin/two-factor/set-up", ""))
	g.ask(t, "POST", "/admin/two-factor/enable", "code="+o.totp(t, secret)).wants(t, "the code", 200, "is on")
	typed := "password=" + strings.ReplaceAll(password, " ", "+") + "&code="
	g.ask(t, "POST", "/admin/two-factor/off/confirm", "password=wrong&code="+o.totp(t, secret)).wants(t, "a wrong password", 403, "The password is wrong.")
	for range 10 {
		g.ask(t, "POST", "/admin/two-factor/off/confirm", typed+"000000").wants(t, "a wrong code", 401, "The code is wrong")
	}
	over := g.ask(t, "POST", "/admin/two-factor/off/confirm", typed+o.totp(t, secret))
	over.wants(t, "after ten", 429, "Too many")
	if over.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	*o.now = o.now.Add(15 * time.Minute)
	g.ask(t, "POST", "/admin/two-factor/off/confirm", typed+o.totp(t, secret)).leads(t, "the code", "/admin/two-factor?said=disable-two-factor.confirm")
	g.ask(t, "GET", "/admin/two-factor?said=disable-two-factor.confirm", "").wants(t, "after", 200, "Two-factor authentication is off.")

	// A sign-in of long ago is no leave to add another way in.
	stale := g.ask(t, "POST", "/admin/two-factor/set-up", "")
	stale.wants(t, "a sign-in of long ago", 403, `href="/admin/sign-in?next=%2Fadmin%2Ftwo-factor"`)
	g.signIn(t, root, "/admin/two-factor").leads(t, "again", "/admin/two-factor")
	shownKey(t, g.ask(t, "POST", "/admin/two-factor/set-up", ""))
}

func TestVisitorsEndTheirOwnSessionsAndNoOthers(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	g := o.guest()
	g.signIn(t, root, "").leads(t, "sign-in", "/admin")
	*o.now = o.now.Add(time.Second)
	foreign, err := o.accounts.SignIn(t.Context(), root, password)
	if err != nil {
		t.Fatal(err)
	}
	list := g.ask(t, "GET", "/admin/account", "")
	list.wants(t, "the list", 200, "this one")
	id := regexp.MustCompile(`name="session" value="([^"]+)"`).FindStringSubmatch(list.body)
	g.ask(t, "POST", "/admin/account/end-session", "session="+id[1]).leads(t, "the newest", "/admin/account?said=end-session.end-session")
	if _, err := o.accounts.Authenticate(t.Context(), foreign.AccessToken); err == nil {
		t.Error("the session still holds")
	}
	for _, session := range []string{id[1], "nonsense", "", "00000000-0000-7000-8000-000000000000"} {
		g.ask(t, "POST", "/admin/account/end-session", "session="+session).wants(t, session, 404, "session")
	}
}
