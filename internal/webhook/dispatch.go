package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
)

// crowded is the wait of an event that found no transaction free for its handler.
const crowded = 5 * time.Second

var (
	errHandlerFailed = errors.New("webhook: the handler failed")
	errOverrun       = errors.New("webhook: the handler overran its time budget")
	errLeaseLost     = errors.New("webhook: the lease ran out and another instance has the event")
	errInterrupted   = errors.New("webhook: interrupted")
)

// dispatch runs the claimed event's handler and returns the outcome, or Pending
// when it takes longer than a sender waits; the work then goes on. The caller has
// entered.
func (r *core) dispatch(ctx context.Context, p identity.Principal, c claim) Status {
	ctx = context.WithoutCancel(ctx)
	done := make(chan Status, 1)
	c.body.hold()
	r.working.Go(func() {
		defer c.body.release()
		done <- r.handle(ctx, p, c)
	})
	answer := time.NewTimer(r.o.AnswerAfter)
	defer answer.Stop()
	select {
	case s := <-done:
		return s
	case <-answer.C:
		return Pending
	}
}

// handle runs the handler under its budget and makes the outcome durable. It
// returns Pending where that could not be done; the sweep then decides.
func (r *core) handle(ctx context.Context, p identity.Principal, c claim) Status {
	c.started, c.by = r.o.Now(), p
	b, bound := r.o.Registry.binding(c.event.Provider, c.event.Type)
	switch {
	case !bound || b.forwards(): // only a handler settles an event, and targets get theirs otherwise
		return Pending
	case b.ByJob && c.job == 0 && !c.swept:
		return r.postpone(ctx, c, 0)
	}
	s := r.run(ctx, p, c, b)
	r.metrics.handlerEnded(c.event.Provider, s, r.o.Now().Sub(c.started))
	return s
}

// run is one attempt, under the handlers' time budget.
func (r *core) run(ctx context.Context, p identity.Principal, c claim, b Binding) Status {
	if r.stuck.full(bindingKey{b.Provider, b.EventType}) {
		return r.postpone(ctx, c, stuckWait)
	}
	budget, cancel := context.WithTimeout(ctx, r.o.Budget)
	defer cancel()
	e := execute(budget, b.Handler, c.event)
	select {
	case <-e.finished:
		return r.conclude(ctx, c, e.failure)
	case <-e.wanted:
		return r.handleInTx(ctx, p, c, e)
	case <-budget.Done():
		s := r.record(ctx, c, r.overrun())
		r.ends(ctx, c, e)
		return s
	}
}

// handleInTx gives the handler its transaction and commits it with the outcome.
func (r *core) handleInTx(ctx context.Context, p identity.Principal, c claim, e *execution) Status {
	// The outcome is written after the handler's budget, so it has time of its own.
	txCtx, cancel := context.WithTimeout(ctx, r.o.Budget+r.o.StoreTimeout)
	defer cancel()
	select {
	case r.transactions <- struct{}{}:
		defer func() { <-r.transactions }()
	case <-e.finished: // without waiting any longer
		return r.conclude(ctx, c, e.failure)
	case <-e.ctx.Done():
		e.grant(nil, errNoTime)
		if !r.ends(ctx, c, e) {
			return r.record(ctx, c, r.overrun())
		}
		return r.postpone(ctx, c, crowded)
	}
	granted, overrun := false, Pending
	err := r.o.DB.InTx(txCtx, p, func(txCtx context.Context, tx pgx.Tx) error {
		granted = true
		e.grant(tx, nil)
		select {
		case <-e.finished:
		case <-e.ctx.Done():
			// Recorded at once, over another connection: this one is the handler's
			// until it returns.
			overrun = r.record(ctx, c, r.overrun())
			if !r.ends(ctx, c, e) {
				return errors.Join(errOverrun, db.ErrAbandoned)
			}
			return errOverrun
		}
		return r.completeInTx(txCtx, tx, c, e.failure)
	})
	if !granted {
		e.grant(nil, err)
		if !r.ends(ctx, c, e) {
			return r.record(ctx, c, r.overrun())
		}
	}
	switch {
	case err == nil:
		return Processed
	case errors.Is(err, errOverrun):
		return overrun
	case errors.Is(err, errHandlerFailed):
		return r.conclude(ctx, c, e.failure)
	case granted && !isAway(err) && !errors.Is(err, errLeaseLost) && !errors.Is(err, errInterrupted):
		// The database refused what the handler wrote: a deferred constraint, or a
		// statement that failed without the handler saying so.
		return r.record(ctx, c, failure{text: sanitize(err.Error())})
	}
	r.o.Logger.WarnContext(ctx, "webhook event left to the sweep", "event", c.event.ID, "provider", c.event.Provider, "error", err)
	return Pending
}

