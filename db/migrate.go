package db

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"sort"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock is the advisory lock under which goose and River's migrator run
// together ("waypost" as ASCII in a big-endian integer). goose's own session
// locker would cover goose alone.
const migrationLock = 0x77617970_6f7374

// ErrNewer says that the database was migrated by a newer Waypost.
var ErrNewer = errors.New("db: the database was migrated by a newer waypost than this one; run that version, or restore a backup made before it")

// ErrPending says that migrations are missing.
var ErrPending = errors.New("db: the database lacks migrations; run `waypost migrate up`, or start with `waypost serve --migrate`")

// Migration is one schema step and whether it was applied.
type Migration struct {
	Version int64
	Name    string
	Applied bool
}

// MigrationsHash identifies the set of migrations that this binary carries, as
// 16 hexadecimal digits.
func MigrationsHash() string {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		panic("db: impossible pattern: " + err.Error())
	}
	sort.Strings(names)
	h := sha256.New()
	for _, name := range names {
		body, err := migrations.ReadFile(name)
		if err != nil {
			panic("db: unreadable embedded file: " + err.Error())
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(body), body)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Migrate brings the database to this binary's schema: the application role,
// goose's migrations, River's. ownerURL's user owns the database. Any number of
// processes may call it at once; one works, the others wait and find nothing to do.
// It returns ErrNewer when the database is ahead.
func Migrate(ctx context.Context, ownerURL string) error {
	return withOwner(ctx, ownerURL, func(pool *pgxpool.Pool, lock *pgx.Conn) error {
		if _, err := lock.Exec(ctx, `select pg_advisory_lock($1)`, int64(migrationLock)); err != nil {
			return fmt.Errorf("db: migration lock: %w", err)
		}
		if err := ensureAppRole(ctx, lock); err != nil {
			return err
		}
		if err := checkNotNewer(ctx, pool); err != nil {
			return err
		}
		provider, err := newProvider(pool)
		if err != nil {
			return err
		}
		if _, err := provider.Up(ctx); err != nil {
			return fmt.Errorf("db: %w", err)
		}
		return migrateRiver(ctx, pool)
	})
}

// Status lists the migrations that this binary knows and whether each was applied.
func Status(ctx context.Context, ownerURL string) ([]Migration, error) {
	var list []Migration
	err := withOwner(ctx, ownerURL, func(pool *pgxpool.Pool, _ *pgx.Conn) error {
		provider, err := newProvider(pool)
		if err != nil {
			return err
		}
		states, err := provider.Status(ctx)
		if err != nil {
			return fmt.Errorf("db: %w", err)
		}
		for _, s := range states {
			list = append(list, Migration{Version: s.Source.Version, Name: s.Source.Path, Applied: s.State == goose.StateApplied})
		}
		return nil
	})
	return list, err
}

// IsCurrent reports whether Migrate would find nothing to do. It returns ErrNewer
// when the database is ahead.
func IsCurrent(ctx context.Context, ownerURL string) (bool, error) {
	conn, err := pgx.Connect(ctx, ownerURL)
	if err != nil {
		return false, fmt.Errorf("db: cannot connect as the owner: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	applied, err := appliedVersion(ctx, conn)
	switch {
	case err != nil:
		return false, fmt.Errorf("db: read the applied version: %w", err)
	case applied > newestVersion():
		return false, ErrNewer
	case applied < newestVersion():
		return false, nil
	}
	latest, err := riverVersion()
	if err != nil {
		return false, err
	}
	var river int
	err = conn.QueryRow(ctx, `select coalesce(max(version), 0) from river_migration where line = 'main'`).Scan(&river)
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.Code == "42P01" {
		return false, nil // a crash between the two migrators left no such table
	}
	if err != nil {
		return false, fmt.Errorf("db: read River's applied version: %w", err)
	}
	return river >= latest, nil
}

// CheckMigrated returns nil when the database has exactly this binary's
// migrations, ErrPending when it lacks some, ErrNewer when it has more.
func (d *DB) CheckMigrated(ctx context.Context) error {
	applied, err := appliedVersion(ctx, d.pool)
	if err != nil {
		return Translate(err)
	}
	switch newest := newestVersion(); {
	case applied > newest:
		return ErrNewer
	case applied < newest:
		return ErrPending
	}
	return nil
}

func withOwner(ctx context.Context, ownerURL string, fn func(*pgxpool.Pool, *pgx.Conn) error) error {
	cfg, err := pgxpool.ParseConfig(ownerURL)
	if err != nil {
		return fmt.Errorf("db: owner connection string: %w", err)
	}
	cfg.MaxConns = 4
	cfg.ConnConfig.RuntimeParams["application_name"] = "waypost migrate"
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("db: %w", err)
	}
	defer pool.Close()
	// The lock lives and dies with a connection of its own.
	lock, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		return fmt.Errorf("db: cannot connect as the owner: %w", err)
	}
	defer func() { _ = lock.Close(context.WithoutCancel(ctx)) }()
	return fn(pool, lock)
}

func newProvider(pool *pgxpool.Pool) (*goose.Provider, error) {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, stdlib.OpenDBFromPool(pool), sub)
	if err != nil {
		return nil, fmt.Errorf("db: %w", err)
	}
	return p, nil
}

