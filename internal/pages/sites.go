package pages

import (
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/site"
)

// sitePages are the settings of sites and their keys.
type sitePages struct{ statisticsPages }

func (p sitePages) screens() []Screen {
	return []Screen{
		{Path: "/sites/new", Title: "New site", View: "form", Read: func(*http.Request) (any, error) {
			return formPage{siteTabs.at("New site"), siteForm(DeskPath+"/sites/new/create", "Make it", site.Site{})}, nil
		}, Acts: []Act{
			{Name: "create", Operation: "create-site", Done: "The site is made. Put the script below into its pages.", Do: p.create},
		}},
		{Path: "/sites/{id}", View: "site", Read: p.show, Acts: []Act{
			{Name: "save", Operation: "update-site", Done: "Saved.", Do: p.save},
			{Name: "key", Operation: "create-site-key", Do: p.createKey},
			{Name: "delete", Operation: "delete-site", Done: "The site is gone, and its statistics are being erased.", Do: p.remove, Ask: &Question{
				Title: "Delete this site?", Button: "Delete the site and its statistics",
				Detail: "The site and its keys are gone at once, and all of its statistics are erased. This can't be undone.",
			}},
		}},
		{Path: "/sites/{id}/keys/{kid}", Title: "Key", View: "key", Read: p.key, Acts: []Act{
			{Name: "rotate", Operation: "rotate-site-key", Do: p.rotate},
			{Name: "revoke", Operation: "revoke-site-key", Done: "The key no longer works.", Do: p.revoke, Ask: &Question{
				Title: "Revoke this key?", Button: "Revoke the key", Detail: "Whatever uses it is refused from now on. This can't be undone.",
			}},
		}},
	}
}

func siteForm(action, button string, s site.Site) Form {
	zone := "UTC"
	if s.Zone != nil {
		zone = s.Zone.String()
	}
	return Form{Action: action, Button: button, Fields: []Field{
		{Name: "name", Label: "Name", Value: s.Name, Required: true},
		{Name: "domain", Label: "Domain", Value: s.Domain, Placeholder: "shop.example.com", Required: true, Hint: "Visits from other hosts are not counted."},
		{Name: "timezone", Label: "Time zone", Value: zone, Required: true, Hint: "A name of the IANA database, such as Europe/Lisbon. Days begin at its midnight."},
		{Name: "retention", Label: "Months to keep single visits", Value: retentionText(s.RetentionMonths), Placeholder: "as the instance does", Kind: "number",
			Hint: "Before the current one; 0 for ever, empty as the instance does. What was counted stays, but questions with filters end there. What is gone does not come back."},
	}}
}

func (p sitePages) create(r *http.Request) (Outcome, error) {
	months, err := retentionIn(r)
	if err != nil {
		return Outcome{}, err
	}
	s, err := p.sites.CreateWith(r.Context(), r.PostForm.Get("name"), r.PostForm.Get("domain"), r.PostForm.Get("timezone"), months)
	return Outcome{To: strings.TrimPrefix(sitePath(s.ID), DeskPath)}, err
}

// sitePage is a site's settings.
type sitePage struct {
	Site   site.Site
	Facts  []Fact
	Form   Form
	NewKey Form
	Keys   Table
	Script string
	Stats  string
	Delete Button
}

// forms implements formed.
func (p sitePage) forms() []Form { return []Form{p.Form, p.NewKey} }

// PageTitle names the site.
func (p sitePage) PageTitle() string { return p.Site.Name + ": settings" }

func (p sitePages) find(r *http.Request) (site.Site, error) {
	id, err := idIn(r, "id", site.ErrNoSite)
	if err != nil {
		return site.Site{}, err
	}
	return p.sites.Find(r.Context(), id)
}

func (p sitePages) show(r *http.Request) (any, error) {
	s, err := p.find(r)
	if err != nil {
		return nil, err
	}
	var at sitePosition
	if err := continued(r, &at); err != nil {
		return nil, err
	}
	keys, err := p.sites.ListKeysBefore(r.Context(), s.ID, at.ID, pageRows+1)
	if err != nil {
		return nil, err
	}
	t := Table{
		Caption: "Secret keys, newest first", Empty: Empty{Title: "No secret keys", Detail: "A program that reads the statistics, or reports visits from a server, needs one."},
		Columns: []Column{{Label: "Key"}, {Label: "State"}, {Label: "May"}, {Label: "Begins with"}, {Label: "Used"}, {Label: "Expires"}, {Label: "Created"}},
	}
	rows(&t, r, keys, func(k site.Key) Row {
		return Row{Cells: []any{
			Link{Text: k.Name, Href: sitePath(s.ID) + "/keys/" + k.ID.String()}, p.keyState(k), string(k.Scope), Code(k.Prefix), k.LastUsedAt, k.ExpiresAt, k.CreatedAt,
		}}
	}, func(k site.Key) any { return sitePosition{k.ID} })
	kept, err := p.kept.Of(r.Context(), s.ID, s.RetentionMonths)
	if err != nil {
		return nil, err
	}
	own := sitePath(s.ID)
	return sitePage{
		Site: s, Form: siteForm(own+"/save", "Save", s), Keys: t, Stats: statsPath(s.ID), Script: p.base + "/stats.js",
		Facts: append([]Fact{{"Site key", Code(s.Key)}, {"Created", s.CreatedAt}, {"Id", Code(s.ID.String())}}, keptFacts(kept)...),
		NewKey: Form{Action: own + "/key", Button: "Make a key", Line: true, Fields: []Field{
			{Name: "name", ID: "key-name", Label: "New key, used for", Required: true},
			{Name: "scope", Label: "It may", Kind: "select", Options: []Option{{string(site.ScopeRead), "read statistics"}, {string(site.ScopeIngest), "report visits"}}},
		}},
		Delete: Button{Label: "Delete the site", Action: own + "/delete", Asks: true, Danger: true},
	}, nil
}

