// Package db is the way to PostgreSQL: the connection pool under the application
// role, migrations under the owner role, transactions opened for an acting
// principal, and the translation of driver errors.
package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
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
	// Logger receives what a broken connection or an oversized wait has to say.
	Logger *slog.Logger
}

// DB is an open pool of connections under AppRole.
type DB struct {
	pool *pgxpool.Pool
}

// Open prepares a pool and proves that one connection can be made. Connections
// lost later are made anew without a restart.
func Open(ctx context.Context, o Options) (*DB, error) {
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
	cfg.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		pgxuuid.Register(conn.TypeMap())
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("db: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("db: cannot connect: %w", explainRole(err, cfg.ConnConfig.User))
	}
	return &DB{pool: pool}, nil
}

// Pool gives reads, and libraries that bring their own transactions, the
// connections. Writes go through InTx.
func (d *DB) Pool() *pgxpool.Pool { return d.pool }

// Ping makes one round trip.
func (d *DB) Ping(ctx context.Context) error { return Translate(d.pool.Ping(ctx)) }

// Close waits for borrowed connections and closes all.
func (d *DB) Close() { d.pool.Close() }
