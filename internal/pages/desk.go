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
}

// Screen is one page of the desk.
type Screen struct {
	// Path is below DeskPath, in the router's patterns: "/webhooks/{id}".
	Path string
	// Title heads the page, unless what Read returns is Titled.
	Title string
	// View is the template in templates/desk.
	View string
	// Read returns what the template shows. Its error becomes a page.
	Read func(r *http.Request) (any, error)
	// Serve answers what is no page, such as a download, in place of View and Read. It
	// has written nothing when it returns an error.
	Serve func(w http.ResponseWriter, r *http.Request) error
	// Live says that the page brings itself up to date while somebody looks at it.
	Live bool
	// Acts are what can be done there.
	Acts []Act
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
	// sayings are what is said after each act, by its operation.
	sayings map[string]string
}

// Desk are the operator pages, for ADMINs alone.
func Desk(o DeskOptions) Group {
	if o.Now == nil {
		o.Now = time.Now
	}
	return func(p *Pages) []Endpoint {
		d := &desk{p: p, o: o, protection: http.NewCrossOriginProtection(), sayings: map[string]string{}}
		list := append(d.signIn(), p.assets()...)
		list = append(list, Endpoint{http.MethodGet, DeskPath + "/*", d.admit(func(w http.ResponseWriter, r *http.Request) { d.fail(w, r, errNoPage) })})
		for _, s := range o.Sections {
			for _, screen := range s.Screens {
				for _, a := range screen.Acts {
					d.sayings[a.Operation] = a.Done
				}
				list = append(list, d.endpoints(s, screen)...)
			}
		}
		return list
	}
}

func (d *desk) endpoints(s Section, screen Screen) []Endpoint {
	path := DeskPath + screen.Path
	list := []Endpoint{{http.MethodGet, path, d.admit(d.show(s, screen))}}
	for _, a := range screen.Acts {
		at := path + "/" + a.Name
		list = append(list, Endpoint{http.MethodPost, at, d.admit(d.act(s, screen, a))})
		if a.Ask != nil {
			list = append(list, Endpoint{http.MethodGet, at, d.admit(d.ask(s, screen, a))})
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
	errEnroll   = fault.New(fault.Forbidden, fault.CodeForbidden, "Administrators of this service need two-factor authentication. Set it up through the API (POST /api/auth/2fa/setup) and sign in again.")
)

// admit lets an ADMIN through, with the principal that the services are to see.
func (d *desk) admit(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := d.protection.Check(r); err != nil {
			d.fail(w, r, errCrossed.Because(err))
			return
		}
		edge := identity.FromContext(r.Context())
		p, user, err := d.o.Visits.AuthenticateVisit(r.Context(), d.cookieOf(r), !renews(r))
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
		p = p.From(edge)
		ctx := identity.NewContext(r.Context(), p)
		ctx = context.WithValue(ctx, visitorKey{}, visitor{p, user})
		r = r.WithContext(ctx)
		switch {
		case !p.Is(identity.Admin):
			d.fail(w, r, errNotAdmin)
		case p.MustEnroll:
			d.fail(w, r, errEnroll)
		default:
			next(w, r)
		}
	})
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
		if err != nil {
			d.fail(w, r, err)
			return
		}
		v := d.view(r, s, screen.Title, data)
		v.Live, v.Said = screen.Live, d.sayings[r.URL.Query().Get("said")]
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
		if err := readBody(w, r); err != nil {
			d.fail(w, r, err)
			return
		}
		r = r.WithContext(doing(r.Context(), a.Operation))
		done, err := a.Do(r)
		if err != nil {
			d.fail(w, r, err)
			return
		}
		if done.Show != nil {
			d.render(w, cmp.Or(done.Show.Status, http.StatusOK), done.Show.View, d.view(r, s, screen.Title, done.Show.Data))
			return
		}
		to := strings.TrimSuffix(r.URL.Path, "/"+a.Name)
		if done.To != "" {
			to = DeskPath + done.To
		}
		if a.Done != "" {
			to += "?said=" + url.QueryEscape(a.Operation)
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
}

// fail answers with a page that says what is wrong, within the desk for who is signed
// in there.
func (d *desk) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, problem := failed(w, r, err)
	title := "That did not work"
	switch status {
	case http.StatusNotFound:
		title = "There is no such page"
	case http.StatusForbidden:
		title = "You may not do this"
	}
	v := d.view(r, Section{}, title, nil)
	v.Problem, v.RequestID = problem, httpedge.RequestID(r.Context())
	d.render(w, status, "problem", v)
}

// view is what every page of the desk is made with.
type view struct {
	Title     string
	Nav       []tab
	User      *account.User
	Nonce     string
	Now       time.Time
	Path      string // of this page, with its query
	Live      bool
	Said      string
	Problem   string
	RequestID string
	Frames    bool // shows frames of this service
	Data      any
}

type tab struct {
	Label, Href string
	Current     bool
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
	if !who.principal.Is(identity.Admin) || who.principal.MustEnroll {
		return v
	}
	for _, section := range d.o.Sections {
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
