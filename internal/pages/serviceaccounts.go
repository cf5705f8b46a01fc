package pages

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// ServiceAccounts are the accounts of bots, and their API tokens; see
// api.ServiceAccountService.
type ServiceAccounts interface {
	ListServiceAccounts(ctx context.Context, r page.Request) (page.Page[account.ServiceAccount], error)
	CreateServiceAccount(ctx context.Context, n account.NewServiceAccount) (account.ServiceAccount, error)
	FindServiceAccount(ctx context.Context, id int64) (account.ServiceAccount, error)
	UpdateServiceAccount(ctx context.Context, id int64, c account.ServiceAccountChange) (account.ServiceAccount, error)
	DeleteServiceAccount(ctx context.Context, id int64) error
	ListServiceTokens(ctx context.Context, account, before int64, limit int) ([]account.APIToken, error)
	CreateServiceToken(ctx context.Context, account int64, n account.NewAPIToken) (account.APIToken, string, error)
	RotateServiceToken(ctx context.Context, account, id int64, grace time.Duration) (account.APIToken, string, error)
	RevokeServiceToken(ctx context.Context, account, id int64) error
}

type servicePages struct {
	s   ServiceAccounts
	now func() time.Time
}

const servicesPath = "/service-accounts"

func servicePath(id int64) string {
	return DeskPath + servicesPath + "/" + strconv.FormatInt(id, 10)
}

func (p servicePages) screens() []Screen {
	return []Screen{
		{Path: "/service-accounts", Title: "Service accounts", View: "services", Read: p.list},
		{Path: "/service-accounts/new", Title: "New service account", View: "form", Read: func(*http.Request) (any, error) { return p.newForm(), nil }, Acts: []Act{
			{Name: "create", Operation: "create-service-account", Done: "The service account is made. It can do nothing until it has a token.", Do: p.create},
		}},
		{Path: "/service-accounts/{id}", View: "service-account", Read: p.show, Acts: []Act{
			{Name: "save", Operation: "update-service-account", Done: "Saved.", Do: p.save},
			{Name: "activate", Operation: "update-service-account", Done: "The service account is active.", Do: p.activate(true)},
			{Name: "deactivate", Operation: "update-service-account", Done: "The service account is deactivated.", Do: p.activate(false), Ask: &Question{
				Title: "Deactivate this service account?", Button: "Deactivate it",
				Detail: "Its tokens stop working with their next request. What it wrote stays, and you can activate it again.",
			}},
			{Name: "delete", Operation: "delete-service-account", Done: "The service account is deleted.", Do: p.remove, Ask: &Question{
				Title: "Delete this service account?", Button: "Delete it with all that is its own",
				Detail: "Its tokens, posts, blogs and files are deleted with it. This can't be undone. To keep what it wrote, deactivate it instead.",
			}},
			{Name: "token", Operation: "create-service-account-token", Do: p.createToken},
			{Name: "rotate-token", Operation: "rotate-service-account-token", Do: p.rotateToken},
			{Name: "revoke-token", Operation: "revoke-service-account-token", Done: "The token no longer works.", Do: p.revokeToken, Ask: revokeQuestion()},
		}},
	}
}

func (p servicePages) list(r *http.Request) (any, error) {
	req := page.Request{Limit: pageRows}
	if r.URL.Query().Has("cursor") {
		req.After = new(page.Position)
		if err := continued(r, req.After); err != nil {
			return nil, err
		}
	}
	found, err := p.s.ListServiceAccounts(r.Context(), req)
	if err != nil {
		return nil, err
	}
	t := Table{
		Caption: "Service accounts, newest first", Columns: []Column{{Label: "Name", Wide: true}, {Label: "Role"}, {Label: "State"}, {Label: "Created"}},
		Empty: Empty{
			Title: "No service accounts", Detail: "A service account is for a bot: it has API tokens, no password, and depends on nobody's own account.",
			Label: "Make a service account", Href: DeskPath + servicesPath + "/new",
		},
	}
	rows(&t, r, found.Rows, func(a account.ServiceAccount) Row {
		return Row{Cells: []any{Link{Text: a.Name, Href: servicePath(a.ID)}, string(a.Role), activeBadge(a.Active), a.CreatedAt}}
	}, func(account.ServiceAccount) any { return nil })
	if found.Next != nil {
		t.Next = with(r, "cursor", page.Encode(found.Next))
	}
	return listed{Tabs: userTabs.at("Service accounts"), Table: t}, nil
}

func activeBadge(active bool) Badge {
	if active {
		return Badge{"active", "good"}
	}
	return Badge{"deactivated", "bad"}
}

