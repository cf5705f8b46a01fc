package dbview

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/fault"
)

// harmless says what the role of the connection could do beyond reading what the list
// shows; nothing, if all is well. Tables and functions of extensions are their own
// business, definers apart.
const harmless = `
select format('signs in as %s, not as waypost_viewer', session_user) where session_user <> 'waypost_viewer'
union all
select format('acts as %s', current_user) where current_user <> session_user
union all
select 'has an attribute such as SUPERUSER or CREATEROLE (ALTER ROLE waypost_viewer NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS)'
from pg_roles where rolname = session_user and (rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls)
union all
select format('is a member of %s (REVOKE %1$s FROM waypost_viewer)', roleid::regrole)
from pg_auth_members where member = (select oid from pg_roles where rolname = session_user)
union all
select format('may make temporary tables (REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC, waypost_viewer; waypost migrate up does that)', current_database())
where has_database_privilege(current_database(), 'TEMPORARY')
union all
select format('may create schemas (REVOKE CREATE ON DATABASE %I FROM PUBLIC, waypost_viewer)', current_database())
where has_database_privilege(current_database(), 'CREATE')
union all
select format('may create in the schema %I (REVOKE CREATE ON SCHEMA %1$I FROM PUBLIC, waypost_viewer)', nspname)
from pg_namespace where has_schema_privilege(oid, 'CREATE')
union all
(select format('may read %s.%I, which visible_columns does not show (REVOKE SELECT ON %1$s FROM PUBLIC, waypost_viewer; waypost migrate up mends its own part)', c.oid::regclass, a.attname)
from pg_class c
join pg_namespace n on n.oid = c.relnamespace and n.nspname not in ('pg_catalog', 'information_schema') and has_schema_privilege(n.oid, 'USAGE')
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relkind in ('r', 'p', 'v', 'm', 'f') and has_column_privilege(c.oid, a.attnum, 'SELECT')
  and not exists (select from visible_columns v where v.table_name = c.relname and a.attname = any (v.shown) and n.oid = (select relnamespace from pg_class where oid = 'visible_columns'::regclass))
  and not exists (select from pg_depend d where d.objid = c.oid and d.classid = 'pg_class'::regclass and d.deptype = 'e')
limit 3)
union all
(select format('may write %s (REVOKE ALL ON %1$s FROM PUBLIC, waypost_viewer)', c.oid::regclass)
from pg_class c join pg_namespace n on n.oid = c.relnamespace and n.nspname not in ('pg_catalog', 'information_schema')
where case when c.relkind = 'S' then has_sequence_privilege(c.oid, 'USAGE, UPDATE')
           when c.relkind in ('r', 'p', 'v', 'f') then has_table_privilege(c.oid, 'DELETE, TRUNCATE, TRIGGER') or has_any_column_privilege(c.oid, 'INSERT, UPDATE, REFERENCES') end
limit 3)
union all
(select format('may call %s, which acts as its owner (REVOKE EXECUTE ON FUNCTION %1$s FROM PUBLIC, waypost_viewer)', p.oid::regprocedure)
from pg_proc p join pg_namespace n on n.oid = p.pronamespace and n.nspname <> 'pg_catalog'
where p.prosecdef and has_function_privilege(p.oid, 'EXECUTE') and has_schema_privilege(n.oid, 'USAGE')
limit 3)`

// forbidden are those of the functions named $1 that the console's role may call and
// that do more than return a value: the volatile ones, but those whose name matches $2.
// The functions that languages, indexes and samples are made of can't be called.
const forbidden = `
select distinct p.proname::text
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where p.proname = any ($1::text[]) and p.provolatile = 'v' and has_function_privilege(p.oid, 'EXECUTE')
  and not (n.nspname = 'pg_catalog' and p.proname ~ $2)
  and p.prorettype not in (select oid from pg_type where typname in ('internal', 'trigger', 'event_trigger', 'tsm_handler', 'index_am_handler', 'table_am_handler', 'language_handler', 'fdw_handler'))
order by 1`

