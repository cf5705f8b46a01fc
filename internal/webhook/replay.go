package webhook

import (
	"context"
	"errors"
	"sync"

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

// Sweep dispatches the pending events whose lease ran out: a crash, a lost
// database or a stop came between storing and handling. It returns how many it
// took, and may run on any number of instances at once.
//
// An event whose handler kills the process takes those beside it along. So what
// was interrupted twice is handled alone, and what was interrupted maxInterrupted
// times fails.
func (r *Receiver) Sweep(ctx context.Context) (int, error) {
	if !r.enter() {
		return 0, groupcommit.ErrClosed
	}
	defer r.working.Done()
	p := identity.System("webhook-sweep")
	failed, err := r.store.failInterrupted(ctx, p, maxInterrupted, 0)
	if err != nil {
		return 0, err
	}
	r.reportInterrupted(ctx, failed)
	together, err := r.sweep(ctx, p, 0, 0, sweepBatch)
	if err != nil {
		return together, err
	}
	alone, err := r.sweep(ctx, p, 1, maxInterrupted, 1)
	return together + alone, err
}

// sweep dispatches, batch by batch, what was interrupted least to most times
// before its last attempt.
func (r *Receiver) sweep(ctx context.Context, p identity.Principal, least, most, batch int) (int, error) {
	for n := 0; ; {
		claims, err := r.store.claimStale(ctx, p, least, most, batch)
		if err != nil {
			return n, err
		}
		r.dispatchAll(ctx, p, claims)
		n += len(claims)
		if len(claims) < batch {
			return n, nil
		}
	}
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
// outcome; it is still Pending when the handler takes longer than a sender waits.
// A failed event, or a pending one that nobody is handling, can be replayed; a
// processed one only with force, because its effect then happens again. It
// returns ErrEvent, ErrEmptied, ErrInFlight or ErrNotReplayable.
func (r *Receiver) Replay(ctx context.Context, id uuid.UUID, force bool) (Record, error) {
	if !r.enter() {
		return Record{}, groupcommit.ErrClosed
	}
	defer r.working.Done()
	p := identity.FromContext(ctx)
	c, err := r.store.claimReplay(ctx, p, id, force)
	if errors.Is(err, pgx.ErrNoRows) {
		return Record{}, r.refusal(ctx, id)
	}
	if err != nil {
		return Record{}, err
	}
	if err := r.interrupt(AfterClaim, c.event.ID); err != nil {
		return Record{}, err
	}
	r.dispatch(ctx, p, c)
	return r.Find(context.WithoutCancel(ctx), id)
}

// refusal says why an event could not be claimed for a replay.
func (r *Receiver) refusal(ctx context.Context, id uuid.UUID) error {
	rec, err := r.Find(ctx, id)
	switch {
	case err != nil:
		return err
	case rec.Emptied:
		return ErrEmptied
	case rec.Status == Processed:
		return ErrNotReplayable
	default:
		return ErrInFlight
	}
}
