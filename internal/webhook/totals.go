package webhook

import (
	"context"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
)

const (
	// settledAfter is how long after its arrival an event is surely stored, if it ever is.
	settledAfter = time.Hour
	// recountAfter is when all events of a provider are counted anew: somebody may have
	// deleted some with psql.
	recountAfter = 24 * time.Hour
)

// totals are the numbers of each provider's events that came until an hour ago. They
// are counted once, and then only those that came since; in whole again after a deletion
// here, and once a day, since other instances, and people with psql, delete too. It is safe
// for concurrent use: one counts at a time, and the next profits.
type totals struct {
	turn chan struct{} // holds one entry while somebody counts
	of   map[string]total
}

// total is the number of events that came before until, counted in whole at counted.
type total struct {
	until, counted time.Time
	n              int64
}

func newTotals() *totals { return &totals{turn: make(chan struct{}, 1), of: map[string]total{}} }

// forget makes the next count one of all events: some were deleted.
func (t *totals) forget(ctx context.Context) {
	select {
	case t.turn <- struct{}{}:
		clear(t.of)
		<-t.turn
	case <-ctx.Done(): // that of tomorrow is one
	}
}

// providerCount is what became of a provider's events.
type providerCount struct {
	pending, processed, failed int64
	last                       *time.Time // when the newest came; nil for none
}

// count counts the events of providers, by name.
func (t *totals) count(ctx context.Context, queries dbsqlc.Queries, d *db.DB, providers []string, now time.Time) (map[string]providerCount, error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	sinces := make([]time.Time, len(providers))
	for i, name := range providers {
		known, ok := t.of[name]
		if !ok || now.Sub(known.counted).Abs() > recountAfter {
			delete(t.of, name)
		}
		sinces[i] = t.of[name].until
	}
	settled := now.Add(-settledAfter)
	rows, err := queries.CountWebhooksOfProviders(ctx, d.Direct(), providers, sinces, settled)
	if err != nil {
		return nil, db.Translate(err)
	}
	counts := make(map[string]providerCount, len(rows))
	for _, row := range rows {
		known, ok := t.of[row.Provider]
		if !ok {
			known.counted = now
		}
		c := providerCount{pending: row.Pending, failed: row.Failed}
		all := known.n + row.Newer
		c.processed = max(0, all-c.pending-c.failed)
		if all > 0 {
			c.last = &row.LastDelivery
		}
		counts[row.Provider] = c
		if settled.After(known.until) {
			known.until, known.n = settled, known.n+row.Settled
		}
		t.of[row.Provider] = known
	}
	return counts, nil
}
