package session

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// The statements of queries/ are held to these rules in internal/stats.
func TestStatementsOfAShardNameItsSiteAsAScalar(t *testing.T) {
	t.Parallel()
	behindConflict := regexp.MustCompile(`(?s)on conflict.*\$\d`)
	for name, sql := range map[string]string{
		"touchShardHeads": touchShardHeads(DefaultGap), "listOfShard": listOfShard, "saveShardSessions": saveShardSessions, "listOfDay": listOfDay,
	} {
		if !strings.Contains(sql, ".site_id = $1") || strings.Contains(sql, "uuid[]") {
			t.Errorf("%s names no site as a scalar, or several:\n%s", name, sql)
		}
		if behindConflict.MatchString(sql) {
			t.Errorf("%s has a parameter behind ON CONFLICT:\n%s", name, sql)
		}
		if strings.HasPrefix(sql, "insert") && !strings.Contains(sql, "from site_days d\n") && !strings.Contains(sql, "from site_days d ") {
			t.Errorf("%s starts from no row of the shard:\n%s", name, sql)
		}
	}
	// What the test looks for is there to be found.
	if !behindConflict.MatchString(touchHeads) || !strings.Contains(saveSessions, "uuid[]") {
		t.Error("the statements of one PostgreSQL would pass")
	}
}

func dayOf(t *testing.T, d *db.DB) Visitor {
	t.Helper()
	v := Visitor{Site: uuid.New(), Day: time.Date(2024, 5, 31, 0, 0, 0, 0, time.UTC), Number: 1}
	ensureDay(t, d, v.Site, v.Day)
	return v
}

func TestAShardTakesEventsOfOneSiteAndOnePostgreSQLOfSeveral(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]*db.DB{"one": dbtest.New(t), "sharded": dbtest.NewSharded(t)} {
		var batch []Event
		for range 2 {
			v := dayOf(t, d)
			ensureMonth(t, d, v.Day)
			batch = append(batch, Event{Key: v, At: v.Day.Add(time.Hour), Path: "/"})
		}
		var want error
		if name == "sharded" {
			want = ErrSeveralSites
		}
		if err := writeBatch(d, batch); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		// A group tries them by themselves then.
		if fault.KindOf(want) == fault.Unavailable {
			t.Errorf("%s: %v is taken for an unknown outcome", name, want)
		}
	}
}

func TestAnUnknownOutcomeIsLearnedFromTheReceiptsEvent(t *testing.T) {
	t.Parallel()
	d := dbtest.NewSharded(t)
	s := NewStore(dbsqlc.New(), DefaultGap)
	v := dayOf(t, d)
	ensureMonth(t, d, v.Day)
	rolledBack := errors.New("rolled back")
	for _, of := range []struct{ meets, want error }{{nil, nil}, {rolledBack, db.ErrNotCommitted}} {
		var receipt Receipt
		err := d.InIndexTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
			var err error
			if receipt, err = s.Write(ctx, tx, []Event{{Key: v, At: v.Day.Add(time.Hour), Path: "/"}}); err != nil {
				return err
			}
			return of.meets
		})
		if !errors.Is(err, of.meets) || receipt.ID == 0 {
			t.Fatalf("Write: %v, %+v", err, receipt)
		}
		if err := s.Settle(t.Context(), d, receipt, db.ErrUnknownOutcome); !errors.Is(err, of.want) || of.want == nil && err != nil {
			t.Errorf("after %v: %v, want %v", of.meets, err, of.want)
		}
	}
	if err := s.Settle(t.Context(), d, Receipt{}, db.ErrUnknownOutcome); !errors.Is(err, db.ErrUnknownOutcome) {
		t.Errorf("without a receipt: %v", err)
	}
}
