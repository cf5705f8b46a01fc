package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waypost/waypost/internal/fault"
)

// Faults of control.
var (
	// ErrJobRunning says that a job can't be deleted while it runs.
	ErrJobRunning = fault.New(fault.Conflict, "job_running", "The job is running. Cancel it first, or wait until it has ended.")
	// ErrNotRetryable says that a job runs already, or will without being told to.
	ErrNotRetryable = fault.New(fault.Conflict, "not_retryable", "The job is running or will run by itself.")
)

// lock takes the lock of a job's row, so that no worker and nobody else changes its
// state before tx ends, and returns the job; or ErrNoJob.
func (q *Queue) lock(ctx context.Context, tx pgx.Tx, id int64) (Record, error) {
	var found int64
	err := tx.QueryRow(ctx, `select id from river_job where id = $1 for update`, id).Scan(&found)
	if errors.Is(err, pgx.ErrNoRows) {
		return Record{}, ErrNoJob
	}
	if err != nil {
		return Record{}, fmt.Errorf("queue: lock job %d: %w", id, err)
	}
	return q.Get(ctx, tx, id) // in a later statement, which sees what the lock waited for
}

// Retry makes a job run again at once, with an attempt more if all are used up. It
// returns ErrNoJob, and ErrNotRetryable for a job that runs, waits for a worker or for
// its time, and for one whose twin, of a sort of which there is one at a time, does.
func (q *Queue) Retry(ctx context.Context, tx pgx.Tx, id int64) (Record, error) {
	job, err := q.lock(ctx, tx, id)
	if err != nil {
		return Record{}, err
	}
	if job.State != Retryable && !job.State.Ended() {
		return Record{}, ErrNotRetryable
	}
	if _, err := q.client.JobRetryTx(ctx, tx, id); err != nil {
		if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "23505" {
			return Record{}, ErrNotRetryable.Because(err)
		}
		return Record{}, fmt.Errorf("queue: retry job %d: %w", id, err)
	}
	return q.Get(ctx, tx, id)
}

// Cancel gives a job up: at once when it does not run, and otherwise by telling the
// process that runs it, which ends the run's context; the job returned is still running
// then. A job that ended stays as it is, and changed is false. It returns ErrNoJob.
func (q *Queue) Cancel(ctx context.Context, tx pgx.Tx, id int64) (job Record, changed bool, err error) {
	job, err = q.lock(ctx, tx, id)
	if err != nil || job.State.Ended() {
		return job, false, err
	}
	if _, err := q.client.JobCancelTx(ctx, tx, id); err != nil {
		return Record{}, false, fmt.Errorf("queue: cancel job %d: %w", id, err)
	}
	job, err = q.Get(ctx, tx, id)
	return job, true, err
}

// Delete deletes a job and returns what it was. It returns ErrNoJob and ErrJobRunning.
func (q *Queue) Delete(ctx context.Context, tx pgx.Tx, id int64) (Record, error) {
	job, err := q.lock(ctx, tx, id)
	if err != nil {
		return Record{}, err
	}
	if job.State == Running {
		return Record{}, ErrJobRunning
	}
	if _, err := q.client.JobDeleteTx(ctx, tx, id); err != nil {
		return Record{}, fmt.Errorf("queue: delete job %d: %w", id, err)
	}
	return job, nil
}

// InsertOnce inserts a job unless one with the same arguments waits or runs in its
// lane, and returns the id of the one that is on; inserted says which it is.
func (q *Queue) InsertOnce(ctx context.Context, tx pgx.Tx, lane string, job Job) (id int64, inserted bool, err error) {
	result, err := q.client.InsertTx(ctx, tx, job, once(lane))
	if err != nil {
		return 0, false, fmt.Errorf("queue: insert %s: %w", job.Kind(), err)
	}
	return result.Job.ID, !result.UniqueSkippedAsDuplicate, nil
}

// RescueFrom takes the jobs away from runners that are gone: each waits for another
// attempt as after a failure, or is discarded if that was its last, or cancelled if it
// was to be. A job of one attempt gets another, once: its failure was not its own. It
// returns how many jobs it took.
func (q *Queue) RescueFrom(ctx context.Context, tx pgx.Tx, runners []string) (int64, error) {
	// The waits are those of River's rescuer, the attempt's fourth power in seconds.
	tag, err := tx.Exec(ctx, `
with gone as (
    select id, attempt, metadata ? 'cancel_attempted_at' as cancelled,
           attempt < max_attempts or (max_attempts = 1 and not metadata ? 'waypost_rescued') as again
    from river_job
    where state = 'running' and attempted_by[cardinality(attempted_by)] = any ($1::text[])
    order by id for update
)
update river_job j set
    state = case when g.cancelled then 'cancelled' when g.again then 'retryable' else 'discarded' end::river_job_state,
    finalized_at = case when g.cancelled or not g.again then now() end,
    scheduled_at = case when g.again and not g.cancelled then now() + make_interval(secs => least(power(g.attempt, 4), 86400)) else j.scheduled_at end,
    max_attempts = case when g.again then greatest(j.max_attempts, g.attempt + 1) else j.max_attempts end,
    metadata = j.metadata || '{"waypost_rescued": true}',
    errors = array_append(j.errors, jsonb_build_object('at', now(), 'attempt', g.attempt, 'error', 'The process that ran the job is gone.', 'trace', ''))
from gone g where j.id = g.id`, runners)
	if err != nil {
		return 0, fmt.Errorf("queue: rescue: %w", err)
	}
	return tag.RowsAffected(), nil
}
