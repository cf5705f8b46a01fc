package pages

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/throttle"
)

// Visits signs people in to the pages. They return what account.SignIns returns, and
// AuthenticateVisit account.ErrSessionRevoked.
type Visits interface {
	OpenVisit(ctx context.Context, email, password string) (account.Visit, error)
	OpenVisitWithCode(ctx context.Context, challenge, code string) (account.Visit, error)
	StartVisit(ctx context.Context, provider, browser, to string) (account.OAuthStarted, error)
	FinishVisit(ctx context.Context, code, browser string) (account.Visit, error)
	AuthenticateVisit(ctx context.Context, secret string, looking bool) (identity.Principal, account.User, error)
	SignOut(ctx context.Context) error
}

func (d *desk) signIn() []Endpoint {
	return append([]Endpoint{
		{http.MethodGet, DeskPath + "/sign-in", http.HandlerFunc(d.signInPage)},
		{http.MethodPost, DeskPath + "/sign-in", http.HandlerFunc(d.takeSignIn)},
		{http.MethodPost, DeskPath + "/sign-out", d.admitAnybody(d.signOut)},
	}, d.outward()...)
}

// signInForm is what the page of the sign-in shows.
type signInForm struct {
	Email string
	// Challenge is set when the password was right and a code is wanted.
	Challenge string
	Next      string
	Problem   string
	// Providers lead to the other ways to sign in.
	Providers []Link
}

// form is an empty form that leads to next.
func (d *desk) form(next string) signInForm {
	next = nextOf(next)
	return signInForm{Next: next, Providers: d.ways(next)}
}

// signInPage shows the form, and says at once if nobody can sign in.
func (d *desk) signInPage(w http.ResponseWriter, r *http.Request) {
	form := d.form(r.URL.Query().Get("next"))
	if err := d.ready.check(r.Context()); err != nil {
		status, problem := failed(w, r, err)
		form.Problem = problem + " Nobody can sign in until then."
		d.showSignIn(w, r, status, "Sign in", form)
		return
	}
	d.showSignIn(w, r, http.StatusOK, "Sign in", form)
}

func (d *desk) showSignIn(w http.ResponseWriter, r *http.Request, status int, title string, form signInForm) {
	d.render(w, status, "sign-in", d.view(r, Section{}, title, form))
}

// maxNext bounds an address that is remembered over a sign-in.
const maxNext = 1000

// nextOf is where to go after the sign-in: a page of the desk, and never another host.
func nextOf(next string) string {
	u, err := url.Parse(next)
	if err != nil || len(next) > maxNext || u.Scheme != "" || u.Host != "" || u.Opaque != "" || u.User != nil {
		return DeskPath
	}
	if u.Path != DeskPath && !strings.HasPrefix(u.Path, DeskPath+"/") || strings.Contains(u.Path, "//") || strings.Contains(u.Path, "..") || strings.Contains(next, "\\") {
		return DeskPath
	}
	if strings.HasPrefix(u.Path, DeskPath+"/sign-") { // would ask for it again
		return DeskPath
	}
	return u.RequestURI()
}

// takeSignIn takes the form with the password, and the one with the code.
func (d *desk) takeSignIn(w http.ResponseWriter, r *http.Request) {
	err := d.protection.Check(r)
	if err != nil {
		d.fail(w, r, errCrossed.Because(err))
		return
	}
	if err := readDeskForm(w, r); err != nil {
		d.fail(w, r, err)
		return
	}
	form := d.form(r.PostForm.Get("next"))
	form.Email, form.Challenge = r.PostForm.Get("email"), r.PostForm.Get("challenge")
	ctx, done := within(r.Context())
	defer done()
	var visit account.Visit
	if form.Challenge == "" {
		visit, err = d.o.Visits.OpenVisit(doing(ctx, "login"), form.Email, r.PostForm.Get("password"))
	} else {
		visit, err = d.o.Visits.OpenVisitWithCode(doing(ctx, "verify-two-factor"), form.Challenge, strings.TrimSpace(r.PostForm.Get("code")))
	}
	d.enter(w, r, form, visit, err)
}

// enter goes on after the first or the second factor: to the second, to where the visitor
// was going, or back.
func (d *desk) enter(w http.ResponseWriter, r *http.Request, form signInForm, visit account.Visit, err error) {
	switch {
	case err == nil && visit.Challenge != "":
		form.Challenge = visit.Challenge
		d.showSignIn(w, r, http.StatusOK, "Enter your code", form)
	case err == nil:
		d.keep(w, visit)
		http.Redirect(w, r, form.Next, http.StatusSeeOther)
	default:
		d.refuseSignIn(w, r, form, err)
	}
}

// refuseSignIn shows the form again. All that is wrong with an account looks the same.
func (d *desk) refuseSignIn(w http.ResponseWriter, r *http.Request, form signInForm, err error) {
	if fault.KindOf(err) == fault.Unauthenticated && !errors.Is(err, account.ErrTOTPInvalid) {
		form.Challenge = "" // begin again
	}
	if errors.Is(err, account.ErrInactive) && !errors.Is(err, account.ErrOutsider) {
		err = account.ErrInvalidCredentials.Because(err)
	}
	status, problem := failed(w, r, err)
	form.Problem = problem
	title := "Sign in"
	switch {
	case errors.Is(err, throttle.ErrLimited):
		title = "Too many tries"
	case form.Challenge != "":
		title = "Enter your code"
	}
	d.showSignIn(w, r, status, title, form)
}

// signOut ends the session, whoever's it is.
func (d *desk) signOut(w http.ResponseWriter, r *http.Request) {
	ctx, done := within(r.Context())
	defer done()
	err := d.o.Visits.SignOut(doing(ctx, "logout"))
	if err != nil && !errors.Is(err, account.ErrNoSession) {
		d.fail(w, r, err)
		return
	}
	d.forget(w)
	http.Redirect(w, r, DeskPath+"/sign-in", http.StatusSeeOther)
}

// admitAnybody lets everybody through who has a session, ADMIN or not.
func (d *desk) admitAnybody(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := d.protection.Check(r); err != nil {
			d.fail(w, r, errCrossed.Because(err))
			return
		}
		p, _, err := d.authenticate(r, true)
		if errors.Is(err, account.ErrSessionRevoked) {
			d.forget(w)
			http.Redirect(w, r, DeskPath+"/sign-in", http.StatusSeeOther)
			return
		}
		if err != nil {
			d.fail(w, r, err)
			return
		}
		next(w, r.WithContext(identity.NewContext(r.Context(), p.From(identity.FromContext(r.Context())))))
	})
}

// cookieName demands https and the whole host where there is https (RFC 6265bis
// section 4.1.3.2).
func (d *desk) cookieName() string {
	if d.o.Secure {
		return "__Host-waypost"
	}
	return "waypost"
}

func (d *desk) cookieOf(r *http.Request) string {
	c, err := r.Cookie(d.cookieName())
	if err != nil {
		return ""
	}
	return c.Value
}

func (d *desk) keep(w http.ResponseWriter, v account.Visit) {
	http.SetCookie(w, &http.Cookie{
		Name: d.cookieName(), Value: v.Secret, Path: "/", HttpOnly: true, Secure: d.o.Secure, SameSite: http.SameSiteLaxMode, Expires: v.ExpiresAt,
	})
}

func (d *desk) forget(w http.ResponseWriter) {
	http.SetCookie(w, &http.Cookie{Name: d.cookieName(), Path: "/", HttpOnly: true, Secure: d.o.Secure, SameSite: http.SameSiteLaxMode, MaxAge: -1})
}