// ensureAppRole creates AppRole where it is missing and lets the owner act as
// it. Roles belong to the whole cluster, so another database's migration may be
// creating it at this moment.
func ensureAppRole(ctx context.Context, conn *pgx.Conn) error {
	var member bool
	err := conn.QueryRow(ctx, `select pg_has_role(current_user, oid, 'member') from pg_roles where rolname = $1`, AppRole).Scan(&member)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("db: look for role %s: %w", AppRole, err)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		_, err := conn.Exec(ctx, `create role `+AppRole)
		pe, isPg := errors.AsType[*pgconn.PgError](err)
		if err != nil && !(isPg && (pe.Code == "42710" || pe.Code == "23505")) {
			return fmt.Errorf("db: cannot create the application role (run `CREATE ROLE %[1]s; GRANT %[1]s TO <owner>;` as an administrator and try again): %[2]w", AppRole, err)
		}
	}
	if member {
		return nil
	}
	if _, err := conn.Exec(ctx, `grant `+AppRole+` to current_user`); err != nil {
		return fmt.Errorf("db: cannot act as the application role (run `GRANT %[1]s TO <owner>;` as an administrator and try again): %[2]w", AppRole, err)
	}
	return nil
}

func migrateRiver(ctx context.Context, pool *pgxpool.Pool) error {
	m, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return fmt.Errorf("db: river: %w", err)
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("db: river: %w", err)
	}
	// River's migrations know nothing of AppRole.
	_, err = pool.Exec(ctx, `do $$
declare t record;
begin
    for t in select c.oid::regclass as name, c.relkind from pg_class c
             where c.relnamespace = current_schema()::regnamespace and c.relname like 'river\_%' and c.relkind in ('r', 'S')
    loop
        if t.relkind = 'S' then
            execute format('grant usage, select on sequence %s to `+AppRole+`', t.name);
        else
            execute format('grant select, insert, update, delete on %s to `+AppRole+`', t.name);
        end if;
    end loop;
end $$`)
	if err != nil {
		return fmt.Errorf("db: grant River's tables: %w", err)
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

func checkNotNewer(ctx context.Context, pool *pgxpool.Pool) error {
	applied, err := appliedVersion(ctx, pool)
	if err != nil {
		return fmt.Errorf("db: read the applied version: %w", err)
	}
	if applied > newestVersion() {
		return ErrNewer
	}
	return nil
}

// appliedVersion is 0 for a database that was never migrated.
func appliedVersion(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (int64, error) {
	var exists bool
	if err := q.QueryRow(ctx, `select to_regclass($1) is not null`, goose.DefaultTablename).Scan(&exists); err != nil || !exists {
		return 0, err
	}
	var version int64
	err := q.QueryRow(ctx, `select coalesce(max(version_id), 0) from `+goose.DefaultTablename+` where is_applied`).Scan(&version)
	return version, err
}

func newestVersion() int64 {
	entries, err := fs.ReadDir(migrations, "migrations")
	if err != nil {
		panic("db: unreadable embedded directory: " + err.Error())
	}
	var newest int64
	for _, e := range entries {
		v, err := goose.NumericComponent(e.Name())
		if err != nil {
			panic("db: migration " + e.Name() + ": " + err.Error())
		}
		newest = max(newest, v)
	}
	return newest
}
