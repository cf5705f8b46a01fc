package pages

import (
	"context"
	"errors"
	"net/http"
	"path"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// Accounts is what the pages behind mailed links need. What spends a link and the checks
// return account.ErrLinkInvalid; ConfirmEmail also account.ErrEmailTaken;
// VerifyEmail and ResetPassword also account.ErrBusy and validation faults keyed by
// new_password and password, VerifyEmail account.ErrPasswordRequired,
// account.ErrInvalidCredentials and throttle.ErrLimited; the requests return
// throttle.ErrLimited and validation faults keyed by email.
type Accounts interface {
	CheckVerifyLink(ctx context.Context, secret string) error
	VerifyEmail(ctx context.Context, v account.Verification) error
	RequestVerification(ctx context.Context, email string) error
	CheckResetLink(ctx context.Context, secret string) error
	ResetPassword(ctx context.Context, secret, password string) error
	RequestPasswordReset(ctx context.Context, email string) error
	CheckConfirmEmailLink(ctx context.Context, secret string) error
	ConfirmEmail(ctx context.Context, secret string) error
	CheckUndoEmailLink(ctx context.Context, secret string) error
	UndoEmail(ctx context.Context, secret string) error
}

// link is a page behind a mailed link. Opening it spends nothing, for mail scanners
// open links too; only its form does, and the secret in it is the authority, so
// that there is no cookie that another site could ride on.
type link struct {
	path string
	view string
	// another is what a link for the same end is called, on the page of one that is
	// spent; "" where no form can ask for one, and instead is what to do then.
	another, instead string
	// spends and requests name the operations that spend and request do, as the API
	// calls them.
	spends, requests string

	check   func(ctx context.Context, secret string) error
	spend   func(ctx context.Context, secret string, r *http.Request) error
	request func(ctx context.Context, email string) error // nil without another
}

// linkPage is what a link's views show.
type linkPage struct {
	// Path is the link's, relative to itself and to what is beside it, so that the
	// forms also work behind a proxy that adds a path.
	Path    string
	Another string
	Instead string
	Secret  string
	Problem string // what to mend, "" for nothing
	Done    bool
}

func (l link) page() linkPage {
	return linkPage{Path: path.Base(l.path), Another: l.another, Instead: l.instead}
}

// againSuffix is below a link's path where another one is asked for.
const againSuffix = "/again"

var (
	errForeign    = fault.New(fault.Forbidden, fault.CodeForbidden, "This form was sent from another site. Open the link in your mail, and send it from there.")
	errForm       = fault.New(fault.Malformed, "invalid_form", "The form did not arrive completely. Send it again.")
	errTooMuch    = fault.New(fault.TooLarge, fault.CodePayloadTooLarge, "The form's data is too large.")
	errNoPassword = fault.New(fault.Forbidden, account.ErrPasswordRequired.Code, "Type the password that you chose for the account, or a new one below.")
	errMismatch   = fault.New(fault.Invalid, fault.CodeValidation, "The two passwords differ. Type the same one twice.")
)

// Account are the pages behind mailed links.
func Account(a Accounts) Group {
	return func(p *Pages) []Endpoint {
		var list []Endpoint
		for _, l := range links(a) {
			list = append(list,
				Endpoint{http.MethodGet, l.path, p.open(l)},
				Endpoint{http.MethodPost, l.path, p.spend(l)})
			if l.request != nil {
				list = append(list, Endpoint{http.MethodPost, l.path + againSuffix, p.again(l)})
			}
		}
		return list
	}
}

func links(a Accounts) []link {
	return []link{
		confirmLink(a), undoLink(a),
		{
			path: account.VerifyEmailPath, view: "verify", another: "a new link to confirm your address",
			spends: "verify-email", requests: "resend-verification-mail",
			check: a.CheckVerifyLink, request: a.RequestVerification,
			spend: func(ctx context.Context, secret string, r *http.Request) error {
				v := account.Verification{Secret: secret, Password: r.PostForm.Get("password"), NewPassword: r.PostForm.Get("new_password")}
				if v.NewPassword != r.PostForm.Get("again") {
					return errMismatch
				}
				err := a.VerifyEmail(ctx, v)
				if errors.Is(err, account.ErrPasswordRequired) {
					err = errNoPassword.Because(err)
				}
				return err
			},
		},
		{
			path: account.ResetPasswordPath, view: "reset", another: "a link to choose a new password",
			spends: "reset-password", requests: "request-password-reset",
			check: a.CheckResetLink, request: a.RequestPasswordReset,
			spend: func(ctx context.Context, secret string, r *http.Request) error {
				password := r.PostForm.Get("password")
				if password != r.PostForm.Get("again") {
					return errMismatch
				}
				return a.ResetPassword(ctx, secret, password)
			},
		},
	}
}

func confirmLink(a Accounts) link {
	return link{
		path: account.ConfirmEmailPath, view: "confirm", spends: "confirm-email-change", check: a.CheckConfirmEmailLink,
		instead: "If not, ask for the change again in the application that you use, and stay signed in there until you have opened the link.",
		spend:   func(ctx context.Context, secret string, _ *http.Request) error { return a.ConfirmEmail(ctx, secret) },
	}
}

func undoLink(a Accounts) link {
	return link{
		path: account.UndoEmailPath, view: "undo", spends: "undo-email-change", check: a.CheckUndoEmailLink,
		instead: "If not, tell the operator of this service.",
		spend:   func(ctx context.Context, secret string, _ *http.Request) error { return a.UndoEmail(ctx, secret) },
	}
}

// open shows the form of a link that still works.
func (p *Pages) open(l link) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secret := r.URL.Query().Get("token")
		if err := l.check(r.Context(), secret); err != nil {
			p.refuse(w, r, l, secret, err)
			return
		}
		view := l.page()
		view.Secret = secret
		p.render(w, http.StatusOK, l.view, view)
	})
}

