package db_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
)

// psql runs statements at a database, one after the other.
func psql(t *testing.T, url string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// column reads the first column of an answer, as text.
func column(t *testing.T, url, sql string) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	rows, err := conn.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return list
}

func TestANewerDatabaseIsServedForAsLongAsItIsCompatible(t *testing.T) {
	t.Parallel()
	d, urls := dbtest.NewWithURL(t)
	expect := func(what string, want error) {
		t.Helper()
		if err := d.CheckMigrated(t.Context()); !errors.Is(err, want) {
			t.Errorf("%s: CheckMigrated: %v", what, err)
		}
		if err := d.CheckRights(t.Context()); !errors.Is(err, want) {
			t.Errorf("%s: CheckRights: %v", what, err)
		}
		current, err := db.IsCurrent(t.Context(), urls.Owner)
		if !errors.Is(err, want) && !(want == db.ErrPending && err == nil) || current != (want == nil) {
			t.Errorf("%s: IsCurrent: %t, %v", what, current, err)
		}
	}
	expect("its own", nil)
	psql(t, urls.Owner,
		`insert into goose_db_version (version_id, is_applied) values (99998, true), (99999, true)`,
		`create table of_a_newer_waypost (n int)`,
		`revoke delete on posts from waypost_app`) // a newer schema's rights are its own affair
	expect("newer", nil)
	done, err := db.Upgrade(t.Context(), db.UpgradeOptions{OwnerURL: urls.Owner})
	if diff := cmp.Diff(db.Upgraded{Newer: 99999}, done); diff != "" || err != nil {
		t.Errorf("an upgrade by the older one: %v\n%s", err, diff)
	}
	list, err := db.Status(t.Context(), urls.Owner)
	if last := list[len(list)-1]; err != nil || last != (db.Migration{Version: 99999, Applied: true}) {
		t.Errorf("status: %+v, %v", last, err)
	}

	psql(t, urls.Owner, `update installation set compatible_from = 99998`)
	expect("newer and incompatible", db.ErrIncompatible)
	if _, err := db.Upgrade(t.Context(), db.UpgradeOptions{OwnerURL: urls.Owner}); !errors.Is(err, db.ErrIncompatible) || !strings.Contains(err.Error(), "99998") {
		t.Errorf("Upgrade: %v", err)
	}
	psql(t, urls.Owner, `delete from installation`)
	expect("newer and silent about it", db.ErrIncompatible)
	psql(t, urls.Owner, `insert into installation (compatible_from) values (0)`, `delete from goose_db_version where version_id = 13`)
	expect("newer, and yet one is missing", db.ErrPending)
}

func TestAMigrationThatTakesSomethingAwaySaysFromWhereOnItIsCompatible(t *testing.T) {
	t.Parallel()
	takes := regexp.MustCompile(`(?im)^[^-\n]*\b(drop (table|column|function|view|type|schema)|rename (to|column))\b`)
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(files) < 14 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		if filepath.Base(file) > "00016_installation.sql" && takes.MatchString(up) && !strings.Contains(up, "compatible_from") {
			t.Errorf("%s takes something away that an older program may use: raise installation.compatible_from, see 00016_installation.sql", file)
		}
	}
}

func TestAnUpgradeSaysWhatItDidAndTheNextHasNothingToDo(t *testing.T) {
	t.Parallel()
	urls := dbtest.Unmigrated(t)
	list, err := db.Status(t.Context(), urls.Owner)
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	if made := column(t, urls.Owner, `select relname::text from pg_class where relnamespace = 'public'::regnamespace`); len(made) > 0 {
		t.Errorf("asking for the status made %v", made)
	}
	done, err := db.Upgrade(t.Context(), db.UpgradeOptions{OwnerURL: urls.Owner, AppURL: urls.App})
	if err != nil || len(done.River) == 0 || len(done.Restored) > 0 {
		t.Errorf("%+v, %v", done, err)
	}
	for i := range list {
		if list[i].Applied {
			t.Errorf("%s counts as applied on an empty database", list[i].Name)
		}
		list[i].Applied = true
	}
	if diff := cmp.Diff(list, done.Applied); diff != "" {
		t.Error(diff)
	}
	if again, err := db.Upgrade(t.Context(), db.UpgradeOptions{OwnerURL: urls.Owner, AppURL: urls.App}); err != nil || !cmp.Equal(again, db.Upgraded{}) {
		t.Errorf("once more: %+v, %v", again, err)
	}
	if after, err := db.Status(t.Context(), urls.Owner); err != nil || !cmp.Equal(list, after) {
		t.Errorf("status: %v\n%s", err, cmp.Diff(list, after))
	}
}

