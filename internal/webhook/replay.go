package webhook

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/groupcommit"
	"github.com/waypost/waypost/internal/identity"
)

const (
	// sweepBatch is how many events one sweep handles at a time.
	sweepBatch = 16
	// maxInterrupted is how many attempts in a row may end without an outcome before
	// the event fails.
	maxInterrupted = 5
)

// Sweep dispatches the pending events that have a handler here and wait for nobody:
// a crash, a lost database or a stop came between storing and handling, or another
// instance fetched their job and has no handler for them. It returns how many it
// took. Every instance sweeps, at start too, and any number may at once.
//
// What bindings leave to jobs is SweepForwards', so that slow targets hold up none
// of the rest.
//
// An event whose handler kills the process takes those beside it along. So what
// was interrupted twice is handled alone, and what was interrupted maxInterrupted
// times fails.
func (w *Worker) Sweep(ctx context.Context) (int, error) {
	if !w.enter() {
		return 0, groupcommit.ErrClosed
	}
	defer w.working.Done()
	p := identity.Step(ctx, "webhook-sweep")
	failed, err := w.store.failInterrupted(ctx, p, maxInterrupted, 0)
	if err != nil {
		return 0, err
	}
	w.reportInterrupted(ctx, failed)
	return w.sweepAll(ctx, p, false)
}

// SweepForwards is Sweep for events whose binding leaves attempts to jobs. It makes
// the attempts itself.
func (w *Worker) SweepForwards(ctx context.Context) (int, error) {
	if !w.enter() {
		return 0, groupcommit.ErrClosed
	}
	defer w.working.Done()
	return w.sweepAll(ctx, identity.Step(ctx, "webhook-sweep"), true)
}

func (w *Worker) sweepAll(ctx context.Context, p identity.Principal, byJob bool) (int, error) {
	together, err := w.sweep(ctx, p, staleness{byJob: byJob, limit: sweepBatch})
	if err != nil {
		return together, err
	}
	alone, err := w.sweep(ctx, p, staleness{byJob: byJob, least: 1, most: maxInterrupted, limit: 1})
	return together + alone, err
}

// sweep dispatches batch by batch, until there are no more or ctx is about to end.
func (w *Worker) sweep(ctx context.Context, p identity.Principal, which staleness) (int, error) {
	for n := 0; ; {
		if w.endsBeforeABatch(ctx) {
			return n, nil
		}
		claims, taken, err := w.store.claimStale(ctx, p, which)
		if err != nil {
			return n, err
		}
		w.sending.wakeAll()
		w.dispatchAll(ctx, p, claims)
		n += taken
		if taken < which.limit {
			return n, nil
		}
	}
}

// endsBeforeABatch reports whether ctx has ended, or may before a batch is done,
// which takes as long as a sender waits.
func (w *Worker) endsBeforeABatch(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && time.Until(deadline) < w.o.AnswerAfter+w.o.StoreTimeout
}

func (w *Worker) dispatchAll(ctx context.Context, p identity.Principal, claims []claim) {
	var running sync.WaitGroup
	for _, c := range claims {
		running.Go(func() {
			if w.interrupt(AfterClaim, c.event.ID) == nil {
				w.dispatch(ctx, p, c)
			}
		})
	}
	running.Wait()
}

func (w *Worker) reportInterrupted(ctx context.Context, failed []dbsqlc.FailInterruptedWebhookEventsRow) {
	for _, f := range failed {
		w.o.Logger.ErrorContext(ctx, "webhook event failed: its handler was interrupted again and again", "event", f.ID, "provider", f.Provider)
	}
}

// Replay handles an event again from its stored bytes and returns it with the
// outcome; it is still Pending when the handler takes longer than a sender waits,
// works by jobs, or is another instance's. A failed event can be replayed, and a
// pending one that nobody is handling, also when it waits for its next attempt; a
// processed one only with force, because its effect then happens again. It
// returns ErrEvent, ErrEmptied, ErrInFlight or ErrNotReplayable.
func (a *Admin) Replay(ctx context.Context, id uuid.UUID, force bool) (Record, error) {
	if !a.enter() {
		return Record{}, groupcommit.ErrClosed
	}
	defer a.working.Done()
	p := identity.FromContext(ctx)
	c, here, err := a.store.claimReplay(ctx, p, id, force)
	if errors.Is(err, errHeld) {
		return Record{}, ErrInFlight
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return Record{}, a.refusal(ctx, id, force)
	}
	if err != nil {
		return Record{}, err
	}
	if here {
		if err := a.interrupt(AfterClaim, c.event.ID); err != nil {
			return Record{}, err
		}
		a.dispatch(ctx, p, c)
	}
	a.sending.wakeAll()
	return a.Find(context.WithoutCancel(ctx), id)
}

// refusal says why an event could not be claimed for a replay. It reads the event
// later than the claim did: one that was being handled then may be processed now.
func (a *Admin) refusal(ctx context.Context, id uuid.UUID, force bool) error {
	rec, err := a.Find(ctx, id)
	switch {
	case err != nil:
		return err
	case rec.Emptied:
		return ErrEmptied
	case rec.Status == Processed && !force:
		return ErrNotReplayable
	default:
		return ErrInFlight
	}
}
