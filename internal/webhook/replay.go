package webhook

import (
	"context"
	"errors"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/groupcommit"
	"github.com/waypost/waypost/internal/identity"
)

// sweepBatch is how many events one sweep handles at a time.
const sweepBatch = 16

// Sweep dispatches the pending events whose lease ran out: a crash, a lost
// database or a stop came between storing and handling. It returns how many it
// took, and may run on any number of instances at once.
func (r *Receiver) Sweep(ctx context.Context) (int, error) {
	if !r.enter() {
		return 0, groupcommit.ErrClosed
	}
	defer r.working.Done()
	p := identity.System("webhook-sweep")
	for n := 0; ; {
		claims, err := r.store.claimStale(ctx, p, sweepBatch)
		if err != nil {
			return n, err
		}
		var running sync.WaitGroup
		for _, c := range claims {
			running.Go(func() { r.dispatch(ctx, p, c) })
		}
		running.Wait()
		n += len(claims)
		if len(claims) < sweepBatch {
			return n, nil
		}
	}
}

// Replay handles an event again from its stored bytes and returns it with the
// outcome; it is still Pending when the handler takes longer than a sender waits.
// A failed event, or a pending one that nobody is handling, can be replayed; a
// processed one only with force, because its effect then happens again. It
// returns ErrEvent, ErrInFlight or ErrNotReplayable.
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
	r.dispatch(ctx, p, c)
	return r.Find(context.WithoutCancel(ctx), id)
}

// refusal says why an event could not be claimed for a replay.
func (r *Receiver) refusal(ctx context.Context, id uuid.UUID) error {
	rec, err := r.Find(ctx, id)
	switch {
	case err != nil:
		return err
	case rec.Status == Processed:
		return ErrNotReplayable
	default:
		return ErrInFlight
	}
}
