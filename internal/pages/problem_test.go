package pages_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
)

// Every refusal below /admin is a page of the design, for who is signed in and who is not.
func TestEveryErrorOfTheDeskIsAPage(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	in, out := o.guest(), o.guest()
	in.signIn(t, root, "").leads(t, "sign-in", "/admin")
	long := url.Values{"email": {root}, "password": {strings.Repeat("x", 20_000)}}.Encode()
	for name, c := range map[string]struct {
		who          *guest
		method, path string
		body         string
		header       []string
		status       int
		text         string
		also         string // a header and its value
	}{
		"no page":                 {in, "GET", "/admin/nothing", "", nil, 404, "Nothing is shown", ""},
		"no page, by a form":      {in, "POST", "/admin/nothing", "", nil, 404, "Nothing is shown", ""},
		"no page, by PUT":         {in, "PUT", "/admin/nothing", "", nil, 404, "Nothing is shown", ""},
		"no page, a slash":        {in, "GET", "/admin/", "", nil, 404, "Nothing is shown", ""},
		"no page, encoded":        {in, "GET", "/admin/a%2Fb%00", "", nil, 404, "Nothing is shown", ""},
		"PUT":                     {in, "PUT", "/admin/account", "", nil, 405, "GET, HEAD", "Allow: GET, HEAD"},
		"DELETE, a stranger":      {out, "DELETE", "/admin/sign-in", "", nil, 405, "GET, HEAD, POST", "Allow: GET, HEAD, POST"},
		"an unknown method":       {out, "BREW", "/admin", "", nil, 405, "GET, HEAD", "Allow: GET, HEAD"},
		"a form's address":        {in, "GET", "/admin/two-factor/enable", "", nil, 405, `href="/admin/two-factor"`, "Allow: POST"},
		"another site":            {in, "POST", "/admin/two-factor/enable", "", []string{"Origin", "https://evil.example"}, 403, "another site", ""},
		"too long":                {out, "POST", "/admin/sign-in", long, nil, 413, "too large", ""},
		"half a form":             {out, "POST", "/admin/sign-in", "email=%zz", nil, 400, "did not arrive completely", ""},
		"a semicolon":             {out, "POST", "/admin/sign-in", "email=a;b=c", nil, 400, "did not arrive completely", ""},
		"JSON":                    {out, "POST", "/admin/sign-in", `{"email":"x"}`, []string{"Content-Type", "application/json"}, 415, "takes a form", ""},
		"parts":                   {out, "POST", "/admin/sign-in", "--x--", []string{"Content-Type", "multipart/form-data; boundary=x"}, 415, "takes a form", ""},
		"no known form":           {out, "POST", "/admin/sign-in", "x", []string{"Content-Type", "text/"}, 415, "takes a form", ""},
		"a NUL in an address":     {out, "POST", "/admin/sign-in", "email=a%00b@example.com&password=" + strings.Repeat("x", 10), nil, 401, "is wrong", ""},
		"no text at all":          {out, "POST", "/admin/sign-in", "email=%ff%fe&password=%ff%fe%ff%fe%ff%fe%ff%fe", nil, 401, "is wrong", ""},
		"a challenge of no kind":  {out, "POST", "/admin/sign-in", "challenge=x.y.z&code=123456", nil, 401, `name="password"`, ""},
		"a session of no kind":    {in, "POST", "/admin/account/end-session", "session=%ff", nil, 404, "session", ""},
		"a panic":                 {in, "GET", "/admin/panic", "", nil, 500, "Something went wrong", ""},
		"an unknown way in":       {out, "PATCH", "/admin/sign-in/nobody", "", nil, 404, "Nothing is shown", ""},
		"a page for nobody":       {out, "POST", "/admin/account/end-session", "", nil, 303, "", "Location: /admin/sign-in"},
		"an unknown page, nobody": {out, "GET", "/admin/nothing", "", nil, 303, "", "Location: /admin/sign-in?next=%2Fadmin%2Fnothing"},
	} {
		a := c.who.ask(t, c.method, c.path, c.body, c.header...)
		a.wants(t, name, c.status, c.text)
		if header, value, given := strings.Cut(c.also, ": "); given && a.header.Get(header) != value {
			t.Errorf("%s: %s is %q, want %q", name, header, a.header.Get(header), value)
		}
		if c.status == 303 {
			continue
		}
		if !strings.HasPrefix(a.body, "<!doctype html>") || a.header.Get("Content-Type") != "text/html; charset=utf-8" || a.header.Get("Cache-Control") != "no-store" ||
			!strings.Contains(a.header.Get("Content-Security-Policy"), "style-src 'nonce-") || strings.Contains(a.body, "pl4nted") {
			t.Errorf("%s: %v %s", name, a.header, a.body)
		}
		if signedIn := strings.Contains(a.body, "/admin/sign-out"); signedIn != (c.who == in && name != "another site") {
			t.Errorf("%s: within the desk: %v", name, signedIn)
		}
	}
	for path, status := range map[string]int{"/admin": 200, "/admin/account": 200, "/admin/sign-in": 200, "/admin/nothing": 404, "/admin/two-factor/enable": 405, "/admin/panic": 500} {
		if a := in.ask(t, "HEAD", path, ""); a.status != status || a.header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("HEAD %s: %d %v", path, a.status, a.header)
		}
	}
	// What is not the desk's keeps the envelope.
	for _, path := range []string{"/administrators", "/nothing", "/api/nothing"} {
		if a := out.ask(t, "GET", path, ""); a.status != 404 || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %v", path, a.status, a.header)
		}
	}
}