// privileges lists what the application's role and everybody may do with each
// object of the database.
const privileges = `
with role (role) as (values ('waypost_app'), ('waypost_viewer'), ('public')),
     relation as (select oid, relname, relkind, relnamespace from pg_class where relnamespace = 'public'::regnamespace)
select format('%s: %s on %s', role, p, relname) from role, relation, unnest(array['select', 'insert', 'update', 'delete', 'truncate', 'references', 'trigger']) p
    where relkind in ('r', 'p', 'v', 'm') and has_table_privilege(role, oid, p)
union all
select format('%s: %s on %s (%s)', role, p, relname, attname) from role, relation join pg_attribute on attrelid = oid and attnum > 0 and not attisdropped,
    unnest(array['select', 'insert', 'update', 'references']) p where relkind in ('r', 'p', 'v', 'm') and has_column_privilege(role, oid, attnum, p)
union all
select format('%s: %s on sequence %s', role, p, relname) from role, relation, unnest(array['usage', 'select', 'update']) p
    where relkind = 'S' and has_sequence_privilege(role, oid, p)
union all
select format('%s: execute on %s', role, oid::regprocedure) from role, pg_proc
    where pronamespace = 'public'::regnamespace and has_function_privilege(role, oid, 'execute')
union all
select format('%s: usage on type %s', role, typname) from role, pg_type
    where typnamespace = 'public'::regnamespace and typrelid = 0 and has_type_privilege(role, oid, 'usage')
union all
select format('%s: %s on schema public', role, p) from role, unnest(array['usage', 'create']) p where has_schema_privilege(role, 'public', p)
union all
select format('%s: %s on the database', role, p) from role, unnest(array['temporary', 'create', 'connect']) p where has_database_privilege(role, current_database(), p)
union all
select format('by default: %s %s %s', defaclrole::regrole, defaclobjtype, defaclacl) from pg_default_acl
order by 1`

