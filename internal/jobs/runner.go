// Package jobs works the jobs that other packages insert, runs periodic tasks, and does
// what administrators do to both.
// The tables of workers and of periodic tasks are in internal/app.
package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/queue"
)

const (
	// jobTimeout bounds one run of a job.
	jobTimeout = time.Minute
	// rescueAfter is when River takes up a job whose end it doesn't know, once the job
	// has had its kind's time. The jobs of dead processes are taken up by lease, sooner.
	rescueAfter = 2 * time.Minute
	// workers is how many jobs run at once in one process.
	workers = 8
	// webhookWorkers handle and forward webhook events: slow targets hold up no other
	// job.
	webhookWorkers = 16
	// rollupWorkers seal days: they use much of the database, and those of one site
	// wait for each other.
	rollupWorkers = 2
	// cancelGrace is what jobs have to end in when they are cancelled at a stop.
	cancelGrace = 5 * time.Second
	// mailWorkers are few: mail servers limit the connections of one client.
	mailWorkers = 4
	// thumbnailWorkers decode images: one image at a time is all the memory that there
	// is for it.
	thumbnailWorkers = 1
)

// queues are the queues that a process works, and by how many workers each.
func queues() map[string]river.QueueConfig {
	return map[string]river.QueueConfig{
		river.QueueDefault: {MaxWorkers: workers}, queue.Webhooks: {MaxWorkers: webhookWorkers}, queue.Rollups: {MaxWorkers: rollupWorkers},
		queue.Mails: {MaxWorkers: mailWorkers}, queue.Thumbnails: {MaxWorkers: thumbnailWorkers},
	}
}

// Options configure New. DB and Logger are mandatory.
type Options struct {
	DB *db.DB
	// AliveDB says to other processes that this one is alive: jobs must not use its
	// connections up. It is DB by default.
	AliveDB *db.DB
	// Polls makes the process look for new jobs once a second instead of listening for
	// them: a pooler between DB and the database may know no sessions to listen in.
	Polls bool
	// Queue inserts the jobs of periodic tasks; by default one of its own.
	Queue  *queue.Queue
	Logger *slog.Logger
	// Periodic are the periodic tasks, Workers the workers, one for each kind of job.
	Periodic []Periodic
	Workers  []Worker
	// Metrics takes the runner's metrics; nil for none.
	Metrics prometheus.Registerer
	// Tracer makes a span of each run of a job; nil for none.
	Tracer trace.Tracer
	// Lease is for how long a process keeps its jobs without a sign of life; 0 is half a
	// minute. All processes on a database must have the same.
	Lease time.Duration
	// Now is the clock of schedules; nil for the system's.
	Now func() time.Time
}

func (o Options) withDefaults() (Options, error) {
	if o.DB == nil || o.Logger == nil {
		return o, errors.New("jobs: DB or Logger is missing")
	}
	o.AliveDB, o.Lease = cmp.Or(o.AliveDB, o.DB), cmp.Or(o.Lease, leaseTime)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Tracer == nil {
		o.Tracer = noop.NewTracerProvider().Tracer("")
	}
	var err error
	if o.Queue == nil {
		o.Queue, err = queue.New(o.Logger)
	}
	return o, err
}

// Runner works jobs until it is stopped.
type Runner struct {
	client    *river.Client[pgx.Tx]
	lease     *lease
	scheduler *scheduler
	own       *ownTasks
	failures  *failures
	unwatch   func() // ends watching
	watching  sync.WaitGroup
	running   atomic.Bool
}