// spend takes the form.
func (p *Pages) spend(l link) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := readForm(w, r)
		secret := r.PostForm.Get("token")
		if err == nil {
			err = l.spend(doing(r.Context(), l.spends), secret, r)
		}
		if err != nil {
			p.refuse(w, r, l, secret, err)
			return
		}
		p.render(w, http.StatusOK, l.view, linkPage{Done: true})
	})
}

// refuse says what is wrong and what to do about it: ask for another link when
// this one is spent, else mend the form and send it again.
func (p *Pages) refuse(w http.ResponseWriter, r *http.Request, l link, secret string, err error) {
	view := l.page()
	status, problem := failed(w, r, err)
	view.Secret, view.Problem = secret, problem
	switch {
	case errors.Is(err, account.ErrLinkInvalid):
		p.render(w, status, "spent", view)
	case secret == "":
		p.render(w, status, "problem", view)
	default:
		p.render(w, status, l.view, view)
	}
}

// again takes the address to which another link is to go, and answers the same
// whether it has an account or not.
func (p *Pages) again(l link) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := readForm(w, r)
		if err == nil {
			err = l.request(doing(r.Context(), l.requests), r.PostForm.Get("email"))
		}
		if err != nil {
			view := l.page()
			view.Path = "../" + view.Path // this form was one level deeper
			status, problem := failed(w, r, err)
			view.Problem = problem
			p.render(w, status, "problem", view)
			return
		}
		p.render(w, http.StatusOK, "sent", l.page())
	})
}

// doing is ctx whose principal does what an operation of the API does.
func doing(ctx context.Context, operation string) context.Context {
	return identity.NewContext(ctx, identity.FromContext(ctx).Doing(operation))
}

// readForm is readBody for a form of this site; of another it returns errForeign.
func readForm(w http.ResponseWriter, r *http.Request) error {
	// Browsers say where a form comes from (W3C Fetch Metadata); what says nothing
	// is no browser that another site could use.
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return errForeign
	}
	return readBody(w, r)
}

// readBody fills r.PostForm. It returns errTooMuch or errForm.
func readBody(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	err := r.ParseForm()
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return errTooMuch
	}
	if err != nil {
		return errForm.Because(err)
	}
	return nil
}
