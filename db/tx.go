package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waypost/waypost/internal/identity"
)

// InTx runs fn in one READ COMMITTED transaction opened for p, and commits when
// fn returns nil. Who p is travels with the transaction as the settings
// waypost.actor_type, actor_id, session_id, ip, request_id and action, which the audit
// log's triggers read. Errors come back through Translate; fn's own faults come back untouched.
//
// Where COMMIT is not answered, or with an error that leaves open what became of it,
// InTx asks, and returns what it learns: nil, ErrNotCommitted or ErrUnknownOutcome.
// fn is never run again.
func (d *DB) InTx(ctx context.Context, p identity.Principal, fn func(ctx context.Context, tx pgx.Tx) error) error {
	if e := d.enclosure(ctx); e != nil {
		return e.run(ctx, p, fn)
	}
	return d.inTx(ctx, begin(open, p), fn)
}

// InIndexTx is InTx for a transaction whose statements look rows up by keys that
// come as arrays: each is planned once per connection, as a loop over an index.
// PostgreSQL would otherwise plan it anew each time, for more than it costs to run,
// or keep a plan from when the table was small and scan it when it is large. Where
// tables are sharded it is InTx: Citus refuses plans that don't know the keys.
func (d *DB) InIndexTx(ctx context.Context, p identity.Principal, fn func(ctx context.Context, tx pgx.Tx) error) error {
	const settings = ` || set_config('plan_cache_mode', 'force_generic_plan', true) || set_config('enable_seqscan', 'off', true)
	|| set_config('enable_hashjoin', 'off', true) || set_config('enable_mergejoin', 'off', true)`
	return d.inTx(ctx, func(ctx context.Context, conn *pgxpool.Conn) (pgx.Tx, transaction, error) {
		if isSharded(conn.Conn()) {
			return begin(open, p)(ctx, conn)
		}
		return begin(open+settings, p)(ctx, conn)
	}, fn)
}

// InSnapshot runs fn in one REPEATABLE READ, READ ONLY transaction, so that all
// of fn's queries see the same instant.
func (d *DB) InSnapshot(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return d.inTx(ctx, beginReading("begin isolation level repeatable read read only"), fn)
}

// InLimitedSnapshot is InSnapshot for statements that may be costly: the server ends
// one that runs for longer than limit, should this process no longer do so, and
// gives it one processor. It sorts in memory, since files would hold up the commits
// of others.
func (d *DB) InLimitedSnapshot(ctx context.Context, limit time.Duration, fn func(ctx context.Context, tx pgx.Tx) error) error {
	const afterUs = time.Second
	return d.inTx(ctx, beginReading(fmt.Sprintf("begin isolation level repeatable read read only; set local statement_timeout = %d; set local max_parallel_workers_per_gather = 0; set local work_mem = '64MB'",
		(limit+afterUs).Milliseconds())), fn)
}

// ErrAbandoned, or an error that wraps it, is what fn returns when somebody else still uses
// tx and will not let go of it: the connection is cut, so that the transaction ends, and
// the pool makes another in its place.
var ErrAbandoned = errors.New("db: the transaction was abandoned to somebody who still uses it")

// severing bounds how long a cut connection's statement is asked to end.
const severing = 2 * time.Second

// sever cuts a connection that another goroutine may be using: it touches nothing but the
// socket. A pooler is asked nothing (Options.Pooled): it cuts its own connection then.
func (d *DB) sever(conn *pgxpool.Conn) {
	raw := conn.Hijack().PgConn()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), severing)
		defer cancel()
		if !d.pooled {
			_ = raw.CancelRequest(ctx)
		}
		_ = raw.Conn().Close()
	}()
}

// beginning begins a transaction.
type beginning func(context.Context, *pgxpool.Conn) (pgx.Tx, transaction, error)

// beginReading sends query, which begins a transaction that only reads.
func beginReading(query string) beginning {
	return func(ctx context.Context, conn *pgxpool.Conn) (pgx.Tx, transaction, error) {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: query})
		return tx, transaction{readOnly: true}, err
	}
}

// begin sends BEGIN and opening, a form of open, in one round trip.
func begin(opening string, p identity.Principal) beginning {
	return func(ctx context.Context, conn *pgxpool.Conn) (pgx.Tx, transaction, error) {
		var b pgx.Batch
		b.BeginTx(pgx.TxOptions{})
		b.Queue(opening, actor(p)...)
		results := conn.SendBatch(ctx, &b)
		if _, err := results.Exec(); err != nil {
			_ = results.Close()
			return results.Tx(), transaction{}, err
		}
		t, err := opened(conn, results.QueryRow())
		if closed := results.Close(); err == nil {
			err = closed
		}
		return results.Tx(), t, err
	}
}

func (d *DB) inTx(ctx context.Context, begin beginning, fn func(ctx context.Context, tx pgx.Tx) error) error {
	t, err := d.attempt(ctx, begin, fn)
	if t.undecided {
		err = d.settle(ctx, t, err)
	}
	if err == nil && !t.readOnly {
		d.committed()
	}
	if isUnsupported(err) {
		d.noticeLayout(ctx)
	}
	return Translate(err)
}

// attempt is a transaction up to the answer to its COMMIT. It gives its connection
// back before anybody asks over another.
func (d *DB) attempt(ctx context.Context, begin beginning, fn func(ctx context.Context, tx pgx.Tx) error) (transaction, error) {
	conn, err := d.acquire(ctx)
	if err != nil {
		return transaction{}, err
	}
	abandoned := false
	defer func() {
		if !abandoned {
			conn.Release()
		}
	}()
	tx, t, err := begin(ctx, conn)
	if tx != nil {
		defer func() {
			if !abandoned {
				_ = tx.Rollback(ctx) // without effect after COMMIT
			}
		}()
	}
	if err != nil {
		return t, err
	}
	if err := fn(ctx, tx); err != nil {
		if abandoned = errors.Is(err, ErrAbandoned); abandoned {
			d.sever(conn)
		}
		return t, err
	}
	unsent := conn.Conn().IsClosed()
	if err := tx.Commit(ctx); err != nil {
		if t.undecided = !unsent && isUndecided(err); t.undecided {
			_ = conn.Conn().Close(ctx) // who answers so is not to be trusted with the next
		}
		return t, err
	}
	return t, nil
}
