package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ErrNotDevs says that a database holds accounts or sites that no dev made.
var ErrNotDevs = errors.New("dev refuses to work on this database: it holds accounts or sites that no dev made.\n" +
	"For a private database unset DATABASE_URL, or name an empty database in it.\n" +
	"Only if an earlier dev made everything in it, mark it once with this line and start dev again:\n" +
	`    waypost migrate up && psql "$DATABASE_URL" -c 'UPDATE installation SET dev_since = now()'` + "\n" +
	"(psql as the database's owner)")

// CheckDev returns ErrNotDevs when the database, which may be of any schema, has
// accounts or sites and not the mark of a dev. It writes nothing.
func CheckDev(ctx context.Context, conn *pgx.Conn) error {
	marked, err := holds(ctx, conn, `select exists (select from installation where dev_since is not null)`)
	if err != nil || marked {
		return err
	}
	for _, sql := range []string{`select exists (select from users)`, `select exists (select from sites)`} {
		if found, err := holds(ctx, conn, sql); err != nil {
			return err
		} else if found {
			return ErrNotDevs
		}
	}
	return nil
}

// holds asks of a table that may not exist, which is false.
func holds(ctx context.Context, conn *pgx.Conn, sql string) (bool, error) {
	var found bool
	err := conn.QueryRow(ctx, sql).Scan(&found)
	if hasCode(err, undefinedTable) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("db: look for what dev did not make: %w", err)
	}
	return found, nil
}

// MarkDev marks a migrated database as dev's. It does so before dev seeds: a kill
// in between leaves an empty database with the mark. It returns ErrNotDevs as
// CheckDev does, but with adopt, which takes the database whatever is in it.
func MarkDev(ctx context.Context, owner *pgx.Conn, adopt bool) error {
	tag, err := owner.Exec(ctx, `update installation set dev_since = coalesce(dev_since, now())
		where dev_since is not null or $1 or not exists (select from users) and not exists (select from sites)`, adopt)
	if err != nil {
		return fmt.Errorf("db: mark the database as dev's: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrNotDevs
	}
	return nil
}
