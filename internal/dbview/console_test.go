package dbview_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/dbview"
)

func TestTheConsoleAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, err := ask(t, w, `select 1 as n, null as nothing, 'a<b' as text, '{1,2}'::int[] as list, email from users right join (select) x on true`)
	if err != nil || texts(a.Values) != "1|null|a<b|{1,2}|null" || !a.Columns[0].Number || a.Columns[2].Number || a.Columns[3].Type != "_int4" || a.Cut != "" {
		t.Errorf("%+v %s %v", a, texts(a.Values), err)
	}
	for _, sql := range []string{"values (1), (2)", "table visible_columns", "show server_version", "with x as (select 1) select * from x", "-- which?\nselect 1;", "select * from pg_locks", "select pg_total_relation_size('users')", "select random(), gen_random_uuid(), clock_timestamp()"} {
		if a, err := ask(t, w, sql); err != nil || len(a.Values) == 0 {
			t.Errorf("%s: %+v, %v", sql, a, err)
		}
	}
	for _, kind := range []dbview.Explain{dbview.Plan, dbview.Analyze} {
		if a, err := w.Query(asAdmin(t), dbview.Question{SQL: "select id from users", Explain: kind}); err != nil || !strings.Contains(texts(a.Values), "on public.users") && !strings.Contains(texts(a.Values), "on users") {
			t.Errorf("%s: %s, %v", kind, texts(a.Values), err)
		}
	}
	if _, err := ask(t, w, "select 1,\n  nix"); code(err) != "query_failed" || !strings.Contains(err.Error(), `column "nix" does not exist (at character 13)`) {
		t.Errorf("%v", err)
	}
}

// harm is what the console does not do, with the code of its answer.
var harm = map[string]string{
	"commit; drop table users":                      "query_failed",
	"select 1; select 2":                            "query_failed",
	"drop table users":                              "query_refused",
	"commit":                                        "query_refused",
	"rollback":                                      "query_refused",
	"begin read write":                              "query_refused",
	"set transaction read write":                    "query_refused",
	"set transaction_read_only = off":               "query_refused",
	"set role waypost_app":                          "query_refused",
	"set statement_timeout = 0":                     "query_refused",
	"reset all":                                     "query_refused",
	"lock table users":                              "query_refused",
	"listen river":                                  "query_refused",
	"notify river":                                  "query_refused",
	"do $$ begin perform 1; end $$":                 "query_refused",
	"declare c cursor with hold for select 1":       "query_refused",
	"prepare p as select 1":                         "query_refused",
	"create temporary table x ()":                   "query_refused",
	"select 1 into temporary table x":               "query_refused",
	"copy (select 1) to stdout":                     "query_refused",
	"copy (select 1) to program 'id'":               "query_refused",
	"copy users from '/etc/passwd'":                 "query_refused",
	"vacuum":                                        "query_refused",
	"call nix()":                                    "query_failed",
	"execute nix":                                   "query_refused",
	"fetch all from nix":                            "query_refused",
	"select $1::int":                                "query_refused",
	"insert into posts default values returning id": "query_failed",
	"with x as (delete from posts returning 1) select * from x":               "query_failed",
	"with x as (update users set role = 'ADMIN' returning 1) table x":         "query_failed",
	"explain analyze delete from posts":                                       "query_failed",
	"select * from users for update":                                          "query_failed",
	"select pg_read_file('/etc/passwd')":                                      "query_failed",
	"select pg_ls_dir('/')":                                                   "query_failed",
	"select pg_stat_file('/etc/passwd')":                                      "query_failed",
	"select lo_import('/etc/passwd')":                                         "query_failed",
	"select pg_reload_conf()":                                                 "query_failed",
	"select dblink('', 'select 1')":                                           "query_failed",
	"select audit_seal(1)":                                                    "query_failed",
	"select audit_note('x', 'y', '{}')":                                       "query_failed",
	"select ensure_events_month(now())":                                       "query_failed",
	"select grant_viewer()":                                                   "query_failed",
	"select lo_create(4712)":                                                  "query_refused",
	"select lo_unlink(4711)":                                                  "query_refused",
	"select convert_from(lo_get(4711), 'UTF8')":                               "query_refused",
	"select nextval('counter')":                                               "query_refused",
	"select setval('counter', 7)":                                             "query_refused",
	"select pg_advisory_lock(1)":                                              "query_refused",
	`select "pg_try_advisory_lock" (1)`:                                       "query_refused",
	"select 1 limit pg_catalog.PG_Try_Advisory_Lock/**/(1)::int":              "query_refused",
	`select U&"pg\005fadvisory_lock"(1)`:                                      "query_refused",
	"select pg_notify('river', 'x')":                                          "query_refused",
	"select pg_logical_emit_message(false, 'x', 'y')":                         "query_refused",
	"select set_config('statement_timeout', '0', false)":                      "query_refused",
	"select set_config('transaction_read_only', 'off', false)":                "query_refused",
	"select setseed(0.5)":                                                     "query_refused",
	"select pg_terminate_backend(pid) from pg_stat_activity":                  "query_refused",
	"select pg_export_snapshot()":                                             "query_refused",
	"select query_to_xml('select pg_adv' || 'isory_lock(1)', true, true, '')": "query_refused",
	"select * from ts_stat('select pg_adv' || 'isory_lock(1)')":               "query_refused",
	"":                          "validation_failed",
	" \n\t":                     "validation_failed",
	"a\x00b":                    "validation_failed",
	"\xff":                      "validation_failed",
	strings.Repeat("x", 10_001): "validation_failed",
}

