// Package jobs works the jobs that other packages insert, and runs periodic tasks.
// The tables of workers and of periodic tasks are in internal/app.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/waypost/waypost/internal/queue"
)

const (
	// jobTimeout bounds one run of a job.
	jobTimeout = time.Minute
	// rescueAfter is when a job whose worker died is taken up again.
	rescueAfter = 2 * time.Minute
	// workers is how many jobs run at once in one process.
	workers = 8
	// webhookWorkers handle and forward webhook events: slow targets hold up no other
	// job.
	webhookWorkers = 16
	// rollupWorkers seal days: they use much of the database, and those of one site
	// wait for each other.
	rollupWorkers = 2
	// thumbnailWorkers decode images: one image at a time is all the memory that there
	// is for it.
	thumbnailWorkers = 1
)

// Options configure New. Pool and Logger are mandatory.
type Options struct {
	Pool   *pgxpool.Pool
	Logger *slog.Logger
	// Periodic are the periodic tasks, Workers the workers, one for each kind of job.
	Periodic []Periodic
	Workers  []Worker
	// Metrics takes the runner's metrics; nil for none.
	Metrics prometheus.Registerer
}

// Runner works jobs until it is stopped.
type Runner struct {
	client   *river.Client[pgx.Tx]
	own      *ownTasks
	failures *failures
	unwatch  func() // ends watching
	watching sync.WaitGroup
	running  atomic.Bool
}

// New prepares the workers; Start sets them to work.
func New(o Options) (*Runner, error) {
	cron, err := newCronWorker(o.Periodic, o.Logger)
	if err != nil {
		return nil, err
	}
	registry := river.NewWorkers()
	if err := river.AddWorkerSafely(registry, cron); err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	for _, w := range o.Workers {
		if err := w.register(registry); err != nil {
			return nil, fmt.Errorf("jobs: %w", err)
		}
	}
	client, err := river.NewClient(riverpgxv5.New(o.Pool), &river.Config{
		Logger:  o.Logger,
		Workers: registry,
		Queues: map[string]river.QueueConfig{
			river.QueueDefault: {MaxWorkers: workers}, queue.Webhooks: {MaxWorkers: webhookWorkers}, queue.Rollups: {MaxWorkers: rollupWorkers},
			queue.Thumbnails: {MaxWorkers: thumbnailWorkers},
		},
		PeriodicJobs:         periodicJobs(o.Periodic),
		JobTimeout:           jobTimeout,
		RescueStuckJobsAfter: rescueAfter,
		// The application role owns no index, so it can't rebuild one.
		ReindexerIndexNames: []string{},
	})
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	r := &Runner{client: client}
	if r.failures, err = newFailures(o.Logger, o.Metrics, o.names()); err != nil {
		return nil, err
	}
	r.own = newOwnTasks(o.Periodic, o.Logger, r.failures)
	return r, nil
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
	ends, unsubscribe := r.client.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobCancelled)
	r.unwatch = unsubscribe
	r.watching.Go(func() { r.failures.watch(ends) })
	if err := r.client.Start(context.WithoutCancel(ctx)); err != nil {
		r.unwatch()
		return fmt.Errorf("jobs: %w", err)
	}
	r.own.start(context.WithoutCancel(ctx))
	r.running.Store(true)
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

// Stop takes no more jobs and waits for those in flight; when ctx ends first,
// they are cancelled and given back.
func (r *Runner) Stop(ctx context.Context) error {
	r.running.Store(false)
	r.own.stop(ctx)
	err := r.client.Stop(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = r.client.StopAndCancel(grace)
	}
	r.unwatch()
	r.watching.Wait()
	if err != nil {
		return fmt.Errorf("jobs: stop: %w", err)
	}
	return nil
}
