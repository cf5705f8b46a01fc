package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/token"
)

// Names of the security schemes in the description.
const (
	schemeBearer   = "bearer"
	schemeAPIToken = "apiToken"
	schemeSiteKey  = "siteKey"
	schemeFileLink = "fileLink"
)

// accessKey holds an operation's Access in its metadata, for the guard and for
// the tests that walk every operation.
const accessKey = "waypost.access"

// Access says who may call an operation. An operation without one is refused at
// start-up: deny by default.
type Access struct {
	scheme string
	// optional also admits who brings no credential; who brings one needs it to hold.
	optional bool
	roles    []identity.Role
	scope    site.Scope // of a site's key
	// session refuses API tokens: the operation is for the account's holder alone.
	session bool
	// instead is the scope that an API token needs in place of those of the method; "" for
	// these.
	instead identity.Scope
	// enrolling admits accounts that must set up two-factor authentication first.
	enrolling bool
	// accounts says that the operation is about an account, which the service
	// admits to; an API token needs scope admin for others'.
	accounts bool
	// files says the same of files.
	files bool
	// aims are what a call can be about; none for what belongs to no account.
	aims []aim
	// people says why no assistant is offered the operation as a tool; "" where it is.
	people string
	// link names the query parameter with a signed link, which is enough by itself; the
	// service verifies it. "" for none.
	link string
}

// public needs no credential.
func public() Access { return Access{} }

// anybody needs no credential either, but treats accounts differently: a credential that
// is sent must hold, as for signedIn. Answers that anybody gets may be kept for a while
// by everybody, others by nobody else.
func anybody() Access {
	return Access{scheme: schemeBearer, optional: true, roles: identity.Roles()}
}

// signedIn needs any active account.
func signedIn() Access { return Access{scheme: schemeBearer, roles: identity.Roles()} }

// roles needs an active account with one of r.
func roles(r ...identity.Role) Access { return Access{scheme: schemeBearer, roles: r} }

// inPerson needs an active account that signed in itself, and is about that account: no
// API token will do.
func inPerson() Access {
	return Access{scheme: schemeBearer, roles: identity.Roles(), session: true}.ofOneself()
}

// bySession refuses API tokens.
func (a Access) bySession() Access {
	a.session = true
	return a
}

// byScope makes one scope enough for API tokens, whatever the method is.
func (a Access) byScope(s identity.Scope) Access {
	a.instead = s
	return a
}

// whileEnrolling also admits accounts that must set up two-factor authentication
// before anything else.
func (a Access) whileEnrolling() Access {
	a.enrolling = true
	return a
}

// orLink also admits whoever has a link.
func (a Access) orLink() Access {
	a.link = linkParameter
	return a
}

// siteKey needs a secret API key of a site, with scope read.
func siteKey() Access { return Access{scheme: schemeSiteKey, scope: site.ScopeRead} }

// ingestKey needs a secret API key of a site, with scope ingest.
func ingestKey() Access { return Access{scheme: schemeSiteKey, scope: site.ScopeIngest} }

// access attaches a to op: the guard enforces it, the description shows it. fails
// are the failures of the operation's own work; those of its access and of reading
// the request are added to them.
func access(op huma.Operation, a Access, fails ...error) huma.Operation {
	if op.Metadata == nil {
		op.Metadata = map[string]any{}
	}
	op.Metadata[accessKey] = a
	op.Metadata[failuresKey] = slices.Concat(a.failures(), fails)
	op.Security = []map[string][]string{}
	if a.optional {
		op.Security = append(op.Security, map[string][]string{})
	}
	for _, scheme := range a.schemes() {
		op.Security = append(op.Security, map[string][]string{scheme: {}})
	}
	// Without one, Huma would document a default answer instead of statuses.
	op.Errors = append(op.Errors, http.StatusInternalServerError)
	op.Description = strings.TrimSpace(op.Description + "\n\n" + a.sentence(op.Method))
	return op
}

// schemes are those of the description, each of which is enough.
func (a Access) schemes() []string {
	switch {
	case a.scheme == "":
		return nil
	case a.link != "":
		return []string{schemeBearer, schemeAPIToken, schemeFileLink}
	case a.scheme == schemeBearer && !a.session:
		return []string{schemeBearer, schemeAPIToken}
	}
	return []string{a.scheme}
}

