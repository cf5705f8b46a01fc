package pages

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
)

// TwoFactorPath is the page of the visitor's second factor.
const TwoFactorPath = DeskPath + "/two-factor"

// Own is the account of who acts: its sessions, identities and second factor.
type Own interface {
	ListSessions(ctx context.Context, after *account.SessionPosition, limit int) ([]account.Session, error)
	EndSession(ctx context.Context, id uuid.UUID) error
	ListIdentities(ctx context.Context, userID int64) ([]account.Identity, error)
	TwoFactorOf(ctx context.Context, userID int64) (account.TwoFactorState, error)
	SetupTOTP(ctx context.Context, userID int64) (account.TOTPSetup, error)
	EnableTOTP(ctx context.Context, userID int64, code string) ([]string, error)
	RenewRecoveryCodes(ctx context.Context, userID int64, code string) ([]string, error)
	DisableTOTP(ctx context.Context, userID int64, password, code string) error
}

// OwnPages are the pages of the visitor's own account.
func OwnPages(s Own) Section {
	p := ownPages{s}
	return Section{Label: "Your account", Own: true, Screens: []Screen{
		{Path: "/account", Title: "Your account", View: "own", Read: p.show, Enrolls: true, Acts: []Act{
			{Name: "end-session", Operation: "end-session", Done: "The session has ended.", Do: p.endSession},
		}},
		{Path: "/two-factor", Title: "Two-factor authentication", View: "two-factor", Read: p.twoFactor, Enrolls: true, Acts: []Act{
			{Name: "set-up", Operation: "setup-two-factor", Do: p.setUp},
			{Name: "enable", Operation: "enable-two-factor", Do: p.enable},
			{Name: "recovery-codes", Operation: "renew-recovery-codes", Do: p.renew},
		}},
		{Path: "/two-factor/off", Title: "Disable two-factor authentication", View: "two-factor-off", Read: p.twoFactor, Acts: []Act{
			{Name: "confirm", Operation: "disable-two-factor", Done: "Two-factor authentication is off. A mail tells you so.", Do: p.disable},
		}},
	}}
}

type ownPages struct{ s Own }

var ownTabs = tabs{{"Your account", DeskPath + "/account"}, {"Two-factor authentication", TwoFactorPath}}

// ownPage is the visitor's account.
type ownPage struct {
	Tabs     []tab
	Facts    []Fact
	Sessions Table
}

func (p ownPages) show(r *http.Request) (any, error) {
	u := visitorOf(r.Context()).user
	state, err := p.s.TwoFactorOf(r.Context(), u.ID)
	if err != nil {
		return nil, err
	}
	identities, err := p.s.ListIdentities(r.Context(), u.ID)
	if err != nil {
		return nil, err
	}
	sessions, err := p.s.ListSessions(r.Context(), nil, shownOfEach)
	if err != nil {
		return nil, err
	}
	linked := []any{}
	for _, i := range identities {
		linked = append(linked, Badge{i.Provider, "quiet"})
	}
	factor := Badge{"off", "wait"}
	if state.On {
		factor = Badge{"on", "good"}
	}
	password := "none"
	if state.Password {
		password = "set"
	}
	view := ownPage{Tabs: ownTabs.at("Your account"), Sessions: userPages{}.sessionTable(DeskPath+"/account", sessions), Facts: []Fact{
		{"Name", u.FirstName + " " + u.LastName}, {"E-mail", u.Email}, {"Role", string(u.Role)}, {"Second factor", factor}, {"Password", password},
	}}
	if len(linked) > 0 {
		view.Facts = append(view.Facts, Fact{"Also signs in through", linked})
	}
	view.Sessions.Caption = "Where you are signed in, newest first"
	return view, nil
}

func (p ownPages) endSession(r *http.Request) (Outcome, error) {
	id, err := uuid.Parse(r.PostForm.Get("session"))
	if err != nil {
		return Outcome{}, account.ErrNoSession
	}
	return Outcome{}, p.s.EndSession(r.Context(), id)
}