func (p servicePages) newForm() formPage {
	return formPage{Tabs: userTabs.at("Service accounts"), Form: Form{Action: DeskPath + servicesPath + "/new/create", Button: "Make it", Fields: []Field{
		{Name: "name", Label: "Name", Required: true, Placeholder: "Nightly export", Hint: "What the bot does."}, roleField(identity.User),
	}}}
}

func (p servicePages) create(r *http.Request) (Outcome, error) {
	a, err := p.s.CreateServiceAccount(r.Context(), account.NewServiceAccount{Name: r.PostForm.Get("name"), Role: identity.Role(r.PostForm.Get("role")), Active: true})
	return Outcome{To: servicesPath + "/" + strconv.FormatInt(a.ID, 10)}, err
}

// servicePage is one service account.
type servicePage struct {
	Account account.ServiceAccount
	Facts   []Fact
	Buttons []Button
	Edit    Form
	Tokens  Table
	New     Form
	// SignIn is where to sign in first, where tokens can't be made without that.
	SignIn string
	// Secret is a token's that was just made, which Name is called.
	Secret, Name string
}

// PageTitle is the account's name.
func (p servicePage) PageTitle() string { return p.Account.Name }

// forms implements formed.
func (p servicePage) forms() []Form { return []Form{p.Edit, p.New} }

func (p servicePages) show(r *http.Request) (any, error) {
	view, err := p.page(r)
	if err != nil {
		return nil, err // not view, which holds nothing
	}
	return view, nil
}

func (p servicePages) page(r *http.Request) (servicePage, error) {
	id, err := numberIn(r, "id", account.ErrNoServiceAccount)
	if err != nil {
		return servicePage{}, err
	}
	a, err := p.s.FindServiceAccount(r.Context(), id)
	if err != nil {
		return servicePage{}, err
	}
	tokens, err := p.s.ListServiceTokens(r.Context(), id, 0, shownOfEach)
	if err != nil {
		return servicePage{}, err
	}
	at := servicePath(id)
	view := servicePage{
		Account: a, New: p.tokenForm(at+"/token", a.Role),
		Facts: []Fact{
			{"State", activeBadge(a.Active)}, {"Role", string(a.Role)}, {"Created", a.CreatedAt}, {"Number", a.ID}, {"Its files", Link{Text: "in the list", Href: filesOf(id)}}, {"AI budget", Link{Text: "what it used", Href: aiPath(id)}},
			{"What was done with it", Link{Text: "in the audit log", Href: DeskPath + "/audit?" + url.Values{"table": {"service_accounts"}, "row_id": {strconv.FormatInt(id, 10)}}.Encode()}},
		},
		Edit: Form{Action: at + "/save", Button: "Save", Line: true, Fields: []Field{{Name: "name", Label: "Name", Value: a.Name, Required: true}, roleField(a.Role)}},
		Tokens: tokenTable(tokens, p.now(), func(k account.APIToken) []Button {
			list := []Button{revokeButton(at, k)}
			if k.ReplacedAt == nil {
				list = append([]Button{{Label: "Replace", Action: at + "/rotate-token", Values: map[string]string{"token": strconv.FormatInt(k.ID, 10)}}}, list...)
			}
			return list
		}),
	}
	if p.now().Sub(visitorOf(r.Context()).principal.SignedInAt) > account.RecentSignIn {
		view.SignIn = DeskPath + "/sign-in?" + query("next", at)
	}
	if a.Active {
		view.Buttons = append(view.Buttons, Button{Label: "Deactivate", Action: at + "/deactivate", Asks: true, Danger: true})
	} else {
		view.Buttons = append(view.Buttons, Button{Label: "Activate", Action: at + "/activate"})
	}
	view.Buttons = append(view.Buttons, Button{Label: "Delete", Action: at + "/delete", Asks: true, Danger: true})
	return view, nil
}

// tokenForm makes an API token for an account with a role.
func (p servicePages) tokenForm(action string, role identity.Role) Form {
	scopes := Field{Name: "scopes", Label: "It may", Kind: "checks", Values: []string{string(identity.Read)}, Options: []Option{
		{string(identity.Read), "read"}, {string(identity.Write), "write"}, {string(identity.AI), "use language models"},
	}}
	if role == identity.Admin {
		scopes.Options = append(scopes.Options, Option{string(identity.Administer), "do what only an ADMIN may"})
	}
	return Form{Action: action, Button: "Make the token", Fields: []Field{
		{Name: "name", ID: "token-name", Label: "New token, used for", Required: true}, scopes,
		{Name: "expires_at", Label: "Works until the end of this day (UTC)", Kind: "date", Hint: "Left empty: for 90 days."},
		{Name: "never", Label: "Or", Kind: "checks", Options: []Option{{"yes", "it never expires"}}},
		{Name: "allowed_networks", Label: "Works from", Kind: "textarea", Hint: "Addresses and networks such as 203.0.113.0/24, one on each line. Left empty: from everywhere."},
		{Name: "rate", Label: "Requests a minute", Hint: "Left empty: as many as it likes."},
	}}
}

