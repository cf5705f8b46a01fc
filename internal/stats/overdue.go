package stats

import (
	"context"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/stats/visitor"
)

const (
	// overdueAfter is how long a day may wait to be sealed once its 48 hours are over.
	overdueAfter = 6 * time.Hour
	// maxOverdue is how far overdue days are counted.
	maxOverdue = 1000
)

// Overdue returns how many days of sites should have been sealed hours ago, counted up to
// 1,000, and when the first of them ended. Their numbers are right, but take longer to
// read.
func (s *Service) Overdue(ctx context.Context) (days int64, ended time.Time, err error) {
	row, err := s.queries.MeasureUncountedDays(ctx, s.o.DB.Direct(), s.o.Now().Add(-visitor.SaltLife-overdueAfter), maxOverdue)
	if err != nil || row.Days == 0 {
		return 0, time.Time{}, db.Translate(err)
	}
	return row.Days, row.EndedAt.UTC(), nil
}
