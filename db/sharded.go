package db

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waypost/waypost/internal/fault"
)

// Where the statistics are sharded (Distribute), other statements write them than where one
// PostgreSQL has all tables. Each connection asks which it is when it is made.
const shardedKey = "waypost.sharded"

// isClustered tells whether the database has Citus, without which it has no tables that
// could be asked whether others are sharded.
const isClustered = `exists (select from pg_extension where extname = 'citus')`

const isDistributed = `select exists (select from pg_dist_partition where logicalrelid = to_regclass('` + anchorTable + `') and partmethod = 'h')`

// anchorTable is distributed first, and all others are beside it.
const anchorTable = "site_days"

// layout is what the newest connection learned.
type layout struct{ sharded atomic.Bool }

// noteLayout remembers whether a new connection's tables are sharded.
func (l *layout) note(ctx context.Context, conn *pgx.Conn, clustered bool) error {
	sharded := false
	if clustered {
		// No prepared statement: a pooler may give the next one to another connection.
		if err := conn.QueryRow(ctx, isDistributed, pgx.QueryExecModeSimpleProtocol).Scan(&sharded); err != nil {
			return err
		}
	}
	conn.PgConn().CustomData()[shardedKey] = sharded
	l.sharded.Store(sharded)
	return nil
}

func isSharded(conn *pgx.Conn) bool {
	sharded, _ := conn.PgConn().CustomData()[shardedKey].(bool)
	return sharded
}

// Sharded reports whether the statistics' tables are sharded by site for who writes in tx.
func Sharded(tx pgx.Tx) bool { return isSharded(tx.Conn()) }

// Sharded reports whether the statistics' tables are sharded by site.
func (d *DB) Sharded() bool { return d.layout.sharded.Load() }

// IsPartlyAway reports whether err may come of a server of a cluster that is away, so that
// sites whose rows are on others can be worked on.
func (d *DB) IsPartlyAway(err error) bool {
	return d.Sharded() && fault.KindOf(Translate(err)) == fault.Unavailable
}

// isUnsupported reports whether a statement was refused as Citus refuses one that is made
// for tables that are not sharded.
func isUnsupported(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pe.Code == "0A000"
}

// noticeLayout asks again how the tables are laid out, after a statement was refused, and
// makes all connections anew where that has changed.
func (d *DB) noticeLayout(ctx context.Context) {
	before := d.Sharded()
	var clustered, sharded bool
	err := d.Direct().QueryRow(ctx, `select `+isClustered).Scan(&clustered)
	if err == nil && clustered {
		err = d.Direct().QueryRow(ctx, isDistributed).Scan(&sharded)
	}
	if err == nil && sharded != before {
		d.logger.WarnContext(ctx, "the statistics' tables were laid out anew", "sharded", sharded)
		d.pool.Reset()
	}
}
