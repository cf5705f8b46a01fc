package jobs

import (
	"context"

	"github.com/riverqueue/river"

	"github.com/waypost/waypost/internal/account"
)

// resetWorker mails a link to who forgot a password.
type resetWorker struct {
	river.WorkerDefaults[account.ResetRequest]
	mail func(context.Context, account.ResetRequest) error
}

// Work implements river.Worker.
func (w *resetWorker) Work(ctx context.Context, job *river.Job[account.ResetRequest]) error {
	return w.mail(ctx, job.Args)
}