func TestCase52TheConsoleExecutesNothingThatDoesMoreThanLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, `set waypost.actor_type = 'cli'`, `insert into posts (author_id, title, body) select null, 'kept', 'kept' where false`,
		`create sequence counter owned by none`, `select lo_create(4711)`, `grant select on large object 4711 to public`)
	for sql, want := range harm {
		if _, err := ask(t, w, sql); code(err) != want {
			t.Errorf("%.80s: %v; want %s", sql, err, want)
		}
	}
	w.waitForNoConsole(t)
	left := w.list(t, `select 'advisory lock' from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())
		union all select 'large object ' || oid from pg_largeobject_metadata where oid <> 4711
		union all select 'sequence' from counter where is_called
		union all select 'temporary ' || relname from pg_class where relpersistence = 't'`)
	if len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// Whatever stands around a function's name, it is found.
func TestANameThatIsRefusedIsRefusedAnywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	around := rapid.StringMatching(`[ \n"'(),.;/*+-]{0,6}`)
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom([]string{"pg_advisory_lock", "PG_NOTIFY", "Set_Config", "nextval", "lo_create", "pg_logical_emit_message"}).Draw(rt, "name")
		sql := "select 1 " + around.Draw(rt, "before") + " " + around.Draw(rt, "there") + name + around.Draw(rt, "after")
		if _, err := w.Query(asAdmin(t), dbview.Question{SQL: sql}); code(err) != "query_refused" {
			rt.Errorf("%q: %v", sql, err)
		}
	})
}

func TestCase52AStatementEndsAfterItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *dbview.Options) { o.Timeout = 300 * time.Millisecond })
	for _, sql := range []string{"select pg_sleep(60)", "select count(*) from generate_series(1, 1e12::bigint)", "explain analyze select pg_sleep(60)"} {
		if _, err := ask(t, w, sql); !errors.Is(err, dbview.ErrExpensive) {
			t.Errorf("%s: %v", sql, err)
		}
	}
	w.waitForNoConsole(t)
}

func TestAnswersAreCutAtTheirLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *dbview.Options) { o.MaxRows, o.MaxBytes = 10, 100_000 })
	if a, err := ask(t, w, "select generate_series(1, 10)"); err != nil || len(a.Values) != 10 || a.Cut != "" {
		t.Errorf("%d rows, %q, %v", len(a.Values), a.Cut, err)
	}
	if a, err := ask(t, w, "select generate_series(1, 1e9::bigint)"); err != nil || len(a.Values) != 10 || !strings.Contains(a.Cut, "first 10 rows") {
		t.Errorf("%d rows, %q, %v", len(a.Values), a.Cut, err)
	}
	if a, err := ask(t, w, "select repeat('x', 40000) from generate_series(1, 9)"); err != nil || len(a.Values) != 2 || a.Cut == "" {
		t.Errorf("%d rows, %q, %v", len(a.Values), a.Cut, err)
	}
	if _, err := ask(t, w, "select repeat('x', 50000000)"); code(err) != "query_too_expensive" || !strings.Contains(err.Error(), "single row") {
		t.Errorf("%v", err)
	}
}

func TestTheConsoleWorksOnOneStatementAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *dbview.Options) { o.Timeout = 4 * time.Second })
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(asAdmin(t))
	defer cancel()
	go func() {
		_, err := w.Query(ctx, dbview.Question{SQL: "select pg_sleep(60)"})
		ended <- err
	}()
	for len(w.list(t, `select '' from pg_stat_activity where usename = 'waypost_viewer' and datname = current_database() and state = 'active'`)) == 0 {
		if t.Context().Err() != nil {
			t.Fatal("the statement never began")
		}
	}
	if _, err := ask(t, w, "select 1"); !errors.Is(err, db.ErrBusy) {
		t.Errorf("%v", err)
	}
	if _, err := w.Tables(asAdmin(t)); err != nil {
		t.Errorf("the tables: %v", err)
	}
	cancel() // as a client that goes away
	if err := <-ended; err == nil {
		t.Error("a statement outlived who asked")
	}
	w.waitForNoConsole(t)
}

func TestTheConsoleIsOffForARoleThatCouldDoMore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ spoil, want string }{
		"a table":          {`grant select on users to waypost_viewer`, "may read users.password_hash"},
		"a column":         {`grant select (password_hash) on users to waypost_viewer`, "may read users.password_hash"},
		"everybody":        {`grant select on mails to public`, "may read mails.text"},
		"another schema":   {`create schema other; create table other.users (password_hash text); grant usage on schema other to public; grant select on other.users to public`, "may read other.users.password_hash"},
		"writing":          {`grant update (role) on users to waypost_viewer`, "may write users"},
		"a sequence":       {`grant usage on sequence users_id_seq to public`, "may write users_id_seq"},
		"temporary tables": {`do $$ begin execute format('grant temporary on database %I to public', current_database()); end $$`, "may make temporary tables"},
		"creating":         {`grant create on schema public to public`, "may create in the schema public"},
		"a function":       {`grant execute on function audit_seal(integer) to public`, "may call audit_seal(integer)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if state, err := w.State(t.Context()); err != nil || state.Problem != "" {
				t.Fatalf("%+v, %v", state, err)
			}
			w.exec(t, c.spoil)
			if _, err := ask(t, w, "select 1"); code(err) != "console_rights" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
			if state, err := w.State(t.Context()); err != nil || !strings.Contains(state.Problem, c.want) || len(state.Statements) != 0 {
				t.Errorf("%+v, %v", state, err)
			}
		})
	}
	for name, url := range map[string]func(w world) string{
		"the application": func(w world) string { return w.urls.App }, "the owner": func(w world) string { return w.urls.Owner }, "the superuser": func(w world) string { return w.urls.Admin },
	} {
		w := newWorld(t)
		wrong, err := dbview.New(dbview.Options{DB: dbOf(t, w), ViewerURL: url(w)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wrong.Query(asAdmin(t), dbview.Question{SQL: "select 1"}); code(err) != "console_rights" || !strings.Contains(err.Error(), "not as waypost_viewer") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func dbOf(t *testing.T, w world) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), db.Options{URL: w.urls.App, MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func TestWithoutAConnectionStringThePageSaysHowToTurnTheConsoleOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *dbview.Options) { o.ViewerURL = "" })
	if _, err := ask(t, w, "select 1"); !errors.Is(err, dbview.ErrOff) {
		t.Errorf("%v", err)
	}
	state, err := w.State(t.Context())
	if err != nil || state.Problem == "" || !cmp.Equal(state.Statements, []string{"ALTER ROLE waypost_viewer LOGIN PASSWORD '...';", "SELECT grant_viewer();"}) {
		t.Errorf("%+v, %v", state, err)
	}
	// They do: the rights are gone, as after a restore without them.
	w.exec(t, `revoke all on all tables in schema public from waypost_viewer`, `do $$ begin execute format('grant temporary on database %I to public', current_database()); end $$`, state.Statements[1])
	on, err := dbview.New(dbview.Options{DB: dbOf(t, w), ViewerURL: w.urls.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := on.Query(asAdmin(t), dbview.Question{SQL: "select email from users"}); err != nil {
		t.Error(err)
	}
}

func TestEveryUseIsNotedBeforeItIsDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *dbview.Options) { o.Timeout = 2 * time.Second })
	long := "select '" + strings.Repeat("\u20ac", 3000) + "'"
	for _, sql := range []string{"select 1", "selec", "select password_hash from users", "select pg_notify('x', 'y')", long} {
		_, _ = ask(t, w, sql)
	}
	_, _ = w.Query(asAdmin(t), dbview.Question{SQL: "select 2", Explain: dbview.Plan})
	_, _ = w.Tables(asAdmin(t))
	_, _ = w.Structure(asAdmin(t), "users")
	_, _ = w.Rows(asAdmin(t), "users", dbview.Selection{Column: "id", Operator: dbview.Equal, Value: "no number", Sort: "-id", Offset: 25, Limit: 25})
	_, _ = w.Rows(asAdmin(t), "nix", dbview.Selection{Limit: 25})
	_, _ = w.Activity(asAdmin(t))
	got := w.notes(t)
	want := []string{
		`"query": "select 1"`, `"query": "selec"`, `"query": "select password_hash from users"`, `pg_notify`, `"query_3"`, `"explain": "plan"`,
		`"page": "tables"`, `"page": "structure", "what": "database view", "table": "users"`, `"value": "no number", "column": "id", "offset": 25, "operator": "is"`, `"table": "nix"`, `"page": "activity"`,
	}
	if len(got) != len(want) {
		t.Fatalf("%d notes: %q", len(got), got)
	}
	for i, part := range want {
		if !strings.Contains(got[i], part) || !strings.HasPrefix(got[i], "view-database ") {
			t.Errorf("note %d: %.300s; want %s", i, got[i], part)
		}
	}
	whole := w.list(t, `select (changes::jsonb -> 'note' ->> 'query') || (changes::jsonb -> 'note' ->> 'query_2') || (changes::jsonb -> 'note' ->> 'query_3') from audit_pending where changes like '%query_3%'`)
	if !cmp.Equal(whole, []string{long}) {
		t.Errorf("the text of a long statement is not whole: %s", fmt.Sprint(whole)[:200])
	}
}

func TestAConsoleThatCantSignInSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for url, want := range map[string]string{
		strings.Replace(w.urls.Viewer, "waypost_viewer@", "nobody_here@", 1): "can't sign in",
		strings.Replace(w.urls.Viewer, "/test_", "/nix_", 1):                 "can't sign in",
		"postgres://waypost_viewer:hush-hush@127.0.0.1:1/nix":                "cannot reach its database",
	} {
		s, err := dbview.New(dbview.Options{DB: dbOf(t, w), ViewerURL: url})
		if err != nil {
			t.Fatal(err)
		}
		state, err := s.State(t.Context())
		if err != nil || !strings.Contains(state.Problem, want) || (len(state.Statements) == 0) != (want == "cannot reach its database") {
			t.Errorf("%s: %+v, %v", url, state, err)
		}
		if _, err := s.Query(asAdmin(t), dbview.Question{SQL: "select 1"}); err == nil || strings.Contains(fmt.Sprintf("%+v %v", state, err), "hush-hush") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := dbview.New(dbview.Options{DB: dbOf(t, w), ViewerURL: "postgres://waypost_viewer:hush-hush@[nix"}); err == nil || strings.Contains(err.Error(), "hush-hush") || !strings.Contains(err.Error(), "WAYPOST_DATABASE_VIEWER_URL") {
		t.Errorf("%v", err)
	}
}
