package dbtest

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
)

// NewSharded is New for a database that says that its statistics are sharded by site, and
// whose tables lack what db.Distribute takes from them. It is one PostgreSQL all the same,
// which can run the statements that are meant for shards: so they are tested without a
// cluster, but for what Citus makes of them.
func NewSharded(t testing.TB) *db.DB {
	t.Helper()
	urls := NewURL(t)
	Shard(t, urls)
	return open(t, urls.App)
}

// Shard has a database say of itself what those of NewSharded do. Connections that are
// made afterward notice.
func Shard(t testing.TB, urls URLs) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), urls.Admin)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, sql := range []string{
		`insert into pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
			select 4000000000, 'citus', (select oid from pg_roles where rolname = current_user), 'public'::regnamespace, false, '13.2-1'`,
		`create table pg_dist_partition as select 'site_days'::regclass as logicalrelid, 'h'::"char" as partmethod`,
		`grant select on pg_dist_partition to ` + db.AppRole,
		`drop trigger site_days_unpack on site_days`,
		`alter table events alter column id drop default`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("dbtest: %s: %v", sql, err)
		}
	}
}
