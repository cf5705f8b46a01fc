package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/embedded"
	"github.com/waypost/waypost/internal/config"
)

// databaseName is that of the private server's database.
const databaseName = "waypost"

// stopTimeout bounds the stop of the private server.
const stopTimeout = 30 * time.Second

// Database says where the database is, and keeps the private server, where it is
// one, for as long as it is not closed.
type Database struct {
	// URL is the application's connection string, OwnerURL the owner's.
	URL, OwnerURL string
	server        *embedded.Server
}

// Private reports whether it is the private server's.
func (d *Database) Private() bool { return d.server != nil }

// Close ends the use of the private server; the last user stops it.
func (d *Database) Close() error {
	if d.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return d.server.Stop(ctx)
}

// OpenDatabase finds the database of a command: DATABASE_URL, else the private
// server under the data directory, joined where dev is running it and started
// for as long as the command runs where not.
func OpenDatabase(ctx context.Context, c config.Config, logger *slog.Logger) (*Database, error) {
	return locate(ctx, c, logger, embedded.AttachOrStart)
}

// holdDatabase is OpenDatabase for dev, which wants the private server to itself.
func holdDatabase(ctx context.Context, c config.Config, logger *slog.Logger) (*Database, error) {
	d, err := locate(ctx, c, logger, embedded.Start)
	if busy, ok := errors.AsType[*embedded.InUseError](err); ok {
		return nil, fmt.Errorf("%w; stop that one, or give this one another --data-dir", busy)
	}
	return d, err
}

func locate(ctx context.Context, c config.Config, logger *slog.Logger, start func(context.Context, embedded.Options) (*embedded.Server, error)) (*Database, error) {
	if c.DatabaseURL != "" {
		return &Database{URL: c.DatabaseURL, OwnerURL: c.OwnerURL()}, nil
	}
	server, err := start(ctx, embedded.Options{DataDir: c.DataDir, BinDir: c.PostgresBin, Download: true, Logger: logger})
	if err != nil {
		return nil, err
	}
	d := &Database{URL: server.AppURL(databaseName), OwnerURL: server.OwnerURL(databaseName), server: server}
	if err := server.EnsureDatabase(ctx, databaseName); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// connect opens the pool. A private database is migrated first; any other must
// have been, unless migrate says so.
func (d *Database) connect(ctx context.Context, c config.Config, logger *slog.Logger, migrate bool) (*db.DB, error) {
	if migrate || d.Private() {
		if err := d.migrate(ctx); err != nil {
			return nil, err
		}
	}
	pool, err := db.Open(ctx, db.Options{URL: d.URL, MaxConns: c.MaxConns, Logger: logger})
	if err != nil {
		return nil, err
	}
	if err := pool.CheckRights(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// migrate asks first, which spares a start on a current database the lock and
// both migrators.
func (d *Database) migrate(ctx context.Context) error {
	if current, err := db.IsCurrent(ctx, d.OwnerURL); err != nil || current {
		return err
	}
	return db.Migrate(ctx, d.OwnerURL)
}
