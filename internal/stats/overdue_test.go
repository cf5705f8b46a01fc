package stats

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/identity"
)

func TestADayIsOverdueOnceItShouldHaveBeenSealedForHours(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	s, err := NewService(ServiceOptions{DB: d, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	add := func(ended time.Duration, state string) {
		t.Helper()
		ends := now.Add(-ended)
		_, err := d.Single(identity.System("test")).Exec(t.Context(), `insert into site_days (site_id, day, starts_at, ends_at, state) values ($1, $2, $3, $4, $5)`,
			uuid.New(), ends.AddDate(0, 0, -1), ends.AddDate(0, 0, -1), ends, state)
		if err != nil {
			t.Fatal(err)
		}
	}
	add(-time.Hour, "open")
	add(53*time.Hour, "open")
	add(100*time.Hour, "sealed")
	if n, ended, err := s.Overdue(t.Context()); err != nil || n != 0 || !ended.IsZero() {
		t.Errorf("%d %v %v", n, ended, err)
	}
	add(55*time.Hour, "open")
	add(90*time.Hour, "dirty")
	if n, ended, err := s.Overdue(t.Context()); err != nil || n != 2 || !ended.Equal(now.Add(-90*time.Hour)) {
		t.Errorf("%d %v %v", n, ended, err)
	}
}
