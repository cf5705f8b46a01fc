package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/embedded"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/token"
)

// databaseName is that of the private server's database.
const databaseName = "waypost"

// stopTimeout bounds the stop of the private server.
const stopTimeout = 30 * time.Second

// ErrTwoDatabases says that a command was given a database twice.
var ErrTwoDatabases = errors.New("DATABASE_URL and a data directory are both given, and each names a database; unset DATABASE_URL, or leave out --data-dir and WAYPOST_DATA_DIR")

// Database says where the database is, and keeps the private server, where it is
// one, for as long as it is not closed.
type Database struct {
	// URL is the application's connection string, OwnerURL the owner's.
	URL, OwnerURL string
	directURL     string // past a pooler; "" for none
	// ViewerURL is that of the database page's console, "" for none.
	ViewerURL string
	server    *embedded.Server
	dataDir   string // of the private server
}

// Private reports whether it is the private server's.
func (d *Database) Private() bool { return d.server != nil }

// Name is what people recognise the database by; there is no password in it.
func (d *Database) Name() string {
	if d.Private() {
		dir, err := filepath.Abs(d.dataDir)
		if err != nil {
			dir = d.dataDir
		}
		return "private PostgreSQL in " + dir
	}
	return nameOf(d.URL, "DATABASE_URL")
}

// OwnerName is Name for what works as the database's owner.
func (d *Database) OwnerName() string {
	switch {
	case d.Private() || d.OwnerURL == d.URL:
		return d.Name()
	case d.OwnerURL == d.directURL:
		return nameOf(d.OwnerURL, "WAYPOST_DATABASE_DIRECT_URL")
	}
	return nameOf(d.OwnerURL, "WAYPOST_DATABASE_OWNER_URL")
}

// nameOf names what a connection string, the value of variable, leads to.
func nameOf(url, variable string) string {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return variable // connecting says what is wrong with it
	}
	return fmt.Sprintf("%s at %s, as %s (%s)", cfg.Database, net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))), cfg.User, variable)
}

// Close ends the use of the private server; the last user stops it.
func (d *Database) Close() error {
	if d.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return d.server.Stop(ctx)
}

