package jobs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/text"
)

// AdminOptions configure NewAdmin. DB and Queue are mandatory.
type AdminOptions struct {
	DB    *db.DB
	Queue *queue.Queue
	// Now is the clock of schedules; nil for the system's.
	Now func() time.Time
}

// Admin lists jobs, queues and periodic tasks, of all processes, and does to them what
// administrators want; each such action is noted in the audit log.
type Admin struct {
	o       AdminOptions
	queries dbsqlc.Queries
	queues  []string // that this program works
}

// NewAdmin makes the service.
func NewAdmin(o AdminOptions) (*Admin, error) {
	if o.DB == nil || o.Queue == nil {
		return nil, errors.New("jobs: AdminOptions lack DB or Queue")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Admin{o: o, queues: slices.Sorted(maps.Keys(queues()))}, nil
}

// List returns up to f.Limit jobs, newest first, and sets total when it is not nil to
// the number of all that match. It returns validation faults.
func (a *Admin) List(ctx context.Context, f queue.Filter, total *int64) ([]queue.Record, error) {
	for name, value := range map[string]string{"kind": f.Kind, "queue": f.Queue} {
		if !text.Storable(value) {
			return nil, fault.Validation(map[string]string{name: "It holds U+0000 or is not valid UTF-8."})
		}
	}
	list, err := a.o.Queue.List(ctx, a.o.DB.Direct(), f)
	if err == nil && total != nil {
		*total, err = a.o.Queue.Count(ctx, a.o.DB.Direct(), f)
	}
	return list, db.Translate(err)
}

// Get returns a job, or queue.ErrNoJob.
func (a *Admin) Get(ctx context.Context, id int64) (queue.Record, error) {
	job, err := a.o.Queue.Get(ctx, a.o.DB.Direct(), id)
	return job, db.Translate(err)
}

// note is what the audit log has of an action on a job, without its arguments.
type note struct {
	Did   string      `json:"did"`
	Kind  string      `json:"kind,omitempty"`
	Queue string      `json:"queue,omitempty"`
	State queue.State `json:"state,omitempty"` // afterwards; of a deleted job before
	JobID int64       `json:"job_id,omitempty"`
}

func (a *Admin) noteJob(ctx context.Context, tx pgx.Tx, did string, job queue.Record) error {
	return audit.Note(ctx, tx, "river_job", strconv.FormatInt(job.ID, 10), note{Did: did, Kind: job.Kind, Queue: job.Queue, State: job.State})
}

// Retry makes a job run again at once. It returns queue.ErrNoJob and
// queue.ErrNotRetryable.
func (a *Admin) Retry(ctx context.Context, id int64) (queue.Record, error) {
	var job queue.Record
	err := a.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if job, err = a.o.Queue.Retry(ctx, tx, id); err != nil {
			return err
		}
		return a.noteJob(ctx, tx, "retry", job)
	})
	return job, err
}

// Cancel gives a job up; one that runs is told to end, and one that ended stays as it
// is, which leaves no note. It returns queue.ErrNoJob.
func (a *Admin) Cancel(ctx context.Context, id int64) (queue.Record, error) {
	var job queue.Record
	err := a.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var changed bool
		var err error
		if job, changed, err = a.o.Queue.Cancel(ctx, tx, id); err != nil || !changed {
			return err
		}
		return a.noteJob(ctx, tx, "cancel", job)
	})
	return job, err
}

// Delete deletes a job. It returns queue.ErrNoJob and queue.ErrJobRunning.
func (a *Admin) Delete(ctx context.Context, id int64) error {
	return a.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		job, err := a.o.Queue.Delete(ctx, tx, id)
		if err != nil {
			return err
		}
		return a.noteJob(ctx, tx, "delete", job)
	})
}

// Queues returns all queues by name.
func (a *Admin) Queues(ctx context.Context) ([]queue.Info, error) {
	list, err := a.o.Queue.Queues(ctx, a.o.DB.Direct(), a.queues)
	return list, db.Translate(err)
}

// PauseQueue makes all processes take no more jobs of a queue. It returns
// queue.ErrNoQueue.
func (a *Admin) PauseQueue(ctx context.Context, name string) (queue.Info, error) {
	return a.controlQueue(ctx, name, "pause", a.o.Queue.Pause)
}

// ResumeQueue makes them take jobs again. It returns queue.ErrNoQueue.
func (a *Admin) ResumeQueue(ctx context.Context, name string) (queue.Info, error) {
	return a.controlQueue(ctx, name, "resume", a.o.Queue.Resume)
}

func (a *Admin) controlQueue(
	ctx context.Context, name, did string, do func(context.Context, pgx.Tx, []string, string) (queue.Info, bool, error),
) (queue.Info, error) {
	if !text.Storable(name) {
		return queue.Info{}, queue.ErrNoQueue
	}
	var info queue.Info
	err := a.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var changed bool
		var err error
		if info, changed, err = do(ctx, tx, a.queues, name); err != nil || !changed {
			return err
		}
		return audit.Note(ctx, tx, "river_queue", name, note{Did: did})
	})
	return info, err
}

// Tasks returns the periodic tasks of all running programs, by name.
func (a *Admin) Tasks(ctx context.Context) ([]queue.Task, error) {
	now := a.o.Now()
	rows, err := a.queries.ListCron(ctx, a.o.DB.Direct(), now.Add(-listedFor))
	if err != nil {
		return nil, db.Translate(err)
	}
	list := make([]queue.Task, len(rows))
	for i, row := range rows {
		list[i] = taskOf(row, now)
	}
	return list, nil
}

// RunTask runs a periodic task at once, besides its schedule, and returns the job: that
// of the run that waits or is under way when there is one. It returns queue.ErrNoTask.
func (a *Admin) RunTask(ctx context.Context, name string) (queue.Record, error) {
	if !text.Storable(name) {
		return queue.Record{}, queue.ErrNoTask
	}
	var job queue.Record
	err := a.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		_, err := a.queries.FindCron(ctx, tx, name, a.o.Now().Add(-listedFor))
		if errors.Is(err, pgx.ErrNoRows) {
			return queue.ErrNoTask
		}
		if err != nil {
			return err
		}
		id, _, err := a.o.Queue.InsertOnce(ctx, tx, "", cronJob{name})
		if err != nil {
			return err
		}
		if job, err = a.o.Queue.Get(ctx, tx, id); err != nil {
			return err
		}
		return audit.Note(ctx, tx, "cron", name, note{Did: "run", JobID: id})
	})
	return job, err
}

// taskOf is a row as people see it at an instant.
func taskOf(row dbsqlc.Cron, now time.Time) queue.Task {
	t := queue.Task{
		Name: row.Name, Description: row.Description, Schedule: row.Schedule, Timezone: row.Timezone, Everywhere: row.Everywhere,
		NextRunAt: row.NextRunAt.UTC(), LastRunAt: row.LastRunAt,
	}
	if row.LastOutcome != nil {
		t.LastOutcome = queue.Outcome(*row.LastOutcome)
	}
	if row.LastError != nil {
		t.LastError = *row.LastError
	}
	if row.LastDuration != nil {
		t.LastDuration = time.Duration(*row.LastDuration * float64(time.Second))
	}
	// Each instance has times of its own, of which the table has an outcome once a
	// minute: the next run is at the latest one interval from now.
	if row.Everywhere {
		if s, err := parseSchedule(row.Schedule, row.Timezone); err == nil {
			t.NextRunAt = s.next(now)
		}
	}
	return t
}
