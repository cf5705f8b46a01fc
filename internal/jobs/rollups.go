package jobs

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"github.com/waypost/waypost/internal/stats"
)

// sealTimeout is enough for a day of tens of millions of events.
const sealTimeout = 30 * time.Minute

// sealWorker counts a site day anew.
type sealWorker struct {
	river.WorkerDefaults[stats.SealJob]
	seal func(context.Context, stats.SealJob) error
}

// Timeout implements river.Worker.
func (*sealWorker) Timeout(*river.Job[stats.SealJob]) time.Duration { return sealTimeout }

// Work may be repeated at will.
func (w *sealWorker) Work(ctx context.Context, job *river.Job[stats.SealJob]) error {
	return w.seal(ctx, job.Args)
}
