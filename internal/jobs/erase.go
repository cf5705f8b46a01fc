package jobs

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/waypost/waypost/internal/stats"
)

// eraseWorker erases a deleted site piece by piece: each run does what fits into
// a job's time, and what a crash leaves is done by the next.
type eraseWorker struct {
	river.WorkerDefaults[stats.EraseArgs]
	erase func(context.Context, uuid.UUID) (time.Duration, error)
}

// Work erases some, and asks to be called again until nothing is left.
func (w *eraseWorker) Work(ctx context.Context, job *river.Job[stats.EraseArgs]) error {
	wait, err := w.erase(ctx, job.Args.SiteID)
	if err == nil && wait > 0 {
		return river.JobSnooze(wait)
	}
	return err
}
