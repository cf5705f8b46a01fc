package pages

import (
	"net/http"
	"net/url"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
)

// Provider is an outside provider through which people sign in.
type Provider struct{ Name, Title string }

// LostVisitPath is where a browser comes back from a provider whose answer belongs to no
// sign-in that is under way.
const LostVisitPath = DeskPath + "/sign-in/lost"

// errOutside says what a provider's page has said more exactly already.
var errOutside = fault.New(fault.Malformed, "oauth_failed", "The provider did not confirm who you are. Try again, or sign in with your password.")

// outward are the endpoints of a sign-in through a provider. A link begins it, no form:
// Chromium would apply form-action to the redirects.
func (d *desk) outward() []Endpoint {
	list := []Endpoint{{http.MethodGet, LostVisitPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.refuseSignIn(w, r, d.form(""), account.ErrOAuthState)
	})}}
	for _, p := range d.o.Providers {
		at := DeskPath + "/sign-in/" + p.Name
		list = append(list, Endpoint{http.MethodGet, at, d.leave(p)}, Endpoint{http.MethodGet, at + "/return", d.comeBack()})
	}
	return list
}

// leave sends the browser to the provider, from a page of this service alone: another
// site can't make somebody sign in.
func (d *desk) leave(p Provider) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		form := d.form(r.URL.Query().Get("next"))
		w.Header().Set("Cache-Control", "no-store")
		if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" || r.Method == http.MethodHead {
			http.Redirect(w, r, DeskPath+"/sign-in?"+query("next", form.Next), http.StatusSeeOther)
			return
		}
		ctx, done := within(r.Context())
		defer done()
		back := DeskPath + "/sign-in/" + p.Name + "/return?" + query("next", form.Next)
		started, err := d.o.Visits.StartVisit(doing(ctx, "start-oauth-login"), p.Name, httpedge.BrowserSecret(d.o.Secure, r), back)
		if err != nil {
			d.refuseSignIn(w, r, form, err)
			return
		}
		cookie := httpedge.NewBrowserCookie(d.o.Secure, started.Browser, account.OAuthFlowTTL)
		http.SetCookie(w, &cookie)
		http.Redirect(w, r, started.URL, http.StatusSeeOther)
	})
}

// comeBack signs in with what the provider said, which the API's callback has stored for
// this browser under a code.
func (d *desk) comeBack() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		form := d.form(q.Get("next"))
		switch {
		case r.Method == http.MethodHead: // spends nothing
			d.showSignIn(w, r, http.StatusOK, "Sign in", form)
			return
		case q.Get("error") == account.ErrDenied.Code:
			d.refuseSignIn(w, r, form, account.ErrDenied)
			return
		case q.Get("code") == "":
			d.refuseSignIn(w, r, form, errOutside)
			return
		}
		ctx, done := within(r.Context())
		defer done()
		visit, err := d.o.Visits.FinishVisit(doing(ctx, "exchange-oauth-code"), q.Get("code"), httpedge.BrowserSecret(d.o.Secure, r))
		d.enter(w, r, form, visit, err)
	})
}

// ways lead to the providers, and from there to next.
func (d *desk) ways(next string) []Link {
	var all []Link
	for _, p := range d.o.Providers {
		l := Link{Text: "Sign in with " + p.Title, Href: DeskPath + "/sign-in/" + p.Name}
		if next != DeskPath {
			l.Href += "?" + url.Values{"next": {next}}.Encode()
		}
		all = append(all, l)
	}
	return all
}
