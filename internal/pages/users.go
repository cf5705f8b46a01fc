package pages

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/identity"
)

// Users are people's accounts, and what they are signed in with.
type Users interface {
	List(ctx context.Context, f account.Filter) (page.Page[account.User], error)
	Find(ctx context.Context, id int64) (account.User, error)
	Invite(ctx context.Context, n account.NewUser, active bool) (account.User, error)
	Update(ctx context.Context, id int64, c account.Change) (account.User, error)
	SessionsOf(ctx context.Context, id int64, limit int) ([]account.Session, error)
	TokensOf(ctx context.Context, id int64, limit int) ([]account.APIToken, error)
	EndSessionOf(ctx context.Context, id int64, session uuid.UUID) error
	EndTokenOf(ctx context.Context, id, token int64) error
	EndAllOf(ctx context.Context, id int64) error
}

// UserPages are the pages of people's accounts and of service accounts. now is the clock.
func UserPages(s Users, bots ServiceAccounts, now func() time.Time) Section {
	p := userPages{s, now}
	return Section{Label: "Users", Screens: append([]Screen{
		{Path: "/users", Title: "Users", View: "listed", Read: p.list},
		{Path: "/users/invite", Title: "Invite somebody", View: "form", Read: func(*http.Request) (any, error) { return invitation(), nil }, Acts: []Act{
			{Name: "send", Operation: "create-user", Done: "The invitation is on its way.", Do: p.invite},
		}},
		{Path: "/users/{id}", View: "user", Read: p.show, Acts: []Act{
			{Name: "save", Operation: "update-user", Done: "Saved.", Do: p.save},
			{Name: "activate", Operation: "update-user", Done: "The account is active.", Do: p.activate(true)},
			{Name: "deactivate", Operation: "update-user", Done: "The account is deactivated.", Do: p.activate(false), Ask: &Question{
				Title: "Deactivate this account?", Button: "Deactivate it",
				Detail: "Its sessions end and its API tokens stop working. What it wrote stays, and you can activate it again.",
			}},
			{Name: "end-session", Operation: "end-session", Done: "The session has ended.", Do: p.endSession},
			{Name: "revoke-token", Operation: "revoke-api-token", Done: "The token no longer works.", Do: p.endToken, Ask: revokeQuestion()},
			{Name: "end-all", Operation: "end-all-sessions", Done: "All its sessions and API tokens have ended.", Do: p.endAll, Ask: &Question{
				Title: "End all sessions and tokens?", Button: "End them all",
				Detail: "Whoever uses this account, and every program with a token of it, has to sign in again. Its password stays as it is.",
			}},
		}},
	}, servicePages{bots, now}.screens()...)}
}

type userPages struct {
	s   Users
	now func() time.Time
}

var userTabs = tabs{{"Accounts", DeskPath + "/users"}, {"Invite", DeskPath + "/users/invite"}, {"Service accounts", DeskPath + servicesPath}}

func userPath(id int64) string { return DeskPath + "/users/" + strconv.FormatInt(id, 10) }