func TestADatabaseThatIsAwayIsSaidOnThePages(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	proxy := dbtest.NewProxy(t, urls.App)
	d, err := db.Open(t.Context(), db.Options{URL: proxy.URL(), MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	o := newOfficeOn(t, d, nil)
	g := o.guest()
	g.signIn(t, root, "").leads(t, "sign-in", "/admin")
	g.ask(t, "GET", "/admin/sign-in", "").wants(t, "before", 200, `name="password"`)
	o.ready = db.ErrUnavailable
	*o.now = o.now.Add(2 * time.Second)
	proxy.Close()
	for name, a := range map[string]page{
		"the sign-in's page": g.ask(t, "GET", "/admin/sign-in", ""),
		"a sign-in":          o.guest().signIn(t, root, ""),
		"a page":             g.ask(t, "GET", "/admin/account", ""),
		"no page":            g.ask(t, "GET", "/admin/nothing", ""),
		"a form":             g.ask(t, "POST", "/admin/account/end-session", "session=x"),
		"a way in":           g.ask(t, "GET", "/admin/sign-in/google", ""),
		"a way back":         g.ask(t, "GET", "/admin/sign-in/google/return?code=x", ""),
		"a sign-out":         g.ask(t, "POST", "/admin/sign-out", ""),
	} {
		a.wants(t, name, 503, `class="problem"`)
		if a.header.Get("Retry-After") == "" || !strings.HasPrefix(a.body, "<!doctype html>") {
			t.Errorf("%s: %v", name, a.header)
		}
	}
	if a := g.ask(t, http.MethodPut, "/admin/account", ""); a.status != 405 || !strings.HasPrefix(a.body, "<!doctype html>") {
		t.Errorf("PUT: %d %s", a.status, a.body)
	}
	if g.cookies[visitCookie] == "" {
		t.Error("the session's cookie is gone because of the database")
	}
}

func TestCase55NoPageMayBeFramed(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	in, out := o.guest(), o.guest()
	in.signIn(t, root, "").leads(t, "sign-in", "/admin")
	for name, a := range map[string]page{
		"the sign-in": out.ask(t, "GET", "/admin/sign-in", ""), "a page": in.ask(t, "GET", "/admin/account", ""), "a key": in.ask(t, "POST", "/admin/two-factor/set-up", ""),
		"an error": in.ask(t, "GET", "/admin/nothing", ""), "a refusal": out.ask(t, "PUT", "/admin", ""), "a way back": out.ask(t, "GET", "/admin/sign-in/lost", ""),
	} {
		if policy := a.header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "default-src 'none'") || a.header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %v", name, a.header)
		}
	}
}
