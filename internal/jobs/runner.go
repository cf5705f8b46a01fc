// Package jobs works the jobs that other packages insert, and holds the table of
// periodic tasks.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
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
	// rollupWorkers seal days: they use much of the database, and those of one site
	// wait for each other.
	rollupWorkers = 2
)

// Options configure New. All fields are mandatory.
type Options struct {
	Pool   *pgxpool.Pool
	Logger *slog.Logger
	Tasks  Tasks
}

// Runner works jobs until it is stopped.
type Runner struct {
	client  *river.Client[pgx.Tx]
	own     *ownTasks
	running atomic.Bool
}

// New prepares the workers; Start sets them to work.
func New(o Options) (*Runner, error) {
	table := Table(o.Tasks)
	cron, err := newCronWorker(table, o.Logger)
	if err != nil {
		return nil, err
	}
	registry := river.NewWorkers()
	if err := river.AddWorkerSafely(registry, cron); err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	if o.Tasks.EraseSite == nil || o.Tasks.SealDay == nil || o.Tasks.AttemptWebhook == nil || o.Tasks.ReplayWebhooks == nil || o.Tasks.SendAlert == nil || o.Tasks.MailLink == nil {
		return nil, errors.New("jobs: Tasks need EraseSite, SealDay, AttemptWebhook, ReplayWebhooks, SendAlert and MailLink")
	}
	if err := river.AddWorkerSafely(registry, &eraseWorker{erase: o.Tasks.EraseSite}); err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	if err := river.AddWorkerSafely(registry, &sealWorker{seal: o.Tasks.SealDay}); err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	if err := river.AddWorkerSafely(registry, &attemptWorker{attempt: o.Tasks.AttemptWebhook}); err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	if err := river.AddWorkerSafely(registry, &replayWorker{replay: o.Tasks.ReplayWebhooks}); err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	if err := river.AddWorkerSafely(registry, &alertWorker{send: o.Tasks.SendAlert}); err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	if err := river.AddWorkerSafely(registry, &linkWorker{mail: o.Tasks.MailLink}); err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	client, err := river.NewClient(riverpgxv5.New(o.Pool), &river.Config{
		Logger:  o.Logger,
		Workers: registry,
		Queues: map[string]river.QueueConfig{
			river.QueueDefault: {MaxWorkers: workers}, queue.Webhooks: {MaxWorkers: webhookWorkers}, queue.Rollups: {MaxWorkers: rollupWorkers},
		},
		PeriodicJobs:         periodicJobs(table),
		JobTimeout:           jobTimeout,
		RescueStuckJobsAfter: rescueAfter,
		// The application role owns no index, so it can't rebuild one.
		ReindexerIndexNames: []string{},
	})
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	return &Runner{client: client, own: newOwnTasks(table, o.Logger)}, nil
}

// Start begins to work jobs; ctx bounds only the start.
func (r *Runner) Start(ctx context.Context) error {
	if err := r.client.Start(context.WithoutCancel(ctx)); err != nil {
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
	if err != nil {
		return fmt.Errorf("jobs: stop: %w", err)
	}
	return nil
}
