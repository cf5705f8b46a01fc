package db_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
)

func TestABackupOfAClusterRestoredIntoOnePostgreSQLGetsBackWhatShardingTook(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	conn, err := pgx.Connect(t.Context(), urls.Owner)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	lacking := func() (n int) {
		t.Helper()
		err := conn.QueryRow(t.Context(), `select (select count(*) from pg_attribute where attrelid = 'events'::regclass and attname = 'id' and not atthasdef)
			+ (select count(*) from pg_class c where c.oid = 'site_days'::regclass and not exists (select from pg_trigger where tgrelid = c.oid and tgname = 'site_days_unpack'))`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := lacking(); n != 0 {
		t.Fatalf("a new database lacks %d", n)
	}
	for _, sql := range []string{`alter table events alter column id drop default`, `drop trigger site_days_unpack on site_days`} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if n := lacking(); n != 2 {
		t.Fatalf("%d of 2 were taken", n)
	}
	for _, want := range []int{2, 0} {
		u, err := db.Upgrade(t.Context(), db.UpgradeOptions{OwnerURL: urls.Owner, AppURL: urls.App})
		if err != nil || len(u.Restored) != want || lacking() != 0 {
			t.Errorf("migrate up restores %q, want %d, and %d are lacking: %v", u.Restored, want, lacking(), err)
		}
	}
}
