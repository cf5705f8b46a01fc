package drop

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/calendar"
)

const (
	// maxRefusedKeys bounds the keys of sites that are remembered between two
	// flushes: whoever is refused may send any text as one.
	maxRefusedKeys = 1000
	// refusedStep divides the time so that every midnight of every zone falls
	// between two steps.
	refusedStep = 15 * time.Minute
	// refusedTimeout bounds one flush.
	refusedTimeout = 5 * time.Second
)

// PublicKeys finds the site of a public key; a fault of kind Unauthenticated says
// that there is none.
type PublicKeys interface {
	BySiteKey(ctx context.Context, key string) (site.Site, error)
}

// Refusals counts, in memory, the hits that were refused because there were too
// many or because nobody could read them, and adds the sums to the sites' drops from time to time: a flood must not
// cost a write for each hit. A crash loses what was counted since the last time.
type Refusals struct {
	db      *db.DB
	queries *dbsqlc.Queries
	keys    PublicKeys

	mu     sync.Mutex
	counts map[refusal]int64

	stop    context.CancelFunc
	stopped chan struct{}
}

type refusal struct {
	siteKey string
	at      time.Time // a multiple of refusedStep
	reason  Reason
}

// NewRefusals starts to store, every so often, what was counted. Close stops it.
func NewRefusals(d *db.DB, queries *dbsqlc.Queries, keys PublicKeys, every time.Duration) *Refusals {
	ctx, stop := context.WithCancel(context.Background())
	r := &Refusals{db: d, queries: queries, keys: keys, counts: make(map[refusal]int64), stop: stop, stopped: make(chan struct{})}
	go r.run(ctx, every)
	return r
}

func (r *Refusals) run(ctx context.Context, every time.Duration) {
	defer close(r.stopped)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = r.Flush(ctx) // what it can't store now it keeps
		case <-ctx.Done():
			return
		}
	}
}

// Count counts a hit that was refused at an instant. Keys of no site count nowhere.
func (r *Refusals) Count(siteKey string, at time.Time, reason Reason) {
	r.add(refusal{siteKey: siteKey, at: at.Truncate(refusedStep), reason: reason}, 1)
}

// Waiting is how many sums have yet to be stored.
func (r *Refusals) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.counts)
}

func (r *Refusals) add(k refusal, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.counts[k]; known || len(r.counts) < maxRefusedKeys {
		r.counts[k] += n
	}
}

// Flush stores what was counted since the last time.
func (r *Refusals) Flush(ctx context.Context) error {
	r.mu.Lock()
	counts := r.counts
	r.counts = make(map[refusal]int64)
	r.mu.Unlock()
	if len(counts) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, refusedTimeout)
	defer cancel()
	err := r.store(ctx, counts)
	// What may be stored already is rather lost than counted twice.
	if err != nil && !db.IsUnknownOutcome(err) {
		for k, n := range counts {
			r.add(k, n)
		}
	}
	return err
}

func (r *Refusals) store(ctx context.Context, counts map[refusal]int64) error {
	drops := make(map[Key]int64)
	for k, n := range counts {
		of, err := r.keys.BySiteKey(ctx, k.siteKey)
		switch {
		case errors.Is(err, site.ErrSiteKey):
			continue
		case err != nil:
			return err
		}
		drops[Key{Site: of.ID, Day: calendar.DateOf(k.at.In(of.ZoneAt(k.at))), Reason: k.reason}] += n
	}
	return r.db.InTx(ctx, identity.System("collect"), func(ctx context.Context, tx pgx.Tx) error {
		return Add(ctx, tx, r.queries, drops)
	})
}

// Close stores the rest.
func (r *Refusals) Close(ctx context.Context) error {
	r.stop()
	<-r.stopped
	return r.Flush(ctx)
}
