package db

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waypost/waypost/internal/fault"
)

// ErrBusy says that no connection became free in time; kind Unavailable. The
// database itself can be reached.
var ErrBusy = fault.New(fault.Unavailable, fault.CodeBusy, "The service has too much to do at the moment. Try again shortly.").After(time.Second)

// waitingPerConn is how many may wait for each connection of a pool whose waits are
// bounded; more are refused at once.
const waitingPerConn = 64

// acquire takes a connection out of the pool. Where the pool's waits are bounded it
// returns ErrBusy when none became free, and ErrSlow when there is none at all, since
// then one was being made.
func (d *DB) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	defer d.callers.waiting.Add(-1)
	waiting := d.callers.waiting.Add(1)
	if d.maxWait == 0 {
		return d.pool.Acquire(ctx)
	}
	if waiting > int64(waitingPerConn*d.maxConns) {
		d.callers.refused.Add(1)
		return nil, ErrBusy
	}
	limited, cancel := context.WithTimeout(ctx, d.maxWait)
	defer cancel()
	conn, err := d.pool.Acquire(limited)
	if err == nil || ctx.Err() != nil || limited.Err() == nil {
		return conn, err
	}
	if s := d.pool.Stat(); s.AcquiredConns()+s.IdleConns() == 0 {
		return nil, ErrSlow.Because(err)
	}
	d.callers.refused.Add(1)
	return nil, ErrBusy.Because(err)
}

// Queue counts a caller who waits for its turn before it asks for a connection, so that
// Usage knows it as one of those who wait for one. The function it returns is called
// once, when the wait is over, and says whether it was in vain.
func (d *DB) Queue() func(refused bool) {
	d.callers.queued.Add(1)
	return func(refused bool) {
		d.callers.queued.Add(-1)
		if refused {
			d.callers.refused.Add(1)
		}
	}
}

// Usage is how the connections of a pool are used at one moment.
type Usage struct {
	Max     int   // connections that there may be
	Taken   int   // connections in use
	Waiting int   // callers who wait for one
	Refused int64 // callers who waited in vain so far
}

// Usage says how the connections are used.
func (d *DB) Usage() Usage {
	return Usage{Max: d.maxConns, Taken: int(d.pool.Stat().AcquiredConns()), Waiting: int(d.callers.waiting.Load() + d.callers.queued.Load()), Refused: d.callers.refused.Load()}
}

// Direct runs each statement by itself, in no transaction of ours: for reads. It
// satisfies the interface of generated queries. Errors come back as the driver has
// them, ErrBusy and ErrUnavailable apart; see Translate.
type Direct struct{ db *DB }

// Direct returns the statements that run by themselves.
func (d *DB) Direct() Direct { return Direct{d} }

// Query runs a statement that returns rows. They must be closed, or read to the
// end.
func (d Direct) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if own := d.db.enclosure(ctx).direct(); own != nil {
		return own.Query(ctx, sql, args...)
	}
	conn, err := d.db.acquire(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		conn.Release()
		return nil, err
	}
	return &lentRows{Rows: rows, conn: conn}, nil
}

// QueryRow runs a statement that returns one row; without one, Scan returns
// pgx.ErrNoRows.
func (d Direct) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if own := d.db.enclosure(ctx).direct(); own != nil {
		return own.QueryRow(ctx, sql, args...)
	}
	conn, err := d.db.acquire(ctx)
	if err != nil {
		return failedRow{err}
	}
	return lentRow{conn.QueryRow(ctx, sql, args...), conn}
}

// Exec runs a statement and returns what it did.
func (d Direct) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if own := d.db.enclosure(ctx).direct(); own != nil {
		return own.Exec(ctx, sql, args...)
	}
	conn, err := d.db.acquire(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	defer conn.Release()
	return conn.Exec(ctx, sql, args...)
}

// CopyFrom copies rows and returns their number.
func (d Direct) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	conn, err := d.db.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	return conn.CopyFrom(ctx, table, columns, rows)
}

// lentRows give their connection back with their last row.
type lentRows struct {
	pgx.Rows
	conn *pgxpool.Conn // nil once given back
}

// Next implements pgx.Rows.
func (r *lentRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Close implements pgx.Rows.
func (r *lentRows) Close() {
	r.Rows.Close()
	if r.conn != nil {
		r.conn.Release()
		r.conn = nil
	}
}

type lentRow struct {
	row  pgx.Row
	conn *pgxpool.Conn
}

// Scan implements pgx.Row.
func (r lentRow) Scan(dest ...any) error {
	defer r.conn.Release()
	return r.row.Scan(dest...)
}

type failedRow struct{ err error }

// Scan implements pgx.Row.
func (r failedRow) Scan(...any) error { return r.err }
