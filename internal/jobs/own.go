package jobs

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/waypost/waypost/internal/identity"
)

// ownTasks are the lines of the cron table that every instance runs by itself, each
// in a goroutine, at start and then every so often.
type ownTasks struct {
	table    []Periodic
	logger   *slog.Logger
	failures *failures
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

func newOwnTasks(table []Periodic, logger *slog.Logger, f *failures) *ownTasks {
	t := &ownTasks{logger: logger, failures: f, cancel: func() {}}
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

// stop ends the tasks and waits for those at work, at most until ctx ends.
func (t *ownTasks) stop(ctx context.Context) {
	t.cancel()
	idle := make(chan struct{})
	go func() {
		t.running.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

func (t *ownTasks) repeat(ctx context.Context, p Periodic) {
	tick := time.NewTicker(p.Every)
	defer tick.Stop()
	for {
		t.once(ctx, p)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// once runs a task with the time of a job.
func (t *ownTasks) once(ctx context.Context, p Periodic) {
	limited, cancel := context.WithTimeout(ctx, cmp.Or(p.Timeout, jobTimeout))
	defer cancel()
	n, err := run(identity.NewContext(limited, identity.System(p.Name)), p)
	switch {
	case ctx.Err() != nil: // stopped
	case err != nil:
		t.failures.failed(p.Name, true, time.Now(), err.Error())
	default:
		t.failures.succeeded(p.Name)
		if n > 0 {
			t.logger.InfoContext(ctx, "periodic task", "name", p.Name, "changed", n)
		}
	}
}
