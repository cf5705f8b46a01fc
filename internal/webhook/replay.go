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
func (r *Receiver) Sweep(ctx context.Context) (int, error) {
	if !r.enter() {
		return 0, groupcommit.ErrClosed
	}
	defer r.working.Done()
	p := identity.Step(ctx, "webhook-sweep")
	failed, err := r.store.failInterrupted(ctx, p, maxInterrupted, 0)
	if err != nil {
		return 0, err
	}
	r.reportInterrupted(ctx, failed)
	return r.sweepAll(ctx, p, false)
}

// SweepForwards is Sweep for events whose binding leaves attempts to jobs. It makes
// the attempts itself.
func (r *Receiver) SweepForwards(ctx context.Context) (int, error) {
	if !r.enter() {
		return 0, groupcommit.ErrClosed
	}
	defer r.working.Done()
	return r.sweepAll(ctx, identity.Step(ctx, "webhook-sweep"), true)
}

func (r *Receiver) sweepAll(ctx context.Context, p identity.Principal, byJob bool) (int, error) {
	together, err := r.sweep(ctx, p, staleness{byJob: byJob, limit: sweepBatch})
	if err != nil {
		return together, err
	}
	alone, err := r.sweep(ctx, p, staleness{byJob: byJob, least: 1, most: maxInterrupted, limit: 1})
	return together + alone, err
}

// sweep dispatches batch by batch, until there are no more or ctx is about to end.
func (r *Receiver) sweep(ctx context.Context, p identity.Principal, which staleness) (int, error) {
	for n := 0; ; {
		if r.endsBeforeABatch(ctx) {
			return n, nil
		}
		claims, err := r.store.claimStale(ctx, p, which)
		if err != nil {
			return n, err
		}
		r.dispatchAll(ctx, p, claims)
		n += len(claims)
		if len(claims) < which.limit {
			return n, nil
		}
	}
}

// endsBeforeABatch reports whether ctx has ended, or may before a batch is done,
// which takes as long as a sender waits.
func (r *Receiver) endsBeforeABatch(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && time.Until(deadline) < r.o.AnswerAfter+r.o.StoreTimeout
}

func (r *Receiver) dispatchAll(ctx context.Context, p identity.Principal, claims []claim) {
	var running sync.WaitGroup
	for _, c := range claims {
		running.Go(func() {
			if r.interrupt(AfterClaim, c.event.ID) == nil {
				r.dispatch(ctx, p, c)
			}
		})
	}
	running.Wait()
}

func (r *Receiver) reportInterrupted(ctx context.Context, failed []dbsqlc.FailInterruptedWebhookEventsRow) {
	for _, f := range failed {
		r.o.Logger.ErrorContext(ctx, "webhook event failed: its handler was interrupted again and again", "event", f.ID, "provider", f.Provider)
	}
}

// Replay handles an event again from its stored bytes and returns it with the
// outcome; it is still Pending when the handler takes longer than a sender waits,
// works by jobs, or is another instance's. A failed event can be replayed, and a
// pending one that nobody is handling, also when it waits for its next attempt; a
// processed one only with force, because its effect then happens again. It
// returns ErrEvent, ErrEmptied, ErrInFlight or ErrNotReplayable.
func (r *Receiver) Replay(ctx context.Context, id uuid.UUID, force bool) (Record, error) {
	if !r.enter() {
		return Record{}, groupcommit.ErrClosed
	}
	defer r.working.Done()
	p := identity.FromContext(ctx)
	c, here, err := r.store.claimReplay(ctx, p, id, force)
	if errors.Is(err, pgx.ErrNoRows) {
		return Record{}, r.refusal(ctx, id, force)
	}
	if err != nil {
		return Record{}, err
	}
	if here {
		if err := r.interrupt(AfterClaim, c.event.ID); err != nil {
			return Record{}, err
		}
		r.dispatch(ctx, p, c)
	}
	return r.Find(context.WithoutCancel(ctx), id)
}

// refusal says why an event could not be claimed for a replay. It reads the event
// later than the claim did: one that was being handled then may be processed now.
func (r *Receiver) refusal(ctx context.Context, id uuid.UUID, force bool) error {
	rec, err := r.Find(ctx, id)
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
