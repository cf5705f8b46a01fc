package db

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/identity"
)

// InTx runs fn in one READ COMMITTED transaction opened for p, and commits when
// fn returns nil. Who p is travels with the transaction as the settings
// waypost.actor_type, actor_id, session_id, ip and request_id, for triggers to
// read. Errors come back through Translate; fn's own faults come back untouched.
func (d *DB) InTx(ctx context.Context, p identity.Principal, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return d.inTx(ctx, pgx.TxOptions{BeginQuery: begin("begin", p)}, fn)
}

// InIndexTx is InTx for a transaction whose statements look rows up by keys that
// come as arrays: each is planned once per connection, as a loop over an index.
// PostgreSQL would otherwise plan it anew each time, for more than it costs to run,
// or keep a plan from when the table was small and scan it when it is large.
func (d *DB) InIndexTx(ctx context.Context, p identity.Principal, fn func(ctx context.Context, tx pgx.Tx) error) error {
	const settings = "; set local plan_cache_mode = force_generic_plan; set local enable_seqscan = off; set local enable_hashjoin = off; set local enable_mergejoin = off"
	return d.inTx(ctx, pgx.TxOptions{BeginQuery: begin("begin", p) + settings}, fn)
}

// InSnapshot runs fn in one REPEATABLE READ, READ ONLY transaction, so that all
// of fn's queries see the same instant.
func (d *DB) InSnapshot(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return d.inTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, fn)
}

// InLimitedSnapshot is InSnapshot for statements that may be costly: the server ends
// one that runs for longer than limit, should this process no longer do so, and
// gives it one processor.
func (d *DB) InLimitedSnapshot(ctx context.Context, limit time.Duration, fn func(ctx context.Context, tx pgx.Tx) error) error {
	const afterUs = time.Second
	settings := fmt.Sprintf("begin isolation level repeatable read read only; set local statement_timeout = %d; set local max_parallel_workers_per_gather = 0",
		(limit + afterUs).Milliseconds())
	return d.inTx(ctx, pgx.TxOptions{BeginQuery: settings}, fn)
}

func (d *DB) inTx(ctx context.Context, o pgx.TxOptions, fn func(ctx context.Context, tx pgx.Tx) error) error {
	conn, err := d.acquire(ctx)
	if err != nil {
		return Translate(err)
	}
	defer conn.Release()
	return Translate(pgx.BeginTxFunc(ctx, conn, o, func(tx pgx.Tx) error { return fn(ctx, tx) }))
}

// begin puts the settings into the same round trip as BEGIN: pgx sends a query
// without arguments as one simple-protocol message, which may hold several
// statements.
func begin(verb string, p identity.Principal) string {
	address := ""
	if p.Address.IsValid() {
		address = p.Address.String()
	}
	var b strings.Builder
	b.WriteString(verb)
	for _, s := range [...]struct{ name, value string }{
		{"actor_type", string(p.Kind)},
		{"actor_id", p.ID},
		{"session_id", p.SessionID},
		{"ip", address},
		{"request_id", p.RequestID},
	} {
		b.WriteString("; set local waypost.")
		b.WriteString(s.name)
		b.WriteString(" = ")
		b.WriteString(literal(s.value))
	}
	return b.String()
}

// literal quotes s as a PostgreSQL string constant in the E” form, which means
// the same under either setting of standard_conforming_strings. NUL, which no
// PostgreSQL text can hold, is dropped.
func literal(s string) string {
	return "E'" + strings.NewReplacer("'", "''", `\`, `\\`, "\x00", "").Replace(s) + "'"
}
