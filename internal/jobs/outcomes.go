package jobs

import (
	"context"
	"log/slog"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/queue"
)

// recordTime bounds the recording of an outcome, also at the end of a process.
const recordTime = 2 * time.Second

// outcomes keep how runs of periodic tasks ended, for people to see.
type outcomes struct {
	db      *db.DB
	queries dbsqlc.Queries
	logger  *slog.Logger
	now     func() time.Time
}

// record keeps how the run of a task that began at an instant ended just now. What
// can't be kept is only logged: the task itself is done.
func (o *outcomes) record(ctx context.Context, name string, began time.Time, failed error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	took, outcome := o.now().Sub(began).Seconds(), string(queue.OK)
	arg := dbsqlc.RecordCronRunParams{Name: name, Started: &began, Duration: &took, Outcome: &outcome}
	if failed != nil {
		outcome = string(queue.Failed)
		text := queue.ErrorText(failed)
		arg.Error = &text
	}
	// The table is none of the audit log's, which a transaction with an actor would wake.
	if err := o.queries.RecordCronRun(ctx, o.db.Direct(), arg); err != nil {
		o.logger.WarnContext(ctx, "the outcome of a periodic task could not be recorded", "name", name, "error", err)
	}
}
