// Package drop counts, by site, day and reason, the hits that were not counted.
package drop

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/groupcommit"
	"github.com/waypost/waypost/internal/identity"
)

// Reason is why a hit was not counted.
type Reason string

// The reasons. None is of what was counted.
const (
	None        Reason = ""
	Bot         Reason = "bot"               // an automated client
	Foreign     Reason = "unknown_host"      // a page that is not the site's
	DoNotTrack  Reason = "do_not_track"      // DNT or GPC
	Invalid     Reason = "validation_failed" // a field breaks a rule
	TooOld      Reason = "too_old"           // reported more than 24 hours late
	InFuture    Reason = "in_future"         // reported more than 5 minutes ahead
	RateLimited Reason = "rate_limited"      // one of too many
	TooLate     Reason = "too_late"          // an imported line of a day whose raw data is gone
)

// Key is what drops are counted by.
type Key struct {
	Site   uuid.UUID
	Day    time.Time // the date on the site's clocks, as midnight UTC
	Reason Reason
}

// Limits of the queue of single drops. Many share a row, so a batch of any size
// costs a few updates.
const (
	batch  = 4096
	queued = 16384
)

// NewGroup makes a queue of single drops, of which many are stored in one transaction;
// where tables are sharded by site, those of one. Its owner closes it.
func NewGroup(d *db.DB, queries *dbsqlc.Queries) *groupcommit.Group[Key, struct{}] {
	// One flusher: two would only wait for each other's rows.
	o := groupcommit.Options[Key]{Flushers: 1, MaxBatch: batch, MaxQueued: queued, Key: func(k Key) any {
		if d.Sharded() {
			return k.Site
		}
		return nil
	}}
	return groupcommit.New(o, func(ctx context.Context, keys []Key) ([]struct{}, error) {
		counts := make(map[Key]int64)
		for _, k := range keys {
			counts[k]++
		}
		err := d.InTx(ctx, identity.System("collect"), func(ctx context.Context, tx pgx.Tx) error {
			return Add(ctx, tx, queries, counts)
		})
		return make([]struct{}, len(keys)), err
	})
}

// Add adds to the stored counts, in tx.
func Add(ctx context.Context, tx pgx.Tx, queries *dbsqlc.Queries, counts map[Key]int64) error {
	if len(counts) == 0 {
		return nil
	}
	if db.Sharded(tx) {
		return addToShards(ctx, tx, queries, counts)
	}
	var p dbsqlc.AddSiteDropsParams
	for k, n := range counts {
		p.SiteIds, p.Days = append(p.SiteIds, k.Site), append(p.Days, k.Day)
		p.Reasons, p.Counts = append(p.Reasons, string(k.Reason)), append(p.Counts, n)
	}
	return queries.AddSiteDrops(ctx, tx, p)
}

// addToShards is Add where tables are sharded. It goes in key order, so that no two
// transactions wait for each other in a circle.
func addToShards(ctx context.Context, tx pgx.Tx, queries *dbsqlc.Queries, counts map[Key]int64) error {
	var p db.Pipeline
	for _, k := range slices.SortedFunc(maps.Keys(counts), Key.compare) {
		err := queries.AddShardDrop(ctx, &p, dbsqlc.AddShardDropParams{SiteID: k.Site, Day: k.Day, Reason: string(k.Reason), Count: counts[k]})
		if err != nil {
			return err
		}
	}
	return p.Send(ctx, tx)
}

func (k Key) compare(o Key) int {
	return cmp.Or(bytes.Compare(k.Site[:], o.Site[:]), k.Day.Compare(o.Day), cmp.Compare(k.Reason, o.Reason))
}
