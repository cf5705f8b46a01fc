package pages_test

import (
	"bytes"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail/mailtest"
	"github.com/waypost/waypost/internal/pages"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/token"
	"github.com/waypost/waypost/internal/upload"
)

// clock stands still until it is told to go on.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// archive is the operator pages over real accounts and files, with somebody signed in.
type archive struct {
	*site
	uploads *upload.Service
	clock   *clock
	root    identity.Principal // the ADMIN
	cookie  string
}

func newArchive(t *testing.T, more ...pages.Section) *archive {
	t.Helper()
	d := dbtest.New(t)
	clock := &clock{now: time.Now()}
	tokens, err := token.New(t.Context(), token.Options{DB: d, Issuer: baseURL, SecretKey: bytes.Repeat([]byte{'k'}, token.MinSecretKey)})
	if err != nil {
		t.Fatal(err)
	}
	store, err := blob.NewLocal(blob.LocalOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	work, err := queue.New(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	o := &archive{site: &site{mail: &mailtest.Memory{}, jobs: &jobs{}, log: &bytes.Buffer{}}, clock: clock}
	o.uploads, err = upload.New(t.Context(), upload.Options{DB: d, Store: store, Jobs: work, Limit: 1 << 20, Quota: 4 << 20, BaseURL: baseURL, SecretKey: bytes.Repeat([]byte{'k'}, 32), Now: clock.read})
	if err != nil {
		t.Fatal(err)
	}
	o.accounts, err = account.New(account.Options{
		DB: d, Tokens: tokens, Mail: o.mail, Jobs: o.jobs, Files: o.uploads, URL: baseURL, PasswordCost: account.PasswordCost{MemoryKiB: 64, Passes: 1, Lanes: 1}, Now: clock.read,
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := pages.New(pages.Desk(pages.DeskOptions{
		Visits: o.accounts, Now: clock.read, Sections: append([]pages.Section{pages.UserPages(o.accounts, o.accounts, clock.read), pages.UploadPages(o.uploads)}, more...),
	}))
	if err != nil {
		t.Fatal(err)
	}
	r := chi.NewRouter()
	if err := httpedge.Use(r, httpedge.Options{Logger: slog.New(slog.NewJSONHandler(o.log, nil))}); err != nil {
		t.Fatal(err)
	}
	for _, e := range p.Routes() {
		r.Method(e.Method, e.Pattern, e.Handler)
	}
	o.handler = r
	o.root = o.add(t, "root@example.com", identity.Admin)
	o.signIn(t, "root@example.com")
	return o
}

func (o *archive) add(t *testing.T, email string, role identity.Role) identity.Principal {
	t.Helper()
	operator := identity.NewContext(t.Context(), identity.Command("test", "user create"))
	u, err := o.accounts.Create(operator, account.NewUser{FirstName: "Ro", LastName: "Ot", Email: email, Password: password, Role: role})
	if err != nil {
		t.Fatal(err)
	}
	return identity.Account(u.ID, role, "").Doing("test")
}

func (o *archive) signIn(t *testing.T, email string) {
	t.Helper()
	a := o.ask(t, "POST", "/sign-in", url.Values{"email": {email}, "password": {password}})
	a.wants(t, "sign-in", 303, "")
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		o.cookie = c.Value
	}
}

// ask asks for a page of the desk; form is sent, nil for a GET.
func (o *archive) ask(t *testing.T, method, path string, form url.Values, header ...string) page {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/admin"+path, strings.NewReader(form.Encode()))
	if method == "POST" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if o.cookie != "" {
		r.AddCookie(&http.Cookie{Name: "waypost", Value: o.cookie})
	}
	return o.send(t, r)
}

// target is the page that an answer leads to, below /admin.
func (p page) target(t *testing.T) string {
	t.Helper()
	to, err := url.Parse(p.header.Get("Location"))
	if err != nil || !strings.HasPrefix(to.Path, "/admin/") {
		t.Fatalf("it leads to %s, %v", to, err)
	}
	return strings.TrimPrefix(to.Path, "/admin")
}

// says checks that the page's text holds, or with a minus before it lacks, each part.
func (p page) says(t *testing.T, what string, parts ...string) {
	t.Helper()
	text := html.UnescapeString(p.body)
	for _, part := range parts {
		part, not := strings.CutPrefix(part, "-")
		if strings.Contains(text, part) == not {
			t.Errorf("%s: says %q: %v\n%s", what, part, !not, p.body)
		}
	}
}

func TestAFormThatIsRefusedComesBackWithWhatWasTyped(t *testing.T) {
	t.Parallel()
	o := newArchive(t)
	a := o.ask(t, "POST", "/users/invite/send", url.Values{"first_name": {`Ada "<b>"`}, "last_name": {"Lovelace"}, "email": {"nowhere"}, "role": {"EDITOR"}})
	a.wants(t, "an invitation", 422, "Send the invitation")
	a.says(t, "an invitation", `value="Ada "<b>""`, `value="Lovelace"`, `value="nowhere" aria-invalid="true" aria-describedby="p-email"`, `id="p-email">Must be one e-mail address`, `<option value="EDITOR" selected`, "-Needs 2 to")
	if strings.Contains(a.body, "<b>") {
		t.Error("what was typed is markup")
	}
	o.ask(t, "POST", "/users/invite/send", url.Values{"first_name": {"Ada"}, "last_name": {"Lovelace"}, "email": {"root@example.com"}, "role": {"USER"}}).
		says(t, "a taken address", `value="Lovelace"`, `role="alert"`, `value="root@example.com"`)
	// What is no mistake of a field is said above, on the page where the button is.
	a = o.ask(t, "POST", fmt.Sprintf("/users/%d/deactivate", o.root.UserID), nil)
	a.wants(t, "the last administrator", 409, "last active administrator")
	a.says(t, "the last administrator", "Sessions", "Save the role")
	// A live page that was refused keeps what was typed: it doesn't renew itself.
	a.says(t, "the last administrator", "-data-hx-get")
	o.ask(t, "POST", "/users/999/deactivate", nil).wants(t, "of nobody", 404, "There is no such page")
}

func TestAFilterThatIsRefusedStays(t *testing.T) {
	t.Parallel()
	o := newArchive(t)
	for path, parts := range map[string][]string{
		"/uploads?owner=me&q=plan":         {`value="me" aria-invalid="true"`, `value="plan"`, "Must be an account's number"},
		"/uploads?sort=colour&q=plan":      {`value="plan"`, "sort: Must be created_at"},
		"/uploads?status=lost&type=a%2Fb":  {"Must be pending or ready.", `<option value="a/b" selected`},
		"/uploads?cursor=nonsense&q=plan":  {`value="plan"`, "not one of this list"},
		"/users?sort=colour&q=ada&role=no": {`value="ada"`, `role="alert"`},
	} {
		a := o.ask(t, "GET", path, nil)
		if a.status != 422 {
			t.Errorf("%s: %d", path, a.status)
		}
		a.says(t, path, append(parts, "Filter", "-No files")...)
	}
}

func TestAServiceAccountIsKeptByItsPages(t *testing.T) {
	t.Parallel()
	o := newArchive(t)
	o.ask(t, "GET", "/service-accounts", nil).wants(t, "none", 200, "Make a service account")
	o.ask(t, "POST", "/service-accounts/new/create", url.Values{"name": {""}, "role": {"ADMIN"}}).wants(t, "without a name", 422, `<option value="ADMIN" selected`)
	a := o.ask(t, "POST", "/service-accounts/new/create", url.Values{"name": {"<i>Night</i>"}, "role": {"EDITOR"}})
	a.wants(t, "made", 303, "")
	path := a.target(t)
	o.ask(t, "GET", path, nil).says(t, "its page", "<i>Night</i>", "-only an ADMIN may")
	a = o.ask(t, "POST", path+"/token", url.Values{"name": {"bot"}, "scopes": {"write"}, "allowed_networks": {"nowhere"}, "rate": {"many"}})
	a.wants(t, "a bad token", 422, `value="many"`)
	a.says(t, "a bad token", ">nowhere</textarea>", `value="write" checked`, `id="p-rate"`, `id="p-allowed_networks"`, "-wp_")
	o.ask(t, "POST", path+"/token", url.Values{"name": {"bot"}, "scopes": {"read"}, "never": {"yes"}, "expires_at": {"2999-01-01"}}).wants(t, "both", 422, "and not both")
	made := o.ask(t, "POST", path+"/token", url.Values{"name": {"bot"}, "scopes": {"read"}, "allowed_networks": {"192.0.2.0/24\r\n10.0.0.0/8"}, "rate": {"600"}, "never": {"yes"}})
	made.wants(t, "a token", 200, "shown this once")
	made.says(t, "a token", "192.0.2.0/24, 10.0.0.0/8; 600 requests a minute", "never")
	secret := regexp.MustCompile(`wp_[\w-]{20,}`).FindString(made.body)
	if secret == "" || made.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%v %s", made.header, made.body)
	}
	again := o.ask(t, "GET", path, nil)
	again.says(t, "afterwards", "-"+secret, secret[:11]+"...")
	number := url.Values{"token": {regexp.MustCompile(`revoke-token\?token=(\d+)`).FindStringSubmatch(again.body)[1]}}
	rotated := o.ask(t, "POST", path+"/rotate-token", number)
	rotated.wants(t, "rotated", 200, "shown this once")
	rotated.says(t, "rotated", "replaced", "-"+secret)
	o.ask(t, "POST", path+"/rotate-token", number).wants(t, "twice", 409, "already rotated")
	o.ask(t, "GET", path+"/revoke-token?"+number.Encode(), nil).wants(t, "asked", 200, "Revoke the token")
	o.ask(t, "POST", path+"/revoke-token", number).wants(t, "revoked", 303, "")
	o.ask(t, "POST", path+"/revoke-token", number).wants(t, "revoked twice", 404, "no such API token")
	for act, said := range map[string]string{"deactivate": "is deactivated.", "activate": "is active.", "save": "Saved."} {
		a = o.ask(t, "POST", path+"/"+act, url.Values{"name": {"Day"}, "role": {"ADMIN"}})
		a.wants(t, act, 303, "")
		o.ask(t, "GET", strings.TrimPrefix(a.header.Get("Location"), "/admin"), nil).wants(t, act, 200, said)
	}
	o.ask(t, "GET", path, nil).says(t, "saved", "Day", "only an ADMIN may")
	o.ask(t, "GET", path+"/delete", nil).wants(t, "asked", 200, "can&#39;t be undone")
	o.ask(t, "POST", path+"/delete", nil).wants(t, "deleted", 303, "")
	o.ask(t, "GET", path, nil).wants(t, "gone", 404, "")
	// A person is no service account, and its tokens are not made here.
	o.ask(t, "POST", fmt.Sprintf("/service-accounts/%d/token", o.root.UserID), url.Values{"name": {"bot"}, "scopes": {"read"}}).wants(t, "a person's", 404, "")
}

func TestATokenNeedsARecentSignInAndTypingItOnce(t *testing.T) {
	t.Parallel()
	o := newArchive(t)
	a := o.ask(t, "POST", "/service-accounts/new/create", url.Values{"name": {"bot"}, "role": {"USER"}})
	path := a.target(t)
	o.ask(t, "GET", path, nil).says(t, "after the sign-in", "-sign in again")
	o.clock.advance(account.RecentSignIn + time.Minute)
	o.ask(t, "GET", path, nil).says(t, "later", "sign in again", "/admin/sign-in?next=%2Fadmin"+url.QueryEscape(path))
	a = o.ask(t, "POST", path+"/token", url.Values{"name": {"export"}, "scopes": {"write"}})
	a.wants(t, "later", 403, `value="export"`)
	a.says(t, "later", `value="write" checked`, "Sign in again", `href="/admin/sign-in?next=%2Fadmin`+url.QueryEscape(path)+`"`, "-wp_")
	o.signIn(t, "root@example.com")
	o.ask(t, "POST", path+"/token", url.Values{"name": {"export"}, "scopes": {"write"}}).wants(t, "signed in anew", 200, "wp_")
}
