package db

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waypost/waypost/internal/identity"
)

// Statement runs one generated query that returns one row, such as the method of a
// query with its parameters, on what it is given.
type Statement func(ctx context.Context, on Row) error

// Row satisfies the interface of generated queries for those that return one row.
type Row struct {
	row func(sql string, args []any) pgx.Row
}

// Each runs a statement for each of several principals in tx, each with its own name in
// the audit log, and sends all of them in one round trip. n is how many there are; of
// gives each one's principal and statement, which is called twice: to learn what to
// send, and to read the answer. done takes each answer's error, pgx.ErrNoRows for none;
// an error that it returns ends Each.
func Each(ctx context.Context, tx pgx.Tx, n int, of func(i int) (identity.Principal, Statement), done func(i int, err error) error) error {
	var b pgx.Batch
	sends := Row{func(sql string, args []any) pgx.Row {
		b.Queue(sql, args...)
		return noRow{}
	}}
	for i := range n {
		p, statement := of(i)
		b.Queue(open, actor(p)...)
		if err := statement(ctx, sends); !errors.Is(err, errPipelined) {
			return errors.Join(errors.New("db: a statement of Each that asks for no row"), err)
		}
	}
	results := tx.SendBatch(ctx, &b)
	reads := Row{func(string, []any) pgx.Row { return results.QueryRow() }}
	for i := range n {
		_, err := results.Exec()
		if err == nil {
			_, statement := of(i)
			err = done(i, statement(ctx, reads))
		}
		if err != nil {
			_ = results.Close()
			return err
		}
	}
	return results.Close()
}

// QueryRow sends a statement, or reads its answer.
func (r Row) QueryRow(_ context.Context, sql string, args ...any) pgx.Row { return r.row(sql, args) }

// Exec returns an error: these statements return a row.
func (Row) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, errors.New("db: a statement of Each returns one row")
}

// Query returns an error, as Exec does.
func (Row) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return nil, errors.New("db: a statement of Each returns one row")
}

// CopyFrom returns an error, as Exec does.
func (Row) CopyFrom(context.Context, pgx.Identifier, []string, pgx.CopyFromSource) (int64, error) {
	return 0, errors.New("db: a statement of Each returns one row")
}
