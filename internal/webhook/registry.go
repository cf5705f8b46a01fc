package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/webhook/signature"
)

// Verifier proves that a delivery comes from its provider. Package signature has
// verifiers for common schemes.
type Verifier interface {
	// Verify returns nil, or an error that says why the delivery is refused. It must not
	// change its arguments.
	Verify(secret, body []byte, h http.Header, now time.Time) error
	// Headers names the headers that carry the signature; they are stored redacted.
	Headers() []string
}

// Extractor finds a delivery's event type and the provider's own event id. Each is ""
// when the delivery has none. The body is well-formed JSON, or a form for Fields with
// Form. An error that the sender
// may see is a *FieldError.
type Extractor interface {
	Extract(body []byte, h http.Header) (eventType, externalID string, err error)
}

// FieldError says what is wrong with an extracted field.
type FieldError struct {
	Field  string // "event_type", "external_id" or "body"
	Reason string // a public sentence
}

// Error implements error.
func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// Registration is one provider.
type Registration struct {
	// Name is the provider's path segment: 1 to 50 of a-z, 0-9, "-" and "_".
	Name string
	// SecretEnv names the environment variable with the signing secret. While the
	// variable SecretEnv+"_PREVIOUS" is set, its secret is accepted as well.
	SecretEnv string
	Verifier  Verifier
	Extractor Extractor
	// Challenge says how the provider asks whether the address takes its events; the zero
	// value is for those that don't.
	Challenge Challenge
	// Preset names the preset that the registration was made of, "" for none.
	Preset string
	// BodyLimit is the size in bytes of the largest body that is accepted, at most
	// 64 MiB; 0 means 1 MiB.
	BodyLimit int64
	// About describes the provider to people.
	About About
}

const (
	defaultBodyLimit = 1 << 20
	maxBodyLimit     = 64 << 20
)

// Handler acts on an event. If it returns an error, panics or exceeds its time budget,
// the event becomes failed, and the error's text is kept for administrators. ctx ends
// with the time budget; it does not end when the provider closes its connection.
type Handler func(ctx context.Context, d *Delivery) error

// Delivery is an event in the hands of its handler.
type Delivery struct {
	Event Event
	run   *execution
}

// Tx returns the transaction in which the event also becomes processed: the handler's
// writes in it are committed if and only if the event becomes processed. The first call
// opens the transaction; later calls return the same one. The receiver commits it or
// rolls it back. Effects outside this transaction happen at least once, so use Event.ID
// as their idempotency key.
//
// An error means that there is no transaction. The handler should return this error;
// the event is then tried again.
func (d *Delivery) Tx(ctx context.Context) (pgx.Tx, error) { return d.run.begin(ctx) }

// Binding ties a handler to a provider's events of one type. With the empty type, it
// ties the handler to all types that have no binding of their own.
type Binding struct {
	Provider  string
	EventType string
	Handler   Handler
	// Retry says how failures are tried again; with the zero value they are not.
	Retry Retry
	// ByJob makes background jobs run the handler: a delivery is answered as pending as
	// soon as it is stored.
	ByJob bool
	// PassHeaders keeps the delivery's own headers, signature included, encrypted beside
	// the event until it is settled: its handler passes them on.
	PassHeaders bool

	targets []*poster // in the place of a handler
}

// targetKeys names the targets.
func (b Binding) targetKeys() []targetKey {
	keys := make([]targetKey, len(b.targets))
	for i, p := range b.targets {
		keys[i] = targetKey{b.Provider, p.target.Name}
	}
	return keys
}

// forwards reports whether the events go to targets rather than to a handler.
func (b Binding) forwards() bool { return len(b.targets) > 0 }

// Handle makes a binding.
func Handle(provider, eventType string, h Handler) Binding {
	return Binding{Provider: provider, EventType: eventType, Handler: h}
}

// Registry is the set of providers and handlers. It never changes.
type Registry struct {
	providers map[string]Registration
	names     []string // of the providers, in the order of registration
	handlers  map[bindingKey]Binding
	targets   map[targetKey]*poster
}

// targetKey names a target.
type targetKey struct{ provider, name string }

func (k targetKey) compare(l targetKey) int {
	return cmp.Or(cmp.Compare(k.provider, l.provider), cmp.Compare(k.name, l.name))
}

type bindingKey struct{ provider, eventType string }

