package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
)

// DeskPath is where the operator pages are.
const DeskPath = "/admin"

// DeskOptions configure Desk.
type DeskOptions struct {
	Visits Visits
	// Secure says that the service is reached by https, so that its cookie may be
	// confined to that.
	Secure bool
	// Providers are the other ways to sign in.
	Providers []Provider
	// Ready says why nobody can sign in at the moment; nil if that is never known.
	Ready func(ctx context.Context) error
	// Now is the clock; nil for the system's.
	Now func() time.Time
	// Sections are the pages, in the order of the navigation.
	Sections []Section
}

// Section is the pages about one thing, such as webhooks: one file here, its
// templates, and one line in internal/app.
type Section struct {
	// Label is its name in the navigation; the first screen is where that leads.
	Label   string
	Screens []Screen
	// Own is about the visitor: its first screen is where the visitor's name leads, not
	// the navigation.
	Own bool
}

// Screen is one page of the desk.
type Screen struct {
	// Path is below DeskPath, in the router's patterns: "/webhooks/{id}".
	Path string
	// Title heads the page, unless what Read returns is Titled.
	Title string
	// View is the template in templates/desk.
	View string
	// Read returns what the template shows. Its error becomes a page; beside data, such
	// as the filter that holds what was typed, it is said above that.
	Read func(r *http.Request) (any, error)
	// Serve answers what is no page, such as a download, in place of View and Read. It
	// has written nothing when it returns an error.
	Serve func(w http.ResponseWriter, r *http.Request) error
	// Live says that the page brings itself up to date while somebody looks at it: each
	// Every, 5 s by default and below 10 s, unless what Read returns is settled.
	Live  bool
	Every time.Duration
	// Acts are what can be done there.
	Acts []Act
	// Enrolls is open, with its acts, to an ADMIN who must set up a second factor before
	// anything else.
	Enrolls bool
}

// Act is what a button does: a POST to the path of its screen and its name.
type Act struct {
	Name string
	// Operation is what the audit log calls it: the operationId of the same in the API.
	Operation string
	// Ask is set for what destroys: it is asked once more, on a page of its own.
	Ask *Question
	// Done is what a page says once after it.
	Done string
	Do   func(r *http.Request) (Outcome, error)
}

// Question is what a page asks before something is destroyed.
type Question struct {
	// Title asks, Detail says what will be lost, Button names the deed.
	Title, Detail, Button string
}

// Outcome is what became of an Act.
type Outcome struct {
	// To is where to go on, below DeskPath; "" is the act's own screen.
	To string
	// Away is a path of this service outside the desk to go on to, in place of To.
	Away string
	// Show is shown in place of going on: a new secret, which is there to be seen once.
	Show *Shown
}

// Shown is a page that an act ends with.
type Shown struct {
	View string
	Data any
	// Status is that of the answer; 0 for 200.
	Status int
}

// Titled is data that knows its page's title.
type Titled interface{ PageTitle() string }

// desk is the operator pages.
type desk struct {
	p          *Pages
	o          DeskOptions
	protection *http.CrossOriginProtection
	// sayings are what is said after each act, by what saidOf calls it.
	sayings map[string]string
	ready   *lately
}

// Desk are the operator pages, for ADMINs alone.
func Desk(o DeskOptions) Group {
	if o.Now == nil {
		o.Now = time.Now
	}
	return func(p *Pages) []Endpoint {
		d := &desk{p: p, o: o, protection: http.NewCrossOriginProtection(), sayings: map[string]string{}, ready: &lately{test: o.Ready, now: o.Now}}
		p.fail = d.failUnrouted
		list := append(d.signIn(), p.assets()...)
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			list = append(list, Endpoint{method, anywhere, d.admit(true, func(w http.ResponseWriter, r *http.Request) { d.fail(w, r, missing(w, r)) })})
		}
		for _, s := range o.Sections {
			for _, screen := range s.Screens {
				for _, a := range screen.Acts {
					d.sayings[saidOf(a)] = a.Done
				}
				list = append(list, d.endpoints(s, screen)...)
			}
		}
		return list
	}
}

