package db

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"
)

// ErrRights says that AppRole lacks rights that the migrations granted, as after
// the restore of a backup without them.
var ErrRights = errors.New("db: the role " + AppRole + " lacks rights on the database; run `waypost migrate up`, which restores them")

// right is a privilege on an object that a role must have, or must not.
type right struct {
	Role      string // AppRole or public
	Privilege string // such as select
	Kind      string // schema, table, sequence or function
	Object    string // as the migrations write it; a function with its argument types
	Held      bool   // must have it
}

func (r right) sql() string {
	if r.Held {
		return fmt.Sprintf("grant %s on %s %s to %s", r.Privilege, r.Kind, r.Object, r.Role)
	}
	return fmt.Sprintf("revoke %s on %s %s from %s", r.Privilege, r.Kind, r.Object, r.Role)
}

// rightsGranted is what the migrations grant and revoke when all are applied.
// They are the only place where rights are written down: each grants what it
// creates.
func rightsGranted() ([]right, error) {
	var list []right
	for _, m := range known() {
		statements, err := parseRights(migrationText(m.Name))
		if err != nil {
			return nil, fmt.Errorf("db: migration %s: %w", m.Name, err)
		}
		for _, r := range statements {
			same := func(o right) bool { o.Held = r.Held; return o == r }
			list = append(slices.DeleteFunc(list, same), r)
		}
	}
	return list, nil
}

var (
	upPart      = regexp.MustCompile(`(?s)-- \+goose Up\n(.*?)(?:-- \+goose Down\n|$)`)
	functions   = regexp.MustCompile(`(?s)-- \+goose StatementBegin\n.*?-- \+goose StatementEnd\n`)
	comments    = regexp.MustCompile(`--[^\n]*`)
	aboutRights = regexp.MustCompile(`(?i)^(grant|revoke)\s`)
	rightsForm  = regexp.MustCompile(`(?is)^(grant|revoke)\s+((?:(?:select|insert|update|delete|usage|execute)(?:,\s*|\s))+)on\s+(?:(schema|table|sequence|function)\s+)?(.+?)\s+(to|from)\s+(` + AppRole + `|public)$`)
	outerCommas = regexp.MustCompile(`,\s*`)
)

// parseRights reads the grants and revocations of a migration's Up part.
func parseRights(text string) ([]right, error) {
	up := upPart.FindStringSubmatch(text)
	if up == nil {
		return nil, errors.New("it has no Up part")
	}
	var list []right
	for statement := range strings.SplitSeq(comments.ReplaceAllString(functions.ReplaceAllString(up[1], ""), ""), ";") {
		statement = strings.TrimSpace(statement)
		if !aboutRights.MatchString(statement) {
			continue
		}
		m := rightsForm.FindStringSubmatch(statement)
		if m == nil || strings.EqualFold(m[1], "grant") != strings.EqualFold(m[5], "to") {
			return nil, fmt.Errorf("rights are restored from statements of the form `grant select, insert on a, b to %s`, which this is not: %s", AppRole, statement)
		}
		kind := strings.ToLower(m[3])
		if kind == "" {
			kind = "table"
		}
		objects := []string{m[4]} // a function's arguments have commas too
		if kind != "function" {
			objects = outerCommas.Split(m[4], -1)
		}
		for _, object := range objects {
			for _, privilege := range outerCommas.Split(m[2], -1) {
				list = append(list, right{Role: strings.ToLower(m[6]), Privilege: strings.TrimSpace(strings.ToLower(privilege)), Kind: kind, Object: object, Held: strings.EqualFold(m[1], "grant")})
			}
		}
	}
	return list, nil
}

