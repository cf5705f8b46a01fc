package webhook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/groupcommit"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/webhook/signature"
)

// Boundary is a point between two steps in the processing of a delivery.
type Boundary string

// The boundaries, in the order in which a delivery passes them.
const (
	AfterVerify  Boundary = "verified"
	AfterExtract Boundary = "extracted"
	AfterStore   Boundary = "stored"          // durable, the handler not started
	AfterClaim   Boundary = "claimed"         // taken by a sweep, a job or a replay, the handler not started
	AfterHandler Boundary = "handled"         // returned; its effects and its outcome are not committed
	BeforeCommit Boundary = "outcome written" // in the handler's transaction
	AfterOutcome Boundary = "outcome durable" // the sender not answered
)

// Options configure a Receiver.
type Options struct {
	DB       *db.DB    // mandatory
	Registry *Registry // mandatory
	// AdminDB serves administrators: lists, details, the start of bulk replays; default
	// DB. Their queries may be slow, and must not delay deliveries.
	AdminDB *db.DB
	Logger  *slog.Logger // mandatory
	// LookupSecret returns an environment variable at the moment of a request, ""
	// when it is unset. Mandatory.
	LookupSecret func(name string) string
	// Jobs takes the attempts that background jobs make. Mandatory.
	Jobs JobQueue

	// Budget is the time that a handler may take; default 10 s.
	Budget time.Duration
	// AnswerAfter is the time after which a sender is answered even if the handler still
	// runs; default 8 s.
	AnswerAfter time.Duration
	// StoreTimeout bounds the wait for the database to store a delivery or an
	// outcome; default 5 s.
	StoreTimeout time.Duration
	// MaxQueueWait refuses deliveries while an earlier one has waited for longer to
	// be stored; default 1 s.
	MaxQueueWait time.Duration
	// Lease is how long an event that is being handled is nobody else's. It must
	// exceed Budget; default Budget + 10 s.
	Lease time.Duration
	// BodyMemory bounds the bytes of bodies that are in memory at any moment, of all
	// deliveries that are being read, stored or handled; more are refused. Default
	// 64 MiB, or twice the largest body limit.
	BodyMemory int64
	// MaxTransactions bounds the transactions that are open for handlers, so that
	// the pool is never theirs alone; default half the pool's connections.
	MaxTransactions int
	// Retention is how long bodies are kept; 0 is for ever.
	Retention time.Duration
	// RejectedKeep is how many refused deliveries the log keeps for each provider,
	// and for all unknown ones together; default 1,000. RejectedAge is how long it
	// keeps them; default 30 days.
	RejectedKeep int
	RejectedAge  time.Duration
	// Metrics takes the receiver's metrics; nil for none.
	Metrics prometheus.Registerer
	// Now is the clock; default time.Now.
	Now func() time.Time
	// NewID makes an event's UUIDv7; default uuid.NewV7.
	NewID func() (uuid.UUID, error)
	// Interrupt, when set, is called at every boundary; with an error the work stops
	// there as if the process had died, with nothing undone and nothing recorded.
	// For tests.
	Interrupt func(Boundary, uuid.UUID) error
}

func (o Options) validate() error {
	switch {
	case o.DB == nil:
		return errors.New("webhook: no database")
	case o.Registry == nil:
		return errors.New("webhook: no registry")
	case o.Logger == nil:
		return errors.New("webhook: no logger")
	case o.LookupSecret == nil:
		return errors.New("webhook: no way to look up secrets")
	case o.Jobs == nil:
		return errors.New("webhook: no queue for jobs")
	case o.Retention < 0:
		return errors.New("webhook: a negative retention")
	case o.BodyMemory < 0:
		return errors.New("webhook: a negative memory for bodies")
	case o.Lease <= o.Budget:
		return errors.New("webhook: a lease must exceed the handlers' time budget")
	}
	return o.Registry.checkMemory(o.BodyMemory)
}

func (o Options) withDefaults() Options {
	o.Budget = cmp.Or(max(o.Budget, 0), 10*time.Second)
	o.AnswerAfter = cmp.Or(max(o.AnswerAfter, 0), 8*time.Second)
	o.StoreTimeout = cmp.Or(max(o.StoreTimeout, 0), 5*time.Second)
	o.MaxQueueWait = cmp.Or(max(o.MaxQueueWait, 0), time.Second)
	o.Lease = cmp.Or(max(o.Lease, 0), o.Budget+10*time.Second)
	if o.BodyMemory == 0 && o.Registry != nil {
		o.BodyMemory = o.Registry.defaultMemory()
	}
	if o.AdminDB == nil {
		o.AdminDB = o.DB
	}
	if o.MaxTransactions <= 0 && o.DB != nil {
		o.MaxTransactions = max(1, o.DB.MaxConns()/2)
	}
	o.RejectedAge = cmp.Or(max(o.RejectedAge, 0), 30*24*time.Hour)
	o.RejectedKeep = cmp.Or(max(o.RejectedKeep, 0), 1000)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = uuid.NewV7
	}
	if o.Interrupt == nil {
		o.Interrupt = func(Boundary, uuid.UUID) error { return nil }
	}
	return o
}

