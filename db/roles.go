package db

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
)

// actors asks which of the roles $1, those that exist, may act as AppRole, which
// from PostgreSQL 16 on a member may not in every case. A pooler's user names need
// not be roles.
const actors = `select login.rolname, pg_has_role(login.oid, app.oid, case when current_setting('server_version_num')::int >= 160000 then 'SET' else 'MEMBER' end)
	from pg_roles login, pg_roles app where app.rolname = '` + AppRole + `' and login.rolname = any($1)`

// ensureRoles creates AppRole where it is missing, and lets the owner and the
// application's user act as it. Roles belong to the whole cluster, so another
// database's migration may be creating it at this moment. What it does to a
// database that has tables already is a restoration.
func (u *Upgraded) ensureRoles(ctx context.Context, conn *pgx.Conn, o UpgradeOptions, restores bool) error {
	restored := func(sql string) {
		if restores {
			u.Restored = append(u.Restored, sql)
		}
	}
	var owner string
	var exists bool
	if err := conn.QueryRow(ctx, `select current_user, exists (select from pg_roles where rolname = $1)`, AppRole).Scan(&owner, &exists); err != nil {
		return fmt.Errorf("db: look for role %s: %w", AppRole, err)
	}
	if !exists {
		const sql = `create role ` + AppRole
		_, err := conn.Exec(ctx, sql)
		if err != nil && !hasCode(err, "42710") && !hasCode(err, "23505") { // somebody else was quicker
			return fmt.Errorf("db: cannot create the application's role; let an administrator run `CREATE ROLE %s; %s` and try again: %w", AppRole, grantLine(owner), err)
		}
		restored(sql)
	}
	users := []string{owner}
	if o.AppURL != "" {
		cfg, err := pgx.ParseConfig(o.AppURL)
		if err != nil {
			return fmt.Errorf("db: DATABASE_URL: %w", err) // pgx masks the password
		}
		users = append(users, cfg.User)
	}
	outside, err := outsiders(ctx, conn, users)
	if err != nil {
		return err
	}
	for _, user := range outside {
		sql := `grant ` + AppRole + ` to ` + pgx.Identifier{user}.Sanitize()
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("db: %q may not act as the application's role; let an administrator run `%s` and try again: %w", user, grantLine(user), err)
		}
		restored(sql)
	}
	return nil
}

// outsiders are those of users that may not act as AppRole.
func outsiders(ctx context.Context, conn *pgx.Conn, users []string) ([]string, error) {
	rows, err := conn.Query(ctx, actors, users)
	if err != nil {
		return nil, fmt.Errorf("db: who may act as %s: %w", AppRole, err)
	}
	var list []string
	var user string
	var may bool
	_, err = pgx.ForEachRow(rows, []any{&user, &may}, func() error {
		if !may {
			list = append(list, user)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("db: who may act as %s: %w", AppRole, err)
	}
	return list, nil
}

func grantLine(user string) string {
	return "GRANT " + AppRole + " TO " + pgx.Identifier{user}.Sanitize() + ";"
}

// checkOwner refuses to work on tables that somebody else owns, as after a
// restore by an administrator: neither can they be altered nor rights on them be
// granted.
func checkOwner(ctx context.Context, conn *pgx.Conn) error {
	var owner string
	var may bool
	err := conn.QueryRow(ctx, `select pg_get_userbyid(relowner), pg_has_role(relowner, 'USAGE') from pg_class where oid = to_regclass($1)`, goose.DefaultTablename).
		Scan(&owner, &may)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && may {
		return nil
	}
	if err != nil {
		return fmt.Errorf("db: look for the tables' owner: %w", err)
	}
	return fmt.Errorf("db: the tables belong to the role %q, and this connects as %q: set WAYPOST_DATABASE_OWNER_URL to connect as their owner, or restore the backup again with `pg_restore --no-owner` connected as %[2]q", owner, conn.Config().User)
}

// explainRole says what to do about a login that may not act as AppRole.
func explainRole(err error, user string) error {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || !strings.Contains(pe.Message, AppRole) {
		return err
	}
	switch pe.Code {
	case insufficientPrivilege:
		return fmt.Errorf("the user %q may not act as the role %s; run `waypost migrate up`, or let an administrator run `%s`: %w", user, AppRole, grantLine(user), err)
	case "22023", "42704": // there is no such role
		return fmt.Errorf("the role %s is missing, as on an empty or a new server; run `waypost migrate up`: %w", AppRole, err)
	}
	return err
}