// completeInTx writes the outcome into the handler's transaction; an error rolls
// both back.
func (r *core) completeInTx(ctx context.Context, tx pgx.Tx, c claim, f failure) error {
	if f.text != "" {
		if tx.Conn().IsClosed() && isAway(f.err) {
			return db.ErrUnavailable.Because(f.err) // not the handler's failure
		}
		return errHandlerFailed
	}
	if err := r.interrupt(AfterHandler, c.event.ID); err != nil {
		return err
	}
	now := r.o.Now()
	held, err := r.store.complete(ctx, tx, c, now, now.Sub(c.started))
	if err != nil {
		return err
	}
	if !held {
		return errLeaseLost
	}
	return r.interrupt(BeforeCommit, c.event.ID)
}

// conclude records how a handler ended whose effects, if any, are not in a
// transaction of ours.
func (r *core) conclude(ctx context.Context, c claim, f failure) Status {
	if f.text != "" {
		r.o.Logger.WarnContext(ctx, "webhook handler failed", "event", c.event.ID, "provider", c.event.Provider,
			"event_type", c.event.Type, "error", f.text, "stack", string(f.stack))
	}
	if err := r.interrupt(AfterHandler, c.event.ID); err != nil {
		return Pending
	}
	return r.record(ctx, c, f)
}

// record makes an outcome durable, and a failure's next attempt where the binding
// asks for one. Where it can't be, or the lease is lost, the event is as good as
// pending.
func (r *core) record(ctx context.Context, c claim, f failure) Status {
	now := r.o.Now()
	o := outcome{id: c.event.ID, lease: c.lease, status: Processed, at: now, took: now.Sub(c.started), by: c.by}
	if f.text != "" {
		o.status, o.text = Failed, f.text
		b, _ := r.o.Registry.binding(c.event.Provider, c.event.Type)
		if wait, again := b.Retry.again(c.tries, f.err); again {
			o.status, o.wait = Pending, wait
		}
	}
	return r.submit(ctx, c, o)
}

// postpone leaves a claimed event to a job, as if it had not been claimed.
func (r *core) postpone(ctx context.Context, c claim, wait time.Duration) Status {
	return r.submit(ctx, c, outcome{id: c.event.ID, lease: c.lease, status: Pending, at: r.o.Now(), wait: wait, deferred: true, by: c.by})
}

func (r *core) submit(ctx context.Context, c claim, o outcome) Status {
	ctx, cancel := context.WithTimeout(ctx, r.o.StoreTimeout)
	defer cancel()
	o.trace = queue.TraceOf(ctx)
	held, err := r.outcomes.Submit(ctx, o)
	if err == nil && !held {
		err = errLeaseLost
	}
	if err != nil {
		r.o.Logger.WarnContext(ctx, "webhook outcome not recorded", "event", c.event.ID, "provider", c.event.Provider, "error", err)
		return Pending
	}
	return o.status
}

func (r *core) overrun() failure {
	return failure{text: fmt.Sprintf("the handler ran longer than its time budget of %v", r.o.Budget), err: errOverrun}
}

func (r *core) interrupt(b Boundary, id uuid.UUID) error {
	if err := r.o.Interrupt(b, id); err != nil {
		return fmt.Errorf("%w: %w", errInterrupted, err)
	}
	return nil
}

// isAway reports whether err means that the database can't be reached now, or that
// it doesn't tell what became of a COMMIT. The end of a handler's own context does
// not mean that.
func isAway(err error) bool {
	if db.IsUnknownOutcome(err) {
		return true
	}
	return err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) &&
		fault.KindOf(db.Translate(err)) == fault.Unavailable
}
