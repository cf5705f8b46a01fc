package truth_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/site"
)

// person is somebody with an account and a session.
type person struct {
	email       string
	refresh     string
	credentials []string
	secret      string // of the authenticator application
}

// callers are all kinds of caller, in a lasting order.
func (w *world) callers() []string { return slices.Sorted(maps.Keys(kinds)) }

// makeCallers gives each kind its credentials.
func (w *world) makeCallers(t *testing.T) {
	t.Helper()
	w.people, w.credentials = map[string]*person{}, map[string][]string{
		callerForger:      {"Authorization", "Bearer x.y.z", "X-Analytics-API-Key", "wpr_none"},
		callerTokenForger: outside.Bearer("wp_" + strings.Repeat("A", 43)),
	}
	for name, role := range map[string]identity.Role{callerUser: identity.User, callerEditor: identity.Editor, callerAdmin: identity.Admin} {
		w.people[name] = w.newPerson(t, strings.ToLower(name)+"@example.com", role)
		w.credentials[name] = w.people[name].credentials
	}
	for _, name := range []string{callerToken, callerWeakToken, callerPlainToken} {
		w.credentials[name] = outside.Bearer(w.makeToken(t, callerAdmin, kinds[name].scopes).Token)
	}
	late := w.makeToken(t, callerAdmin, []string{"read", "write", "admin"})
	w.behind(t, "update api_tokens set expires_at = now() - interval '1 second' where id = $1", late.ID)
	w.credentials[callerLateToken] = outside.Bearer(late.Token)
	w.makeBoundTokens(t)
	gone := w.newcomer(t)
	w.must(t, "POST", "/api/auth/logout", gone.credentials, nil)
	w.credentials[callerEnded] = gone.credentials
	w.credentials[callerMustEnroll] = w.credentials[callerAdmin]
	made, err := w.sites.Create(t.Context(), "Site", "example.com", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	w.siteKey, w.siteID = made.Key, made.ID.String()
	for name, scope := range map[string]site.Scope{callerReader: site.ScopeRead, callerFeeder: site.ScopeIngest} {
		_, secret, err := w.sites.CreateKey(t.Context(), made.ID, name, scope)
		if err != nil {
			t.Fatal(err)
		}
		w.credentials[name] = []string{"X-Analytics-API-Key", secret}
	}
}

// newPerson makes an account and signs in to it.
func (w *world) newPerson(t *testing.T, email string, role identity.Role) *person {
	t.Helper()
	_, err := w.accounts.Create(t.Context(), account.NewUser{FirstName: "First", LastName: "Last", Email: email, Password: outside.Password, Role: role})
	if err != nil {
		t.Fatal(err)
	}
	p := &person{email: email}
	w.signIn(t, p)
	return p
}

// signIn opens one more session, which is the person's from now on.
func (w *world) signIn(t *testing.T, p *person) {
	t.Helper()
	var in struct {
		Data struct {
			AccessToken  string `json:"access_token"`
			RefreshToken string `json:"refresh_token"`
		}
	}
	w.must(t, "POST", "/api/auth/login", nil, map[string]string{"email": p.email, "password": outside.Password}).Into(t, &in)
	p.refresh, p.credentials = in.Data.RefreshToken, outside.Bearer(in.Data.AccessToken)
}

// signInAgain replaces the sessions that a call has ended.
func (w *world) signInAgain(t *testing.T) {
	t.Helper()
	for name, p := range w.people {
		if a := outside.Do(t, "GET", w.url+"/api/auth/me", "", p.credentials...); a.Status != 200 {
			w.signIn(t, p)
			w.credentials[name] = p.credentials
		}
	}
	w.credentials[callerMustEnroll] = w.credentials[callerAdmin]
}

// enroll turns on two-factor authentication with a code of this moment.
func (w *world) enroll(t *testing.T, p *person) {
	t.Helper()
	w.setUp(t, p)
	w.must(t, "POST", "/api/auth/2fa/enable", p.credentials, map[string]string{"code": p.code(t, 0)})
}

// setUp begins two-factor authentication.
func (w *world) setUp(t *testing.T, p *person) {
	t.Helper()
	var begun struct{ Data struct{ Secret string } }
	w.must(t, "POST", "/api/auth/2fa/setup", p.credentials, nil).Into(t, &begun)
	p.secret = begun.Data.Secret
}

// code is what the authenticator application shows in so many periods. A code is
// good once, and the next one already a period ahead (RFC 6238, section 5.2).
func (p *person) code(t *testing.T, periods int) string {
	t.Helper()
	code, err := totp.GenerateCode(p.secret, time.Now().Add(time.Duration(periods)*30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// newcomer is a person whom no other call knows.
func (w *world) newcomer(t *testing.T) *person {
	t.Helper()
	return w.newPerson(t, "newcomer-"+w.next()+"@example.com", identity.User)
}

// unverified is an account that registered, and the code that verifies its address.
func (w *world) unverified(t *testing.T) (email, code string) {
	t.Helper()
	email = "unverified-" + w.next() + "@example.com"
	w.must(t, "POST", "/api/auth/register", nil, map[string]string{"first_name": "New", "last_name": "User", "email": email, "password": outside.Password})
	w.forget(t, "register.address")
	return email, w.log.code(t, email, 1)
}

// registered are the credentials of who registered, and did not verify the address.
func (w *world) registered(t *testing.T) []string {
	t.Helper()
	email, _ := w.unverified(t)
	p := &person{email: email}
	w.signIn(t, p)
	return p.credentials
}

// asked is another address that somebody asks for, and the code that confirms it.
func (w *world) asked(t *testing.T, p *person) (email, code string) {
	t.Helper()
	email = "asked-" + w.next() + "@example.com"
	w.must(t, "POST", "/api/auth/email/change", p.credentials, map[string]string{"email": email})
	w.forget(t, "email_change.address")
	return email, w.log.code(t, email, 1)
}

// settled is a newcomer who signed in a while ago.
func (w *world) settled(t *testing.T) *person {
	t.Helper()
	return w.settle(t, w.newcomer(t))
}

// settledAdmin is one more ADMIN, who signed in a while ago.
func (w *world) settledAdmin(t *testing.T) *person {
	t.Helper()
	return w.settle(t, w.newPerson(t, "admin-"+w.next()+"@example.com", identity.Admin))
}

// settle puts somebody's sign-ins into the past.
func (w *world) settle(t *testing.T, p *person) *person {
	t.Helper()
	w.behind(t, `update auth_sessions set authenticated_at = authenticated_at - interval '16 minutes'
		where user_id = (select id from users where email = $1)`, p.email)
	return p
}

// enrolled is a newcomer with two-factor authentication.
func (w *world) enrolled(t *testing.T) *person {
	t.Helper()
	p := w.newcomer(t)
	w.enroll(t, p)
	return p
}
