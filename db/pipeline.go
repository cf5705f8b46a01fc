package db

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Pipeline collects statements that return nothing, to be sent together in one
// round trip. It satisfies the interface of generated queries. The zero value is
// empty.
type Pipeline struct{ batch pgx.Batch }

var errPipelined = errors.New("db: a pipeline has no results")

// Exec adds a statement; it runs with Send.
func (p *Pipeline) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	p.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// Query returns an error: a pipeline has no results.
func (p *Pipeline) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, errPipelined }

// QueryRow returns a row whose Scan returns an error.
func (p *Pipeline) QueryRow(context.Context, string, ...any) pgx.Row { return noRow{} }

// CopyFrom returns an error: COPY is a conversation of its own.
func (p *Pipeline) CopyFrom(context.Context, pgx.Identifier, []string, pgx.CopyFromSource) (int64, error) {
	return 0, errPipelined
}

// Send runs the statements in tx, in their order, and returns the first error.
func (p *Pipeline) Send(ctx context.Context, tx pgx.Tx) error {
	if p.batch.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, &p.batch).Close()
}

type noRow struct{}

func (noRow) Scan(...any) error { return errPipelined }
