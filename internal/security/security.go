// Package security keeps and reads what the operators' page on security shows: how
// sign-ins ended, what browsers refused on our pages, who is at a limit, what lets
// somebody in and how old it is, and a checklist of what could be safer.
//
// It looks across domains and changes none of them, so its statements are its own.
package security

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/throttle"
)

const (
	// Kept is how long sign-ins are counted and reports are kept.
	Kept = 30 * 24 * time.Hour
	// storeTimeout bounds the storing of what waits.
	storeTimeout = 10 * time.Second
)

// Options configure New. DB and Logger are mandatory.
type Options struct {
	DB     *db.DB
	Logger *slog.Logger
	// Limits are those whose subjects are listed while they are at them.
	Limits []throttle.Limit
	// Settings tells how the service is configured, at each reading; nil for not at all.
	Settings func(ctx context.Context) (Settings, error)
	// Now is the clock; nil for the system's.
	Now func() time.Time
	// NewID names this process among others; nil for uuid.NewV7.
	NewID func() (uuid.UUID, error)
}

func (o Options) withDefaults() (Options, error) {
	if o.DB == nil || o.Logger == nil {
		return o, errors.New("security: Options lack DB or Logger")
	}
	if o.Settings == nil {
		o.Settings = func(context.Context) (Settings, error) { return Settings{}, nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = uuid.NewV7
	}
	return o, nil
}

// Service counts in memory, stores what it counted once a minute, and reads what all
// instances stored. Neither a sign-in nor a report ever waits for the database, and a
// process that is killed loses its last minute.
type Service struct {
	o       Options
	queries dbsqlc.Queries
	signIns *signIns
	reports *reports
	cancel  context.CancelFunc
	running sync.WaitGroup

	flushing sync.Mutex // makes Flush one after the other
	failing  bool

	census  remembered[Census]
	current remembered[State]
	checked remembered[dbsqlc.FindSecurityFactsRow]
}

// New makes the service, which counts from now on.
func New(o Options) (*Service, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	id, err := o.NewID()
	if err != nil {
		return nil, err
	}
	return &Service{o: o, signIns: newSignIns(id), reports: newReports(), cancel: func() {}}, nil
}

// Start stores what was counted once a minute, until Stop.
func (s *Service) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.running.Go(func() {
		every := time.NewTicker(time.Minute)
		defer every.Stop()
		for {
			select {
			case <-every.C:
				_ = s.Flush(ctx) // it has said so in the log, and the next time stores it
			case <-ctx.Done():
				return
			}
		}
	})
}

// Stop stores what was counted since, unless ctx ends first.
func (s *Service) Stop(ctx context.Context) error {
	s.cancel()
	s.running.Wait()
	if err := s.Flush(ctx); err != nil && ctx.Err() != nil {
		return err
	}
	return nil // a database that is away keeps nobody from stopping
}

// Flush stores what was counted since the last time. What can't be stored waits.
func (s *Service) Flush(ctx context.Context) error {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := errors.Join(s.flushSignIns(ctx), s.flushReports(ctx))
	if err != nil && !s.failing { // once, not each minute
		s.o.Logger.WarnContext(ctx, "counts of sign-ins and reports wait to be stored for the page on security", "error", err)
	}
	s.failing = err != nil
	return err
}

// Sweep deletes what is older than Kept, or of a clock that was far ahead, and returns
// how many rows.
func (s *Service) Sweep(ctx context.Context) (int, error) {
	counts, err := s.sweepSignIns(ctx)
	if err != nil {
		return counts, err
	}
	reports, err := s.sweepReports(ctx)
	return counts + reports, err
}

// remembered is what was read last, for readers that come soon after: pages that bring
// themselves up to date ask every few seconds, and several people may be looking.
type remembered[T any] struct {
	mu    sync.Mutex
	at    time.Time
	took  time.Duration
	value T
}

// get reads, one after the other, what is older than fresh. What took long is kept for
// longer, so that in an attack, when there is much to read, an instance's readers take a
// tenth of one connection's time at most.
func (r *remembered[T]) get(clock func() time.Time, fresh time.Duration, read func() (T, error)) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	began := clock()
	if !r.at.IsZero() && began.Sub(r.at).Abs() < max(fresh, 10*r.took) {
		return r.value, nil
	}
	v, err := read()
	if err == nil {
		r.value, r.at = v, clock()
		r.took = r.at.Sub(began)
	}
	return v, err
}

func (r *remembered[T]) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = time.Time{}
}

// plural is n things in words.
func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(n, 10) + " " + many
}
