package db

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waypost/waypost/internal/identity"
)

// Single runs each of its statements as a transaction of its own, opened for a
// principal like InTx's, in one round trip instead of three: the settings, the
// statement and the commit travel together. It is for statements that many wait
// for, and satisfies the interface of generated queries.
//
// What a statement did is durable once its result was read to the end without an
// error: the rows' Err, as well as Exec and Scan, report also a failed commit, about
// which Single asks like InTx. Other errors come back as the driver has them; see
// Translate.
type Single struct {
	db *DB
	p  identity.Principal
}

// Single returns p's single statements.
func (d *DB) Single(p identity.Principal) Single { return Single{d, p} }

// Query runs a statement that returns rows. They must be closed, or read to the
// end.
func (s Single) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if e := s.db.enclosure(ctx); e != nil {
		return e.query(ctx, s.p, sql, args)
	}
	conn, err := s.db.acquire(ctx)
	if err != nil {
		return nil, err
	}
	// All statements between two Syncs of PostgreSQL's extended protocol are one
	// implicit transaction.
	var b pgx.Batch
	b.Queue(open, actor(s.p)...)
	b.Queue(sql, args...)
	r := &singleRows{ctx: ctx, db: s.db, conn: conn, results: conn.SendBatch(ctx, &b)}
	if r.transaction, err = opened(conn, r.results.QueryRow()); err == nil {
		r.Rows, err = r.results.Query()
	}
	if err != nil {
		return nil, r.end(err)
	}
	return r, nil
}

// Exec runs a statement and returns what it did.
func (s Single) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	rows, err := s.Query(ctx, sql, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	rows.Close()
	return rows.CommandTag(), rows.Err()
}

// QueryRow runs a statement that returns one row; without one, Scan returns
// pgx.ErrNoRows, and what the statement did stays.
func (s Single) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := s.Query(ctx, sql, args...)
	return singleRow{rows, err}
}

// singleRows end their transaction with their last row.
type singleRows struct {
	pgx.Rows
	transaction
	ctx     context.Context // of the statement
	db      *DB
	conn    *pgxpool.Conn
	results pgx.BatchResults
	ended   bool
	err     error // of statement and commit
}

// Next implements pgx.Rows.
func (r *singleRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Close implements pgx.Rows.
func (r *singleRows) Close() {
	if r.ended {
		return
	}
	r.ended = true
	r.Rows.Close()
	r.err = r.end(r.Rows.Err())
}

// Err implements pgx.Rows.
func (r *singleRows) Err() error {
	if r.ended {
		return r.err
	}
	return r.Rows.Err()
}

// end reads the rest of the answer, gives the connection back and returns what became
// of the transaction. failed is the statement's own error: the commit was sent with
// the statement, so its outcome may be open after that as well.
func (r *singleRows) end(failed error) error {
	err := r.results.Close()
	if failed != nil {
		err = failed
	}
	if r.undecided = isUndecided(err); r.undecided {
		_ = r.conn.Conn().Close(r.ctx)
	}
	r.conn.Release()
	if !r.undecided {
		if err == nil {
			r.db.committed()
		}
		return err
	}
	settled := r.db.settle(r.ctx, r.transaction, err)
	switch {
	case failed == nil:
		if settled == nil {
			r.db.committed()
		}
		return settled
	case settled == nil:
		// Committed, but not all of its rows arrived.
		return ErrUnknownOutcome.Because(&unknownOutcome{failed})
	case IsUnknownOutcome(settled):
		return settled
	default:
		return failed // the statement's, which undid it
	}
}

type singleRow struct {
	rows pgx.Rows
	err  error
}

// Scan implements pgx.Row.
func (r singleRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	found := r.rows.Next()
	if found {
		if err := r.rows.Scan(dest...); err != nil {
			return err
		}
	}
	r.rows.Close()
	if err := r.rows.Err(); err != nil {
		return err
	}
	if !found {
		return pgx.ErrNoRows
	}
	return nil
}

// CopyFrom copies rows in one transaction, which takes three round trips.
func (s Single) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	var n int64
	err := s.db.InTx(ctx, s.p, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		n, err = tx.CopyFrom(ctx, table, columns, rows)
		return err
	})
	return n, err
}