func (p sitePages) remove(r *http.Request) (Outcome, error) {
	id, err := idIn(r, "id", site.ErrNoSite)
	if err == nil {
		err = p.eraser.DeleteSite(r.Context(), id)
	}
	return Outcome{To: "/stats"}, err
}

func (p sitePages) keyState(k site.Key) Badge {
	switch {
	case k.RevokedAt != nil:
		return Badge{"revoked", "quiet"}
	case k.ExpiresAt != nil && !p.now().Before(*k.ExpiresAt):
		return Badge{"expired", "quiet"}
	case k.ExpiresAt != nil:
		return Badge{"replaced", "wait"}
	}
	return Badge{"works", "good"}
}

func (p sitePages) save(r *http.Request) (Outcome, error) {
	id, err := idIn(r, "id", site.ErrNoSite)
	if err != nil {
		return Outcome{}, err
	}
	months, err := retentionIn(r)
	if err != nil {
		return Outcome{}, err
	}
	name, domain, zone := r.PostForm.Get("name"), r.PostForm.Get("domain"), r.PostForm.Get("timezone")
	_, err = p.sites.Update(r.Context(), id, site.Change{Name: &name, Domain: &domain, Timezone: &zone, RetentionMonths: &months})
	return Outcome{}, err
}

// keyPage is one key. Secret is set once, when it was just made.
type keyPage struct {
	Site    uuid.UUID
	Key     site.Key
	Secret  string
	Facts   []Fact
	Buttons []Button
	Back    string
}

// PageTitle names the key.
func (p keyPage) PageTitle() string { return "Key " + p.Key.Name }

func (p sitePages) createKey(r *http.Request) (Outcome, error) {
	id, err := idIn(r, "id", site.ErrNoSite)
	if err != nil {
		return Outcome{}, err
	}
	k, secret, err := p.sites.CreateKey(r.Context(), id, r.PostForm.Get("name"), site.Scope(r.PostForm.Get("scope")))
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Show: &Shown{View: "key", Data: p.keyPage(k, secret)}}, nil
}

func (p sitePages) keyPage(k site.Key, secret string) keyPage {
	at := sitePath(k.SiteID) + "/keys/" + k.ID.String()
	view := keyPage{Site: k.SiteID, Key: k, Secret: secret, Back: sitePath(k.SiteID), Facts: []Fact{
		{"State", p.keyState(k)}, {"May", string(k.Scope)}, {"Begins with", Code(k.Prefix)}, {"Used", k.LastUsedAt}, {"Expires", k.ExpiresAt}, {"Revoked", k.RevokedAt}, {"Created", k.CreatedAt},
	}}
	if k.RevokedAt == nil && k.ExpiresAt == nil {
		view.Buttons = append(view.Buttons, Button{Label: "Replace it within a day", Action: at + "/rotate"})
	}
	if k.RevokedAt == nil {
		view.Buttons = append(view.Buttons, Button{Label: "Revoke", Action: at + "/revoke", Asks: true, Danger: true})
	}
	return view
}

// key finds a key among its site's.
func (p sitePages) key(r *http.Request) (any, error) {
	s, err := p.find(r)
	if err != nil {
		return nil, err
	}
	id, err := idIn(r, "kid", site.ErrNoKey)
	if err != nil {
		return nil, err
	}
	var before uuid.UUID
	for {
		keys, err := p.sites.ListKeysBefore(r.Context(), s.ID, before, 100)
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			if k.ID == id {
				return p.keyPage(k, ""), nil
			}
			before = k.ID
		}
		if len(keys) < 100 {
			return nil, site.ErrNoKey
		}
	}
}

// rotateGrace is how long a key still works after it was replaced.
const rotateGrace = 24 * time.Hour

func (p sitePages) rotate(r *http.Request) (Outcome, error) {
	siteID, id, err := keyIn(r)
	if err != nil {
		return Outcome{}, err
	}
	k, secret, err := p.sites.RotateKey(r.Context(), siteID, id, rotateGrace)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Show: &Shown{View: "key", Data: p.keyPage(k, secret)}}, nil
}

func (p sitePages) revoke(r *http.Request) (Outcome, error) {
	siteID, id, err := keyIn(r)
	if err == nil {
		_, err = p.sites.RevokeKey(r.Context(), siteID, id)
	}
	return Outcome{To: "/sites/" + siteID.String()}, err
}

func keyIn(r *http.Request) (siteID, id uuid.UUID, err error) {
	if siteID, err = idIn(r, "id", site.ErrNoSite); err != nil {
		return siteID, id, err
	}
	id, err = idIn(r, "kid", site.ErrNoKey)
	return siteID, id, err
}
