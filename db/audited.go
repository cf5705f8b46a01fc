package db

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrNotAudited says that changes of some tables would leave no entry in the audit
// log.
var ErrNotAudited = errors.New("db: the audit log does not cover the whole database")

// CheckAudited returns ErrNotAudited, with the tables and what to do, when a table is
// neither under the audit log nor excluded from it by a migration.
func (d *DB) CheckAudited(ctx context.Context) error {
	rows, err := d.Direct().Query(ctx, `select table_name, problem from audit_uncovered()`)
	if err != nil {
		return Translate(err)
	}
	var problems []string
	var table, problem string
	_, err = pgx.ForEachRow(rows, []any{&table, &problem}, func() error {
		problems = append(problems, fmt.Sprintf("\n  %s: %s", table, problem))
		return nil
	})
	if err != nil {
		return Translate(err)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w:%s\nA table of your own: let its migration call audit_cover, or add it to audit_excluded. After a restore with --disable-triggers: make the triggers ENABLE ALWAYS again. docs/audit.md has both",
			ErrNotAudited, strings.Join(problems, ""))
	}
	return nil
}

// OwnsSchema reports whether the user that the connections sign in as could alter the
// tables, and with them switch off the audit log's triggers.
func (d *DB) OwnsSchema(ctx context.Context) (bool, error) {
	var owns bool
	err := d.Direct().QueryRow(ctx, `select pg_has_role(session_user, relowner, 'MEMBER') from pg_class where oid = 'installation'::regclass`).Scan(&owns)
	return owns, Translate(err)
}
