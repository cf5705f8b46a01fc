package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/rivertype"

	"github.com/waypost/waypost/db/where"
	"github.com/waypost/waypost/internal/fault"
)

// ErrNoJob says that there is no such job, or no longer.
var ErrNoJob = fault.Missing("job")

// State is where a job is in its life.
type State string

// The states of a job.
const (
	Available State = State(rivertype.JobStateAvailable) // it runs as soon as a worker is free
	Scheduled State = State(rivertype.JobStateScheduled) // it runs at a later time
	Retryable State = State(rivertype.JobStateRetryable) // an attempt failed, and it waits for the next
	Running   State = State(rivertype.JobStateRunning)
	Pending   State = State(rivertype.JobStatePending)   // it waits for somebody to release it; unused so far
	Completed State = State(rivertype.JobStateCompleted) // it is done
	Cancelled State = State(rivertype.JobStateCancelled) // somebody, or its worker, gave it up
	Discarded State = State(rivertype.JobStateDiscarded) // its last attempt failed
)

// Ended reports whether a job in that state will not run any more by itself.
func (s State) Ended() bool { return s == Completed || s == Cancelled || s == Discarded }

// Record is a job as people may see it.
type Record struct {
	ID    int64
	Kind  string
	Queue string
	State State
	// Priority is 1 to 4; 1 runs first.
	Priority int
	// Attempt is how many attempts began, MaxAttempts how many there may be.
	Attempt     int
	MaxAttempts int
	// Args is a JSON object of at most MaxArgs bytes in which secrets are blanked.
	Args json.RawMessage
	// Errors are of the latest MaxErrors attempts that failed, oldest first.
	Errors    []AttemptError
	CreatedAt time.Time
	// ScheduledAt is the earliest time of the next attempt, or of the last one.
	ScheduledAt time.Time
	AttemptedAt *time.Time // the beginning of the latest attempt
	FinalizedAt *time.Time // when it ended for good
}

// AttemptError is why an attempt failed.
type AttemptError struct {
	At      time.Time `json:"at"`
	Attempt int       `json:"attempt"`
	Error   string    `json:"error"` // at most MaxErrorText characters, secrets blanked
}

// Bounds of what is shown of a job, whatever is stored.
const (
	MaxArgs      = 16 << 10 // bytes
	MaxErrors    = 25
	MaxErrorText = 2000 // characters
)

// Querier reads; a connection, a pool and a transaction do.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Filter selects jobs; zero fields select all.
type Filter struct {
	State State
	Kind  string
	Queue string
	// Before is the id at which the previous page ended; 0 for the first page.
	Before int64
	// Limit is the most jobs that List returns.
	Limit int
}

func (f Filter) where() *where.Clause {
	w := where.New()
	if f.Kind != "" {
		w.Add("kind = ?", f.Kind)
	}
	if f.Queue != "" {
		w.Add("queue = ?", f.Queue)
	}
	switch {
	case f.State != "":
		w.Add("state = ?::text::river_job_state", string(f.State))
	case f.Queue != "": // River's index is by state and queue
		w.Add("state = any (enum_range(null::river_job_state))")
	}
	return w
}

// shown selects a job's columns from j, as much as is shown of them: neither a huge
// argument nor a huge error leaves the database. River's tables are none of sqlc's.
var shown = fmt.Sprintf(`select j.id, j.kind, j.queue, j.state::text, j.priority, j.attempt, j.max_attempts,
	case when octet_length(j.args::text) <= %d then j.args::text end,
	(select coalesce(jsonb_agg(jsonb_build_object('at', u.e->'at', 'attempt', u.e->'attempt', 'error', left(u.e->>'error', %d)) order by u.n), '[]')::text
	 from unnest(j.errors[greatest(1, cardinality(j.errors) - %d):]) with ordinality u (e, n)),
	j.created_at, j.scheduled_at, j.attempted_at, j.finalized_at from `, MaxArgs, MaxErrorText, MaxErrors-1)

// few is how many jobs are sorted by id rather than looked for among all of them.
const few = 1000

// List returns jobs, newest first. It walks back through all jobs where many match, and
// sorts what matches where few do: among a million that ended, those that run are found
// at once either way.
func (q *Queue) List(ctx context.Context, from Querier, f Filter) ([]Record, error) {
	w := f.where()
	if f.Before != 0 {
		w.Add("id < ?", f.Before)
	}
	var matching int
	err := from.QueryRow(ctx, "select count(*) from (select from river_job"+w.SQL()+" limit "+strconv.Itoa(few)+") m", w.Args()...).Scan(&matching)
	if err != nil {
		return nil, fmt.Errorf("queue: list: %w", err)
	}
	page := "select * from river_job" + w.SQL()
	if matching < few {
		page = "select * from river_job where id = any (array(select id from river_job" + w.SQL() + "))"
	}
	// The page is chosen first: what is shown of a job is computed for those alone.
	sql := shown + "(" + page + " order by id desc limit " + w.Arg(f.Limit) + ") j order by j.id desc"
	rows, err := from.Query(ctx, sql, w.Args()...)
	if err != nil {
		return nil, fmt.Errorf("queue: list: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanRecord)
	if err != nil {
		return nil, fmt.Errorf("queue: list: %w", err)
	}
	return list, nil
}

// Count returns how many jobs there are; f.Before and f.Limit make no difference.
func (q *Queue) Count(ctx context.Context, from Querier, f Filter) (int64, error) {
	w := f.where()
	var n int64
	if err := from.QueryRow(ctx, "select count(*) from river_job"+w.SQL(), w.Args()...).Scan(&n); err != nil {
		return 0, fmt.Errorf("queue: count: %w", err)
	}
	return n, nil
}

// Get returns a job, or ErrNoJob.
func (q *Queue) Get(ctx context.Context, from Querier, id int64) (Record, error) {
	rows, err := from.Query(ctx, shown+"river_job j where j.id = $1", id)
	if err != nil {
		return Record{}, fmt.Errorf("queue: job %d: %w", id, err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanRecord)
	if errors.Is(err, pgx.ErrNoRows) {
		return Record{}, ErrNoJob
	}
	if err != nil {
		return Record{}, fmt.Errorf("queue: job %d: %w", id, err)
	}
	return r, nil
}

func scanRecord(row pgx.CollectableRow) (Record, error) {
	var r Record
	var args *string
	var failed string
	err := row.Scan(&r.ID, &r.Kind, &r.Queue, &r.State, &r.Priority, &r.Attempt, &r.MaxAttempts,
		&args, &failed, &r.CreatedAt, &r.ScheduledAt, &r.AttemptedAt, &r.FinalizedAt)
	if err != nil {
		return Record{}, err
	}
	if err := json.Unmarshal([]byte(failed), &r.Errors); err != nil {
		return Record{}, fmt.Errorf("errors of job %d: %w", r.ID, err)
	}
	for i := range r.Errors {
		r.Errors[i].Error = blankText(r.Errors[i].Error)
	}
	r.Args = tooLarge
	if args != nil {
		r.Args = blankArgs([]byte(*args))
	}
	return r, nil
}
