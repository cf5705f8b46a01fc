// Package identity says who is acting: a person, a bot, a site key, a webhook
// provider or Waypost itself. Every transaction that writes is opened for a
// Principal.
package identity

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// Role is what an account may do at large.
type Role string

// The roles, most powerful first.
const (
	Admin  Role = "ADMIN"
	Editor Role = "EDITOR"
	User   Role = "USER"
)

// Roles returns every role, most powerful first.
func Roles() []Role { return []Role{Admin, Editor, User} }

// Valid reports whether r is one of Roles.
func (r Role) Valid() bool { return slices.Contains(Roles(), r) }

// Kind says what sort of actor a Principal is.
type Kind string

// The kinds of actor.
const (
	KindAnonymous Kind = "anonymous"
	KindUser      Kind = "user"
	KindSite      Kind = "site"
	KindProvider  Kind = "provider"
	KindJob       Kind = "job"
	KindCommand   Kind = "cli"
	KindSystem    Kind = "system"
)

// Principal is the acting party of a request, a job or a command.
type Principal struct {
	Kind Kind
	// ID names the actor within its kind: a user's number, a site's UUID, a
	// provider's name, a job's number, a user of the operating system, a system
	// actor's name.
	ID string
	// Action is what it does: an operationId, "job:" and a kind of job, "cli:" and a
	// command, or "system:" and a step.
	Action    string
	UserID    int64  // set for KindUser
	Role      Role   // set for KindUser
	SessionID string // set when a session vouches for it
	// TokenID is set when an API token vouches for it, which then may do no more
	// than Scopes say.
	TokenID int64
	Scopes  Scopes
	// Rate is that of the API token; the zero value for one without a limit.
	Rate Rate
	// Service says that the account is a service account, which is no person's.
	Service bool
	// MustEnroll says that the account may do nothing but set up two-factor
	// authentication, which its role needs.
	MustEnroll bool
	// SignedInAt is when its holder last proved who he is; set with SessionID.
	SignedInAt time.Time
	Address    netip.Addr
	UserAgent  string // as sent, at most MaxUserAgent bytes of valid UTF-8
	RequestID  string
}

// Rate is how often something may be used in a minute, how often it may be used still,
// and when a new minute begins.
type Rate struct {
	PerMinute, Left int
	Reset           time.Duration
}

// MaxUserAgent is the length in bytes to which a user agent is cut.
const MaxUserAgent = 256

// System is Waypost acting by itself in a step of that name.
func System(step string) Principal {
	return Principal{Kind: KindSystem, ID: step, Action: "system:" + step}
}

// Job is a run of a queued job, with its number and kind.
func Job(id int64, kind string) Principal {
	return Principal{Kind: KindJob, ID: strconv.FormatInt(id, 10), Action: "job:" + kind}
}

// Command is a command, such as "user create", that a user of the operating system
// runs.
func Command(user, command string) Principal {
	return Principal{Kind: KindCommand, ID: user, Action: "cli:" + command}
}

// Step is the job or the command that ctx belongs to, and otherwise Waypost itself:
// nobody whom a request is of has a step done.
func Step(ctx context.Context, step string) Principal {
	if p := FromContext(ctx); p.Kind == KindJob || p.Kind == KindCommand {
		return p
	}
	return System(step)
}

// Together is who did what is done in one statement for all of list, which has one
// principal or more: what they have in common, and Waypost in that step if they are of
// several kinds.
func Together(list []Principal, step string) Principal {
	one := list[0]
	for _, p := range list[1:] {
		if p.Kind != one.Kind {
			return System(step)
		}
		one.ID = same(one.ID, p.ID)
		one.Action = same(one.Action, p.Action)
		one.SessionID = same(one.SessionID, p.SessionID)
		one.RequestID = same(one.RequestID, p.RequestID)
		if one.Address != p.Address {
			one.Address = netip.Addr{}
		}
		if one.TokenID != p.TokenID {
			one.TokenID = 0
		}
	}
	return one
}

func same(a, b string) string {
	if a == b {
		return a
	}
	return ""
}

// Actor is how the audit log names p: a type and an id, "" for none.
func (p Principal) Actor() (kind, id string) {
	switch p.Kind {
	case KindUser:
		if p.TokenID != 0 {
			return "token", strconv.FormatInt(p.TokenID, 10)
		}
	case KindProvider:
		return "webhook", p.ID
	case KindSite:
		return string(KindSystem), p.ID
	case KindAnonymous:
		return string(KindAnonymous), ""
	}
	return string(p.Kind), p.ID
}

// Operates reports whether p is Waypost itself or whoever operates it: a step, a job
// or a command.
func (p Principal) Operates() bool {
	return p.Kind == KindSystem || p.Kind == KindJob || p.Kind == KindCommand
}

// Doing returns p with an action.
func (p Principal) Doing(action string) Principal {
	p.Action = action
	return p
}

// Site is a site key or a secret site API key.
func Site(id string) Principal { return Principal{Kind: KindSite, ID: id} }

// Account is a signed-in user.
func Account(id int64, role Role, session string) Principal {
	return Principal{Kind: KindUser, ID: strconv.FormatInt(id, 10), UserID: id, Role: role, SessionID: session}
}

// Token is a bot that an account gave an API token with scopes.
func Token(id int64, role Role, token int64, scopes Scopes) Principal {
	p := Account(id, role, "")
	p.TokenID, p.Scopes = token, scopes
	return p
}

// From returns p with the address, user agent, request id and action of edge, the
// principal of the request before anybody was known.
func (p Principal) From(edge Principal) Principal {
	p.Address, p.UserAgent, p.RequestID, p.Action = edge.Address, edge.UserAgent, edge.RequestID, edge.Action
	return p
}

// Is reports whether p is a signed-in user with one of roles.
func (p Principal) Is(roles ...Role) bool {
	return p.Kind == KindUser && slices.Contains(roles, p.Role)
}

// Administers reports whether p may act on others' accounts, on roles and on who
// is active: an ADMIN who signed in, or an ADMIN's API token with scope admin.
func (p Principal) Administers() bool {
	return p.Is(Admin) && (p.TokenID == 0 || p.Scopes.Has(Administer))
}

type contextKey struct{}

// NewContext returns ctx with p as its acting principal.
func NewContext(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// FromContext returns the acting principal, the anonymous one when none is set.
func FromContext(ctx context.Context) Principal {
	if p, ok := ctx.Value(contextKey{}).(Principal); ok {
		return p
	}
	return Principal{Kind: KindAnonymous}
}
