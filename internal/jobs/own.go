package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// ownTasks are the lines of the cron table that every instance runs by itself, each
// in a goroutine, at start and then every so often.
type ownTasks struct {
	table   []Periodic
	logger  *slog.Logger
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func newOwnTasks(table []Periodic, logger *slog.Logger) *ownTasks {
	t := &ownTasks{logger: logger, cancel: func() {}}
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
		n, err := runOnce(ctx, p)
		switch {
		case err != nil && ctx.Err() == nil:
			t.logger.ErrorContext(ctx, "periodic task failed", "name", p.Name, "error", err)
		case n > 0:
			t.logger.InfoContext(ctx, "periodic task", "name", p.Name, "changed", n)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// runOnce runs a task with the time of a job. A panic is an error, as in a job.
func runOnce(ctx context.Context, p Periodic) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	n, err := 0, error(nil)
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
