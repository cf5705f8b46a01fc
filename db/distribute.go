package db

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Layout says on how many servers the tables of a database are: on one, or, with the
// statistics of each site on one of several, on those of a Citus cluster.
type Layout struct {
	// Citus is the version of the extension, "" where the database doesn't have it.
	Citus string
	// Nodes is the number of servers that may have shards.
	Nodes int
	// Sharded are the statistics' tables that are sharded by site, Local those that aren't,
	// each in the order in which they are to be distributed.
	Sharded, Local []string
}

// Said is the layout in one sentence without a period. "One machine" is as Waypost sees
// it: what replicates or pools behind it doesn't count.
func (l Layout) Said() string {
	switch {
	case l.Citus == "":
		return "one machine: a PostgreSQL that has all tables"
	case len(l.Sharded) == 0:
		return fmt.Sprintf("Citus %s with %d servers for shards, and no table is sharded", l.Citus, l.Nodes)
	case len(l.Local) > 0:
		return fmt.Sprintf("Citus %s with %d servers for shards; sharded by site are %d tables, and not yet %s", l.Citus, l.Nodes, len(l.Sharded), strings.Join(l.Local, ", "))
	default:
		return fmt.Sprintf("Citus %s with %d servers for shards; the %d tables of the statistics are sharded by site", l.Citus, l.Nodes, len(l.Sharded))
	}
}

// Pending reports whether Distribute would have something to do.
func (l Layout) Pending() bool { return l.Citus != "" && len(l.Local) > 0 }

// shardable are the tables of what is counted of sites: those with a site_id, but for the
// ones that the audit log covers, since Citus takes no triggers. Asked of the catalog, it
// has those of later migrations too.
const shardable = `
select c.relname::text
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attname = 'site_id' and not a.attisdropped
where c.relkind in ('r', 'p') and not c.relispartition and c.relnamespace = 'public'::regnamespace
  and not exists (select 1 from pg_trigger t where t.tgrelid = c.oid and t.tgname = 'audit_row')
order by c.relname <> '` + anchorTable + `', c.relname`