// permitted are PostgreSQL's volatile functions that only look, or let time pass.
const permitted = `^(clock_timestamp|current_query|gen_random_uuid|random|random_normal|timeofday|uuidv4|uuidv7|pg_sleep|pg_sleep_for|pg_sleep_until` +
	`|pg_(safe_snapshot_)?blocking_pids|pg_lock_status|pg_(database|indexes|relation|table|tablespace|total_relation)_size|pg_current_wal_\w+|pg_last_\w+|pg_is_\w+` +
	`|pg_partition_(ancestors|tree)|pg_stat_get_\w+|pg_sequence_last_value|pg_xact_status|txid_status|pg_xact_commit_timestamp|pg_jit_available|pg_control_\w+|pg_(database_)?collation_actual_version)$`

var (
	words = regexp.MustCompile(`[\pL\pN_$]+`)
	// escaped is a name whose characters can be written in escapes.
	escaped = regexp.MustCompile(`(?i)u&"`)
)

// refuse returns a fault of code query_refused for a statement that names a forbidden
// function, anywhere. It doesn't try to understand the statement: a name in a string
// counts too, since some functions execute a string.
func refuse(ctx context.Context, conn *pgconn.PgConn, sql string) error {
	if escaped.MatchString(sql) {
		return fault.New(fault.Invalid, "query_refused", `Names in escapes (U&"...") are not accepted. Write them as they are.`)
	}
	found, err := texts(ctx, conn, forbidden, array(names(sql)), permitted)
	if err != nil {
		return fmt.Errorf("dbview: functions: %w", db.Translate(err))
	}
	if len(found) > 0 {
		return fault.Newf(fault.Invalid, "query_refused", "The statement names %s, which can do more than look, so it was not executed. The word is refused wherever it stands, in a string too.", strings.Join(found, ", "))
	}
	return nil
}

// maxName is how much of a name PostgreSQL looks at, in bytes.
const maxName = 63

// names are the words of a statement that could be a function's name.
func names(sql string) []string {
	list := words.FindAllString(strings.ToLower(sql), -1)
	for i, w := range list {
		list[i] = w[:min(len(w), maxName)]
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// array writes an array of words as PostgreSQL reads it.
func array(list []string) string {
	return `{"` + strings.ToValidUTF8(strings.Join(list, `","`), "") + `"}`
}

// State says whether the console works.
type State struct {
	// Problem says why not, "" if it does.
	Problem string
	// Statements turn it on, executed by an administrator of the database; nil where it
	// works or Problem says what must be done.
	Statements []string
}

// State looks whether the console works.
func (s *Service) State(ctx context.Context) (State, error) {
	if s.o.ViewerURL != "" {
		err := s.try(ctx)
		f, ok := errors.AsType[*fault.Error](err)
		switch {
		case ok && f.Code == codeSignIn:
			return State{Problem: f.Message, Statements: db.ViewerStatements(true)}, nil
		case ok:
			return State{Problem: f.Message}, nil
		}
		return State{}, err
	}
	var exists bool
	if err := s.o.DB.Direct().QueryRow(ctx, `select exists (select from pg_roles where rolname = $1)`, db.ViewerRole).Scan(&exists); err != nil {
		return State{}, fmt.Errorf("dbview: look for the console's role: %w", db.Translate(err))
	}
	return State{Problem: ErrOff.Message, Statements: db.ViewerStatements(exists)}, nil
}

// try signs in at the console, and returns a fault of what is wrong.
func (s *Service) try(ctx context.Context) error {
	leave, err := s.console.take(ctx)
	if errors.Is(err, db.ErrBusy) {
		return nil // it works on something
	}
	if err != nil {
		return err
	}
	defer leave()
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer discard(ctx, conn)
	return s.begin(ctx, conn)
}
