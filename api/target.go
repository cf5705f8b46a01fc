package api

import (
	"net/http"
	"slices"

	"github.com/waypost/waypost/internal/identity"
)

// What a call can be about.
const (
	aboutOwn       = "own"           // what belongs to the caller
	aboutAnothers  = "another's"     // what belongs to somebody else
	aboutPublished = "published"     // a blog that everybody may read
	aboutDraft     = "draft"         // a blog that is none of these
	aboutStanding  = "own standing"  // the caller's own role, and whether it is active
	aboutAnybodys  = "anybody's"     // own and another's alike
	aboutNobodys   = "the service's" // what belongs to no account
)

// Target is what a call can be about, and what it takes then.
type Target struct {
	About string `json:"about"`
	// Roles are those that may, with a token of their own.
	Roles []identity.Role `json:"roles"`
	// Scopes are what an API token of an account with such a role needs; none where no
	// API token will do.
	Scopes []identity.Scope `json:"token_scopes"`
	// Otherwise is the status for accounts without such a role.
	Otherwise int `json:"otherwise"`
	// Bots is the status for service accounts, which are nobody, where that alone keeps
	// them out; 0 where they are treated as others of their role.
	Bots int `json:"service_accounts,omitempty"`
}

// aim is a Target as an operation declares it.
type aim struct {
	about string
	// roles are those who may, of those that the operation admits; nil for all of these.
	roles []identity.Role
	// administer says that an API token needs scope admin, besides the method's own.
	administer bool
	// otherwise is the status for others; 0 where there are none.
	otherwise int
	// bots is the status for service accounts; 0 where they are treated as others.
	bots int
	// writing says that the aim is for methods that change something.
	writing bool
}

// ofAccounts says that an API token needs scope admin, besides the method's own,
// for others' accounts and to change a role or who is active. Nobody but an ADMIN does
// either.
func (a Access) ofAccounts() Access {
	admins := []identity.Role{identity.Admin}
	a.accounts = true
	a.aims = []aim{
		{about: aboutOwn, bots: http.StatusNotFound},
		{about: aboutAnothers, roles: admins, administer: true, otherwise: http.StatusNotFound},
		{about: aboutStanding, roles: admins, administer: true, otherwise: http.StatusUnprocessableEntity, bots: http.StatusNotFound, writing: true},
	}
	return a
}

// ofFiles says that an API token needs scope admin, besides the method's own, for
// others' files, which are there for nobody else but an ADMIN.
func (a Access) ofFiles() Access {
	a.files = true
	a.aims = []aim{{about: aboutOwn}, {about: aboutAnothers, roles: []identity.Role{identity.Admin}, administer: true, otherwise: http.StatusNotFound}}
	return a
}

// ofFileLists says the same of lists of files, which are the caller's own until it asks
// for another's. A refusal tells nothing of a file.
func (a Access) ofFileLists() Access {
	a.aims = []aim{{about: aboutOwn}, {about: aboutAnothers, roles: []identity.Role{identity.Admin}, administer: true, otherwise: http.StatusForbidden}}
	return a
}

// ofAuthors says that everybody may read what it is about, but that only its author, an
// EDITOR or an ADMIN may do this.
func (a Access) ofAuthors() Access {
	a.aims = []aim{{about: aboutOwn}, {about: aboutAnothers, roles: []identity.Role{identity.Admin, identity.Editor}, otherwise: http.StatusForbidden}}
	return a
}

// ofEverybody says that it makes no difference whose it is.
func (a Access) ofEverybody() Access {
	a.aims = []aim{{about: aboutAnybodys}}
	return a
}

// ofReaders says that drafts are there for those alone who write.
func (a Access) ofReaders() Access {
	a.aims = []aim{{about: aboutPublished}, {about: aboutDraft, roles: []identity.Role{identity.Admin, identity.Editor}, otherwise: http.StatusNotFound}}
	return a
}

// ofOneself says that it is about the caller's own account, and names nothing.
func (a Access) ofOneself() Access {
	a.aims = []aim{{about: aboutOwn}}
	return a
}

// ofPerson says that it is about the person whose account it is.
func (a Access) ofPerson() Access {
	a.aims = []aim{{about: aboutOwn, bots: http.StatusForbidden}}
	return a
}

// ofHolder says that it names something of the caller's; what others have of the kind is
// not there, for an ADMIN neither.
func (a Access) ofHolder() Access {
	a.aims = []aim{{about: aboutOwn}, {about: aboutAnothers, roles: []identity.Role{}, otherwise: http.StatusNotFound}}
	return a
}

// targets are what a call with that method can be about; one at least, and none for
// operations that no account's token is for.
func (a Access) targets(method string) []Target {
	if a.scheme != schemeBearer {
		return nil
	}
	aims := a.aims
	if len(aims) == 0 {
		aims = []aim{{about: aboutNobodys}}
	}
	var list []Target
	for _, m := range aims {
		if m.writing && method == http.MethodGet {
			continue
		}
		t := Target{About: m.about, Roles: []identity.Role{}, Scopes: []identity.Scope{}, Otherwise: m.otherwise, Bots: m.bots}
		if !a.session {
			t.Scopes = a.scopes(method)
			if m.administer && !slices.Contains(t.Scopes, identity.Administer) {
				t.Scopes = append(t.Scopes, identity.Administer)
			}
		}
		for _, r := range a.roles {
			if m.roles == nil || slices.Contains(m.roles, r) {
				t.Roles = append(t.Roles, r)
			}
		}
		list = append(list, t)
	}
	return list
}