// OpenDatabase finds the database of a command: DATABASE_URL, or the private
// server of a data directory, joined where dev is running it and started for as
// long as the command runs where not. It makes none: that is dev's. It returns
// ErrTwoDatabases when both were given.
func OpenDatabase(ctx context.Context, c config.Config, logger *slog.Logger) (*Database, error) {
	if c.DatabaseURL != "" {
		if c.DataDirGiven() {
			return nil, ErrTwoDatabases
		}
		return outsideDatabase(c), nil
	}
	made, err := embedded.Exists(c.DataDir)
	switch {
	case err != nil:
		return nil, err
	case !made && c.DataDirGiven():
		return nil, fmt.Errorf("there is no database in %s; `waypost dev --data-dir %[1]s` creates one", c.DataDir)
	case !made:
		return nil, fmt.Errorf("which database? Set DATABASE_URL, or name the data directory of a dev with --data-dir. There is no database in the default directory, %s; `waypost dev` creates one", c.DataDir)
	}
	d, err := privateDatabase(ctx, c, logger, embedded.AttachOrStart)
	if err != nil {
		return nil, err
	}
	exists, err := d.server.HasDatabase(ctx, databaseName)
	if err == nil && !exists {
		err = fmt.Errorf("the database in %s is unfinished; start dev on it once", c.DataDir)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// holdDatabase finds the database of dev, which makes the private server where
// there is none, and wants it to itself.
func holdDatabase(ctx context.Context, c config.Config, logger *slog.Logger) (*Database, error) {
	if c.DatabaseURL != "" {
		return outsideDatabase(c), nil
	}
	d, err := privateDatabase(ctx, c, logger, embedded.Start)
	if err != nil {
		return nil, err
	}
	if err := d.server.EnsureDatabase(ctx, databaseName); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func outsideDatabase(c config.Config) *Database {
	return &Database{URL: c.DatabaseURL, OwnerURL: c.OwnerURL(), ViewerURL: c.DatabaseViewerURL, directURL: c.DatabaseDirectURL}
}

func privateDatabase(ctx context.Context, c config.Config, logger *slog.Logger, start func(context.Context, embedded.Options) (*embedded.Server, error)) (*Database, error) {
	server, err := start(ctx, embedded.Options{DataDir: c.DataDir, BinDir: c.PostgresBin, Download: true, Logger: logger})
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w; dev keeps its files in %s: make that yours, or give another directory with --data-dir", err, c.DataDir)
	}
	if err != nil {
		return nil, err
	}
	return &Database{URL: server.AppURL(databaseName), OwnerURL: server.OwnerURL(databaseName), ViewerURL: cmp.Or(c.DatabaseViewerURL, server.ViewerURL(databaseName)), server: server, dataDir: c.DataDir}, nil
}

// takeForDev makes sure, before anything is written, that dev may work on the
// database: that nobody else's accounts or sites are in it, unless it is the
// private one, and that the secret key is the one that it was made with. Then it
// migrates and marks it, so that whatever dev seeds is in a database with the mark.
func (d *Database) takeForDev(ctx context.Context, c config.Config) error {
	conn, err := db.ConnectOwner(ctx, d.OwnerURL, "dev")
	if err != nil {
		return fmt.Errorf("cannot connect to %s: %w", d.Name(), err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if !d.Private() {
		if err := db.CheckDev(ctx, conn); err != nil {
			return fmt.Errorf("%w\nThe database is %s", err, d.Name())
		}
	}
	if err := token.CheckSecretKey(ctx, conn, []byte(c.SecretKey), []byte(c.SecretKeyPrevious)); err != nil {
		return fmt.Errorf("%w; the key that dev generates is in the data directory, in %s", err, secretKeyFile)
	}
	if err := d.migrate(ctx); err != nil {
		return err
	}
	return db.MarkDev(ctx, conn, d.Private())
}

// areaConns returns how many connections are divided among the areas.
func (d *Database) areaConns(c config.Config) (int32, error) {
	least, forAreas := db.LeastConns(), c.MaxConns
	if d.ViewerURL != "" { // the console has one connection at a time
		least, forAreas = least+1, forAreas-1
	}
	if c.MaxConns < least {
		return 0, fmt.Errorf("WAYPOST_DATABASE_MAX_CONNS is %d, and what must not wait for each other (deliveries, hits, statistics, jobs, readiness and the rest) needs %d at least: give %[2]d or more", c.MaxConns, least)
	}
	return forAreas, nil
}

// connect opens the pools of a server. A private database is migrated first; any
// other must have been, unless migrate says so.
func (d *Database) connect(ctx context.Context, c config.Config, logger *slog.Logger, tracer pgx.QueryTracer, migrate bool) (db.Areas, error) {
	forAreas, err := d.areaConns(c)
	if err != nil {
		return db.Areas{}, err
	}
	if migrate || d.Private() {
		if err := d.migrate(ctx); err != nil {
			return db.Areas{}, err
		}
	}
	areas, err := db.OpenAreas(ctx, db.Options{URL: d.URL, DirectURL: c.DatabaseDirectURL, Pooled: c.DatabasePooled, MaxConns: forAreas, Logger: logger, Tracer: tracer})
	if err != nil {
		return db.Areas{}, err
	}
	if err := areas.Requests.CheckRights(ctx); err != nil {
		areas.Close()
		return db.Areas{}, err
	}
	return areas, nil
}

// warnOfOwner says so when the service's own user could do to the tables what its role
// can't. It works all the same: a small installation may have one user for everything.
func warnOfOwner(ctx context.Context, areas db.Areas, logger *slog.Logger) error {
	user, owns, err := areas.Requests.OwnsTables(ctx)
	if err != nil {
		return fmt.Errorf("who owns the tables: %w", err)
	}
	if owns {
		logger.WarnContext(ctx, "DATABASE_URL connects as a user who owns the tables: a defect in a query could get around the role "+db.AppRole+
			", change the schema and silence the audit log; connect as a user of its own, and give the owner as WAYPOST_DATABASE_OWNER_URL (docs/operations.md, Roles)", "user", user)
	}
	return nil
}

// connectOnce opens the one pool of a command, whose private database is migrated
// first.
func (d *Database) connectOnce(ctx context.Context, c config.Config, logger *slog.Logger) (*db.DB, error) {
	if d.Private() {
		if err := d.migrate(ctx); err != nil {
			return nil, err
		}
	}
	pool, err := db.Open(ctx, db.Options{URL: d.URL, Pooled: c.DatabasePooled, MaxConns: c.MaxConns, Logger: logger})
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
// both migrators. A role of the console that may have to be made is asked for there.
func (d *Database) migrate(ctx context.Context) error {
	if d.Private() || d.ViewerURL == "" {
		if current, err := db.IsCurrent(ctx, d.OwnerURL); err != nil || current {
			return err
		}
	}
	_, err := db.Upgrade(ctx, db.UpgradeOptions{OwnerURL: d.OwnerURL, AppURL: d.URL, ViewerURL: d.ViewerURL})
	return err
}
