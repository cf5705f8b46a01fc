package jobs

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"github.com/waypost/waypost/internal/webhook"
)

// webhookWorkers is how many of the webhooks lane's jobs run at once in one
// process: slow targets of forwards hold up no other job.
const webhookWorkers = 16

// attemptWorker handles an event again, or forwards it.
type attemptWorker struct {
	river.WorkerDefaults[webhook.AttemptJob]
	attempt func(context.Context, webhook.AttemptJob, int64) (bool, error)
}

// Work makes the attempt; the event's own row says whether there is another.
func (w *attemptWorker) Work(ctx context.Context, job *river.Job[webhook.AttemptJob]) error {
	busy, err := w.attempt(ctx, job.Args, job.ID)
	if err == nil && busy {
		return river.JobSnooze(10 * time.Second)
	}
	return err
}

// NextRetry is soon: what failed was the database, not the handler.
func (*attemptWorker) NextRetry(job *river.Job[webhook.AttemptJob]) time.Time {
	return time.Now().Add(min(time.Duration(job.Attempt)*5*time.Second, time.Minute))
}

// replayWorker carries out bulk replays, as much in one run as fits into a job's
// time.
type replayWorker struct {
	river.WorkerDefaults[webhook.BulkJob]
	replay func(context.Context, webhook.BulkJob) (bool, error)
}

// Work replays some, and asks to be called again until none is left.
func (w *replayWorker) Work(ctx context.Context, job *river.Job[webhook.BulkJob]) error {
	done, err := w.replay(ctx, job.Args)
	if err == nil && !done {
		return river.JobSnooze(0)
	}
	return err
}