// failures are what the guard answers.
func (a Access) failures() []error {
	switch {
	case a.scheme == schemeSiteKey:
		return []error{site.ErrAPIKey, errScope, errTooMany}
	case a.scheme == schemeBearer:
		list := []error{errNoToken, token.ErrExpired, token.ErrInvalid, account.ErrSessionRevoked, account.ErrTokenNetwork, errThrottled}
		if !a.enrolling {
			list = append(list, account.ErrTwoFactorRequired)
		}
		if a.restricted() {
			list = append(list, errRole)
		}
		if a.session {
			return append(list, errInPerson)
		}
		return append(list, errTokenScope)
	}
	return nil
}

func (a Access) restricted() bool { return len(a.roles) < len(identity.Roles()) }

// scopes are those that an API token needs to call an operation with that method:
// one for reading or for changing, and another for what is an ADMIN's alone.
func (a Access) scopes(method string) []identity.Scope {
	if a.instead != "" {
		return []identity.Scope{a.instead}
	}
	list := []identity.Scope{identity.Write}
	if method == http.MethodGet || method == http.MethodHead {
		list[0] = identity.Read
	}
	if slices.Equal(a.roles, []identity.Role{identity.Admin}) {
		list = append(list, identity.Administer)
	}
	return list
}

// othersScopes are those that an ADMIN's API token needs for others' accounts and
// files; nil for an operation that is about neither.
func (a Access) othersScopes(method string) []identity.Scope {
	if !a.accounts && !a.files {
		return nil
	}
	return append(a.scopes(method), identity.Administer)
}

// allows says whether p may call an operation with that access and method.
func (a Access) allows(p identity.Principal, method string) error {
	switch {
	case !p.Is(a.roles...):
		return errRole
	case p.MustEnroll && !a.enrolling:
		return account.ErrTwoFactorRequired
	case p.TokenID == 0: // it signed in itself
		return nil
	case a.session:
		return errInPerson
	case !p.Scopes.Has(a.scopes(method)...):
		return errTokenScope
	}
	return nil
}

// sentence says for people who may call.
func (a Access) sentence(method string) string {
	switch {
	case a.optional:
		return "Access: public; an API token, where one is sent, needs " + scopeNames(a.scopes(method)) + "."
	case a.session && a.restricted():
		return "Access: role " + a.roleNames() + "; not with an API token."
	case a.session:
		return "Access: anybody who is signed in; not with an API token."
	case a.scheme == schemeSiteKey:
		return "Access: a secret API key of the site, with scope `" + string(a.scope) + "`."
	case a.scheme == schemeBearer && a.restricted():
		return "Access: role " + a.roleNames() + "; an API token needs " + scopeNames(a.scopes(method)) + "."
	case a.link != "":
		return "Access: anybody who is signed in; an API token needs " + scopeNames(a.scopes(method)) +
			", and in addition `admin` for another person's file. Or anybody with a link, without signing in."
	case a.files:
		return "Access: anybody who is signed in; an API token needs " + scopeNames(a.scopes(method)) +
			", and in addition `admin` for another person's file."
	case a.accounts && method == http.MethodGet:
		return "Access: anybody who is signed in; an API token needs " + scopeNames(a.scopes(method)) +
			", and in addition `admin` for another person's account."
	case a.accounts:
		return "Access: anybody who is signed in; an API token needs " + scopeNames(a.scopes(method)) +
			", and in addition `admin` for another person's account, and to change anybody's role or who is active, its owner's included."
	case a.scheme == schemeBearer:
		return "Access: anybody who is signed in; an API token needs " + scopeNames(a.scopes(method)) + "."
	}
	return "Access: public."
}

func (a Access) roleNames() string {
	names := make([]string, len(a.roles))
	for i, r := range a.roles {
		names[i] = "`" + string(r) + "`"
	}
	return strings.Join(names, " or ")
}

func scopeNames(scopes []identity.Scope) string {
	names := quoted(scopes)
	if len(names) == 1 {
		return "scope " + names[0]
	}
	return "scopes " + strings.Join(names, " and ")
}

func quoted(scopes []identity.Scope) []string {
	names := make([]string, len(scopes))
	for i, s := range scopes {
		names[i] = "`" + string(s) + "`"
	}
	return names
}
