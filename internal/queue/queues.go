package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/fault"
)

// ErrNoQueue says that there is no such queue.
var ErrNoQueue = fault.Missing("queue")

// MaxCounted is how far the jobs of a state are counted that ended: to count a million
// would take longer than all else.
const MaxCounted = 10_000

// Info is a queue and how full it is.
type Info struct {
	Name string
	// Counts are how many jobs are in each state; all states are there. Of the jobs that
	// ended, they are at most MaxCounted.
	Counts map[State]int64
	// OldestWaiting is for how long the first job whose time has come waits for a
	// worker; nil when none waits.
	OldestWaiting *time.Duration
	PausedAt      *time.Time // nil while the queue runs
}

// queueNames are the queues of which this program knows, named by $1, and those that
// any program worked of late.
const queueNames = `(select name from river_queue union select unnest($1::text[]))`

// Queues returns all queues by name: those that are configured here, whether a job was
// ever in them or not, and those that another program works.
func (q *Queue) Queues(ctx context.Context, from Querier, configured []string) ([]Info, error) {
	return q.queues(ctx, from, queueNames, configured)
}

// FindQueue returns one of them, or ErrNoQueue.
func (q *Queue) FindQueue(ctx context.Context, from Querier, configured []string, name string) (Info, error) {
	list, err := q.queues(ctx, from, `(select n.name from `+queueNames+` n where n.name = $2)`, configured, name)
	if err != nil {
		return Info{}, err
	}
	if len(list) == 0 {
		return Info{}, ErrNoQueue
	}
	return list[0], nil
}

// queues looks the oldest jobs up in River's index by state, queue, priority and time,
// one probe for each; the counts read no more than that index.
func (q *Queue) queues(ctx context.Context, from Querier, names string, args ...any) ([]Info, error) {
	rows, err := from.Query(ctx, `
select n.name, r.paused_at, extract(epoch from clock_timestamp() - (
    select min(first.scheduled_at)
    from unnest(array['available', 'scheduled', 'retryable']::river_job_state[]) s (state), generate_series(1, 4) p (priority),
         lateral (select j.scheduled_at from river_job j where j.state = s.state and j.queue = n.name and j.priority = p.priority
                  and j.scheduled_at <= clock_timestamp() order by j.scheduled_at limit 1) first
))::float8,
array(select s.state::text from unnest(enum_range(null::river_job_state)) with ordinality s (state, i) order by s.i),
array(select (select count(*) from (select from river_job j where j.state = s.state and j.queue = n.name
                                    limit case when s.state in ('completed', 'cancelled', 'discarded') then `+strconv.Itoa(MaxCounted)+` end) c)
      from unnest(enum_range(null::river_job_state)) with ordinality s (state, i) order by s.i)
from `+names+` n left join river_queue r on r.name = n.name order by n.name`, args...)
	if err != nil {
		return nil, fmt.Errorf("queue: queues: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanInfo)
	if err != nil {
		return nil, fmt.Errorf("queue: queues: %w", err)
	}
	return list, nil
}

func scanInfo(row pgx.CollectableRow) (Info, error) {
	var info Info
	var seconds *float64
	var states []string
	var jobs []int64
	if err := row.Scan(&info.Name, &info.PausedAt, &seconds, &states, &jobs); err != nil {
		return Info{}, err
	}
	if seconds != nil {
		wait := time.Duration(*seconds * float64(time.Second))
		info.OldestWaiting = &wait
	}
	info.Counts = make(map[State]int64, len(states))
	for i, s := range states {
		info.Counts[State(s)] = jobs[i]
	}
	return info, nil
}

// Pause makes all processes take no more jobs of a queue; those that run go on. It
// returns ErrNoQueue; changed is false when the queue was paused already.
func (q *Queue) Pause(ctx context.Context, tx pgx.Tx, configured []string, name string) (info Info, changed bool, err error) {
	return q.control(ctx, tx, configured, name, true)
}

// Resume is the opposite of Pause.
func (q *Queue) Resume(ctx context.Context, tx pgx.Tx, configured []string, name string) (info Info, changed bool, err error) {
	return q.control(ctx, tx, configured, name, false)
}

func (q *Queue) control(ctx context.Context, tx pgx.Tx, configured []string, name string, pause bool) (Info, bool, error) {
	// River has a row for a queue only once somebody works it.
	_, err := tx.Exec(ctx, `insert into river_queue (name, created_at, updated_at)
		select n, now(), now() from unnest($1::text[]) n where n = $2 on conflict (name) do nothing`, configured, name)
	if err != nil {
		return Info{}, false, fmt.Errorf("queue: %s: %w", name, err)
	}
	var paused bool
	err = tx.QueryRow(ctx, `select paused_at is not null from river_queue where name = $1 for update`, name).Scan(&paused)
	if errors.Is(err, pgx.ErrNoRows) {
		return Info{}, false, ErrNoQueue
	}
	if err != nil {
		return Info{}, false, fmt.Errorf("queue: %s: %w", name, err)
	}
	if paused != pause {
		do := q.client.QueueResumeTx
		if pause {
			do = q.client.QueuePauseTx
		}
		if err := do(ctx, tx, name, nil); err != nil {
			return Info{}, false, fmt.Errorf("queue: %s: %w", name, err)
		}
	}
	info, err := q.FindQueue(ctx, tx, configured, name)
	return info, paused != pause, err
}
