package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/webhook"
)

// Periodic is one line of the cron table: a task that is safe to repeat, and
// that finds its work in the database rather than in its arguments.
type Periodic struct {
	Name  string
	Every time.Duration
	// Everywhere has each instance run the task by itself, because its configuration
	// decides what it does; the others are run by one instance for all.
	Everywhere bool
	// Run returns how many rows it changed.
	Run func(ctx context.Context) (int, error)
}

// Tasks are what the cron table calls.
type Tasks struct {
	// SweepWebhooks dispatches deliveries that a crash left pending, SweepForwards
	// those that are forwarded. AnnounceBindings tells other instances which webhook
	// handlers this one has, and ends events that none has one for.
	SweepWebhooks    func(context.Context) (int, error)
	SweepForwards    func(context.Context) (int, error)
	AnnounceBindings func(context.Context) (int, error)
	// AttemptWebhook makes one more attempt at an event, and says whether an earlier
	// run may still be at it; ReplayWebhooks works on a bulk replay, and says whether
	// it is done.
	AttemptWebhook func(context.Context, webhook.AttemptJob, int64) (bool, error)
	ReplayWebhooks func(context.Context, webhook.BulkJob) (bool, error)
	// ForgetPayloads empties webhook bodies whose retention is over.
	ForgetPayloads func(context.Context) (int, error)
	// TrimRejected deletes old entries of the log of refused deliveries.
	TrimRejected func(context.Context) (int, error)
	// CheckAlerts starts an alert for each provider whose events keep failing;
	// SendAlert posts one.
	CheckAlerts func(context.Context) (int, error)
	SendAlert   func(context.Context, webhook.AlertJob) error
	// MailLink mails a link to whoever asked for one.
	MailLink func(context.Context, account.LinkRequest) error
	// SweepAccounts deletes ended sessions, expired links and counts; RotateKeys
	// replaces an old signing key.
	SweepAccounts func(context.Context) (int, error)
	RotateKeys    func(context.Context) (int, error)
	// DestroySalts forgets the salts of days that ended 48 h ago.
	DestroySalts func(context.Context) (int, error)
	// QueueSeals queues site days to be sealed, and SealDay seals one. FoldVisitors
	// keeps the rollups of open days near their events.
	QueueSeals   func(context.Context) (int, error)
	SealDay      func(context.Context, stats.SealJob) error
	FoldVisitors func(context.Context) (int, error)
	// EraseSite works on the erasure of a deleted site and returns when to go on; 0
	// when it is done. SweepErasures finds those whose job was lost.
	EraseSite     func(context.Context, uuid.UUID) (time.Duration, error)
	SweepErasures func(context.Context) (int, error)
}

// Table is every periodic task of the service. Each also runs once at start.
func Table(t Tasks) []Periodic {
	return []Periodic{
		{Name: "webhooks.sweep", Every: 30 * time.Second, Everywhere: true, Run: t.SweepWebhooks},
		{Name: "webhooks.sweep_forwards", Every: 10 * time.Second, Everywhere: true, Run: t.SweepForwards},
		{Name: "webhooks.announce_bindings", Every: time.Minute, Everywhere: true, Run: t.AnnounceBindings},
		{Name: "webhooks.forget_payloads", Every: time.Hour, Run: t.ForgetPayloads},
		{Name: "webhooks.trim_rejected", Every: time.Hour, Run: t.TrimRejected},
		{Name: "webhooks.check_alerts", Every: 30 * time.Second, Run: t.CheckAlerts},
		{Name: "accounts.sweep", Every: time.Hour, Run: t.SweepAccounts},
		{Name: "signing_keys.rotate", Every: time.Hour, Run: t.RotateKeys},
		{Name: "statistics.destroy_salts", Every: time.Hour, Run: t.DestroySalts},
		{Name: "statistics.seal", Every: 30 * time.Second, Run: t.QueueSeals},
		{Name: "statistics.fold", Every: 5 * time.Second, Run: t.FoldVisitors},
		{Name: "sites.erase", Every: 10 * time.Minute, Run: t.SweepErasures},
	}
}

// cronArgs name the line of the table that a job runs.
type cronArgs struct {
	Name string `json:"name"`
}

// Kind implements river.JobArgs.
func (cronArgs) Kind() string { return "cron" }

// InsertOpts gives a run one attempt: the next run is the retry.
func (cronArgs) InsertOpts() river.InsertOpts { return river.InsertOpts{MaxAttempts: 1} }

type cronWorker struct {
	river.WorkerDefaults[cronArgs]
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

// Work runs the task that the job names.
func (w *cronWorker) Work(ctx context.Context, job *river.Job[cronArgs]) error {
	p, known := w.table[job.Args.Name]
	if !known {
		return river.JobCancel(errors.New("no such periodic task; an older or newer waypost queued it"))
	}
	n, err := run(ctx, p)
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
			func() (river.JobArgs, *river.InsertOpts) { return cronArgs{Name: p.Name}, nil },
			&river.PeriodicJobOpts{RunOnStart: true},
		))
	}
	return list
}