var (
	providerName = regexp.MustCompile(`^[a-z0-9_-]{1,50}$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// NewRegistry checks every entry. Its error names each faulty entry.
func NewRegistry(providers []Registration, bindings ...Binding) (*Registry, error) {
	r := &Registry{providers: make(map[string]Registration, len(providers)), handlers: make(map[bindingKey]Binding, len(bindings)), targets: map[targetKey]*poster{}}
	var errs []error
	for _, p := range providers {
		if p.BodyLimit == 0 {
			p.BodyLimit = defaultBodyLimit
		}
		if err := r.checkProvider(p); err != nil {
			errs = append(errs, fmt.Errorf("webhook: provider %q: %w", p.Name, err))
			continue
		}
		r.providers[p.Name] = p
		r.names = append(r.names, p.Name)
	}
	for _, b := range bindings {
		if err := cmp.Or(r.checkBinding(b), r.addTargets(b)); err != nil {
			errs = append(errs, fmt.Errorf("webhook: handler of provider %q, event type %q: %w", b.Provider, b.EventType, err))
			continue
		}
		r.handlers[bindingKey{b.Provider, b.EventType}] = b
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Registry) checkProvider(p Registration) error {
	_, taken := r.providers[p.Name]
	switch {
	case !providerName.MatchString(p.Name):
		return errors.New("a name is 1 to 50 of a-z, 0-9, - and _")
	case taken:
		return errors.New("registered twice")
	case p.SecretEnv == "":
		return errors.New("no name for its secret's environment variable")
	case !variableName.MatchString(p.SecretEnv):
		// It is not shown: it may be the secret itself, in the wrong place.
		return errors.New("the name of its secret's environment variable is not a valid name")
	case p.Verifier == nil:
		return errors.New("no verifier")
	case p.Extractor == nil:
		return errors.New("no extractor")
	case strings.HasPrefix(strings.ToLower(p.SecretEnv), "whsec_"):
		return errors.New("its secret_env is the secret itself; give the name of the variable that holds the secret")
	case p.BodyLimit < 0 || p.BodyLimit > maxBodyLimit:
		return fmt.Errorf("a body limit is 1 to %d bytes", maxBodyLimit)
	}
	return errors.Join(validate(p.Verifier), validate(p.Extractor), p.Challenge.Validate(), p.About.check(p))
}

// validate asks a verifier or an extractor that can tell whether it is complete.
func validate(part any) error {
	if v, ok := part.(interface{ Validate() error }); ok {
		return v.Validate()
	}
	return nil
}

func (r *Registry) checkBinding(b Binding) error {
	_, known := r.providers[b.Provider]
	_, taken := r.handlers[bindingKey{b.Provider, b.EventType}]
	switch {
	case !known:
		return errors.New("no such provider is registered")
	case taken:
		return errors.New("bound twice")
	case b.Handler == nil && !b.forwards():
		return errors.New("no handler")
	case utf8.RuneCountInString(b.EventType) > maxEventType:
		return fmt.Errorf("an event type has at most %d characters", maxEventType)
	}
	return b.Retry.check()
}

// addTargets makes the targets of b known by their names. With a token for a signature,
// what passes the provider's headers on would pass on the provider's secret.
func (r *Registry) addTargets(b Binding) error {
	for _, p := range b.targets {
		key := targetKey{b.Provider, p.target.Name}
		if _, taken := r.targets[key]; taken {
			return fmt.Errorf("two targets of the provider have the name %q", p.target.Name)
		}
		if _, token := r.providers[b.Provider].Verifier.(signature.Token); token && p.target.PassHeaders {
			return errors.New("forward: pass_headers would hand the provider's token on; leave it out")
		}
		r.targets[key] = p
	}
	return nil
}

// Provider returns the registration of that name, or ErrProvider.
func (r *Registry) Provider(name string) (Registration, error) {
	p, ok := r.providers[name]
	if !ok {
		return Registration{}, ErrProvider
	}
	return p, nil
}

// Providers returns every registration, in the order in which they were given.
func (r *Registry) Providers() []Registration {
	all := make([]Registration, len(r.names))
	for i, name := range r.names {
		all[i] = r.providers[name]
	}
	return all
}

// binding finds the exact binding, else the provider's catch-all.
func (r *Registry) binding(provider, eventType string) (Binding, bool) {
	b, ok := r.handlers[bindingKey{provider, eventType}]
	if !ok {
		b, ok = r.handlers[bindingKey{provider, ""}]
	}
	return b, ok
}

// paths reports which ways a provider's deliveries may go: into jobs, or to be handled, or
// only stored, at once.
func (r *Registry) paths(provider string) (byJob, direct bool) {
	rest := r.handlers[bindingKey{provider, ""}]
	for key, b := range r.handlers {
		if key.provider == provider {
			byJob, direct = byJob || b.ByJob, direct || !b.ByJob
		}
	}
	return byJob, direct || !rest.ByJob
}

// passesHeaders reports whether any binding does.
func (r *Registry) passesHeaders() bool {
	for _, b := range r.handlers {
		if b.PassHeaders {
			return true
		}
	}
	return false
}

// bound lists bindings as queries take them: side by side, sorted.
type bound struct {
	providers, eventTypes []string
	byJobs                []bool
}

func (r *Registry) bound() bound {
	b := bound{providers: []string{}, eventTypes: []string{}, byJobs: []bool{}}
	for _, key := range slices.SortedFunc(maps.Keys(r.handlers), func(a, b bindingKey) int {
		return cmp.Or(cmp.Compare(a.provider, b.provider), cmp.Compare(a.eventType, b.eventType))
	}) {
		b.providers = append(b.providers, key.provider)
		b.eventTypes = append(b.eventTypes, key.eventType)
		b.byJobs = append(b.byJobs, r.handlers[key].ByJob)
	}
	return b
}