func TestRightsThatARestoreLostAreRestored(t *testing.T) {
	t.Parallel()
	d, urls := dbtest.NewWithURL(t)
	want := column(t, urls.Owner, privileges)
	if len(want) < 200 {
		t.Fatalf("only %d privileges on a migrated database", len(want))
	}
	psql(t, urls.Owner,
		`revoke all on all tables in schema public from waypost_app`,
		`revoke all on all sequences in schema public from waypost_app`,
		`revoke all on all functions in schema public from waypost_app`,
		`grant execute on all functions in schema public to public`,
		`revoke all on schema public from waypost_app`,
		`revoke all on all tables in schema public from waypost_viewer`,
		`grant select, insert on users to waypost_viewer`,
		`grant update (email), select (password_hash) on users to waypost_viewer`)
	psql(t, urls.Admin, `do $$ begin execute format('grant temporary on database %I to public', current_database()); end $$`)
	if err := d.CheckMigrated(t.Context()); !errors.Is(err, db.ErrRights) {
		t.Errorf("CheckMigrated: %v", err)
	}
	if current, err := db.IsCurrent(t.Context(), urls.Owner); current || err != nil {
		t.Errorf("IsCurrent: %t, %v", current, err)
	}
	psql(t, urls.Owner, `grant select on goose_db_version to waypost_app`)
	if err := d.CheckRights(t.Context()); !errors.Is(err, db.ErrRights) || !strings.Contains(err.Error(), "grant") {
		t.Errorf("CheckRights: %v", err)
	}
	done, err := db.Upgrade(t.Context(), db.UpgradeOptions{OwnerURL: urls.Owner})
	if err != nil || len(done.Applied)+len(done.River) > 0 || len(done.Restored) < 50 {
		t.Errorf("%d rights restored, %+v %v, %v", len(done.Restored), done.Applied, done.River, err)
	}
	if diff := cmp.Diff(want, column(t, urls.Owner, privileges)); diff != "" {
		t.Errorf("restored rights are not those of a fresh database; do all migrations grant in a form that is understood? %s", diff)
	}
	if err := d.CheckRights(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAGrantThatCouldNotBeRestoredIsNoMigration(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string]int{
		"grant select, insert on a, b to waypost_app;":                                        4,
		"GRANT SELECT,\n  UPDATE ON TABLE a TO waypost_app;":                                  2,
		"revoke execute on function f(text, bigint) from public;":                             1,
		"-- grant select on a to waypost_app;\n":                                              0,
		"-- +goose StatementBegin\ngrant rubbish;\n-- +goose StatementEnd\n":                  0,
		"grant all on a to waypost_app;":                                                      -1,
		"grant select (n) on a to waypost_app;":                                               -1,
		"grant select on all tables in schema public to waypost_app, somebody;":               -1,
		"grant select on a to somebody;":                                                      -1,
		"grant select on a from waypost_app;":                                                 -1,
		"grant waypost_app to somebody;":                                                      -1,
		"create table grants (n int);\ngrant delete on grants to waypost_app;\ndrop table x;": 1,
	} {
		n, err := db.RightsIn("-- +goose Up\n" + statement + "\n-- +goose Down\nrevoke rubbish;\n")
		if err != nil {
			n = -1
		}
		if n != want {
			t.Errorf("%q: %d rights, want %d (%v)", statement, n, want, err)
		}
	}
}

func TestALoginThatMayNotActAsTheApplicationIsToldTheLine(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	login := strings.ToLower(t.Name()[:20])
	psql(t, urls.Admin, `drop role if exists `+login, `create role `+login+` login`)
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), urls.Admin)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close(context.Background()) }()
		if _, err := conn.Exec(context.Background(), `drop role `+login); err != nil {
			t.Error(err)
		}
	})
	as := strings.Replace(urls.App, db.AppRole+"@", login+"@", 1)
	if as == urls.App {
		t.Fatal("the login is not in the URL")
	}
	line := fmt.Sprintf(`GRANT waypost_app TO "%s";`, login)
	if d, err := db.Open(t.Context(), db.Options{URL: as}); err == nil || !strings.Contains(err.Error(), line) {
		if err == nil {
			d.Close()
		}
		t.Errorf("%v, want a message with %s", err, line)
	}
	// This owner may not; an administrator may, and so does the upgrade.
	if _, err := db.Upgrade(t.Context(), db.UpgradeOptions{OwnerURL: urls.Owner, AppURL: as}); err == nil || !strings.Contains(err.Error(), line) {
		t.Errorf("%v, want a message with %s", err, line)
	}
	done, err := db.Upgrade(t.Context(), db.UpgradeOptions{OwnerURL: urls.Admin, AppURL: as})
	if err != nil || len(done.Restored) != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	d, err := db.Open(t.Context(), db.Options{URL: as})
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
}

func TestTablesOfSomebodyElseAreNamedAsSuch(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	psql(t, urls.Admin, `alter table goose_db_version owner to postgres`)
	if _, err := db.Upgrade(t.Context(), db.UpgradeOptions{OwnerURL: urls.Owner}); err == nil || !strings.Contains(err.Error(), `"postgres"`) || !strings.Contains(err.Error(), `"waypost_owner"`) {
		t.Errorf("%v, want both roles named", err)
	}
}