func (d *desk) endpoints(s Section, screen Screen) []Endpoint {
	path := DeskPath + screen.Path
	list := []Endpoint{{http.MethodGet, path, d.admit(screen.Enrolls, d.show(s, screen))}}
	for _, a := range screen.Acts {
		at := path + "/" + a.Name
		list = append(list, Endpoint{http.MethodPost, at, d.admit(screen.Enrolls, d.act(s, screen, a))})
		if a.Ask != nil {
			list = append(list, Endpoint{http.MethodGet, at, d.admit(screen.Enrolls, d.ask(s, screen, a))})
		}
	}
	return list
}

// visitor is who looks at a page.
type visitor struct {
	principal identity.Principal
	user      account.User
}

type visitorKey struct{}

func visitorOf(ctx context.Context) visitor {
	v, _ := ctx.Value(visitorKey{}).(visitor)
	return v
}

var (
	errNotAdmin = fault.New(fault.Forbidden, fault.CodeForbidden, "These pages are for administrators. Your account is none; ask one of them for what you need.")
	errNoPage   = fault.New(fault.NotFound, fault.CodeNotFound, "Nothing is shown at this address. It may have been deleted.")
	errCrossed  = fault.New(fault.Forbidden, fault.CodeForbidden, "This form was sent from another site. Open the page here, and send it from there.")
	errEnroll   = fault.New(fault.Forbidden, fault.CodeForbidden, "Administrators of this service must set up two-factor authentication before anything else.")
)

// admit lets an ADMIN through, with the principal that the services are to see. enrolls
// lets one through who has yet to set up a second factor.
func (d *desk) admit(enrolls bool, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := d.protection.Check(r); err != nil {
			d.fail(w, r, errCrossed.Because(err))
			return
		}
		p, user, err := d.authenticate(r, !renews(r))
		switch {
		case errors.Is(err, account.ErrSessionRevoked) && renews(r):
			w.Header().Set("HX-Refresh", "true") // the page loads anew, and leads to the sign-in
			w.WriteHeader(http.StatusNoContent)
			return
		case errors.Is(err, account.ErrSessionRevoked):
			d.forget(w)
			http.Redirect(w, r, signInPath(r), http.StatusSeeOther)
			return
		case err != nil:
			d.fail(w, r, err)
			return
		}
		r = r.WithContext(known(r.Context(), p, user))
		switch {
		case !p.Is(identity.Admin):
			d.fail(w, r, errNotAdmin)
		case p.MustEnroll && !enrolls && r.Method != http.MethodPost && !renews(r):
			http.Redirect(w, r, TwoFactorPath, http.StatusSeeOther)
		case p.MustEnroll && !enrolls:
			d.fail(w, r, errEnroll)
		default:
			next(w, r)
		}
	})
}

// authenticate asks who sends a request, and waits for the answer for a while only.
func (d *desk) authenticate(r *http.Request, looking bool) (identity.Principal, account.User, error) {
	ctx, done := within(r.Context())
	defer done()
	return d.o.Visits.AuthenticateVisit(ctx, d.cookieOf(r), looking)
}

// known is ctx of a visitor, with the principal that the services are to see.
func known(ctx context.Context, p identity.Principal, user account.User) context.Context {
	p = p.From(identity.FromContext(ctx))
	httpedge.Acting(ctx, p)
	return context.WithValue(identity.NewContext(ctx, p), visitorKey{}, visitor{p, user})
}

// renews reports whether a page renews itself, by htmx: nobody needs to be looking.
func renews(r *http.Request) bool { return r.Header.Get("HX-Request") != "" }

// signInPath is where somebody without a session goes first, and then comes back.
// After a form that is where it stood: what it would have done is not done by a GET.
func signInPath(r *http.Request) string {
	next := r.URL.RequestURI()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		next = DeskPath
	}
	if next == DeskPath {
		return DeskPath + "/sign-in"
	}
	return DeskPath + "/sign-in?next=" + url.QueryEscape(next)
}

// show answers with a screen.
func (d *desk) show(s Section, screen Screen) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if screen.Serve != nil {
			w.Header().Set("Cache-Control", "no-store")
			if err := screen.Serve(w, r); err != nil {
				d.fail(w, r, err)
			}
			return
		}
		data, err := screen.Read(r)
		switch {
		case err != nil && data != nil:
			d.again(w, r, s, screen, data, err)
			return
		case err != nil:
			d.fail(w, r, err)
			return
		}
		v := d.view(r, s, screen.Title, data)
		v.Said = d.sayings[r.URL.Query().Get("said")]
		if screen.Live && !isSettled(data) {
			v.Every = cmp.Or(screen.Every, renewal).String()
		}
		d.render(w, http.StatusOK, screen.View, v)
	}
}

