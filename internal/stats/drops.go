package stats

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/groupcommit"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/site"
)

// Drop is why a hit was not counted.
type Drop string

// The reasons.
const (
	counted         Drop = ""
	DropBot         Drop = "bot"               // an automated client
	DropForeign     Drop = "unknown_host"      // a page that is not the site's
	DropDoNoTrack   Drop = "do_not_track"      // DNT or GPC
	DropInvalid     Drop = "validation_failed" // a field breaks a rule
	DropTooOld      Drop = "too_old"           // reported more than 24 hours late
	DropInFuture    Drop = "in_future"         // reported more than 5 minutes ahead
	DropRateLimited Drop = "rate_limited"      // one of too many
)

// DropCount is how many hits of a site day were not counted for one reason.
type DropCount struct {
	Day    time.Time // the date on the site's clocks when they arrived, as midnight UTC
	Reason Drop
	Count  int64
}

// DropPosition is a row of ListDrops to go on after.
type DropPosition struct {
	Day    time.Time
	Reason Drop
}

// ListDrops returns at most limit counts after a position, newest day first and
// reasons in alphabetical order; nil begins with the newest.
func (s *Service) ListDrops(ctx context.Context, siteID uuid.UUID, after *DropPosition, limit int) ([]DropCount, error) {
	p := dbsqlc.ListSiteDropsParams{SiteID: siteID, BeforeDay: time.Date(lastYear, 1, 1, 0, 0, 0, 0, time.UTC), MaxRows: int32(limit)}
	if after != nil {
		p.BeforeDay, p.AfterReason = after.Day, string(after.Reason)
	}
	rows, err := s.queries.ListSiteDrops(ctx, s.o.DB.Direct(), p)
	if err != nil {
		return nil, db.Translate(err)
	}
	out := make([]DropCount, len(rows))
	for i, r := range rows {
		out[i] = DropCount{Day: r.Day.UTC(), Reason: Drop(r.Reason), Count: r.Count}
	}
	return out, nil
}

// CountDrops returns how many rows ListDrops can reach.
func (s *Service) CountDrops(ctx context.Context, siteID uuid.UUID) (int64, error) {
	n, err := s.queries.CountSiteDrops(ctx, s.o.DB.Direct(), siteID)
	return n, db.Translate(err)
}

// dropKey is what drops are counted by.
type dropKey struct {
	site   uuid.UUID
	day    time.Time
	reason Drop
}

func (i *Ingester) dropKey(s site.Site, reason Drop) dropKey {
	return dropKey{site: s.ID, day: dateOf(i.o.Now().In(s.Zone)), reason: reason}
}

// Limits of the queue of single drops. Many share a row, so a batch of any size
// costs a few updates.
const (
	dropBatch  = 4096
	dropQueued = 16384
)

func newDropGroup(d *db.DB, queries *dbsqlc.Queries) *groupcommit.Group[dropKey, struct{}] {
	// One flusher: two would only wait for each other's rows.
	o := groupcommit.Options[dropKey]{Flushers: 1, MaxBatch: dropBatch, MaxQueued: dropQueued}
	return groupcommit.New(o, func(ctx context.Context, keys []dropKey) ([]struct{}, error) {
		counts := make(map[dropKey]int64)
		for _, k := range keys {
			counts[k]++
		}
		err := d.InTx(ctx, identity.System("collect"), func(ctx context.Context, tx pgx.Tx) error {
			return addDrops(ctx, tx, queries, counts)
		})
		return make([]struct{}, len(keys)), err
	})
}

func addDrops(ctx context.Context, tx pgx.Tx, queries *dbsqlc.Queries, counts map[dropKey]int64) error {
	if len(counts) == 0 {
		return nil
	}
	var p dbsqlc.AddSiteDropsParams
	for k, n := range counts {
		p.SiteIds, p.Days = append(p.SiteIds, k.site), append(p.Days, k.day)
		p.Reasons, p.Counts = append(p.Reasons, string(k.reason)), append(p.Counts, n)
	}
	return queries.AddSiteDrops(ctx, tx, p)
}