func (p userPages) list(r *http.Request) (any, error) {
	q := r.URL.Query()
	view := listed{
		Tabs:   userTabs.at("Accounts"),
		Filter: filterOf(r, Field{Name: "q", Label: "Name or e-mail", Kind: "search"}, choice("role", "Role", "ADMIN", "EDITOR", "USER"), choice("active", "Active", "yes", "no")),
	}
	view.Filter.keep(r, "sort")
	f := account.Filter{Request: page.Request{Query: q.Get("q"), Sort: q.Get("sort"), Limit: pageRows}, Role: identity.Role(q.Get("role"))}
	if q.Get("active") != "" {
		f.Active = new(q.Get("active") == "yes")
	}
	if q.Has("cursor") {
		f.After = new(page.Position)
		if err := continued(r, f.After); err != nil {
			return view, err
		}
	}
	found, err := p.s.List(r.Context(), f)
	if err != nil {
		return view, err
	}
	sort := f.Sort
	if sort == "" {
		sort = page.NewestFirst
	}
	t := Table{
		Caption: "Accounts", Empty: Empty{Title: "No accounts", Detail: "No account has these properties.", Label: "Invite somebody", Href: DeskPath + "/users/invite"},
		Columns: []Column{sortable(r, "Name", "last_name", sort), sortable(r, "E-mail", "email", sort), {Label: "Role"}, {Label: "State"}, sortable(r, "Created", "created_at", sort)},
	}
	rows(&t, r, found.Rows, func(u account.User) Row {
		return Row{Cells: []any{Link{Text: u.FirstName + " " + u.LastName, Href: userPath(u.ID)}, u.Email, string(u.Role), userState(u), u.CreatedAt}}
	}, func(account.User) any { return nil })
	if found.Next != nil {
		t.Next = with(r, "cursor", page.Encode(found.Next))
	}
	view.Table = t
	return view, nil
}

func userState(u account.User) []any {
	if !u.Active {
		return []any{Badge{"deactivated", "bad"}}
	}
	if !u.EmailVerified {
		return []any{Badge{"active", "good"}, Badge{"unverified", "wait"}}
	}
	return []any{Badge{"active", "good"}}
}

// userPage is one account.
type userPage struct {
	User     account.User
	Facts    []Fact
	Role     Form
	Buttons  []Button
	Sessions Table
	Tokens   Table
}

// PageTitle is the person's name.
func (p userPage) PageTitle() string { return p.User.FirstName + " " + p.User.LastName }

// forms implements formed.
func (p userPage) forms() []Form { return []Form{p.Role} }

// shownOfEach is how many sessions and tokens of an account its page shows.
const shownOfEach = 100

func (p userPages) show(r *http.Request) (any, error) {
	id, err := numberIn(r, "id", account.ErrNotFound)
	if err != nil {
		return nil, err
	}
	u, err := p.s.Find(r.Context(), id)
	if err != nil {
		return nil, err
	}
	sessions, err := p.s.SessionsOf(r.Context(), id, shownOfEach)
	if err != nil {
		return nil, err
	}
	tokens, err := p.s.TokensOf(r.Context(), id, shownOfEach)
	if err != nil {
		return nil, err
	}
	at := userPath(id)
	view := userPage{
		User: u, Sessions: p.sessionTable(at, sessions), Tokens: tokenTable(tokens, p.now(), func(k account.APIToken) []Button { return []Button{revokeButton(at, k)} }),
		Facts: []Fact{{"E-mail", u.Email}, {"State", userState(u)}, {"Role", string(u.Role)}, {"Created", u.CreatedAt}, {"Changed", u.UpdatedAt}, {"Number", u.ID},
			{"What it did", Link{Text: "in the audit log", Href: DeskPath + "/audit?actor_type=user&" + query("actor_id", strconv.FormatInt(id, 10))}},
			{"Its files", Link{Text: "in the list", Href: filesOf(id)}}, {"AI budget", Link{Text: "what it used", Href: aiPath(id)}}},
		Role: Form{Action: at + "/save", Button: "Save the role", Line: true, Fields: []Field{roleField(u.Role)}},
	}
	if len(sessions)+len(tokens) > 0 {
		view.Buttons = append(view.Buttons, Button{Label: "End all sessions and tokens", Action: at + "/end-all", Asks: true})
	}
	if u.Active {
		view.Buttons = append(view.Buttons, Button{Label: "Deactivate", Action: at + "/deactivate", Asks: true, Danger: true})
	} else {
		view.Buttons = append(view.Buttons, Button{Label: "Activate", Action: at + "/activate"})
	}
	return view, nil
}