// twoFactorPage is the visitor's second factor, and what is shown once.
type twoFactorPage struct {
	Tabs  []tab
	State account.TwoFactorState
	// MustEnroll says that nothing else can be done before.
	MustEnroll bool
	// Problem is what is wrong with a code or a password, "" for nothing.
	Problem string
	// Setup and QR are a new secret, in groups for typing, and its drawing.
	Setup *account.TOTPSetup
	QR    QR
	// Codes are new recovery codes.
	Codes []string
}

// Nothing is shown where there is nothing to turn off.
func (p twoFactorPage) Nothing() Empty {
	if p.State.On {
		return Empty{Title: "It can't be turned off", Detail: "This service demands it of administrators.", Label: "Two-factor authentication", Href: TwoFactorPath}
	}
	return Empty{Title: "It is off", Label: "Set it up", Href: TwoFactorPath}
}

func (p ownPages) twoFactor(r *http.Request) (any, error) { return p.state(r) }

func (p ownPages) state(r *http.Request) (twoFactorPage, error) {
	who := visitorOf(r.Context())
	state, err := p.s.TwoFactorOf(r.Context(), who.user.ID)
	return twoFactorPage{Tabs: ownTabs.at("Two-factor authentication"), State: state, MustEnroll: who.principal.MustEnroll && !state.On}, err
}

func (p ownPages) setUp(r *http.Request) (Outcome, error) {
	setup, err := p.s.SetupTOTP(r.Context(), visitorOf(r.Context()).user.ID)
	if err != nil {
		return Outcome{}, err
	}
	view, err := p.state(r)
	if err == nil {
		view.QR, err = qrOf(setup.URI)
	}
	setup.Secret = spaced(setup.Secret)
	view.Setup = &setup
	return Outcome{Show: &Shown{View: "two-factor", Data: view}}, err
}

// spaced is a secret in groups of four, as people type it.
func spaced(secret string) string {
	var groups []string
	for ; len(secret) > 4; secret = secret[4:] {
		groups = append(groups, secret[:4])
	}
	return strings.Join(append(groups, secret), " ")
}

func (p ownPages) enable(r *http.Request) (Outcome, error) {
	codes, err := p.s.EnableTOTP(r.Context(), visitorOf(r.Context()).user.ID, strings.TrimSpace(r.PostForm.Get("code")))
	return p.answer(r, "two-factor", codes, err)
}

func (p ownPages) renew(r *http.Request) (Outcome, error) {
	codes, err := p.s.RenewRecoveryCodes(r.Context(), visitorOf(r.Context()).user.ID, strings.TrimSpace(r.PostForm.Get("code")))
	return p.answer(r, "two-factor", codes, err)
}

func (p ownPages) disable(r *http.Request) (Outcome, error) {
	form := r.PostForm
	err := p.s.DisableTOTP(r.Context(), visitorOf(r.Context()).user.ID, form.Get("password"), strings.TrimSpace(form.Get("code")))
	if err == nil {
		return Outcome{To: "/two-factor"}, nil
	}
	return p.answer(r, "two-factor-off", nil, err)
}

var errPassword = fault.New(fault.Forbidden, account.ErrReauthenticate.Code, "The password is wrong.")

// answer shows new codes, or the form again if a code or the password was wrong.
func (p ownPages) answer(r *http.Request, view string, codes []string, err error) (Outcome, error) {
	state, unread := p.state(r)
	state.Codes = codes
	status := http.StatusOK
	switch {
	case errors.Is(err, account.ErrTOTPInvalid):
		state.Problem, status = account.ErrTOTPInvalid.Message, http.StatusUnauthorized
	case errors.Is(err, account.ErrReauthenticate) && state.State.Password:
		state.Problem, status = errPassword.Message, http.StatusForbidden
	case err != nil:
		return Outcome{}, err
	}
	return Outcome{Show: &Shown{View: view, Data: state, Status: status}}, unread
}
