package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
)

// leaseTime is for how long a process keeps its jobs without a sign of life. It
// renews its lease each third of that. After two thirds without success it ends its
// jobs' contexts, so that they have stopped when others take them.
const leaseTime = 30 * time.Second

// errLost is why the context of a job ended whose process could not renew its lease.
var errLost = errors.New("jobs: this process was out of touch with the database for too long, so others may have taken its jobs")

// lease says to other processes that this one is alive, and takes over the jobs of
// those that are not. River by itself takes a job of a dead process only when the
// longest time has passed that such a job may run.
type lease struct {
	db      *db.DB // its connections must not be those that jobs use up
	queue   *queue.Queue
	queries dbsqlc.Queries
	logger  *slog.Logger
	id      string // as River's client names itself
	time    time.Duration

	quit    chan struct{}
	renewal sync.WaitGroup

	working atomic.Int64 // jobs that run

	mu    sync.Mutex
	held  context.Context // of the jobs that run; ends when the lease is lost
	lose  context.CancelCauseFunc
	timer *time.Timer // until it is lost
}

// start takes the lease. What it could not renew in time is lost until it can again.
func (l *lease) start(ctx context.Context) error {
	l.held, l.lose = context.WithCancelCause(context.WithoutCancel(ctx))
	l.timer = time.AfterFunc(l.time*2/3, l.lost)
	l.quit = make(chan struct{})
	if err := l.renew(ctx); err != nil {
		return fmt.Errorf("jobs: lease: %w", err)
	}
	l.renewal.Go(func() { l.keep(context.WithoutCancel(ctx)) })
	return nil
}

func (l *lease) keep(ctx context.Context) {
	tick := time.NewTicker(l.time / 3)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-l.quit:
			return
		case <-tick.C:
		}
		err := l.renew(ctx)
		if err != nil && !failing {
			l.logger.WarnContext(ctx, "the lease on running jobs could not be renewed", "error", err)
		}
		failing = err != nil
	}
}

// renew says that this process is alive, and takes the jobs of those that are not.
func (l *lease) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.time/3)
	defer cancel()
	began := time.Now() // the lease counts from the statement, at the latest
	gone, err := l.queries.RenewJobRunner(ctx, l.db.Direct(), l.id, l.time.Seconds())
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.timer.Reset(l.time*2/3 - time.Since(began))
	if l.held.Err() != nil {
		l.held, l.lose = context.WithCancelCause(context.Background())
	}
	l.mu.Unlock()
	if gone == 0 {
		return nil
	}
	return l.rescue(ctx)
}

// rescue takes over the jobs of processes that are gone.
func (l *lease) rescue(ctx context.Context) error {
	return l.db.InTx(ctx, identity.System("jobs.rescue"), func(ctx context.Context, tx pgx.Tx) error {
		gone, err := l.queries.TakeGoneJobRunners(ctx, tx, l.time.Seconds())
		if err != nil || len(gone) == 0 {
			return err
		}
		n, err := l.queue.RescueFrom(ctx, tx, gone)
		if n > 0 {
			l.logger.WarnContext(ctx, "a process that ran jobs is gone; they run again", "processes", gone, "jobs", n)
		}
		return err
	})
}

func (l *lease) lost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose(errLost)
}

// stop lets the lease end. Jobs that still run are others' to take, after a while; with
// none left, nobody needs to look for them.
func (l *lease) stop(ctx context.Context, jobsLeft bool) {
	close(l.quit)
	l.renewal.Wait()
	l.timer.Stop()
	if jobsLeft {
		return
	}
	if err := l.queries.DeleteJobRunner(ctx, l.db.Direct(), l.id); err != nil {
		l.logger.DebugContext(ctx, "the lease on jobs could not be given back, and runs out by itself", "error", err)
	}
}

// bind returns the context of a job that ends when the lease is lost.
func (l *lease) bind(ctx context.Context) (context.Context, func()) {
	l.mu.Lock()
	held := l.held
	l.mu.Unlock()
	l.working.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	unbind := context.AfterFunc(held, func() { cancel(errLost) })
	return ctx, func() {
		unbind()
		cancel(nil)
		l.working.Add(-1)
	}
}

// brokenOff returns what a worker returns when its job failed because its context was
// ended for no fault of the job, so that the job is given back and the attempt does not
// count; otherwise nil. Timeouts, and a cancellation by somebody, are the job's own.
func brokenOff(ctx context.Context, failed error) error {
	if failed == nil || !errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, rivertype.ErrJobCancelledRemotely):
		return nil
	case errors.Is(cause, errLost):
		return river.JobSnooze(time.Second)
	default: // River gives back what a stop interrupted, and knows that by this error
		return fmt.Errorf("%w: %w", context.Canceled, failed)
	}
}
