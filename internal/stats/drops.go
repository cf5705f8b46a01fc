package stats

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/drop"
)

// DropCount is how many hits of a site day were not counted for one reason.
type DropCount struct {
	Day    time.Time // the date on the site's clocks when they arrived, as midnight UTC
	Reason drop.Reason
	Count  int64
}

// DropPosition is a row of ListDrops to go on after.
type DropPosition struct {
	Day    time.Time
	Reason drop.Reason
}

// ListDrops returns at most limit counts after a position, newest day first and
// reasons in alphabetical order; nil begins with the newest.
func (s *Service) ListDrops(ctx context.Context, siteID uuid.UUID, after *DropPosition, limit int) ([]DropCount, error) {
	p := dbsqlc.ListSiteDropsParams{SiteID: siteID, BeforeDay: time.Date(calendar.LastYear, 1, 1, 0, 0, 0, 0, time.UTC), MaxRows: int32(limit)}
	if after != nil {
		p.BeforeDay, p.AfterReason = after.Day, string(after.Reason)
	}
	rows, err := s.queries.ListSiteDrops(ctx, s.o.DB.Direct(), p)
	if err != nil {
		return nil, db.Translate(err)
	}
	out := make([]DropCount, len(rows))
	for i, r := range rows {
		out[i] = DropCount{Day: r.Day.UTC(), Reason: drop.Reason(r.Reason), Count: r.Count}
	}
	return out, nil
}

// CountDrops returns how many rows ListDrops can reach.
func (s *Service) CountDrops(ctx context.Context, siteID uuid.UUID) (int64, error) {
	n, err := s.queries.CountSiteDrops(ctx, s.o.DB.Direct(), siteID)
	return n, db.Translate(err)
}
