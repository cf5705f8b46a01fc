package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/waypost/waypost/internal/identity"
)

// cronJob names the line of the table that a job runs. Programs from before the cron
// table insert the same jobs.
type cronJob struct {
	Name string `json:"name"`
}

// Kind implements river.JobArgs.
func (cronJob) Kind() string { return "cron" }

// InsertOpts gives a run one attempt: the next run is the retry.
func (cronJob) InsertOpts() river.InsertOpts { return river.InsertOpts{MaxAttempts: 1} }

const (
	// A task that this program doesn't have may be another version's, beside this one
	// during an upgrade: its job is left to the others for a while. leaveAgain is above
	// River's interval for looking for scheduled jobs: what is put off for less comes back
	// to the same process more often than not.
	leaveFor   = 2 * time.Minute
	leaveAgain = 6 * time.Second
)

type cronWorker struct {
	river.WorkerDefaults[cronJob]
	table   map[string]Periodic
	logger  *slog.Logger
	lease   *lease
	outcome *outcomes
}

func newCronWorker(table []task, logger *slog.Logger, l *lease, o *outcomes) *cronWorker {
	w := &cronWorker{table: make(map[string]Periodic, len(table)), logger: logger, lease: l, outcome: o}
	for _, t := range table {
		w.table[t.Name] = t.Periodic
	}
	return w
}

// Timeout implements river.Worker; 0 is the client's.
func (w *cronWorker) Timeout(job *river.Job[cronJob]) time.Duration {
	return w.table[job.Args.Name].Timeout
}

// Work runs the task that the job names.
func (w *cronWorker) Work(ctx context.Context, job *river.Job[cronJob]) error {
	p, known := w.table[job.Args.Name]
	if !known && time.Since(job.CreatedAt) < leaveFor {
		return river.JobSnooze(leaveAgain)
	}
	if !known {
		return river.JobCancel(errors.New("no such periodic task; an older or newer waypost queued it"))
	}
	ctx, release := w.lease.bind(ctx)
	defer release()
	began := w.outcome.now()
	n, err := run(identity.NewContext(ctx, identity.Job(job.ID, p.Name)), p)
	if broken := brokenOff(ctx, err); broken != nil {
		return broken
	}
	w.outcome.record(ctx, p.Name, began, err)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	if n > 0 {
		w.logger.InfoContext(ctx, "periodic task", "name", p.Name, "changed", n)
	}
	return nil
}
