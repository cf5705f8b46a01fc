package db

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
)

// ErrIncompatible says that a newer Waypost has migrated the database to a schema
// on which this one does not work.
var ErrIncompatible = errors.New("db: this waypost is too old for the database")

// ErrPending says that migrations are missing.
var ErrPending = errors.New("db: the database lacks migrations; run `waypost migrate up`, or start with `waypost serve --migrate`")

// Migration is one schema step and whether it was applied.
type Migration struct {
	Version int64
	Name    string // its file; "" for one that only the database knows
	Applied bool
}

// MigrationsHash identifies the set of migrations that this binary carries, as
// 16 hexadecimal digits.
func MigrationsHash() string {
	h := sha256.New()
	for _, m := range known() {
		body := migrationText(m.Name)
		fmt.Fprintf(h, "%s %d\n%s", m.Name, len(body), body)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// known lists the migrations of this binary in their order.
func known() []Migration {
	entries, err := fs.ReadDir(migrations, "migrations")
	if err != nil {
		panic("db: unreadable embedded directory: " + err.Error())
	}
	list := make([]Migration, 0, len(entries))
	for _, e := range entries {
		v, err := goose.NumericComponent(e.Name())
		if err != nil {
			panic("db: migration " + e.Name() + ": " + err.Error())
		}
		list = append(list, Migration{Version: v, Name: e.Name()})
	}
	slices.SortFunc(list, func(a, b Migration) int { return int(a.Version - b.Version) })
	return list
}

func migrationText(name string) string {
	body, err := migrations.ReadFile("migrations/" + name)
	if err != nil {
		panic("db: unreadable embedded file: " + err.Error())
	}
	return string(body)
}

// querier is a connection, a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// SQLSTATEs that say something about the schema.
const (
	undefinedTable        = "42P01"
	insufficientPrivilege = "42501"
)

func hasCode(err error, code string) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pe.Code == code
}

// schema is the set of migrations that a database has.
type schema map[int64]bool

// appliedVersions is empty for a database that was never migrated.
func appliedVersions(ctx context.Context, q querier) (schema, error) {
	rows, err := q.Query(ctx, `select version_id from `+goose.DefaultTablename+` where is_applied and version_id > 0`)
	var versions []int64
	if err == nil {
		versions, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	}
	if hasCode(err, undefinedTable) {
		return schema{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("db: read the applied versions: %w", err)
	}
	s := schema{}
	for _, v := range versions {
		s[v] = true
	}
	return s, nil
}

func (s schema) newest() int64 {
	var newest int64
	for v := range s {
		newest = max(newest, v)
	}
	return newest
}

// unknown lists the migrations that this binary does not have.
func (s schema) unknown() []Migration {
	ours := schema{}
	for _, m := range known() {
		ours[m.Version] = true
	}
	var list []Migration
	for v := range s {
		if !ours[v] {
			list = append(list, Migration{Version: v, Applied: true})
		}
	}
	slices.SortFunc(list, func(a, b Migration) int { return int(a.Version - b.Version) })
	return list
}

// compare returns ErrPending when the database lacks migrations of this binary,
// ErrIncompatible when it has newer ones and the binary is below what they demand.
// True is a database that is ahead, and compatible.
func (s schema) compare(ctx context.Context, q querier) (bool, error) {
	list := known()
	for _, m := range list {
		if !s[m.Version] {
			return false, ErrPending
		}
	}
	own := list[len(list)-1].Version
	if s.newest() <= own {
		return false, nil
	}
	// A database that does not say with whom it is compatible was changed in a way
	// that this binary can't know.
	var from int64
	err := q.QueryRow(ctx, `select compatible_from from installation`).Scan(&from)
	switch {
	case hasCode(err, undefinedTable) || errors.Is(err, pgx.ErrNoRows):
		return false, fmt.Errorf("%w: its schema is %d, this program's is %d; run the version of waypost that migrated it, or restore a backup from before", ErrIncompatible, s.newest(), own)
	case err != nil:
		return false, fmt.Errorf("db: read the schema's compatibility: %w", err)
	case own < from:
		return false, fmt.Errorf("%w: its schema is %d and works with programs of schema %d or later, this one's is %d; run the version of waypost that migrated it, or restore a backup from before", ErrIncompatible, s.newest(), from, own)
	}
	return true, nil
}

// CheckMigrated returns nil when this binary works on the database: it has the
// binary's migrations, and perhaps newer ones that are compatible. Otherwise
// ErrPending, ErrIncompatible, or ErrRights when the application's role may not
// even look.
func (d *DB) CheckMigrated(ctx context.Context) error {
	_, err := d.checkMigrated(ctx)
	return err
}

// checkMigrated is CheckMigrated; true is a database that is ahead, and compatible.
func (d *DB) checkMigrated(ctx context.Context) (bool, error) {
	newer := false
	applied, err := appliedVersions(ctx, d.Direct())
	if err == nil {
		newer, err = applied.compare(ctx, d.Direct())
	}
	if hasCode(err, insufficientPrivilege) {
		err = fmt.Errorf("%w: %w", ErrRights, err)
	}
	return newer, Translate(err)
}
