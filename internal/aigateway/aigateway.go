// Package aigateway lets accounts and their API tokens call language models that the
// operator configured, within limits that hold: what a call can cost at most is kept back
// in PostgreSQL before it is made, and what it used is booked when it ends, however it
// ends. Nothing of a prompt or an answer is stored or logged.
//
// A call is a reservation with a lease, which the process renews while the call is on. It
// ends once: by whoever deletes the reservation, and in the same statement books it in
// the ledger. What a crash leaves is booked at its worst by a sweep.
package aigateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"crypto/rand"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/aigateway/echo"
	"github.com/waypost/waypost/internal/aigateway/upstream"
	"github.com/waypost/waypost/internal/fairqueue"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/telemetry"
)

// Faults of this domain.
var (
	// ErrRequest says what is wrong with a request; its details have the member as key.
	ErrRequest = fault.New(fault.Malformed, "invalid_request", "The request has a member that breaks a rule.")
	// ErrNoModel says that nothing is configured under that name.
	ErrNoModel = fault.New(fault.NotFound, "model_not_found", "There is no such model; GET /api/ai/v1/models lists those that you may use.")
	// ErrModelRole says that the model is for other roles.
	ErrModelRole = fault.New(fault.Forbidden, "model_not_allowed", "Your role does not allow this model.")
	// ErrBudget says that the call could cost more than is left.
	ErrBudget = fault.New(fault.RateLimited, "budget_exceeded", "This call could cost more than is left of your budget.")
	// ErrRate says that there were too many calls or tokens in this minute.
	ErrRate = fault.New(fault.RateLimited, "rate_limit_exceeded", "You have used up your calls or tokens for this minute.")
	// ErrTooLong says that the call alone would use more tokens than a minute has.
	ErrTooLong = fault.New(fault.RateLimited, "rate_limit_exceeded", "This call could use more tokens than your limit per minute.")
	// ErrCaller says that the account or the token ended while its call was on.
	ErrCaller = fault.New(fault.Unauthenticated, fault.CodeUnauthenticated, "Your account or API token is no longer valid.")
	// ErrUpstream says that no target answered as it should.
	ErrUpstream = fault.New(fault.Upstream, "upstream_error", "The model's service failed.")
	// ErrUpstreamTimeout says that the last target was too slow.
	ErrUpstreamTimeout = fault.New(fault.UpstreamTimeout, "upstream_timeout", "The model's service did not answer in time.")
	// ErrRefused says that the upstream takes the request for a bad one.
	ErrRefused = fault.New(fault.Malformed, "upstream_refused", "The model's service refused this request: it may be too long, or ask for something the model can't do.")
	// ErrNoUser says that there is no account of that id.
	ErrNoUser = fault.Missing("user")
)

// Options configure New. DB and Declared are mandatory.
type Options struct {
	DB       *db.DB
	Declared Declared
	// LookupKey returns the environment variable with an upstream's key, at each call; ""
	// when it is unset.
	LookupKey func(name string) string
	Logger    *slog.Logger
	// Metrics takes what is measured; nil for nobody.
	Metrics prometheus.Registerer
	// Places is how many calls this process makes at once; default 2,048.
	Places int
	// Lease is for how long a call is taken to be on though nobody says so; default 25 s.
	Lease time.Duration
	// Pause is the wait before a target is asked again; default 200 ms.
	Pause  time.Duration
	Now    func() time.Time
	Random io.Reader
	// Interrupt is called at every Boundary; an error ends the work there, as a crash
	// would. For tests.
	Interrupt func(Boundary) error
}

// Boundary is a point of a call at which a test can end the work.
type Boundary string

// The boundaries, in their order.
const (
	Reserved Boundary = "reserved" // the worst case is kept back
	Answered Boundary = "answered" // the first byte is there
	Served   Boundary = "served"   // the answer is whole, and nothing is booked yet
)

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Places = cmp.Or(o.Places, 2048)
	o.Lease = cmp.Or(o.Lease, 25*time.Second)
	o.Pause = cmp.Or(o.Pause, 200*time.Millisecond)
	if o.LookupKey == nil {
		o.LookupKey = func(string) string { return "" }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Interrupt == nil {
		o.Interrupt = func(Boundary) error { return nil }
	}
	return o
}