func (p userPages) sessionTable(at string, list []account.Session) Table {
	t := Table{
		Caption: "Sessions, newest first", Empty: Empty{Title: "Signed in nowhere"},
		Columns: []Column{{Label: "From"}, {Label: "With", Wide: true}, {Label: "By"}, {Label: "Signed in"}, {Label: "Used"}, {Label: "Ends"}},
	}
	for _, s := range list {
		from := []any{s.Address}
		if s.Current {
			from = append(from, Badge{"this one", "quiet"})
		}
		t.Rows = append(t.Rows, Row{
			Cells:   []any{from, s.UserAgent, strings.Join(s.Methods, ", "), s.CreatedAt, s.LastUsedAt, s.ExpiresAt},
			Buttons: []Button{{Label: "End", Action: at + "/end-session", Values: map[string]string{"session": s.ID.String()}}},
		})
	}
	return t
}

func (p userPages) save(r *http.Request) (Outcome, error) {
	id, err := numberIn(r, "id", account.ErrNotFound)
	if err == nil {
		role := identity.Role(r.PostForm.Get("role"))
		_, err = p.s.Update(r.Context(), id, account.Change{Role: &role})
	}
	return Outcome{}, err
}

func (p userPages) activate(active bool) func(*http.Request) (Outcome, error) {
	return func(r *http.Request) (Outcome, error) {
		id, err := numberIn(r, "id", account.ErrNotFound)
		if err == nil {
			_, err = p.s.Update(r.Context(), id, account.Change{Active: &active})
		}
		return Outcome{}, err
	}
}

func (p userPages) endSession(r *http.Request) (Outcome, error) {
	id, err := numberIn(r, "id", account.ErrNotFound)
	if err != nil {
		return Outcome{}, err
	}
	session, err := uuid.Parse(r.PostForm.Get("session"))
	if err != nil {
		return Outcome{}, account.ErrNoSession
	}
	return Outcome{}, p.s.EndSessionOf(r.Context(), id, session)
}

func (p userPages) endToken(r *http.Request) (Outcome, error) {
	id, err := numberIn(r, "id", account.ErrNotFound)
	if err != nil {
		return Outcome{}, err
	}
	token, err := strconv.ParseInt(r.PostForm.Get("token"), 10, 64)
	if err != nil {
		return Outcome{}, account.ErrNoAPIToken
	}
	return Outcome{}, p.s.EndTokenOf(r.Context(), id, token)
}

func (p userPages) endAll(r *http.Request) (Outcome, error) {
	id, err := numberIn(r, "id", account.ErrNotFound)
	if err == nil {
		err = p.s.EndAllOf(r.Context(), id)
	}
	return Outcome{}, err
}

// formPage is a page with a form.
type formPage struct {
	Tabs []tab
	Form Form
}

// forms implements formed.
func (p formPage) forms() []Form { return []Form{p.Form} }

func invitation() formPage {
	return formPage{Tabs: userTabs.at("Invite"), Form: Form{Action: DeskPath + "/users/invite/send", Button: "Send the invitation", Fields: []Field{
		{Name: "first_name", Label: "Given name", Required: true}, {Name: "last_name", Label: "Family name", Required: true},
		{Name: "email", Label: "E-mail address", Kind: "email", Required: true, Hint: "A link to choose a password is mailed there; it works for seven days."},
		roleField(identity.User),
	}}}
}

// roleField is a select of roles.
func roleField(of identity.Role) Field {
	return Field{Name: "role", Label: "Role", Kind: "select", Value: string(of), Options: []Option{{"USER", "USER"}, {"EDITOR", "EDITOR"}, {"ADMIN", "ADMIN"}}}
}

func (p userPages) invite(r *http.Request) (Outcome, error) {
	u, err := p.s.Invite(r.Context(), account.NewUser{
		FirstName: r.PostForm.Get("first_name"), LastName: r.PostForm.Get("last_name"), Email: r.PostForm.Get("email"), Role: identity.Role(r.PostForm.Get("role")),
	}, true)
	return Outcome{To: "/users/" + strconv.FormatInt(u.ID, 10)}, err
}
