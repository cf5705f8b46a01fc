package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
)

const (
	// declareEvery is how often a process says which tasks it has.
	declareEvery = 30 * time.Minute
	// listedFor is for how long a task is listed that nobody declares any more, and
	// keptFor for how long its row is kept, should a program come back that has it.
	listedFor = 2 * time.Hour
	keptFor   = 90 * 24 * time.Hour
	// A scheduler waits for at least shortestWait when another one has what is due, and
	// never longer than longestWait, should the clock be put.
	shortestWait = 250 * time.Millisecond
	longestWait  = time.Minute
	// retryWait is the wait after a failure.
	retryWait = 2 * time.Second
)

// scheduler inserts the jobs of periodic tasks when they are due. The schedule is in
// the database, so a run that was missed is made up for, once; and each run is claimed
// there, so one of several schedulers inserts its job.
type scheduler struct {
	db      *db.DB
	queue   *queue.Queue
	queries dbsqlc.Queries
	logger  *slog.Logger
	now     func() time.Time
	table   []task // all; those that run everywhere are declared, but not inserted
	names   []string
	// declared is when the tasks were declared last; zero makes the next turn do so.
	declared time.Time

	cancel  context.CancelFunc
	running sync.WaitGroup
}

func newScheduler(o Options, table []task) *scheduler {
	s := &scheduler{db: o.DB, queue: o.Queue, logger: o.Logger, now: o.Now, table: table, cancel: func() {}}
	for _, t := range table {
		if !t.Everywhere {
			s.names = append(s.names, t.Name)
		}
	}
	return s
}

// start declares the tasks and begins to insert what is due.
func (s *scheduler) start(ctx context.Context) error {
	if err := s.declare(ctx); err != nil {
		return fmt.Errorf("jobs: cron table: %w", err)
	}
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.running.Go(func() { s.repeat(ctx) })
	return nil
}

// stop ends the scheduler; what is due is another's, or due at the next start.
func (s *scheduler) stop() {
	s.cancel()
	s.running.Wait()
}

func (s *scheduler) repeat(ctx context.Context) {
	failing := false
	for {
		next, err := s.turn(ctx)
		wait := min(max(next.Sub(s.now()), shortestWait), longestWait)
		if err != nil {
			wait = retryWait
		}
		if err != nil && !failing && ctx.Err() == nil {
			s.logger.ErrorContext(ctx, "periodic tasks are not started: their schedule can't be read", "error", err)
		}
		failing = err != nil
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// turn inserts the jobs of all tasks that are due, and returns when the next one is.
func (s *scheduler) turn(ctx context.Context) (time.Time, error) {
	now := s.now()
	if now.Sub(s.declared).Abs() > declareEvery {
		if err := s.declare(ctx); err != nil {
			return time.Time{}, err
		}
	}
	next := now.Add(longestWait)
	if len(s.names) == 0 {
		return next, nil
	}
	var found int
	err := s.db.InTx(ctx, identity.System("cron"), func(ctx context.Context, tx pgx.Tx) error {
		rows, err := s.queries.ClaimDueCron(ctx, tx, s.names, now, s.nextRuns(now, false))
		if err != nil {
			return err
		}
		found = len(rows)
		var due []queue.Job
		for _, r := range rows {
			if r.NextRunAt.Before(next) {
				next = r.NextRunAt
			}
			if r.IsClaimed {
				due = append(due, cronJob{r.Name})
			}
		}
		if len(due) == 0 {
			return nil
		}
		return s.queue.InsertUnique(ctx, tx, "", due)
	})
	if found < len(s.names) { // somebody deleted a row
		s.declared = time.Time{}
	}
	return next, err
}

// nextRuns are the due times after now, in the order of names, or with all in that of
// the table.
func (s *scheduler) nextRuns(now time.Time, all bool) []time.Time {
	var list []time.Time
	for _, t := range s.table {
		if all || !t.Everywhere {
			list = append(list, t.schedule.next(now))
		}
	}
	return list
}

// declare says which tasks this process has, and when they are due unless that is known
// already: a task with an interval at once, for that is its first run.
func (s *scheduler) declare(ctx context.Context) error {
	now := s.now()
	next := s.nextRuns(now, true)
	d := dbsqlc.DeclareCronParams{Now: now}
	for i, t := range s.table {
		first := next[i]
		if t.Every > 0 {
			first = now
		}
		d.Names, d.Descriptions = append(d.Names, t.Name), append(d.Descriptions, t.Description)
		d.Schedules, d.Timezones = append(d.Schedules, t.schedule.text), append(d.Timezones, t.schedule.timezone)
		d.Everywheres, d.FirstRuns = append(d.Everywheres, t.Everywhere), append(d.FirstRuns, first)
	}
	err := s.db.InTx(ctx, identity.System("cron"), func(ctx context.Context, tx pgx.Tx) error {
		err := s.queries.RescheduleCron(ctx, tx, dbsqlc.RescheduleCronParams{
			Now: now, Names: d.Names, Schedules: d.Schedules, Timezones: d.Timezones, NextRuns: next,
		})
		if err != nil {
			return err
		}
		if err := s.queries.DeclareCron(ctx, tx, d); err != nil {
			return err
		}
		return s.queries.DeleteForgottenCron(ctx, tx, now.Add(-keptFor))
	})
	if err == nil {
		s.declared = now
	}
	return err
}
