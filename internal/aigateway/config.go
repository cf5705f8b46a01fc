package aigateway

import (
	"slices"
	"time"

	"github.com/waypost/waypost/internal/identity"
)

// Kind is the API that an upstream has.
type Kind string

// The kinds of upstream.
const (
	OpenAI    Kind = "openai"    // OpenAI's, or one that is compatible with it
	Anthropic Kind = "anthropic" // Anthropic's Messages API
	// Echo is built in: it answers with what it was asked.
	Echo Kind = "echo"
)

// Upstream is a service that has models.
type Upstream struct {
	Name    string
	Kind    Kind
	BaseURL string // without a slash at its end
	KeyEnv  string // the variable with the key; "" for none
	// AllowPrivate lets its name lead to an address that is no public one.
	AllowPrivate bool
}

// Target is a model of an upstream.
type Target struct {
	Upstream string
	Model    string // as the upstream names it
	Price    Price
	// Roles are those for whose calls it may be used.
	Roles []identity.Role
}

// Model is what clients name: an alias of targets, of which the first that answers does.
type Model struct {
	Name      string
	Targets   []Target
	Roles     []identity.Role
	MaxOutput int64 // tokens of an answer
}

func (m Model) allows(r identity.Role) bool { return slices.Contains(m.Roles, r) }

// Period is how long a budget is for.
type Period string

// The periods, all in UTC; a week begins on Monday.
const (
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
)

// bounds are the period that t is in: its first day, and when the next one begins.
func (p Period) bounds(t time.Time) (since, until time.Time) {
	y, m, d := t.UTC().Date()
	switch p {
	case Day:
		since = time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
		return since, since.AddDate(0, 0, 1)
	case Week:
		monday := d - (int(t.UTC().Weekday())+6)%7
		since = time.Date(y, m, monday, 0, 0, 0, 0, time.UTC)
		return since, since.AddDate(0, 0, 7)
	}
	since = time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
	return since, since.AddDate(0, 1, 0)
}

// Limits are what each account may use, and each of its API tokens.
type Limits struct {
	RPM     int32 // calls a minute
	TPM     int64 // tokens a minute
	Budget  Money // of a period, unless an administrator set another for the account
	Period  Period
	Timeout time.Duration // for an attempt's first byte, and between two pieces of a stream
}

// DefaultLimits are those of a file that says nothing of them.
func DefaultLimits() Limits {
	return Limits{RPM: 60, TPM: 100_000, Budget: 5 * one, Period: Month, Timeout: time.Minute}
}

// Declared is what the section "ai" of a configuration file says.
type Declared struct {
	Upstreams []Upstream
	Models    []Model
	Limits    Limits
}

// WithEcho adds the model echo, which is free of charge and for everybody, unless there
// is one of that name.
func (d Declared) WithEcho() Declared {
	if slices.ContainsFunc(d.Models, func(m Model) bool { return m.Name == string(Echo) }) {
		return d
	}
	d.Upstreams = append(slices.Clone(d.Upstreams), Upstream{Name: echoUpstream, Kind: Echo})
	d.Models = append(slices.Clone(d.Models), Model{
		Name: string(Echo), Roles: identity.Roles(), MaxOutput: defaultMaxOutput,
		Targets: []Target{{Upstream: echoUpstream, Model: string(Echo), Roles: identity.Roles()}},
	})
	return d
}

const (
	// echoUpstream is no name that a file can have.
	echoUpstream = "(built in)"
	// defaultMaxOutput is that of a model without max_output.
	defaultMaxOutput = 4096
)

func (d Declared) upstream(name string) (Upstream, bool) {
	i := slices.IndexFunc(d.Upstreams, func(u Upstream) bool { return u.Name == name })
	if i < 0 {
		return Upstream{}, false
	}
	return d.Upstreams[i], true
}
