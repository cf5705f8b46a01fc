package db

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/waypost/waypost/internal/identity"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock is the advisory lock under which goose and River's migrator run
// together ("waypost" as ASCII in a big-endian integer). goose's own session
// locker would cover goose alone.
const migrationLock = 0x77617970_6f7374

// UpgradeOptions configure Upgrade.
type UpgradeOptions struct {
	// OwnerURL is the connection string of the database's owner. Mandatory.
	OwnerURL string
	// AppURL is the application's connection string, whose user is let into AppRole;
	// "" when that is the owner, or nobody's concern.
	AppURL string
	// ViewerURL is the console's connection string, whose role is made where it is
	// missing; "" for none.
	ViewerURL string
}

// Upgraded is what Upgrade did; nothing where the database was up to date.
type Upgraded struct {
	// Applied are the migrations, in their order.
	Applied []Migration
	// River are the versions of River's own migrations.
	River []int
	// Restored are roles, memberships and rights that should have been there, as SQL.
	Restored []string
	// Newer is the schema of a database that is ahead of this binary, and compatible:
	// there is nothing to apply. 0 otherwise.
	Newer int64
}

// Upgrade brings the database to this binary's schema: the application's role,
// goose's migrations, River's, and the rights that a restored backup may have
// lost. Any number of processes may call it at once; one works, the others wait
// and find nothing to do. It returns ErrIncompatible when the database is too new.
func Upgrade(ctx context.Context, o UpgradeOptions) (Upgraded, error) {
	var done Upgraded
	err := withOwner(ctx, o.OwnerURL, func(pool *pgxpool.Pool, lock *pgx.Conn) error {
		if err := takeLock(ctx, lock); err != nil {
			return fmt.Errorf("db: migration lock: %w", err)
		}
		if err := checkOwner(ctx, lock); err != nil {
			return err
		}
		before, err := appliedVersions(ctx, lock)
		if err != nil {
			return err
		}
		if err := done.ensureRoles(ctx, lock, o, len(before) > 0); err != nil {
			return err
		}
		if newer, err := before.compare(ctx, lock); newer || err != nil && !errors.Is(err, ErrPending) {
			done.Newer = before.newest()
			return err
		}
		if err := done.migrate(ctx, pool); err != nil {
			return err
		}
		if err := done.gather(ctx, lock); err != nil {
			return err
		}
		if err := done.ensureRights(ctx, lock); err != nil {
			return err
		}
		mended, err := ensureViewer(ctx, lock, o)
		if len(done.Applied) == 0 { // else these are rights on what was made just now
			done.Restored = append(done.Restored, mended...)
		}
		return err
	})
	return done, err
}

// takeLock asks again and again: a statement that waited for the lock would keep a
// snapshot, for whose end a CREATE INDEX CONCURRENTLY under the lock would wait.
func takeLock(ctx context.Context, conn *pgx.Conn) error {
	const every = 50 * time.Millisecond
	for {
		var taken bool
		if err := conn.QueryRow(ctx, `select pg_try_advisory_lock($1)`, int64(migrationLock)).Scan(&taken); err != nil || taken {
			return err
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (u *Upgraded) migrate(ctx context.Context, pool *pgxpool.Pool) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, stdlib.OpenDBFromPool(pool), sub)
	if err != nil {
		return fmt.Errorf("db: %w", err)
	}
	results, err := provider.Up(ctx)
	for _, r := range results {
		u.Applied = append(u.Applied, Migration{Version: r.Source.Version, Name: r.Source.Path, Applied: true})
	}
	if err != nil {
		return fmt.Errorf("db: %w", err)
	}
	m, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return fmt.Errorf("db: river: %w", err)
	}
	rivers, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	if err != nil {
		return fmt.Errorf("db: river: %w", err)
	}
	for _, v := range rivers.Versions {
		u.River = append(u.River, v.Version)
	}
	return nil
}

// riverVersion is the newest of River's migrations in this binary.
func riverVersion() (int, error) {
	m, err := rivermigrate.New(riverpgxv5.New(nil), nil)
	if err != nil {
		return 0, fmt.Errorf("db: river: %w", err)
	}
	newest := 0
	for _, v := range m.AllVersions() {
		newest = max(newest, v.Version)
	}
	return newest, nil
}

// Status lists the migrations that this binary knows and whether each was
// applied, and after them those that only the database knows, without a name. It
// changes nothing.
func Status(ctx context.Context, ownerURL string) ([]Migration, error) {
	conn, err := ConnectOwner(ctx, ownerURL, "migrate")
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	applied, err := appliedVersions(ctx, conn)
	if err != nil {
		return nil, err
	}
	list := known()
	for i := range list {
		list[i].Applied = applied[list[i].Version]
	}
	return append(list, applied.unknown()...), nil
}

// IsCurrent reports whether Upgrade would find nothing to do. It returns
// ErrIncompatible when the database is too new.
func IsCurrent(ctx context.Context, ownerURL string) (bool, error) {
	conn, err := ConnectOwner(ctx, ownerURL, "migrate")
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	applied, err := appliedVersions(ctx, conn)
	if err != nil {
		return false, err
	}
	switch newer, err := applied.compare(ctx, conn); {
	case errors.Is(err, ErrPending):
		return false, nil
	case newer || err != nil:
		return err == nil, err
	}
	latest, err := riverVersion()
	if err != nil {
		return false, err
	}
	var river int
	err = conn.QueryRow(ctx, `select coalesce(max(version), 0) from river_migration where line = 'main'`).Scan(&river)
	if hasCode(err, undefinedTable) {
		return false, nil // a crash between the two migrators left no such table
	}
	if err != nil {
		return false, fmt.Errorf("db: read River's applied version: %w", err)
	}
	if river < latest {
		return false, nil
	}
	missing, err := missingRights(ctx, conn)
	if err != nil || len(missing) > 0 {
		return false, err
	}
	mends, err := viewerMends(ctx, conn)
	return err == nil && len(mends) == 0, err
}

// ConnectOwner connects as the database's owner. What it changes, a step of that name
// has done.
func ConnectOwner(ctx context.Context, ownerURL, step string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(ownerURL)
	if err != nil {
		return nil, fmt.Errorf("db: owner connection string: %w", err) // pgx masks the password
	}
	actAs(cfg, step)
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("db: cannot connect as the owner: %w", explainOwnersPooler(err))
	}
	return conn, nil
}

// actAs makes a step of Waypost the actor of all that a connection changes.
func actAs(cfg *pgx.ConnConfig, step string) {
	p := identity.System(step)
	kind, id := p.Actor()
	cfg.RuntimeParams["waypost.actor_type"] = kind
	cfg.RuntimeParams["waypost.actor_id"] = id
	cfg.RuntimeParams["waypost.action"] = p.Action
}

func withOwner(ctx context.Context, ownerURL string, fn func(*pgxpool.Pool, *pgx.Conn) error) error {
	cfg, err := pgxpool.ParseConfig(ownerURL)
	if err != nil {
		return fmt.Errorf("db: owner connection string: %w", err)
	}
	cfg.MaxConns = 4
	cfg.ConnConfig.RuntimeParams["application_name"] = "waypost migrate"
	actAs(cfg.ConnConfig, "migrate")
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("db: %w", err)
	}
	defer pool.Close()
	// The lock lives and dies with a connection of its own.
	lock, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		return fmt.Errorf("db: cannot connect as the owner: %w", explainOwnersPooler(err))
	}
	defer func() { _ = lock.Close(context.WithoutCancel(ctx)) }()
	return fn(pool, lock)
}
