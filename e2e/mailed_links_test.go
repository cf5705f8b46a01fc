package e2e_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

// awaitLink waits for the mail of that kind to an address in dev's log, and returns
// the last one's link.
func (p *process) awaitLink(t *testing.T, kind, to string) string {
	t.Helper()
	mail := regexp.MustCompile(`msg=mail kind=` + kind + ` to=` + regexp.QuoteMeta(to) + ` .*link="?([^"\s]+)`)
	link := ""
	p.waitFor(t, "mail of kind "+kind, func() bool {
		if found := mail.FindAllStringSubmatch(p.stderr.String(), -1); found != nil {
			link = found[len(found)-1][1]
		}
		return link != ""
	})
	return link
}

// awaitUse waits until a link works: the log has it a moment before the commit.
func (p *process) awaitUse(t *testing.T, link string) {
	t.Helper()
	p.waitFor(t, "a link that works", func() bool { return outside.Do(t, "GET", link, "").Status == 200 })
}

// submit posts the form of the page that link leads to, with what was typed.
func submit(t *testing.T, link string, typed ...string) outside.Answer {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	form := url.Values{"token": {u.Query().Get("token")}}
	for i := 0; i < len(typed); i += 2 {
		form.Set(typed[i], typed[i+1])
	}
	u.RawQuery = ""
	return outside.Do(t, "POST", u.String(), form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
}

func TestTheLinksOfDevsLogLeadThroughToTheEnd(t *testing.T) {
	t.Parallel()
	p := startDev(t, dbtest.TempDir(t))
	post := func(path, body string, status int) {
		t.Helper()
		if a := outside.Do(t, "POST", p.url+path, body, "Content-Type", "application/json"); a.Status != status {
			t.Fatalf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	post("/api/auth/register", `{"first_name":"Ada","last_name":"Lovelace","email":"ada@example.com","password":"correct horse battery staple"}`, 201)
	first := p.awaitLink(t, "verify_email", "ada@example.com")
	post("/api/auth/verify-email/resend", `{"email":"ada@example.com"}`, 200)
	link := first
	p.waitFor(t, "another link", func() bool {
		link = p.awaitLink(t, "verify_email", "ada@example.com")
		return link != first
	})
	p.awaitUse(t, link)
	for what, want := range map[string]string{"opened": "Confirm my address", "once more": "Confirm my address"} {
		if a := outside.Do(t, "GET", link, ""); a.Status != 200 || !bytesContain(a.Body, want) {
			t.Errorf("%s: %d %s", what, a.Status, a.Body)
		}
	}
	if a := submit(t, link, "password", "correct horse battery staple"); a.Status != 200 || !bytesContain(a.Body, "is confirmed") {
		t.Errorf("the button: %d %s", a.Status, a.Body)
	}
	if a := outside.Do(t, "GET", first, ""); a.Status != 400 || !bytesContain(a.Body, "no longer works") {
		t.Errorf("the older link: %d %s", a.Status, a.Body)
	}

	post("/api/auth/password/forgot", `{"email":"ada@example.com"}`, 200)
	link = p.awaitLink(t, "reset_password", "ada@example.com")
	p.awaitUse(t, link)
	if a := submit(t, link, "password", "a newer battery staple", "again", "a newer battery staple"); a.Status != 200 || !bytesContain(a.Body, "password is set") {
		t.Errorf("the form: %d %s", a.Status, a.Body)
	}
	signIn(t, p, "ada@example.com", "a newer battery staple")
	wantError(t, outside.Do(t, "PUT", p.url+"/account/reset-password", ""), 405, "method_not_allowed")
	for line := range strings.Lines(p.stderr.String()) {
		if strings.Contains(line, "wpml_") && !strings.Contains(line, "msg=mail ") {
			t.Errorf("a secret is in another line than its mail's: %s", line)
		}
	}
}
