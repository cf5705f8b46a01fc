// Package db is the way to PostgreSQL: the connection pool under the application
// role, migrations under the owner role, transactions opened for an acting
// principal, and the translation of driver errors.
package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"
)

// AppRole is the PostgreSQL role under which every pooled connection works. It
// owns nothing, so a defect in a query can't change the schema, and later can't
// switch off the audit triggers.
const AppRole = "waypost_app"

// Options configure Open.
type Options struct {
	// URL is a PostgreSQL connection string. Its user is AppRole or a member of it.
	URL string
	// MaxConns bounds the pool; 0 keeps pgx's default (the larger of 4 and the CPUs).
	MaxConns int32
	// MinConns is how many connections are kept though nobody needs them.
	MinConns int32
	// MaxWait bounds the wait for a connection; 0 leaves it to the caller's context.
	MaxWait time.Duration
	// CancelQueries makes the end of a context cancel the statement in the database,
	// which otherwise goes on with what nobody waits for. The connection stays open.
	CancelQueries bool
	// Pooled says that URL leads through a pooler (PgBouncer), which may execute each
	// transaction over another connection: nothing is left to the session, neither
	// settings nor prepared statements.
	Pooled bool
	// DirectURL leads past the pooler, for jobs, which listen; "" for URL.
	DirectURL string
	// Logger receives the COMMITs whose answer was lost; nil for nobody.
	Logger *slog.Logger
	// Tracer is told of each statement; nil for nobody.
	Tracer pgx.QueryTracer
}

// DB is an open pool of connections under AppRole.
type DB struct {
	pool     *pgxpool.Pool
	maxConns int
	maxWait  time.Duration
	pooled   bool
	callers  *callers
	layout   *layout
	logger   *slog.Logger
	onCommit func() // called after each commit of InTx and Single; nil for nobody
}

// callers are those who want a connection.
type callers struct {
	waiting atomic.Int64
	queued  atomic.Int64 // in a queue of somebody else's in front of the pool
	refused atomic.Int64 // who waited in vain so far, in either
}

// within is d for those who wait for a connection no longer than wait.
func (d *DB) within(wait time.Duration) *DB {
	of := *d
	of.maxWait = wait
	return &of
}

// committed tells whoever wants to know.
func (d *DB) committed() {
	if d.onCommit != nil {
		d.onCommit()
	}
}

// cancelTime is how long a cancelled statement may take to end before its
// connection is given up.
const cancelTime = 2 * time.Second

// Open prepares a pool and proves that one connection can be made. Connections
// lost later are made anew without a restart.
func Open(ctx context.Context, o Options) (*DB, error) {
	d, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	warnings, err := d.prove(ctx)
	if err != nil {
		d.Close()
		return nil, err
	}
	warn(ctx, d.logger, warnings)
	return d, nil
}

// prove makes one connection, and returns what of it an operator should know. A pooler that
// has not noticed yet that the database was restarted breaks some connections first.
func (d *DB) prove(ctx context.Context) ([]string, error) {
	const tries, pause = 100, 50 * time.Millisecond
	for n := 1; ; n++ {
		warnings, broken, err := d.proveOnce(ctx)
		if !broken || !d.pooled || n == tries {
			return warnings, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// proveOnce is one try of prove; broken is a connection that was made and then lost.
func (d *DB) proveOnce(ctx context.Context) (warnings []string, broken bool, err error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("db: cannot connect: %w", explainRole(explainPooler(err), d.pool.Config().ConnConfig.User))
	}
	defer conn.Release()
	warnings, err = d.checkSession(ctx, conn.Conn())
	return warnings, err != nil && conn.Conn().IsClosed(), err
}

// prepare is Open without a connection.
func prepare(ctx context.Context, o Options) (*DB, error) {
	if o.URL == "" {
		return nil, errors.New("db: no connection string")
	}
	cfg, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		// pgx masks the password in its message.
		return nil, fmt.Errorf("db: DATABASE_URL: %w", err)
	}
	if o.MaxConns > 0 {
		cfg.MaxConns = o.MaxConns
	}
	// PgBouncer 1.18 to 1.20 may end of a cancel request, and with it everybody's connections
	// (github.com/pgbouncer/pgbouncer, issues 801, 822 and 904).
	if o.CancelQueries && !o.Pooled {
		cfg.ConnConfig.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: cancelTime}
		}
	}
	if o.Tracer != nil { // a nil in the interface would be called
		cfg.ConnConfig.Tracer = o.Tracer
	}
	cfg.MinConns = o.MinConns
	cfg.MaxConnLifetime = time.Hour
	cfg.MaxConnLifetimeJitter = 5 * time.Minute
	o.settings(cfg.ConnConfig)
	known := new(layout)
	// Otherwise each uuid would travel through its text.
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		pgxuuid.Register(conn.TypeMap())
		return known.note(ctx, conn, noteHistory(ctx, conn))
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("db: %w", err)
	}
	return &DB{pool: pool, maxConns: int(cfg.MaxConns), maxWait: o.MaxWait, pooled: o.Pooled, callers: new(callers), layout: known, logger: cmp.Or(o.Logger, slog.New(slog.DiscardHandler))}, nil
}

// Pool gives the connections to libraries that bring their own transactions. Reads
// go through Direct and InSnapshot, writes through InTx and Single.
func (d *DB) Pool() *pgxpool.Pool { return d.pool }

// MaxConns is the largest number of connections.
func (d *DB) MaxConns() int { return d.maxConns }

// Ping makes one round trip.
func (d *DB) Ping(ctx context.Context) error {
	_, err := d.Direct().Exec(ctx, ";")
	return Translate(err)
}

// Close waits for borrowed connections and closes all.
func (d *DB) Close() { d.pool.Close() }