// LayoutOf reads the layout of the database of an owner's connection string.
func LayoutOf(ctx context.Context, ownerURL string) (Layout, error) {
	conn, err := ConnectOwner(ctx, ownerURL, "migrate")
	if err != nil {
		return Layout{}, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return readLayout(ctx, conn)
}

// UnreachedWorkers says which workers of a cluster refuse the coordinator, as the owner or
// as AppRole, and how.
func UnreachedWorkers(ctx context.Context, ownerURL string) ([]string, error) {
	conn, err := ConnectOwner(ctx, ownerURL, "migrate")
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return refusalsOfAll(ctx, conn)
}

func readLayout(ctx context.Context, conn *pgx.Conn) (Layout, error) {
	var l Layout
	err := conn.QueryRow(ctx, `select coalesce(max(extversion), '') from pg_extension where extname = 'citus'`).Scan(&l.Citus)
	if err != nil {
		return l, fmt.Errorf("db: look for Citus: %w", err)
	}
	sharded := make(map[string]bool)
	if l.Citus != "" {
		err := conn.QueryRow(ctx, `select count(*) from pg_dist_node where isactive and shouldhaveshards and noderole = 'primary'`).Scan(&l.Nodes)
		if err != nil {
			return l, fmt.Errorf("db: the servers of Citus: %w", err)
		}
		rows, err := conn.Query(ctx, `select logicalrelid::text from pg_dist_partition where partmethod = 'h'`)
		if err != nil {
			return l, fmt.Errorf("db: the tables of Citus: %w", err)
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return l, fmt.Errorf("db: the tables of Citus: %w", err)
		}
		for _, name := range names {
			sharded[name] = true
		}
	}
	rows, err := conn.Query(ctx, shardable)
	if err != nil {
		return l, fmt.Errorf("db: the statistics' tables: %w", err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return l, fmt.Errorf("db: the statistics' tables: %w", err)
	}
	for _, name := range tables {
		if sharded[name] {
			l.Sharded = append(l.Sharded, name)
		} else {
			l.Local = append(l.Local, name)
		}
	}
	return l, nil
}

// ErrNoCluster says what a database lacks to be distributed; its message is a list.
var ErrNoCluster = errors.New("db: the statistics can't be distributed yet")

// Distribute shards the statistics' tables of a Citus coordinator by site, as far as they
// aren't, and calls done after each. It may be broken off and called again. Nothing is
// changed where something is missing: it then returns ErrNoCluster.
func Distribute(ctx context.Context, ownerURL string, done func(table string)) (Layout, error) {
	var l Layout
	err := withOwner(ctx, ownerURL, func(_ *pgxpool.Pool, conn *pgx.Conn) error {
		if err := takeLock(ctx, conn); err != nil {
			return fmt.Errorf("db: migration lock: %w", err)
		}
		applied, err := appliedVersions(ctx, conn)
		if err != nil {
			return err
		}
		if _, err := applied.compare(ctx, conn); err != nil {
			return err
		}
		if l, err = readLayout(ctx, conn); err != nil {
			return err
		}
		if err := checkCluster(ctx, conn, l); err != nil {
			return err
		}
		for _, table := range l.Local {
			if err := distribute(ctx, conn, table); err != nil {
				return fmt.Errorf("db: distribute %s: %w", table, err)
			}
			done(table)
		}
		l, err = readLayout(ctx, conn)
		return err
	})
	return l, err
}

// forOlder are triggers that only programs need which can't work with sharded tables.
var forOlder = map[string]string{"site_days": "site_days_unpack"}

// distribute moves a table's rows to the servers of their sites.
func distribute(ctx context.Context, conn *pgx.Conn, table string) error {
	if trigger := forOlder[table]; trigger != "" {
		if _, err := conn.Exec(ctx, `drop trigger if exists `+trigger+` on `+table); err != nil {
			return err
		}
	}
	// Shards have no sequence: whoever inserts draws ids before.
	rows, err := conn.Query(ctx, `select a.attname::text from pg_attribute a join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
		where a.attrelid = to_regclass($1) and pg_get_expr(d.adbin, d.adrelid) like 'nextval(%'`, table)
	if err != nil {
		return err
	}
	columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, column := range columns {
		if _, err := conn.Exec(ctx, `alter table `+pgx.Identifier{table}.Sanitize()+` alter column `+pgx.Identifier{column}.Sanitize()+` drop default`); err != nil {
			return err
		}
	}
	beside := anchorTable
	if table == anchorTable {
		beside = "none"
	}
	_, err = conn.Exec(ctx, `select create_distributed_table($1::text::regclass, 'site_id', colocate_with => $2::text)`, table, beside)
	return err
}

// checkCluster returns ErrNoCluster with all that is missing.
func checkCluster(ctx context.Context, conn *pgx.Conn, l Layout) error {
	if l.Citus == "" {
		return fmt.Errorf("%w: the database has no extension citus: let an administrator set shared_preload_libraries = 'citus' and run CREATE EXTENSION citus; here and on each worker", ErrNoCluster)
	}
	var group int
	if err := conn.QueryRow(ctx, `select groupid from pg_dist_local_group`).Scan(&group); err != nil {
		return fmt.Errorf("db: the place in the cluster: %w", err)
	}
	if group != 0 {
		return fmt.Errorf("%w: this is a worker; connect to the coordinator", ErrNoCluster)
	}
	if l.Nodes == 0 {
		return fmt.Errorf("%w: the cluster has no worker: let an administrator run SELECT citus_add_node('HOST', 5432);", ErrNoCluster)
	}
	if err := letAppLogIn(ctx, conn); err != nil {
		return err
	}
	missing, err := refusalsOfAll(ctx, conn)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: %s", ErrNoCluster, strings.Join(missing, "; "))
	}
	return nil
}

// letAppLogIn gives AppRole LOGIN, with which the coordinator connects to the workers.
func letAppLogIn(ctx context.Context, conn *pgx.Conn) error {
	var may bool
	if err := conn.QueryRow(ctx, `select rolcanlogin from pg_roles where rolname = $1`, AppRole).Scan(&may); err != nil {
		return fmt.Errorf("db: look for role %s: %w", AppRole, err)
	}
	if may {
		return nil
	}
	const sql = `alter role ` + AppRole + ` login`
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%w: the coordinator connects to the workers as %s, which may not log in: let an administrator run `%s` (%w)", ErrNoCluster, AppRole, sql, err)
	}
	return nil
}

// refusalsOfAll are refusals of the owner and of AppRole.
func refusalsOfAll(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	var missing []string
	for _, role := range []string{"", AppRole} {
		refused, err := refusals(ctx, conn, role)
		if err != nil {
			return nil, err
		}
		missing = append(missing, refused...)
	}
	return missing, nil
}

// refusals asks each worker as a role, "" for the owner, and returns what went wrong.
func refusals(ctx context.Context, conn *pgx.Conn, role string) ([]string, error) {
	var missing []string
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if role != "" {
			if _, err := tx.Exec(ctx, `set local role `+role); err != nil {
				return err
			}
		}
		rows, err := tx.Query(ctx, `select current_user::text, nodename || ':' || nodeport, result from run_command_on_workers('select 1') where not success`)
		if err != nil {
			return err
		}
		var user, node, said string
		_, err = pgx.ForEachRow(rows, []any{&user, &node, &said}, func() error {
			missing = append(missing, fmt.Sprintf("the worker %s refuses %s (%s): it must run, have the role, and let the coordinator in without a password that it doesn't know (pg_hba.conf)", node, user, said))
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("db: ask the workers: %w", err)
	}
	return missing, nil
}
