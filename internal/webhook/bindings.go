package webhook

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/groupcommit"
	"github.com/waypost/waypost/internal/identity"
)

const (
	// absence is for how long no instance must have announced a binding before the
	// events that wait for it fail.
	absence = time.Hour
	// announcedLately is the age below which an announcement speaks of an instance
	// that runs: they come each minute.
	announcedLately = 3 * time.Minute
	// watchGap is the longest time between two announcements of this instance in
	// which it has still seen whether others announce themselves.
	watchGap = 5 * time.Minute
	// unboundBatch is how many events fail in one transaction.
	unboundBatch = 500
	// unboundLines bounds the lines that a start adds to the log.
	unboundLines = 20
)

// unboundText is the handler_error of an event that no instance has a handler for.
const unboundText = "no running instance has had a handler for this provider and event type for an hour; " +
	"start one whose configuration has it, then replay the event"

// watch is since when this instance has seen the announcements of all.
type watch struct {
	mu          sync.Mutex
	since, last time.Time
	reported    bool // what no binding here would take
}

// seen notes an announcement at now and returns for how long they have come without
// a gap. After an outage of the database, or of this machine, others had no more
// chance to announce themselves than this instance, so the time begins anew.
func (w *watch) seen(now time.Time) time.Duration {
	now = now.Round(0) // a monotonic clock stands still while the machine sleeps
	w.mu.Lock()
	defer w.mu.Unlock()
	if gap := now.Sub(w.last); w.last.IsZero() || gap < 0 || gap > watchGap {
		w.since = now
	}
	w.last = now
	return now.Sub(w.since)
}

// Announce tells the other instances which handlers this one has; it is called at
// start and each minute. Events whose handler no running instance has had for an
// hour then fail, and their number is returned. The first call names in the log
// what is pending and no handler here would take.
func (w *Worker) Announce(ctx context.Context) (int, error) {
	if !w.enter() {
		return 0, groupcommit.ErrClosed
	}
	defer w.working.Done()
	p := identity.Step(ctx, "webhook-bindings")
	err := w.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		return w.store.queries.AnnounceWebhookBindings(ctx, tx, w.store.bound.providers, w.store.bound.eventTypes)
	})
	if err == nil {
		err = w.announceTargets(ctx)
	}
	if err != nil {
		return 0, err
	}
	watched := w.watch.seen(w.o.Now())
	if err := w.reportUnbound(ctx); err != nil {
		return 0, err
	}
	err = w.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		return w.store.queries.DeleteExpiredWebhookBindings(ctx, tx, absence.Seconds())
	})
	if err != nil || watched < absence {
		return 0, err
	}
	failed, err := w.failUnbound(ctx, p)
	if err != nil {
		return failed, err
	}
	forwards, err := w.failAbsent(ctx, p)
	return failed + forwards, err
}

// failUnbound ends, batch by batch, the events whose handler no instance has.
func (w *Worker) failUnbound(ctx context.Context, p identity.Principal) (int, error) {
	for total := 0; ; {
		var failed []dbsqlc.FailUnboundWebhookEventsRow
		err := w.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
			var err error
			failed, err = w.store.queries.FailUnboundWebhookEvents(ctx, tx, absence.Seconds(), unboundBatch, unboundText)
			return err
		})
		if err != nil {
			return total, err
		}
		n := 0
		for _, f := range failed {
			n += int(f.Events)
			w.o.Logger.ErrorContext(ctx, "webhook events failed: no running instance has had a handler for them for an hour",
				"provider", f.Provider, "event_type", f.EventType, "events", f.Events)
		}
		total += n
		if n < unboundBatch {
			return total, nil
		}
	}
}

// reportUnbound logs, once, the pending events that no handler here would take.
func (w *Worker) reportUnbound(ctx context.Context) error {
	w.watch.mu.Lock()
	defer w.watch.mu.Unlock()
	if w.watch.reported {
		return nil
	}
	var rows []dbsqlc.CountUnboundWebhookEventsRow
	err := w.o.DB.InSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		rows, err = w.store.queries.CountUnboundWebhookEvents(ctx, tx, w.store.bound.providers, w.store.bound.eventTypes, unboundLines+1)
		return err
	})
	if err != nil {
		return err
	}
	for i, row := range rows {
		if i == unboundLines {
			w.o.Logger.WarnContext(ctx, "webhook events of still more types wait for a handler that this instance lacks")
			break
		}
		w.o.Logger.WarnContext(ctx, "webhook events wait for a handler that this instance lacks; they fail when no running instance has one for an hour",
			"provider", row.Provider, "event_type", row.EventType, "events", row.Events, "oldest", row.Oldest)
	}
	if err := w.reportAbsent(ctx); err != nil {
		return err
	}
	w.watch.reported = true
	return nil
}
