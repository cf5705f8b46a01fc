package pages

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
)

// anywhere is what is below DeskPath and no page.
const anywhere = DeskPath + "/*"

// patience is how long a visitor waits to be recognized, or signed in, before being told
// that the service can't.
const patience = 5 * time.Second

// within is ctx with an end that a person waits for.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, patience)
}

var errNotForm = fault.New(fault.UnsupportedMedia, fault.CodeUnsupportedMedia, "This address takes a form (application/x-www-form-urlencoded) and nothing else.")

// readDeskForm is readBody for a form of the desk. It also returns errNotForm.
func readDeskForm(w http.ResponseWriter, r *http.Request) error {
	if kind := r.Header.Get("Content-Type"); kind != "" {
		if media, _, err := mime.ParseMediaType(kind); err != nil || media != "application/x-www-form-urlencoded" {
			return errNotForm
		}
	}
	return readBody(w, r)
}

// Fail answers, in place of httpedge.WriteError, what was refused before a page was
// reached, and a page's panic: by a page where it is about the desk.
func (p *Pages) Fail(w http.ResponseWriter, r *http.Request, err error) {
	if p.fail == nil || r.URL.Path != DeskPath && !strings.HasPrefix(r.URL.Path, DeskPath+"/") {
		httpedge.WriteError(w, r, err)
		return
	}
	p.fail(w, r, err)
}

// failUnrouted is fail for what no handler of the desk took.
func (d *desk) failUnrouted(w http.ResponseWriter, r *http.Request, err error) {
	if fault.KindOf(err) == fault.NotFound || fault.KindOf(err) == fault.MethodNotAllowed {
		err = missing(w, r)
	}
	if p, user, unknown := d.authenticate(r, false); unknown == nil {
		r = r.WithContext(known(r.Context(), p, user))
	}
	d.fail(w, r, err)
}

// missing says what is wrong with a request that no page has taken: the address, or,
// with the header Allow, the method.
func missing(w http.ResponseWriter, r *http.Request) error {
	at := r.URL.RawPath
	if at == "" {
		at = r.URL.Path
	}
	var allowed []string
	for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		asked := m
		if m == http.MethodHead {
			asked = http.MethodGet
		}
		if found := chi.RouteContext(r.Context()).Routes.Find(chi.NewRouteContext(), asked, at); found != "" && found != anywhere {
			allowed = append(allowed, m)
		}
	}
	if allowed == nil {
		w.Header().Del("Allow")
		return errNoPage
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return fault.Newf(fault.MethodNotAllowed, fault.CodeMethodNotAllowed, "This address answers %s. Go to the page, and use what is there.", strings.Join(allowed, ", "))
}

// titles head the pages about what went wrong.
var titles = map[int]string{
	http.StatusForbidden:             "You may not do this",
	http.StatusNotFound:              "There is no such page",
	http.StatusMethodNotAllowed:      "This is no page to open",
	http.StatusRequestEntityTooLarge: "That was too much",
	http.StatusUnsupportedMediaType:  "That was no form",
	http.StatusTooManyRequests:       "Too many tries",
	http.StatusInternalServerError:   "Something went wrong",
	http.StatusServiceUnavailable:    "The service cannot answer now",
}

// fail answers with a page that says what is wrong and where to go on, within the desk
// for who is signed in there.
func (d *desk) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, problem := failed(w, r, err)
	title, found := titles[status]
	if !found {
		title = "That did not work"
	}
	v := d.view(r, Section{}, title, nil)
	v.Problem, v.RequestID, v.Again, v.AgainText = problem, httpedge.RequestID(r.Context()), DeskPath, "Back to the overview"
	looking := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case errors.Is(err, account.ErrReauthenticate):
		v.Again, v.AgainText = DeskPath+"/sign-in?next="+url.QueryEscape(pageOf(r)), "Sign in again"
	case errors.Is(err, errEnroll):
		v.Again, v.AgainText = TwoFactorPath, "Set up two-factor authentication"
	case status == http.StatusMethodNotAllowed && w.Header().Get("Allow") == http.MethodPost:
		v.Again, v.AgainText = path.Dir(r.URL.Path), "To the page"
	case status == http.StatusServiceUnavailable && looking:
		v.Again, v.AgainText = r.URL.RequestURI(), "Try again"
	}
	d.render(w, status, "problem", v)
}

// pageOf is the page that a request came from: a form is sent below its page.
func pageOf(r *http.Request) string {
	if r.Method != http.MethodPost {
		return r.URL.RequestURI()
	}
	return path.Dir(r.URL.Path)
}

// lately remembers for a second how a test went, so that many who ask cost one test.
type lately struct {
	test    func(context.Context) error // nil for one that passes
	now     func() time.Time
	testing sync.Mutex
	last    atomic.Pointer[tested]
}

type tested struct {
	at  time.Time
	err error
}

// check returns what the test said within the last second; while one is under way, what
// the one before said, nil before the first.
func (l *lately) check(ctx context.Context) error {
	last := l.last.Load()
	if l.test == nil || last != nil && l.now().Sub(last.at) < time.Second || !l.testing.TryLock() {
		return last.outcome()
	}
	defer l.testing.Unlock()
	// Of who asks, and goes away, nothing is remembered.
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer done()
	said := &tested{err: l.test(ctx)}
	said.at = l.now()
	l.last.Store(said)
	return said.err
}

func (t *tested) outcome() error {
	if t == nil {
		return nil
	}
	return t.err
}
