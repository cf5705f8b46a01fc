package db

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// gathering is what Distribute takes from tables that it shards, and what one PostgreSQL
// needs nevertheless: a backup of a cluster that is restored there lacks it.
var gathering = []struct{ isThere, sql string }{
	{
		`select exists (select from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum where d.adrelid = to_regclass('events') and a.attname = 'id')`,
		`alter table events alter column id set default nextval('events_id_seq')`,
	},
	{
		`select exists (select from pg_trigger where tgrelid = to_regclass('site_days') and tgname = 'site_days_unpack')`,
		`create trigger site_days_unpack before update of state on site_days for each row when (new.state <> 'sealed') execute function site_days_unpack()`,
	},
}

// gather gives tables that are not sharded what they lack because they were, where the
// database was restored from.
func (u *Upgraded) gather(ctx context.Context, conn *pgx.Conn) error {
	l, err := readLayout(ctx, conn)
	if err != nil || len(l.Sharded) > 0 {
		return err
	}
	for _, g := range gathering {
		var isThere bool
		if err := conn.QueryRow(ctx, g.isThere).Scan(&isThere); err != nil {
			return fmt.Errorf("db: look for what a cluster's tables lack: %w", err)
		}
		if isThere {
			continue
		}
		if _, err := conn.Exec(ctx, g.sql); err != nil {
			return fmt.Errorf("db: `%s`: %w", g.sql, err)
		}
		u.Restored = append(u.Restored, g.sql)
	}
	return nil
}
