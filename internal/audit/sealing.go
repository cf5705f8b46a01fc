package audit

import (
	"context"
	"sync"
	"time"
)

const (
	// sealGap is how long sealing waits after a commit, for others to seal with it.
	sealGap = 5 * time.Millisecond
	// sealRetry is how long it waits when the database does not answer.
	sealRetry = time.Second
	// checkpointEvery is how often it looks whether a checkpoint is due.
	checkpointEvery = time.Second
)

// Sealing gives entries their places soon after they were committed, and signs
// checkpoints. Each instance runs one.
type Sealing struct {
	service *Service
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// StartSealing seals what dead processes left behind, and from then on after each
// value of committed, until Stop.
func (s *Service) StartSealing(committed <-chan struct{}) *Sealing {
	ctx, cancel := context.WithCancel(context.Background())
	g := &Sealing{service: s, cancel: cancel}
	g.running.Go(func() { g.seal(ctx, committed) })
	g.running.Go(func() { g.sign(ctx) })
	return g
}

// Stop ends the work, seals what there is, and signs a last checkpoint. What it can't
// do before ctx ends, another instance or the next start does.
func (g *Sealing) Stop(ctx context.Context) error {
	g.cancel()
	g.running.Wait()
	if _, err := g.service.Seal(ctx); err != nil {
		return err
	}
	_, err := g.service.SignCheckpoint(ctx, true)
	return err
}

func (g *Sealing) seal(ctx context.Context, committed <-chan struct{}) {
	failing := false
	for {
		_, err := g.service.Seal(ctx)
		wait := sealGap
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if !failing { // once, not each second
				g.service.o.Logger.ErrorContext(ctx, "audit entries wait for their places: sealing fails", "error", err)
			}
			wait = sealRetry
		default:
			if failing {
				g.service.o.Logger.InfoContext(ctx, "audit entries are sealed again")
			}
			select {
			case <-committed:
			case <-ctx.Done():
				return
			}
		}
		failing = err != nil
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

func (g *Sealing) sign(ctx context.Context) {
	tick := time.NewTicker(checkpointEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		_, err := g.service.SignCheckpoint(ctx, false)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing: // once, not each second
			g.service.o.Logger.ErrorContext(ctx, "no checkpoint of the audit log could be signed", "error", err)
		case err == nil && failing:
			g.service.o.Logger.InfoContext(ctx, "checkpoints of the audit log are signed again")
		}
		failing = err != nil
	}
}
