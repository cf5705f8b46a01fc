package truth_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/account/oauth/oauthtest"
)

const (
	// clientURL is where a client application wants sign-ins to return to.
	clientURL      = "https://client.example/signed-in"
	clientVerifier = "a-verifier-of-the-client-s-own-of-43-or-more-letters"
)

// stranger agrees to sign in next, whom no account knows.
func (w *world) stranger(provider *oauthtest.Server) {
	n := w.serial.Add(1)
	provider.Person = oauthtest.Person{Subject: n, Email: "stranger-" + strconv.FormatInt(n, 10) + "@example.com", Verified: true, Name: "Some Stranger"}
}

// comeBack begins a sign-in, lets the person at the provider decide, and returns
// the call of finish-oauth-login that the browser makes then.
func (w *world) comeBack(t *testing.T, provider string, toClient bool) request {
	t.Helper()
	start := "/api/auth/oauth/" + provider + "/start"
	if toClient {
		start += "?" + url.Values{"redirect_to": {clientURL}, "code_challenge": {oauthtest.Challenge(clientVerifier)}}.Encode()
	}
	left := w.must(t, "GET", start, nil, nil)
	decided := outside.Exchange(t, browser, "GET", left.Header.Get("Location"), "")
	back, err := url.Parse(decided.Header.Get("Location"))
	if err != nil || decided.Status != http.StatusFound {
		t.Fatalf("the provider answered %d %s, %v", decided.Status, decided.Body, err)
	}
	cookie, _, _ := strings.Cut(left.Header.Get("Set-Cookie"), ";")
	return request{params: map[string]string{"provider": provider}, query: back.Query(), header: []string{"Cookie", cookie}}
}

// oauthCode goes through a sign-in of a stranger, or of who is set as the
// provider's person, up to the one-time code, and returns the body that spends it.
func (w *world) oauthCode(t *testing.T, provider string) []byte {
	t.Helper()
	r := w.comeBack(t, provider, true)
	a := w.must(t, "GET", "/api/auth/oauth/"+provider+"/callback?"+r.query.Encode(), r.header, nil)
	u, err := url.Parse(a.Header.Get("Location"))
	if err != nil || u.Query().Get("code") == "" {
		t.Fatalf("returned to %q, %v", a.Header.Get("Location"), err)
	}
	return []byte(outside.JSON(map[string]string{"code": u.Query().Get("code"), "code_verifier": clientVerifier}))
}

// namesake is at GitHub under the address of an account, unverified.
func (w *world) namesake() {
	w.github.Person = oauthtest.Person{Subject: w.serial.Add(1), Email: w.people[callerUser].email, Name: "Some Namesake"}
}

// link gives a caller a stranger's identity and returns its id.
func (w *world) link(t *testing.T, caller string) string {
	t.Helper()
	w.stranger(w.google)
	a := outside.Exchange(t, browser, "POST", w.url+"/api/auth/identities", string(w.oauthCode(t, "google")),
		append([]string{"Content-Type", "application/json"}, w.credentials[caller]...)...)
	var linked struct{ Data struct{ ID json.Number } }
	a.Into(t, &linked)
	if a.Status != http.StatusCreated {
		t.Fatalf("link: %d %s", a.Status, a.Body)
	}
	return linked.Data.ID.String()
}

// specialFinishes are what can come of a sign-in at a provider.
func specialFinishes(t *testing.T, w *world, call func(request) outside.Answer) {
	finish := func(name, provider string, toClient bool, change func()) {
		w.stranger(w.google)
		w.stranger(w.github)
		change()
		r := w.comeBack(t, provider, toClient)
		r.name, r.caller = name, callerNobody
		call(r)
	}
	finish("back to the client", "github", true, func() {})
	finish("declined", "google", false, func() { w.google.Deny = true })
	finish("declined, back to the client", "google", true, func() {})
	w.google.Deny = false
	finish("a statement for another sign-in", "google", false, func() {
		w.google.Claims = func(c map[string]any) { c["nonce"] = "another" }
	})
	w.google.Claims = nil
	finish("somebody's address", "github", false, w.namesake)
	finish("the provider is down", "github", false, func() { w.github.Down = true })
	w.github.Down = false
	finish("a stranger", "google", false, func() {})
	w.deactivate(t, w.google.Person.Email)
	again := w.google.Person
	finish("deactivated", "google", false, func() { w.google.Person = again })
	finish("an address that is not verified", "google", false, func() { w.google.Person.Verified = false })
	finish("no address", "google", false, func() { w.google.Person.Email = "" })
}

// specialStart is of a service that can't reach its provider.
func specialStart(t *testing.T, w *world, call func(request) outside.Answer) {
	gone := httptest.NewServer(nil)
	gone.Close()
	google := map[string]string{"provider": "google"}
	cutOff := w.compose(t, w.database.App, "WAYPOST_OAUTH_GOOGLE_URL="+gone.URL)
	call(request{name: "the provider is not there", caller: callerNobody, at: cutOff, params: google})
	call(request{name: "to a client", caller: callerNobody, params: google, query: url.Values{
		"redirect_to": {clientURL}, "code_challenge": {oauthtest.Challenge(clientVerifier)},
	}})
	call(request{name: "to a client that nobody knows", caller: callerNobody, params: google, query: url.Values{"redirect_to": {"https://evil.example"}}})
}
