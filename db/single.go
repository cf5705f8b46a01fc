package db

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waypost/waypost/internal/identity"
)

// Single runs each of its statements as a transaction of its own, opened for a
// principal like InTx's, in one round trip instead of three: the settings, the
// statement and the commit travel together. It is for statements that many wait
// for, and satisfies the interface of generated queries.
//
// What a statement did is durable once its result was read to the end without an
// error: the rows' Err, as well as Exec and Scan, report also a failed commit.
// Errors come back as the driver has them; see Translate.
type Single struct {
	db *DB
	p  identity.Principal
}

// Single returns p's single statements.
func (d *DB) Single(p identity.Principal) Single { return Single{d, p} }

// setActor is what begin does, as one statement of an implicit transaction: all
// statements between two Syncs of PostgreSQL's extended protocol are one.
const setActor = `select set_config('waypost.actor_type', $1, true), set_config('waypost.actor_id', $2, true),
	set_config('waypost.session_id', $3, true), set_config('waypost.ip', $4, true), set_config('waypost.request_id', $5, true)`

// Query runs a statement that returns rows. They must be closed, or read to the
// end.
func (s Single) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	conn, err := s.db.acquire(ctx)
	if err != nil {
		return nil, err
	}
	address := ""
	if s.p.Address.IsValid() {
		address = s.p.Address.String()
	}
	var b pgx.Batch
	b.Queue(setActor, string(s.p.Kind), s.p.ID, s.p.SessionID, address, s.p.RequestID)
	b.Queue(sql, args...)
	results := conn.SendBatch(ctx, &b)
	end := func() error {
		defer conn.Release()
		return results.Close()
	}
	if _, err := results.Exec(); err != nil {
		return nil, errors.Join(err, end())
	}
	rows, err := results.Query()
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return &singleRows{Rows: rows, end: end}, nil
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
	end   func() error
	ended bool
	err   error // of the commit
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
	r.err = r.end()
}

// Err implements pgx.Rows.
func (r *singleRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
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
