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
	AuthenticateVisit(ctx context.Context, secret string, looking bool) (identity.Principal, account.User, error)
	SignOut(ctx context.Context) error
}

func (d *desk) signIn() []Endpoint {
	return []Endpoint{
		{http.MethodGet, DeskPath + "/sign-in", http.HandlerFunc(d.signInPage)},
		{http.MethodPost, DeskPath + "/sign-in", http.HandlerFunc(d.takeSignIn)},
		{http.MethodPost, DeskPath + "/sign-out", d.admitAnybody(d.signOut)},
	}
}

// signInForm is what the page of the sign-in shows.
type signInForm struct {
	Email string
	// Challenge is set when the password was right and a code is wanted.
	Challenge string
	Next      string
	Problem   string
}

func (d *desk) signInPage(w http.ResponseWriter, r *http.Request) {
	d.render(w, http.StatusOK, "sign-in", d.view(r, Section{}, "Sign in", signInForm{Next: nextOf(r.URL.Query().Get("next"))}))
}

// nextOf is where to go after the sign-in: a page of the desk, and never another host.
func nextOf(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" || u.User != nil {
		return DeskPath
	}
	if u.Path != DeskPath && !strings.HasPrefix(u.Path, DeskPath+"/") || strings.Contains(u.Path, "//") || strings.Contains(u.Path, "..") || strings.Contains(next, "\\") {
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
	if err := readBody(w, r); err != nil {
		d.fail(w, r, err)
		return
	}
	form := signInForm{Email: r.PostForm.Get("email"), Challenge: r.PostForm.Get("challenge"), Next: nextOf(r.PostForm.Get("next"))}
	var visit account.Visit
	if form.Challenge == "" {
		visit, err = d.o.Visits.OpenVisit(doing(r.Context(), "login"), form.Email, r.PostForm.Get("password"))
	} else {
		visit, err = d.o.Visits.OpenVisitWithCode(doing(r.Context(), "verify-2fa"), form.Challenge, strings.TrimSpace(r.PostForm.Get("code")))
	}
	switch {
	case err == nil && visit.Challenge != "":
		form.Challenge = visit.Challenge
		d.render(w, http.StatusOK, "sign-in", d.view(r, Section{}, "Enter your code", form))
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
	if errors.Is(err, account.ErrInactive) {
		err = account.ErrInvalidCredentials.Because(err)
	}
	status, problem := failed(w, r, err)
	form.Problem = problem
	title := "Sign in"
	if errors.Is(err, throttle.ErrLimited) {
		title = "Too many tries"
	}
	d.render(w, status, "sign-in", d.view(r, Section{}, title, form))
}

// signOut ends the session, whoever's it is.
func (d *desk) signOut(w http.ResponseWriter, r *http.Request) {
	err := d.o.Visits.SignOut(doing(r.Context(), "logout"))
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
		p, _, err := d.o.Visits.AuthenticateVisit(r.Context(), d.cookieOf(r), true)
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
