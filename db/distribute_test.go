package db_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/identity"
)

func TestOnePostgreSQLIsNotDistributedAndSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	_, err := db.Distribute(t.Context(), urls.Owner, func(table string) { t.Errorf("%s was sharded", table) })
	if !errors.Is(err, db.ErrNoCluster) || !strings.Contains(err.Error(), "CREATE EXTENSION citus") {
		t.Errorf("without the extension: %v", err)
	}
	l, err := db.LayoutOf(t.Context(), urls.Owner)
	if err != nil {
		t.Fatal(err)
	}
	if l.Pending() || !strings.Contains(l.Said(), "one machine") {
		t.Errorf("%+v says %q", l, l.Said())
	}
}

func TestWhatWouldBeShardedIsTheStatisticsAndTheirDaysFirst(t *testing.T) {
	t.Parallel()
	l, err := db.LayoutOf(t.Context(), dbtest.NewURL(t).Owner)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Local) < 15 || l.Local[0] != "site_days" {
		t.Errorf("to be sharded: %v", l.Local)
	}
	for _, name := range []string{"events", "sessions", "session_heads", "reported_events", "rollup_counts", "site_retention"} {
		if !slices.Contains(l.Local, name) {
			t.Errorf("%s would stay on the coordinator", name)
		}
	}
	for _, name := range []string{"sites", "site_api_keys", "site_zones", "users"} {
		if slices.Contains(l.Local, name) {
			t.Errorf("%s would be sharded", name)
		}
	}
}

func TestADatabaseThatIsNotMigratedIsNotDistributed(t *testing.T) {
	t.Parallel()
	_, err := db.Distribute(t.Context(), dbtest.Unmigrated(t).Owner, func(string) {})
	if !errors.Is(err, db.ErrPending) {
		t.Errorf("an empty database: %v", err)
	}
}

func TestALayoutSaysWhatIsLeftToShard(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		layout  db.Layout
		pending bool
		says    string
	}{
		{db.Layout{Citus: "13.2-1", Nodes: 2, Local: []string{"site_days"}}, true, "no table is sharded"},
		{db.Layout{Citus: "13.2-1", Nodes: 2, Sharded: []string{"site_days"}, Local: []string{"site_new"}}, true, "not yet site_new"},
		{db.Layout{Citus: "13.2-1", Nodes: 2, Sharded: []string{"site_days"}}, false, "2 servers"},
	} {
		if of.layout.Pending() != of.pending || !strings.Contains(of.layout.Said(), of.says) {
			t.Errorf("%+v: pending %v, says %q", of.layout, of.layout.Pending(), of.layout.Said())
		}
	}
}

// Citus refuses with this class what was made for tables that are not sharded.
func TestALayoutThatChangesIsNoticedWhenAStatementIsRefused(t *testing.T) {
	t.Parallel()
	d, urls := dbtest.NewWithURL(t)
	refused := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `do $$ begin raise feature_not_supported; end $$`)
		return err
	}
	sharded := func() bool {
		known := false
		err := d.InIndexTx(t.Context(), identity.System("test"), func(_ context.Context, tx pgx.Tx) error {
			known = db.Sharded(tx)
			return nil
		})
		if err != nil || known != d.Sharded() {
			t.Errorf("a transaction knows %v, the pool %v: %v", known, d.Sharded(), err)
		}
		return known
	}
	for range 2 {
		if err := d.InTx(t.Context(), identity.System("test"), refused); err == nil {
			t.Fatal("the statement was not refused")
		}
		if sharded() {
			t.Error("one PostgreSQL is said to be sharded")
		}
	}
	dbtest.Shard(t, urls)
	if sharded() {
		t.Error("an open connection noticed by itself: the test shows nothing")
	}
	if err := d.InTx(t.Context(), identity.System("test"), refused); err == nil {
		t.Fatal("the statement was not refused")
	}
	if !sharded() {
		t.Error("the layout was not noticed")
	}
}
