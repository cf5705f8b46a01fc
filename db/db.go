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
	waiting  atomic.Int64 // for a connection
	refused  atomic.Int64 // who waited in vain
	logger   *slog.Logger
	onCommit func() // called after each commit of InTx and Single; nil for nobody
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
	if err := d.prove(ctx); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// prove makes one connection.
func (d *DB) prove(ctx context.Context) error {
	if err := d.pool.Ping(ctx); err != nil {
		return fmt.Errorf("db: cannot connect: %w", explainRole(err, d.pool.Config().ConnConfig.User))
	}
	return nil
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
	if o.CancelQueries {
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
	params := cfg.ConnConfig.RuntimeParams
	params["role"] = AppRole
	params["timezone"] = "UTC"
	// Queries over many partitions look costly enough to be compiled, which takes
	// longer (measured: 420 ms) than they do (4 ms).
	params["jit"] = "off"
	if params["application_name"] == "" {
		params["application_name"] = "waypost"
	}
	// Otherwise each uuid would travel through its text.
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		pgxuuid.Register(conn.TypeMap())
		noteHistory(ctx, conn)
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("db: %w", err)
	}
	return &DB{pool: pool, maxConns: int(cfg.MaxConns), maxWait: o.MaxWait, logger: cmp.Or(o.Logger, slog.New(slog.DiscardHandler))}, nil
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