// batchGap is the least time between two transactions of few deliveries or outcomes.
const batchGap = 3 * time.Millisecond

// Receiver takes deliveries in and has them handled. It is safe for concurrent
// use, and for several instances on one database.
type Receiver struct {
	o        Options
	store    store
	arrivals *groupcommit.Group[row, arrival]
	forwards *groupcommit.Group[row, arrival] // arrivals that are left to jobs
	outcomes *groupcommit.Group[outcome, bool]
	rejected *rejectedLog
	metrics  *metrics
	memory   *bodyMemory
	watch    watch
	// transactions holds one entry for each that is open for a handler.
	transactions chan struct{}

	mu      sync.RWMutex // makes closed and the start of work one decision
	closed  bool
	working sync.WaitGroup
}

// NewReceiver starts a receiver. Close ends it.
func NewReceiver(o Options) (*Receiver, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	r := &Receiver{o: o, transactions: make(chan struct{}, o.MaxTransactions), memory: newBodyMemory(o.BodyMemory),
		store: store{db: o.DB, jobs: o.Jobs, registry: o.Registry, bound: o.Registry.bound(), lease: o.Lease, now: o.Now, newLease: uuid.NewRandom}}
	var err error
	if r.metrics, err = newMetrics(o.Metrics, o.Registry.Providers(), newStreakCollector(r), r.memory, func() float64 { return float64(r.arrivals.Waiting() + r.forwards.Waiting()) }); err != nil {
		return nil, fmt.Errorf("webhook: metrics: %w", err)
	}
	r.rejected = newRejectedLog(o, func(n int) { r.metrics.dropped.Add(float64(n)) })
	arrivals := groupcommit.Options[row]{Size: row.size, Gap: batchGap, FlushTimeout: o.StoreTimeout, MaxWait: o.MaxQueueWait}
	r.arrivals = groupcommit.New(arrivals, r.store.insert)
	r.forwards = groupcommit.New(arrivals, r.store.insertForJobs)
	r.outcomes = groupcommit.New(groupcommit.Options[outcome]{Gap: batchGap, FlushTimeout: o.StoreTimeout}, r.store.record)
	return r, nil
}

// Receive verifies, stores and dispatches a delivery. The receipt says that it is
// durable. Without one it returns ErrProvider, ErrSignature, ErrPayload with
// details, or ErrStorage. The end of ctx stops nothing: a sender that hangs up has
// delivered all the same.
func (r *Receiver) Receive(ctx context.Context, in Inbound) (Receipt, error) {
	h := hold{in.Release}
	defer h.end()
	got, err := r.receive(ctx, in, &h)
	r.observe(ctx, in, got, err)
	return got, err
}

// receive leaves h to the handler, where it starts one.
func (r *Receiver) receive(ctx context.Context, in Inbound, h *hold) (Receipt, error) {
	if !r.enter() {
		return Receipt{}, ErrStorage.Because(groupcommit.ErrClosed)
	}
	defer r.working.Done()
	ctx = context.WithoutCancel(ctx)

	p, err := r.o.Registry.Provider(in.Provider)
	if err != nil {
		return Receipt{}, err
	}
	now := r.o.Now()
	if err := r.verify(p, in, now); err != nil {
		r.o.Logger.WarnContext(ctx, "webhook refused", "provider", p.Name, "reason", err)
		return Receipt{}, ErrSignature.Because(err)
	}
	event, err := r.read(p, in, now)
	if err != nil {
		return Receipt{}, err
	}
	binding, bound := r.o.Registry.binding(event.Provider, event.Type)
	principal := identity.FromContext(ctx)
	principal.Kind, principal.ID = identity.KindProvider, p.Name
	stored, err := r.persist(ctx, principal, event, bound, binding.ByJob)
	if err != nil {
		if !errors.Is(err, groupcommit.ErrFull) {
			r.o.Logger.ErrorContext(ctx, "webhook not stored", "provider", p.Name, "error", err)
		}
		return Receipt{}, ErrStorage.Because(err)
	}
	receipt := Receipt{Status: Processed, ID: stored.id, EventType: event.Type, ExternalID: event.ExternalID}
	if bound && !stored.duplicate {
		if err := r.interrupt(AfterStore, event.ID); err != nil {
			return Receipt{}, err
		}
	}
	switch {
	case stored.duplicate:
		receipt.Status = Skipped
		r.reportConflict(ctx, p, stored)
	case bound && binding.ByJob:
		receipt.Status = Pending
	case bound:
		receipt.Status = r.dispatch(ctx, principal, claim{event: event, lease: stored.lease, tries: 1, release: h.take()})
	}
	if err := r.interrupt(AfterOutcome, event.ID); err != nil {
		return Receipt{}, err
	}
	return receipt, nil
}

