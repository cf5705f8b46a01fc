// Package queue inserts jobs, and lists and controls them. It is the half of River that
// works none: services hold a Queue, and internal/jobs holds the client that works the
// jobs. Without this split, the services and the client would need each other to be
// built.
package queue

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
)

// Job holds a job's arguments, which its worker gets: a River argument struct with a
// stable Kind.
type Job = river.JobArgs

// Queue inserts jobs into River's tables.
type Queue struct {
	client *river.Client[pgx.Tx]
}

// New makes an insert-only queue. It holds no connection: every insert uses the
// caller's transaction.
func New(logger *slog.Logger) (*Queue, error) {
	client, err := river.NewClient(riverpgxv5.New(nil), &river.Config{Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	return &Queue{client: client}, nil
}

// Insert adds job to tx: it exists if and only if tx commits.
func (q *Queue) Insert(ctx context.Context, tx pgx.Tx, job Job) error {
	if _, err := q.client.InsertTx(ctx, tx, job, &river.InsertOpts{Metadata: TraceOf(ctx).metadata}); err != nil {
		return fmt.Errorf("queue: insert %s: %w", job.Kind(), err)
	}
	return nil
}

// Entry is a job with its time and place.
type Entry struct {
	Job Job
	// Lane names the group of workers that takes the job; "" is the default group.
	// Jobs of one lane don't delay those of another.
	Lane string
	// At is the earliest time for the job to run; the zero value means at once.
	At time.Time
	// Trace is what the job goes on with; nil for the trace of the insertion.
	Trace *Trace
}

// Webhooks is the lane of jobs that handle and forward webhook events.
const Webhooks = "webhooks"

// Rollups is the lane of jobs that count whole days anew.
const Rollups = "rollups"

// Thumbnails is the lane of jobs that decode images: each takes much memory.
const Thumbnails = "thumbnails"

// InsertUnique adds jobs to a lane. It leaves out a job when one with the same
// arguments already waits or runs there.
func (q *Queue) InsertUnique(ctx context.Context, tx pgx.Tx, lane string, jobs []Job) error {
	params := make([]river.InsertManyParams, len(jobs))
	for i, job := range jobs {
		params[i] = river.InsertManyParams{Args: job, InsertOpts: once(lane)}
	}
	if _, err := q.client.InsertManyTx(ctx, tx, params); err != nil {
		return fmt.Errorf("queue: insert %d jobs: %w", len(jobs), err)
	}
	return nil
}

// once is for a job of which one at a time may wait or run.
func once(lane string) *river.InsertOpts {
	return &river.InsertOpts{Queue: lane, UniqueOpts: river.UniqueOpts{
		ByArgs: true,
		ByState: []rivertype.JobState{
			rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable, rivertype.JobStateRunning, rivertype.JobStateScheduled,
		},
	}}
}

// InsertMany is Insert for several; it returns the jobs' ids in their order.
func (q *Queue) InsertMany(ctx context.Context, tx pgx.Tx, entries []Entry) ([]int64, error) {
	params := make([]river.InsertManyParams, len(entries))
	inserting := TraceOf(ctx)
	for i, e := range entries {
		of := e.Trace
		if of == nil {
			of = &inserting
		}
		params[i] = river.InsertManyParams{Args: e.Job, InsertOpts: &river.InsertOpts{Queue: e.Lane, ScheduledAt: e.At, Metadata: of.metadata}}
	}
	inserted, err := q.client.InsertManyTx(ctx, tx, params)
	if err != nil {
		return nil, fmt.Errorf("queue: insert %d jobs: %w", len(entries), err)
	}
	ids := make([]int64, len(inserted))
	for i, job := range inserted {
		ids[i] = job.Job.ID
	}
	return ids, nil
}

// Mails is the lane of jobs that send mail: a mail server that hangs holds up no other
// job.
const Mails = "mails"

// Ended says of those jobs among ids that will never run again how they ended:
// completed, cancelled, discarded, or deleted if there is no such job.
func (q *Queue) Ended(ctx context.Context, tx pgx.Tx, ids []int64) (map[int64]string, error) {
	rows, err := tx.Query(ctx, `
		select x.id, coalesce(j.state::text, 'deleted') from unnest($1::bigint[]) x (id) left join river_job j on j.id = x.id
		where j.id is null or j.state in ('completed', 'cancelled', 'discarded')`, ids)
	if err != nil {
		return nil, fmt.Errorf("queue: ended jobs: %w", err)
	}
	ended := map[int64]string{}
	var id int64
	var state string
	_, err = pgx.ForEachRow(rows, []any{&id, &state}, func() error {
		ended[id] = state
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("queue: ended jobs: %w", err)
	}
	return ended, nil
}
