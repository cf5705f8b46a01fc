package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/riverqueue/river"

	"github.com/waypost/waypost/internal/identity"
)

// Periodic is one line of the cron table: a task that is safe to repeat, and
// that finds its work in the database rather than in its arguments. Each task also
// runs once at start.
type Periodic struct {
	Name  string
	Every time.Duration
	// Everywhere makes each instance run the task by itself, because the result depends
	// on the instance's configuration. Without it, one instance runs the task for all.
	Everywhere bool
	// Timeout bounds one run; 0 means a minute.
	Timeout time.Duration
	// Run returns how many rows it changed.
	Run func(ctx context.Context) (int, error)
}

// cronJob name the line of the table that a job runs.
type cronJob struct {
	Name string `json:"name"`
}

// Kind implements river.JobArgs.
func (cronJob) Kind() string { return "cron" }

// InsertOpts gives a run one attempt: the next run is the retry.
func (cronJob) InsertOpts() river.InsertOpts { return river.InsertOpts{MaxAttempts: 1} }

type cronWorker struct {
	river.WorkerDefaults[cronJob]
	table  map[string]Periodic
	logger *slog.Logger
}

func newCronWorker(table []Periodic, logger *slog.Logger) (*cronWorker, error) {
	w := &cronWorker{table: make(map[string]Periodic, len(table)), logger: logger}
	for _, p := range table {
		if p.Name == "" || p.Every <= 0 || p.Run == nil {
			return nil, fmt.Errorf("jobs: periodic task %q is incomplete", p.Name)
		}
		if _, twice := w.table[p.Name]; twice {
			return nil, fmt.Errorf("jobs: periodic task %q is listed twice", p.Name)
		}
		w.table[p.Name] = p
	}
	return w, nil
}

// Timeout implements river.Worker; 0 is the client's.
func (w *cronWorker) Timeout(job *river.Job[cronJob]) time.Duration {
	return w.table[job.Args.Name].Timeout
}

// Work runs the task that the job names.
func (w *cronWorker) Work(ctx context.Context, job *river.Job[cronJob]) error {
	p, known := w.table[job.Args.Name]
	if !known {
		return river.JobCancel(errors.New("no such periodic task; an older or newer waypost queued it"))
	}
	n, err := run(identity.NewContext(ctx, identity.Job(job.ID, p.Name)), p)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	if n > 0 {
		w.logger.InfoContext(ctx, "periodic task", "name", p.Name, "changed", n)
	}
	return nil
}

// run is one run of p. A panic is a failure like another: River would write its stack
// into the log each time.
func run(ctx context.Context, p Periodic) (int, error) {
	var n int
	var err error
	func() {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
			}
		}()
		n, err = p.Run(ctx)
	}()
	return n, err
}

func periodicJobs(table []Periodic) []*river.PeriodicJob {
	list := make([]*river.PeriodicJob, 0, len(table))
	for _, p := range table {
		if p.Everywhere {
			continue
		}
		list = append(list, river.NewPeriodicJob(
			river.PeriodicInterval(p.Every),
			func() (river.JobArgs, *river.InsertOpts) { return cronJob{Name: p.Name}, nil },
			&river.PeriodicJobOpts{RunOnStart: true},
		))
	}
	return list
}