// New prepares the workers; Start sets them to work. A periodic task whose schedule
// can't be read is an error that names the task.
func New(o Options) (*Runner, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	table, err := newTable(o.Periodic)
	if err != nil {
		return nil, err
	}
	r := &Runner{lease: &lease{db: o.AliveDB, queue: o.Queue, logger: o.Logger, time: o.Lease}, scheduler: newScheduler(o, table)}
	ends := &outcomes{db: o.DB, logger: o.Logger, now: o.Now}
	registry := river.NewWorkers()
	if err := river.AddWorkerSafely(registry, newCronWorker(table, o.Logger, r.lease, ends)); err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	for _, w := range o.Workers {
		if err := w.register(registry, r.lease, o.Tracer); err != nil {
			return nil, fmt.Errorf("jobs: %w", err)
		}
	}
	r.client, err = river.NewClient(riverpgxv5.New(o.DB.Pool()), &river.Config{
		Logger:               slog.New(calm{o.Logger.Handler(), new(repeated)}),
		Workers:              registry,
		Queues:               queues(),
		JobTimeout:           jobTimeout,
		RescueStuckJobsAfter: rescueAfter,
		PollOnly:             o.Polls,
		// The application role owns no index, so it can't rebuild one.
		ReindexerIndexNames: []string{},
	})
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	r.lease.id = r.client.ID()
	if r.failures, err = newFailures(o.Logger, o.Metrics, o.names()); err != nil {
		return nil, err
	}
	r.own = newOwnTasks(table, o.Logger, r.failures, ends)
	return r, nil
}

// stopClient stops River's client. Without a database that takes seven seconds, in which
// River tries to give up its leadership: when no job runs, it is left to that.
func (r *Runner) stopClient(ctx context.Context) error {
	stopped := make(chan error, 1)
	go func() { stopped <- r.client.Stop(ctx) }()
	const every, tries = 250 * time.Millisecond, 2
	tick := time.NewTicker(every)
	defer tick.Stop()
	for failed := 0; ; {
		select {
		case err := <-stopped:
			return err
		case <-tick.C:
		}
		asked, cancel := context.WithTimeout(ctx, every)
		err := r.lease.db.Ping(asked)
		cancel()
		failed++
		if err == nil || r.lease.working.Load() > 0 {
			failed = 0
		}
		if failed == tries {
			r.lease.logger.WarnContext(ctx, "the database can't be reached, so the leadership of the job runners is not given up; another process takes it when it runs out", "error", err)
			return nil
		}
	}
}

// names are what failures may be counted under.
func (o Options) names() []string {
	var list []string
	for _, w := range o.Workers {
		list = append(list, w.kind)
	}
	for _, p := range o.Periodic {
		list = append(list, p.Name)
	}
	return list
}

// Start begins to work jobs; ctx bounds only the start.
func (r *Runner) Start(ctx context.Context) error {
	if err := r.lease.start(ctx); err != nil {
		return err
	}
	ends, unsubscribe := r.client.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobCancelled)
	r.unwatch = unsubscribe
	r.watching.Go(func() { r.failures.watch(ends) })
	if err := r.client.Start(context.WithoutCancel(ctx)); err != nil {
		r.unwatch()
		r.lease.stop(ctx, false)
		return fmt.Errorf("jobs: %w", err)
	}
	r.running.Store(true)
	// Last: what is due is inserted when there is somebody to work it.
	if err := r.scheduler.start(ctx); err != nil {
		return errors.Join(err, r.Stop(ctx))
	}
	r.own.start(context.WithoutCancel(ctx))
	return nil
}

// Check returns an error when no jobs are being worked.
func (r *Runner) Check(context.Context) error {
	if !r.running.Load() {
		return errors.New("the job runner is stopped")
	}
	return nil
}

// Failures returns the work that fails for good, as far as this process did it: kinds
// of jobs of which the latest spent its last attempt, and periodic tasks that failed
// three times in a row or more. What succeeds again is no longer among it.
func (r *Runner) Failures() map[string]Failure { return r.failures.list() }

// Stop takes no more jobs and waits for those in flight, and for the periodic tasks
// that this process runs by itself; when ctx ends first, they are cancelled and the jobs
// given back, so that another process or the next start runs them at once.
func (r *Runner) Stop(ctx context.Context) error {
	r.running.Store(false)
	r.scheduler.stop()
	var own sync.WaitGroup
	own.Go(func() { r.own.stop(ctx) })
	err := r.stopClient(ctx)
	own.Wait()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelGrace)
	defer cancel()
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = r.client.StopAndCancel(grace)
	}
	r.own.wait(grace)
	r.unwatch()
	r.watching.Wait()
	r.lease.stop(grace, err != nil)
	if err != nil {
		return fmt.Errorf("jobs: stop: %w", err)
	}
	return nil
}
