package db

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waypost/waypost/internal/identity"
)

// Enclosure is one transaction around what somebody else does in transactions of its
// own: each InTx and Single under its context is a savepoint of it, and Direct reads in
// it, so that nothing of them is durable before Commit, which may store what came of
// them. InSnapshot, InLimitedSnapshot and InIndexTx stay outside.
//
// It begins with the first of these, so that no connection is held while nothing was
// written yet. It is for one goroutine.
type Enclosure struct {
	db    *DB
	p     identity.Principal
	enter func(ctx context.Context, tx pgx.Tx) error

	conn   *pgxpool.Conn
	tx     pgx.Tx
	t      transaction
	failed error // why it could not begin
	ended  bool
}

// Enclose prepares an enclosure, opened for p. enter is the first that happens in it; an
// error of it is returned to whoever made the enclosure begin, and to everybody after.
// Somebody must call Close.
func (d *DB) Enclose(p identity.Principal, enter func(ctx context.Context, tx pgx.Tx) error) *Enclosure {
	return &Enclosure{db: d, p: p, enter: enter}
}

type enclosureKey struct{}

// Context returns a context under which transactions of the same pool join e.
func (e *Enclosure) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, enclosureKey{}, e)
}

// enclosure returns what a transaction of d under ctx joins, or nil.
func (d *DB) enclosure(ctx context.Context) *Enclosure {
	e, _ := ctx.Value(enclosureKey{}).(*Enclosure)
	if e == nil || e.ended || e.db.pool != d.pool {
		return nil
	}
	return e
}

// began returns the transaction, which it begins at the first call.
func (e *Enclosure) began(ctx context.Context) (pgx.Tx, error) {
	if e.failed != nil || e.tx != nil {
		return e.tx, e.failed
	}
	if e.conn, e.failed = e.db.acquire(ctx); e.failed != nil {
		return nil, e.failed
	}
	if e.tx, e.t, e.failed = begin(open, e.p)(ctx, e.conn); e.failed == nil {
		e.failed = e.enter(ctx, e.tx)
	}
	return e.tx, e.failed
}

// run is InTx as a savepoint.
func (e *Enclosure) run(ctx context.Context, p identity.Principal, fn func(ctx context.Context, tx pgx.Tx) error) error {
	tx, err := e.savepoint(ctx, p)
	if err != nil {
		return Translate(err)
	}
	defer func() { _ = tx.Rollback(ctx) }() // without effect after COMMIT
	if err := fn(ctx, tx); err != nil {
		return Translate(err)
	}
	return Translate(tx.Commit(ctx))
}

// savepoint opens one for p.
func (e *Enclosure) savepoint(ctx context.Context, p identity.Principal) (pgx.Tx, error) {
	tx, err := e.began(ctx)
	if err != nil {
		return nil, err
	}
	if tx, err = tx.Begin(ctx); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, open, actor(p)...); err != nil {
		return nil, errors.Join(err, tx.Rollback(ctx))
	}
	return tx, nil
}

// query is Single's as a savepoint.
func (e *Enclosure) query(ctx context.Context, p identity.Principal, sql string, args []any) (pgx.Rows, error) {
	tx, err := e.savepoint(ctx, p)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		_ = tx.Rollback(ctx)
		return nil, err
	}
	return &enclosedRows{Rows: rows, ctx: ctx, tx: tx}, nil
}

// Commit runs last in the transaction, which it begins if nothing did, and commits it.
// What becomes of a COMMIT without an answer is asked for as InTx does. Errors come back
// through Translate.
func (e *Enclosure) Commit(ctx context.Context, last func(ctx context.Context, tx pgx.Tx) error) error {
	defer e.Close()
	tx, err := e.began(ctx)
	if err == nil {
		err = last(ctx, tx)
	}
	if err != nil {
		return Translate(err)
	}
	e.ended = true
	unsent := e.conn.Conn().IsClosed()
	if err = tx.Commit(ctx); err != nil {
		if e.t.undecided = !unsent && isUndecided(err); e.t.undecided {
			_ = e.conn.Conn().Close(ctx) // who answers so is not to be trusted with the next
		}
	}
	e.release() // before anybody asks over another
	if e.t.undecided {
		err = e.db.settle(ctx, e.t, err)
	}
	if err == nil {
		e.db.committed()
	}
	return Translate(err)
}

// Close undoes everything, unless Commit did its work. It may be called more than once.
func (e *Enclosure) Close() {
	e.ended = true
	if e.conn != nil && e.tx != nil {
		ctx, cancel := context.WithTimeout(context.Background(), severing)
		defer cancel()
		_ = e.tx.Rollback(ctx) // without effect after COMMIT
	}
	e.release()
}

func (e *Enclosure) release() {
	if e.conn != nil {
		e.conn.Release()
		e.conn = nil
	}
}

// enclosedRows end their savepoint with their last row.
type enclosedRows struct {
	pgx.Rows
	ctx   context.Context // of the statement
	tx    pgx.Tx
	ended bool
	err   error
}

// Next implements pgx.Rows.
func (r *enclosedRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Close implements pgx.Rows.
func (r *enclosedRows) Close() {
	if r.ended {
		return
	}
	r.ended = true
	r.Rows.Close()
	if r.err = r.Rows.Err(); r.err != nil {
		_ = r.tx.Rollback(r.ctx)
		return
	}
	r.err = r.tx.Commit(r.ctx)
}

// Err implements pgx.Rows.
func (r *enclosedRows) Err() error {
	if r.ended {
		return r.err
	}
	return r.Rows.Err()
}

// direct is Direct's connection under ctx: e's where one has begun. Nothing of it waits
// for a second connection while it has one.
func (e *Enclosure) direct() *pgx.Conn {
	if e == nil || e.conn == nil || e.tx == nil || e.failed != nil {
		return nil
	}
	return e.conn.Conn()
}