// wantedToken reads the form of a token. It returns a validation fault.
func wantedToken(form url.Values) (account.NewAPIToken, error) {
	n := account.NewAPIToken{Name: form.Get("name"), Never: form.Get("never") != "", Networks: strings.Fields(form.Get("allowed_networks"))}
	for _, s := range form["scopes"] {
		n.Scopes = append(n.Scopes, identity.Scope(s))
	}
	details := map[string]string{}
	if text := form.Get("expires_at"); text != "" {
		day, err := time.Parse(time.DateOnly, text)
		switch {
		case err != nil:
			details["expires_at"] = "Must be a day such as 2027-01-02."
		case n.Never:
			details["never"] = "Give a day, or say never, and not both."
		}
		n.ExpiresAt = new(day.AddDate(0, 0, 1))
	}
	if text := strings.TrimSpace(form.Get("rate")); text != "" {
		var err error
		if n.Rate, err = strconv.Atoi(text); err != nil || n.Rate == 0 {
			n.Rate = -1 // the service says what it must be
		}
	}
	if len(details) > 0 {
		return n, fault.Validation(details)
	}
	return n, nil
}

func (p servicePages) save(r *http.Request) (Outcome, error) {
	id, err := numberIn(r, "id", account.ErrNoServiceAccount)
	if err == nil {
		_, err = p.s.UpdateServiceAccount(r.Context(), id, account.ServiceAccountChange{Name: new(r.PostForm.Get("name")), Role: new(identity.Role(r.PostForm.Get("role")))})
	}
	return Outcome{}, err
}

func (p servicePages) activate(active bool) func(*http.Request) (Outcome, error) {
	return func(r *http.Request) (Outcome, error) {
		id, err := numberIn(r, "id", account.ErrNoServiceAccount)
		if err == nil {
			_, err = p.s.UpdateServiceAccount(r.Context(), id, account.ServiceAccountChange{Active: &active})
		}
		return Outcome{}, err
	}
}

func (p servicePages) remove(r *http.Request) (Outcome, error) {
	id, err := numberIn(r, "id", account.ErrNoServiceAccount)
	if err == nil {
		err = p.s.DeleteServiceAccount(r.Context(), id)
	}
	return Outcome{To: servicesPath}, err
}

func (p servicePages) createToken(r *http.Request) (Outcome, error) {
	id, err := numberIn(r, "id", account.ErrNoServiceAccount)
	if err != nil {
		return Outcome{}, err
	}
	n, err := wantedToken(r.PostForm)
	if err != nil {
		return Outcome{}, err
	}
	k, secret, err := p.s.CreateServiceToken(r.Context(), id, n)
	if err != nil {
		return Outcome{}, err
	}
	return p.made(r, k, secret)
}

func (p servicePages) rotateToken(r *http.Request) (Outcome, error) {
	id, token, err := p.tokenIn(r)
	if err != nil {
		return Outcome{}, err
	}
	k, secret, err := p.s.RotateServiceToken(r.Context(), id, token, rotateGrace)
	if err != nil {
		return Outcome{}, err
	}
	return p.made(r, k, secret)
}

// made shows a new token's secret, this once, also when nothing else can be read.
func (p servicePages) made(r *http.Request, k account.APIToken, secret string) (Outcome, error) {
	view, err := p.page(r)
	if err != nil {
		view = servicePage{Account: account.ServiceAccount{Name: "New API token"}}
	}
	view.Secret, view.Name = secret, k.Name
	return Outcome{Show: &Shown{View: "service-account", Data: view}}, nil
}

func (p servicePages) revokeToken(r *http.Request) (Outcome, error) {
	id, token, err := p.tokenIn(r)
	if err == nil {
		err = p.s.RevokeServiceToken(r.Context(), id, token)
	}
	return Outcome{}, err
}

// tokenIn are the account in the path and the token in the form.
func (p servicePages) tokenIn(r *http.Request) (id, token int64, err error) {
	if id, err = numberIn(r, "id", account.ErrNoServiceAccount); err != nil {
		return 0, 0, err
	}
	if token, err = strconv.ParseInt(r.PostForm.Get("token"), 10, 64); err != nil {
		return 0, 0, account.ErrNoAPIToken
	}
	return id, token, nil
}
