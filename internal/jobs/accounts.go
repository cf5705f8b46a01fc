package jobs

import (
	"context"

	"github.com/riverqueue/river"

	"github.com/waypost/waypost/internal/account"
)

// linkWorker mails a link to whoever asked for one.
type linkWorker struct {
	river.WorkerDefaults[account.LinkRequest]
	mail func(context.Context, account.LinkRequest) error
}

// Work implements river.Worker.
func (w *linkWorker) Work(ctx context.Context, job *river.Job[account.LinkRequest]) error {
	return w.mail(ctx, job.Args)
}