// Service is the gateway.
type Service struct {
	o       Options
	queries dbsqlc.Queries
	metrics *metrics
	open    http.RoundTripper // to public addresses alone
	private http.RoundTripper
	echo    http.RoundTripper
	idle    []*http.Transport
	targets map[targetKey]*upstream.Breaker
	places  chan struct{}
	// Statements about one account wait for each other in the database; here they wait
	// without holding a connection, one for each account.
	reserving, settling *fairqueue.Queue

	mu   sync.Mutex
	live map[uuid.UUID]struct{} // calls whose leases are renewed
	// work is what must end before the database is closed: calls and the renewal.
	work sync.WaitGroup
	stop context.CancelFunc
}

const (
	// statements is how many reservations this process makes at once, and how many
	// settlements: fewer than there are connections for requests.
	statements = 2
	// settleWait is how long a settlement waits for its turn.
	settleWait = 10 * time.Second
)

// account is whom a statement is about, for the queues.
func account(p identity.Principal) string { return strconv.FormatInt(p.UserID, 10) }

// targetKey names a target; breakers belong to targets, not to the models that have them.
type targetKey struct{ upstream, model string }

// New makes a gateway. Close ends its work.
func New(o Options) (*Service, error) {
	if o.DB == nil {
		return nil, errors.New("aigateway: Options.DB is missing")
	}
	o = o.withDefaults()
	open, private := upstream.NewTransport(false), upstream.NewTransport(true)
	s := &Service{
		o: o, open: telemetry.Outgoing(open), private: telemetry.Outgoing(private), echo: echo.Transport{Now: o.Now}, idle: []*http.Transport{open, private},
		targets: map[targetKey]*upstream.Breaker{}, places: make(chan struct{}, o.Places), live: map[uuid.UUID]struct{}{},
	}
	for _, m := range o.Declared.Models {
		for _, t := range m.Targets {
			if _, ok := o.Declared.upstream(t.Upstream); !ok {
				return nil, fmt.Errorf("aigateway: model %q has a target at the unknown upstream %q", m.Name, t.Upstream)
			}
			s.targets[targetKey{t.Upstream, t.Model}] = &upstream.Breaker{Now: o.Now}
		}
	}
	var err error
	if s.reserving, err = fairqueue.New(fairqueue.Options{Places: statements, PerKey: 1, MaxWaiting: o.Places, Now: o.Now}); err != nil {
		return nil, err
	}
	if s.settling, err = fairqueue.New(fairqueue.Options{Places: statements, PerKey: 1, MaxWaiting: 2 * o.Places, MaxWait: settleWait, Now: o.Now}); err != nil {
		return nil, err
	}
	if s.metrics, err = newMetrics(o.Metrics, s); err != nil {
		return nil, err
	}
	s.warnOfKeys()
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.work.Go(func() { s.renew(ctx) })
	return s, nil
}

// warnOfKeys tells the operator what calls would fail for.
func (s *Service) warnOfKeys() {
	for _, u := range s.o.Declared.Upstreams {
		if u.KeyEnv != "" && s.key(u) == "" {
			s.o.Logger.Warn("an AI upstream has no key: set the variable", "upstream", u.Name, "variable", u.KeyEnv)
		}
	}
}

func (s *Service) key(u Upstream) string {
	if u.KeyEnv == "" {
		return ""
	}
	return strings.TrimSpace(s.o.LookupKey(u.KeyEnv))
}

// Close waits until the calls that are on have been booked, or ctx ends. Then their leases
// are not renewed any more, and a sweep books them.
func (s *Service) Close(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range cap(s.places) {
			s.places <- struct{}{}
		}
		s.stop()
		s.work.Wait()
	}()
	defer func() {
		s.stop()
		for _, t := range s.idle {
			t.CloseIdleConnections()
		}
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("aigateway: calls were still on: %w", context.Cause(ctx))
	}
}

// enter takes a place for a call, until leave is called.
func (s *Service) enter() (leave func(), err error) {
	select {
	case s.places <- struct{}{}:
		return func() { <-s.places }, nil
	default:
		return nil, fairqueue.ErrBusy
	}
}

// Model is one that a caller may use.
func (s *Service) Models(p identity.Principal) []string {
	var names []string
	for _, m := range s.o.Declared.Models {
		if m.allows(p.Role) {
			names = append(names, m.Name)
		}
	}
	return names
}

func (s *Service) model(name string, role identity.Role) (Model, error) {
	for _, m := range s.o.Declared.Models {
		if m.Name != name {
			continue
		}
		if !m.allows(role) {
			return Model{}, ErrModelRole.With(map[string]string{"model": ErrModelRole.Message})
		}
		return m, nil
	}
	return Model{}, ErrNoModel.With(map[string]string{"model": ErrNoModel.Message})
}
