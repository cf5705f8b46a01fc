package jobs

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/waypost/waypost/internal/identity"
)

// recordEvery is how often an instance at least keeps an outcome of a task of its own;
// one that differs from the last is kept at once.
const recordEvery = time.Minute

// ownTasks are the lines of the cron table that every instance runs by itself, each
// in a goroutine: with an interval at start and then every so often, otherwise when the
// expression says.
type ownTasks struct {
	table    []task
	logger   *slog.Logger
	failures *failures
	// record keeps how a run ended that began at an instant.
	record  func(ctx context.Context, name string, began time.Time, failed error)
	now     func() time.Time
	quit    chan struct{}
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func newOwnTasks(table []task, logger *slog.Logger, f *failures, o *outcomes) *ownTasks {
	t := &ownTasks{logger: logger, failures: f, record: o.record, now: o.now, quit: make(chan struct{}), cancel: func() {}}
	for _, p := range table {
		if p.Everywhere {
			t.table = append(t.table, p)
		}
	}
	return t
}

func (t *ownTasks) start(ctx context.Context) {
	ctx, t.cancel = context.WithCancel(ctx)
	for _, p := range t.table {
		t.running.Go(func() { t.repeat(ctx, p) })
	}
}

// stop begins no more runs, waits for those at work until ctx ends, and ends them then.
// It reports whether none is left.
func (t *ownTasks) stop(ctx context.Context) bool {
	close(t.quit)
	defer t.cancel()
	return t.wait(ctx)
}

// wait waits until no run is at work, at most until ctx ends.
func (t *ownTasks) wait(ctx context.Context) bool {
	idle := make(chan struct{})
	go func() {
		t.running.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *ownTasks) repeat(ctx context.Context, p task) {
	var last lastOutcome
	due := t.now()
	if p.Every == 0 {
		due = p.schedule.next(due)
	}
	for {
		select {
		case <-time.After(due.Sub(t.now())):
		case <-t.quit:
			return
		}
		select {
		case <-t.quit: // rather than another run that is due too
			return
		default:
		}
		t.once(ctx, p, &last)
		// Instances keep the rhythm of their own starts, so that not all of them ask
		// the database at the same instant.
		if now := t.now(); p.Every == 0 {
			due = p.schedule.next(now)
		} else if due = due.Add(p.Every); due.Before(now) {
			due = now.Add(p.Every)
		}
	}
}

// lastOutcome is what was recorded last.
type lastOutcome struct {
	at     time.Time
	failed bool
}

// once runs a task with the time of a job.
func (t *ownTasks) once(ctx context.Context, p task, last *lastOutcome) {
	limited, cancel := context.WithTimeout(ctx, cmp.Or(p.Timeout, jobTimeout))
	defer cancel()
	began := t.now()
	n, err := run(identity.NewContext(limited, identity.System(p.Name)), p.Periodic)
	switch {
	case ctx.Err() != nil: // stopped
		return
	case err != nil:
		t.failures.failed(p.Name, true, time.Now(), err.Error())
	default:
		t.failures.succeeded(p.Name)
		if n > 0 {
			t.logger.InfoContext(ctx, "periodic task", "name", p.Name, "changed", n)
		}
	}
	if failed := err != nil; last.at.IsZero() || failed != last.failed || began.Sub(last.at).Abs() >= recordEvery {
		*last = lastOutcome{began, failed}
		t.record(ctx, p.Name, began, err)
	}
}