// reportConflict tells of a duplicate whose body is not the stored one.
func (r *Receiver) reportConflict(ctx context.Context, p Registration, stored arrival) {
	if stored.differs {
		r.metrics.conflicts.WithLabelValues(p.Name).Inc()
		r.o.Logger.WarnContext(ctx, "webhook skipped as a duplicate, but its body differs from the stored one", "provider", p.Name, "event", stored.id)
	}
}

// Close refuses new work and waits for the handlers that run, at most until ctx
// ends. What is not finished then stays pending, for the sweep of a later start.
func (r *Receiver) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		r.working.Wait()
		close(idle)
	}()
	var err error
	select {
	case <-idle:
	case <-ctx.Done():
		err = fmt.Errorf("webhook: handlers still running: %w", ctx.Err())
	}
	return errors.Join(err, r.arrivals.Close(ctx), r.forwards.Close(ctx), r.outcomes.Close(ctx), r.rejected.close(ctx))
}

// enter counts a piece of work in, unless the receiver is closing.
func (r *Receiver) enter() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.closed {
		return false
	}
	r.working.Add(1)
	return true
}

// verify tries the provider's secret and the one it replaced.
func (r *Receiver) verify(p Registration, in Inbound, now time.Time) error {
	secret := r.o.LookupSecret(p.SecretEnv)
	if strings.TrimSpace(secret) == "" {
		return signature.ErrNoSecret
	}
	err := p.Verifier.Verify([]byte(secret), in.Body, in.Header, now)
	if previous := r.o.LookupSecret(p.SecretEnv + "_PREVIOUS"); err != nil && strings.TrimSpace(previous) != "" {
		return p.Verifier.Verify([]byte(previous), in.Body, in.Header, now)
	}
	return err
}

// read makes the delivery an event. It returns ErrPayload with details.
func (r *Receiver) read(p Registration, in Inbound, now time.Time) (Event, error) {
	id, err := r.o.NewID()
	if err != nil {
		return Event{}, fmt.Errorf("webhook: new id: %w", err)
	}
	if err := r.interrupt(AfterVerify, id); err != nil {
		return Event{}, err
	}
	e := Event{ID: id, Provider: p.Name, Body: in.Body, Header: redact(in.Header, p.Verifier.Headers()), CreatedAt: now.UTC().Truncate(time.Microsecond)}
	e.Type, e.ExternalID, err = extract(p, in.Body, in.Header)
	if err != nil {
		details := map[string]string{"body": "Its event type and id cannot be extracted."}
		if f, ok := errors.AsType[*FieldError](err); ok {
			details = map[string]string{f.Field: f.Reason}
		}
		return Event{}, ErrPayload.Because(err).With(details)
	}
	return e, r.interrupt(AfterExtract, id)
}

// persist makes the event durable: as processed when there is no handler, as
// pending under a lease when one will run, and as pending with its first job when
// that is a job's work. Jobs take a transaction of several statements, so they
// hold up nobody else's.
func (r *Receiver) persist(ctx context.Context, by identity.Principal, e Event, bound, byJob bool) (arrival, error) {
	headers, err := json.Marshal(e.Header)
	if err != nil {
		return arrival{}, fmt.Errorf("webhook: headers: %w", err)
	}
	group := r.arrivals
	if byJob {
		group = r.forwards
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.StoreTimeout)
	defer cancel()
	stored, err := group.Submit(ctx, row{event: e, headers: string(headers), sha256: sha256.Sum256(e.Body), dispatch: bound, by: by, trace: queue.TraceOf(ctx)})
	if err != nil {
		return arrival{}, err
	}
	return stored, stored.err
}

// redact copies the headers without the values that could be used again.
func redact(h http.Header, secret []string) http.Header {
	out := h.Clone()
	for _, name := range slices.Concat(secret, []string{"Authorization", "Proxy-Authorization", "Cookie"}) {
		name = http.CanonicalHeaderKey(name)
		for i := range out[name] {
			out[name][i] = redacted
		}
	}
	return out
}
