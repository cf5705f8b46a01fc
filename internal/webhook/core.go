package webhook

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/groupcommit"
	"github.com/waypost/waypost/internal/seal"
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

// Options configure a Service.
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
	// Grace is how long a handler that has overrun its budget keeps its transaction and its
	// body's memory; default 5 s.
	Grace time.Duration
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
	// Retention is how long bodies, headers and errors' texts are kept, Ledger how long
	// the rows of settled events are; 0 is for ever.
	Retention, Ledger time.Duration
	// RejectedKeep is how many refused deliveries the log keeps for each provider,
	// and for all unknown ones together; default 1,000. RejectedAge is how long it
	// keeps them; default 30 days.
	RejectedKeep int
	RejectedAge  time.Duration
	// Tracer makes a span of each attempt at a target; nil for none.
	Tracer trace.Tracer
	// Sealer encrypts the headers that deliveries are sent on with, Random gives its
	// nonces. Mandatory with a binding that passes headers; Random's default is
	// crypto/rand.
	Sealer *seal.Keyring
	Random io.Reader
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
	case o.Ledger < 0:
		return errors.New("webhook: a ledger kept for a negative time")
	case o.Retention < 0:
		return errors.New("webhook: a negative retention")
	case o.BodyMemory < 0:
		return errors.New("webhook: a negative memory for bodies")
	case o.Sealer == nil && o.Registry.passesHeaders():
		return errors.New("webhook: a handler passes headers on, which takes a secret key to encrypt them with")
	case o.Lease <= o.Budget:
		return errors.New("webhook: a lease must exceed the handlers' time budget")
	}
	return o.Registry.checkMemory(o.BodyMemory)
}

func (o Options) withDefaults() Options {
	o.Budget = cmp.Or(max(o.Budget, 0), 10*time.Second)
	o.Grace = cmp.Or(max(o.Grace, 0), 5*time.Second)
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
	if o.Tracer == nil {
		o.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = uuid.NewV7
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Interrupt == nil {
		o.Interrupt = func(Boundary, uuid.UUID) error { return nil }
	}
	return o
}

// batchGap is the least time between two transactions of few deliveries or outcomes.
const batchGap = 3 * time.Millisecond

// Service is the three faces of one thing.
type Service struct {
	Receiver *Receiver
	Admin    *Admin
	Worker   *Worker
}

// Admin is what operators ask and do.
type Admin struct{ *core }

// Worker does what is done in the background.
type Worker struct{ *core }

// core is what the faces share: what is stored and how, and the handling of events.
type core struct {
	o        Options
	store    store
	arrivals *groupcommit.Group[row, arrival]
	forJobs  *groupcommit.Group[row, arrival] // arrivals that are left to jobs
	forwards *groupcommit.Group[row, arrival] // arrivals that targets get
	outcomes *groupcommit.Group[outcome, bool]
	sending  *forwarding
	rejected *rejectedLog
	metrics  *metrics
	memory   *bodyMemory
	watch    watch
	totals   *totals
	stuck    *stuck
	// transactions holds one entry for each that is open for a handler.
	transactions chan struct{}

	mu      sync.RWMutex // makes closed and the start of work one decision
	closed  bool
	working sync.WaitGroup
}

// New starts a receiver and what goes with it. The receiver's Close ends all.
func New(o Options) (*Service, error) {
	r, err := newCore(o)
	if err != nil {
		return nil, err
	}
	return &Service{Receiver: &Receiver{r}, Admin: &Admin{r}, Worker: &Worker{r}}, nil
}

func newCore(o Options) (*core, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	r := &core{o: o, transactions: make(chan struct{}, o.MaxTransactions), memory: newBodyMemory(o.BodyMemory, o.Now), totals: newTotals(),
		store: store{db: o.DB, logger: o.Logger, jobs: o.Jobs, registry: o.Registry, bound: o.Registry.bound(), lease: o.Lease, now: o.Now, newLease: uuid.NewRandom}}
	var err error
	if r.metrics, err = newMetrics(o.Metrics, o.Registry.Providers(), newStateCollector(r), r.memory, func() float64 { return float64(r.arrivals.Waiting() + r.forJobs.Waiting() + r.forwards.Waiting()) }); err != nil {
		return nil, fmt.Errorf("webhook: metrics: %w", err)
	}
	if r.stuck, err = newStuck(o.Metrics); err != nil {
		return nil, fmt.Errorf("webhook: metrics: %w", err)
	}
	r.metrics.beginAtZero(o.Registry)
	r.rejected = newRejectedLog(o, func(n int) { r.metrics.dropped.Add(float64(n)) })
	arrivals := groupcommit.Options[row]{Size: row.size, Gap: batchGap, FlushTimeout: o.StoreTimeout, MaxWait: o.MaxQueueWait}
	r.arrivals = groupcommit.New(arrivals, r.store.insert)
	r.forJobs = groupcommit.New(arrivals, r.store.insertForJobs)
	r.forwards = groupcommit.New(arrivals, r.store.insertForwarded)
	r.outcomes = groupcommit.New(groupcommit.Options[outcome]{Gap: batchGap, FlushTimeout: o.StoreTimeout}, r.store.record)
	r.sending = newForwarding(r)
	return r, nil
}

// enter counts a piece of work in, unless the receiver is closing.
func (r *core) enter() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.closed {
		return false
	}
	r.working.Add(1)
	return true
}