// ask asks whether to go on.
func (d *desk) ask(s Section, screen Screen, a Act) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		back := strings.TrimSuffix(r.URL.Path, "/"+a.Name)
		v := d.view(r, s, a.Ask.Title, asked{Question: *a.Ask, Action: r.URL.Path, Back: back, Values: r.URL.Query()})
		d.render(w, http.StatusOK, "ask", v)
	}
}

// asked is what the page of a Question shows. Values are sent along with the answer.
type asked struct {
	Question
	Action, Back string
	Values       url.Values
}

// act does what a button says.
func (d *desk) act(s Section, screen Screen, a Act) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := readDeskForm(w, r); err != nil {
			d.fail(w, r, err)
			return
		}
		r = r.WithContext(doing(r.Context(), a.Operation))
		done, err := a.Do(r)
		if err != nil {
			d.refuse(w, r, s, screen, a, err)
			return
		}
		if done.Show != nil {
			d.render(w, cmp.Or(done.Show.Status, http.StatusOK), done.Show.View, d.view(r, s, screen.Title, done.Show.Data))
			return
		}
		if done.Away != "" {
			http.Redirect(w, r, done.Away, http.StatusSeeOther)
			return
		}
		to := strings.TrimSuffix(r.URL.Path, "/"+a.Name)
		if done.To != "" {
			to = DeskPath + done.To
		}
		if a.Done != "" {
			to += "?said=" + url.QueryEscape(saidOf(a))
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
}

// saidOf names what is said after an act: several have one operation.
func saidOf(a Act) string { return a.Operation + "." + a.Name }

// view is what every page of the desk is made with.
type view struct {
	Title   string
	Nav     []tab
	User    *account.User
	Own     string // the page of the visitor's account, "" for who has none here
	Nonce   string
	Now     time.Time
	Path    string // of this page, with its query
	Every   string // how often it renews itself, "" for never
	Said    string
	Problem string
	// Wrong is said above a page that is shown again, and SignIn is where to sign in anew
	// for what needs a recent sign-in.
	Wrong, SignIn string
	RequestID     string
	Again         string // where to go on after a problem, "" for the overview
	AgainText     string
	Frames        bool // shows frames of this service
	Data          any
}

type tab struct {
	Label, Href string
	Current     bool
}

// tabs lead from page to page of a section: a label and where it leads.
type tabs [][2]string

// at are the tabs with the one that is shown.
func (list tabs) at(current string) []tab {
	var all []tab
	for _, t := range list {
		all = append(all, tab{t[0], t[1], t[0] == current})
	}
	return all
}

func (d *desk) view(r *http.Request, s Section, title string, data any) view {
	v := view{Title: title, Now: d.o.Now(), Path: r.URL.RequestURI(), Data: data}
	if t, ok := data.(Titled); ok {
		v.Title = t.PageTitle()
	}
	if _, ok := data.(interface{ frames() }); ok {
		v.Frames = true
	}
	who := visitorOf(r.Context())
	if who.principal.Kind == identity.KindUser {
		v.User = &who.user
	}
	if !who.principal.Is(identity.Admin) {
		return v
	}
	v.Own = DeskPath + "/account"
	if who.principal.MustEnroll {
		return v
	}
	for _, section := range d.o.Sections {
		if section.Own {
			continue
		}
		v.Nav = append(v.Nav, tab{section.Label, DeskPath + section.Screens[0].Path, section.Label == s.Label})
	}
	return v
}

// render answers with a view of the desk under a policy that lets only this answer's
// own scripts and styles run.
func (d *desk) render(w http.ResponseWriter, status int, name string, v view) {
	v.Nonce = d.p.nonce()
	policy := "default-src 'none'; script-src 'nonce-" + v.Nonce + "'; style-src 'nonce-" + v.Nonce +
		"'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	if v.Frames {
		policy += "; frame-src 'self'"
	}
	t := d.p.desk[name]
	if t == nil {
		panic(fmt.Errorf("pages: there is no view %q", name))
	}
	d.p.answer(w, status, policy, t, v)
}
