package stats

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/identity"
)

// Rebuild makes all rollups and columns of a site anew from its events, day by day, and
// calls progress before each. Answers are exact at every instant of it; it may be broken
// off anywhere and run again. Days whose events are gone keep what they have. Open days
// are folded anew in the background. It returns site.ErrNoSite.
func (r *Rollups) Rebuild(ctx context.Context, siteID uuid.UUID, progress func(day time.Time, done, total int)) (int, error) {
	if _, err := r.o.Sites.Find(ctx, siteID); err != nil {
		return 0, err
	}
	days, err := r.queries.ListDaysToRebuild(ctx, r.o.DB.Direct(), siteID)
	if err != nil {
		return 0, db.Translate(err)
	}
	for i, d := range days {
		day := d.Day.UTC()
		progress(day, i, len(days))
		if d.State == stateOpen {
			err = r.o.DB.InTx(ctx, identity.System("rollups"), func(ctx context.Context, tx pgx.Tx) error {
				return r.queries.MarkDayStale(ctx, tx, siteID, day)
			})
		} else {
			err = r.seal(ctx, siteID, day, true)
		}
		if err != nil {
			return i, fmt.Errorf("stats: rebuild %s of site %s: %w", day.Format(time.DateOnly), siteID, err)
		}
	}
	return len(days), nil
}
