package jobs

import (
	"context"

	"github.com/riverqueue/river"

	"github.com/waypost/waypost/internal/webhook"
)

// alertAttempts is how often an alert is posted before it is given up, some two
// hours after the first time by River's own backoff. The log has it anyway.
const alertAttempts = 8

// alertWorker posts alerts about webhook providers.
type alertWorker struct {
	river.WorkerDefaults[webhook.AlertJob]
	send func(context.Context, webhook.AlertJob) error
}

// Work posts the alert once.
func (w *alertWorker) Work(ctx context.Context, job *river.Job[webhook.AlertJob]) error {
	err := w.send(ctx, job.Args)
	if err != nil && job.Attempt >= alertAttempts {
		return river.JobCancel(err)
	}
	return err
}
