package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/groupcommit"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
)

// JobQueue adds jobs to a transaction: they exist if and only if it commits.
type JobQueue interface {
	// InsertMany returns the jobs' ids in the order of entries.
	InsertMany(ctx context.Context, tx pgx.Tx, entries []queue.Entry) ([]int64, error)
}

// busyWait is how long an attempt waits for an earlier run of its job.
const busyWait = 10 * time.Second

// AttemptJob is the job of one more attempt at an event.
type AttemptJob struct {
	EventID uuid.UUID `json:"event_id"`
}

// Kind names the job in the queue.
func (AttemptJob) Kind() string { return "webhooks.attempt" }

// KindAliases has the job's former name: rows of an older version may have it.
func (AttemptJob) KindAliases() []string { return []string{"webhook_attempt"} }

// Attempt is the work of an AttemptJob: it handles the event that the job of that
// id owns and records the outcome, with the next job where one is due. Run again
// after a crash it finds out how far it came. It returns queue.Again when an earlier
// run may still be at it.
func (w *Worker) Attempt(ctx context.Context, job AttemptJob, id int64) error {
	if !w.enter() {
		return groupcommit.ErrClosed
	}
	defer w.working.Done()
	p := identity.Step(ctx, "webhook-job")
	failed, err := w.store.failInterrupted(ctx, p, maxInterrupted, id)
	if err != nil {
		return err
	}
	w.reportInterrupted(ctx, failed)
	c, ok, busy, err := w.store.claimJob(ctx, p, job.EventID, id)
	switch {
	case err != nil:
		return err
	case busy:
		return queue.Again(busyWait)
	case !ok: // done, or a target's
		w.sending.wakeAll()
		return nil
	}
	if err := w.interrupt(AfterClaim, c.event.ID); err != nil {
		return err
	}
	w.handle(context.WithoutCancel(ctx), p, c)
	return w.interrupt(AfterOutcome, c.event.ID)
}