// riverRights are those on River's tables, whose migrations know nothing of AppRole.
func riverRights(ctx context.Context, q querier) ([]right, error) {
	rows, err := q.Query(ctx, `select c.relname::text, c.relkind = 'S' from pg_class c
		where c.relnamespace = current_schema()::regnamespace and c.relname like 'river\_%' and c.relkind in ('r', 'p', 'S') order by 1`)
	if err != nil {
		return nil, fmt.Errorf("db: River's tables: %w", err)
	}
	var list []right
	var name string
	var isSequence bool
	_, err = pgx.ForEachRow(rows, []any{&name, &isSequence}, func() error {
		kind, privileges := "table", []string{"select", "insert", "update", "delete"}
		if isSequence {
			kind, privileges = "sequence", []string{"usage", "select"}
		}
		for _, p := range privileges {
			list = append(list, right{Role: AppRole, Privilege: p, Kind: kind, Object: name, Held: true})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("db: River's tables: %w", err)
	}
	return list, nil
}

// missingRights lists the rights that are not as they should be, on objects that
// exist. It needs no rights itself.
func missingRights(ctx context.Context, q querier) ([]right, error) {
	all, err := rightsGranted()
	if err != nil {
		return nil, err
	}
	river, err := riverRights(ctx, q)
	if err != nil {
		return nil, err
	}
	all = append(all, river...)
	var roles, privileges, kinds, objects []string
	var held []bool
	for _, r := range all {
		roles, privileges, kinds = append(roles, r.Role), append(privileges, r.Privilege), append(kinds, r.Kind)
		objects, held = append(objects, r.Object), append(held, r.Held)
	}
	rows, err := q.Query(ctx, `
with wanted as (
    select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::boolean[]) as w (role, privilege, kind, object, held)
), known as (
    select w.*, case kind
        when 'schema' then (select coalesce(nspacl, acldefault('n', nspowner)) from pg_namespace where nspname = object)
        when 'function' then (select coalesce(proacl, acldefault('f', proowner)) from pg_proc where oid = to_regprocedure(object))
        else (select coalesce(relacl, acldefault(case relkind when 'S' then 's' else 'r' end::"char", relowner)) from pg_class where oid = to_regclass(object))
    end as acl
    from wanted w
)
select role, privilege, kind, object, held from known
where acl is not null and held <> exists (
    select from aclexplode(acl) a
    where a.privilege_type = upper(privilege)
      and a.grantee = case role when 'public' then 0 else (select oid from pg_roles where rolname = role) end)`,
		roles, privileges, kinds, objects, held)
	if err != nil {
		return nil, fmt.Errorf("db: compare rights: %w", err)
	}
	missing, err := pgx.CollectRows(rows, pgx.RowToStructByPos[right])
	if err != nil {
		return nil, fmt.Errorf("db: compare rights: %w", err)
	}
	return missing, nil
}

// CheckRights returns ErrRights, with the first right that is missing, unless
// AppRole has those of this binary's migrations. A newer compatible schema may
// have others, which this binary can't judge.
func (d *DB) CheckRights(ctx context.Context) error {
	if newer, err := d.checkMigrated(ctx); newer || err != nil {
		return err
	}
	missing, err := missingRights(ctx, d.Direct())
	if err != nil {
		return Translate(err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w (%d, the first: %s)", ErrRights, len(missing), missing[0].sql())
	}
	return nil
}

// OwnsTables reports whether the user of the connection string, whom AppRole is only put
// on, owns the tables, may act as their owner or is a superuser, and what it is called.
// Such a user takes AppRole off with RESET ROLE.
func (d *DB) OwnsTables(ctx context.Context) (string, bool, error) {
	var user string
	var owns bool
	// session_user stays what it was when the role was set.
	err := d.Direct().QueryRow(ctx, `select session_user::text, coalesce(bool_or(pg_has_role(session_user, relowner, 'MEMBER')), false)
		from pg_class where oid = to_regclass($1)`, goose.DefaultTablename).Scan(&user, &owns)
	return user, owns, Translate(err)
}

// ensureRights makes rights what they should be. Those on what this very upgrade
// has made are no restoration.
func (u *Upgraded) ensureRights(ctx context.Context, conn *pgx.Conn) error {
	missing, err := missingRights(ctx, conn)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, r := range missing {
			if _, err := tx.Exec(ctx, r.sql()); err != nil {
				return fmt.Errorf("db: %s: %w", r.sql(), err)
			}
			if len(u.River) == 0 || !strings.HasPrefix(r.Object, "river_") {
				u.Restored = append(u.Restored, r.sql())
			}
		}
		return nil
	})
}
