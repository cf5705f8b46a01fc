package dbview_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/dbview"
)

// secrets are the columns that nobody may ever see, whatever the list says.
var secrets = []string{
	"users.password_hash", "refresh_tokens.token_sha256", "mail_tokens.token_sha256", "api_tokens.token_sha256", "page_sessions.cookie_sha256", "email_changes.confirm_sha256", "email_changes.undo_sha256", "recovery_codes.code_sha256",
	"totp_factors.secret", "signing_keys.private_key", "audit_keys.private_key", "sites.import_secret", "site_api_keys.key_sha256", "site_days.salt", "audit_log.salt", "audit_pending.salt",
	"oauth_flows.state_sha256", "oauth_flows.browser_sha256", "oauth_flows.code_challenge", "oauth_codes.code_sha256", "oauth_codes.code_challenge",
	"mails.text", "mails.html", "mails.secret", "river_job.args", "river_job.metadata", "webhook_events.raw",
}

func TestCase52TheConsolesRoleSelectsWhatTheListShowsAndNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	shown := w.list(t, `select v.table_name || '.' || c from visible_columns v, unnest(v.shown) c`)
	for _, secret := range secrets {
		if slices.Contains(shown, secret) {
			t.Errorf("the list shows %s", secret)
		}
	}
	all := w.list(t, `select c.relname || '.' || a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
		where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace and not c.relispartition`)
	viewer := connect(t, w.urls.Viewer)
	for _, name := range all {
		table, column, _ := strings.Cut(name, ".")
		_, err := viewer.Exec(t.Context(), fmt.Sprintf("select %s from %s", pgx.Identifier{column}.Sanitize(), pgx.Identifier{table}.Sanitize()))
		if may := slices.Contains(shown, name); may && err != nil || !may && sqlState(err) != "42501" {
			t.Errorf("%s: shown %t, %v", name, may, err)
		}
	}
	for _, missing := range secrets {
		if !slices.Contains(all, missing) {
			t.Errorf("there is no %s any more", missing)
		}
	}
	// Neither whole rows nor what the planner knows of the values.
	for _, sql := range []string{"select users from users", "select u::text from users u", "select * from pg_statistic", "select rolpassword from pg_authid", "select * from pg_shadow", "select 1 from users where password_hash like '$argon2id%'", "select 1 from users order by password_hash"} {
		if _, err := viewer.Exec(t.Context(), sql); sqlState(err) != "42501" {
			t.Errorf("%s: %v", sql, err)
		}
	}
	hidden := `select count(*) from pg_stats where schemaname = 'public' and (tablename || '.' || attname) = any ($1)`
	var n int
	if err := viewer.QueryRow(t.Context(), hidden, secrets).Scan(&n); err != nil || n > 0 {
		t.Errorf("%d of pg_stats, %v", n, err)
	}
	for _, sql := range []string{"create temporary table x ()", "create table x ()", "create schema x", "insert into posts (title) values ('x')", "set role waypost_app", "set session authorization waypost_app", "select audit_seal(1)", "create function x() returns int language sql as 'select 1'"} {
		if _, err := viewer.Exec(t.Context(), sql); sqlState(err) != "42501" {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func TestWhatIsNewIsHidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, `set waypost.actor_type = 'cli'`, `set role waypost_owner`,
		`alter table sites add column vault text default 'hush-hush'`, `create table fresh (id int primary key, vault text)`,
		`insert into sites (id, name, domain, site_key, vault, created_at, updated_at) values (gen_random_uuid(), 'Shop', 'shop.example', 'k', 'hush-hush', now(), now())`)
	if _, err := ask(t, w, "select name from sites"); err != nil {
		t.Error(err)
	}
	for _, sql := range []string{"select vault from sites", "select * from sites", "select * from fresh"} {
		if _, err := ask(t, w, sql); code(err) != "query_failed" || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	rows, err := w.Rows(asAdmin(t), "sites", dbview.Selection{Limit: 5})
	if err != nil || len(rows.Values) != 1 || strings.Contains(texts(rows.Values), "hush") {
		t.Errorf("%s, %v", texts(rows.Values), err)
	}
	for _, sel := range []dbview.Selection{{Sort: "vault", Limit: 5}, {Column: "vault", Operator: dbview.Equal, Value: "hush-hush", Limit: 5}} {
		if _, err := w.Rows(asAdmin(t), "sites", sel); code(err) != "validation_failed" {
			t.Errorf("%+v: %v", sel, err)
		}
	}
	for _, table := range []string{"fresh", "pg_authid", "nix", "", "users; drop table users", `"`, "\x00"} {
		if _, err := w.Rows(asAdmin(t), table, dbview.Selection{Limit: 5}); !errors.Is(err, dbview.ErrTable) {
			t.Errorf("rows of %q: %v", table, err)
		}
		if _, err := w.Structure(asAdmin(t), table); !errors.Is(err, dbview.ErrTable) {
			t.Errorf("structure of %q: %v", table, err)
		}
	}
	if entries := w.list(t, `select changes from audit_pending where table_name = 'sites'`); len(entries) != 1 || !strings.Contains(entries[0], `"vault": "[redacted]"`) || !strings.Contains(entries[0], `"name": "Shop"`) {
		t.Errorf("%q", entries)
	}
}

func TestEveryTableCanBeOpened(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list, err := w.Tables(asAdmin(t))
	if err != nil || len(list) < 50 {
		t.Fatalf("%d tables, %v", len(list), err)
	}
	for _, table := range list {
		s, err := w.Structure(asAdmin(t), table.Name)
		if err != nil || len(s.Columns) != table.Columns {
			t.Errorf("%s: %d columns, %v", table.Name, len(s.Columns), err)
		}
		for _, c := range s.Columns {
			for _, o := range dbview.Operators() {
				if _, err := w.Rows(asAdmin(t), table.Name, dbview.Selection{Column: c.Name, Operator: o, Value: "1", Sort: c.Name, Limit: 3}); err != nil && code(err) != "validation_failed" {
					t.Errorf("%s.%s %s: %v", table.Name, c.Name, o, err)
				}
			}
			break // one column of each: all would take long
		}
	}
}

func TestCase51RowsAreSortedFilteredAndPaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, `set waypost.actor_type = 'cli'`,
		`insert into throttles (name, subject, count, forget_at) select 'n' || i % 3, 's' || i, i, now() from generate_series(1, 60) i`)
	read := func(sel dbview.Selection) string {
		t.Helper()
		sel.Limit = 25
		rows, err := w.Rows(asAdmin(t), "throttles", sel)
		if err != nil {
			return code(err)
		}
		var subjects []string
		for _, v := range rows.Values {
			subjects = append(subjects, *v[1])
		}
		return fmt.Sprint(len(subjects), rows.More, subjects[:min(3, len(subjects))])
	}
	for want, sel := range map[string]dbview.Selection{
		"25 true [s1 s2 s3]":        {Sort: "count"},
		"25 true [s60 s59 s58]":     {Sort: "-count"},
		"25 true [s26 s27 s28]":     {Sort: "count", Offset: 25},
		"10 false [s51 s52 s53]":    {Sort: "count", Offset: 50},
		"1 false [s7]":              {Column: "subject", Operator: dbview.Equal, Value: "s7"},
		"0 false []":                {Column: "subject", Operator: dbview.Equal, Value: "s7' or true --"},
		"0 false [] ":               {Column: "subject", Operator: dbview.Contains, Value: "%"},
		"2 false [s59 s60]":         {Column: "count", Operator: dbview.Greater, Value: "58", Sort: "count"},
		"25 true [s1 s10 s11]":      {Column: "blocked_until", Operator: dbview.Empty, Sort: "subject"},
		"validation_failed":         {Column: "count", Operator: dbview.Equal, Value: "many"},
		"validation_failed ":        {Sort: "count; drop table users"},
		"validation_failed  ":       {Column: `subject" or true --`, Operator: dbview.Equal},
		"validation_failed   ":      {Column: "count", Operator: "= 1 or"},
		"validation_failed    ":     {Offset: -1},
		"validation_failed     ":    {Offset: 1e9},
		"validation_failed       ":  {Sort: "a\x00"},
		"validation_failed        ": {Column: "\xff", Operator: dbview.Equal},
		"validation_failed      ":   {Column: "subject", Operator: dbview.Equal, Value: "a\x00"},
	} {
		if got := read(sel); got != strings.TrimSpace(want) {
			t.Errorf("%+v: %s; want %s", sel, got, want)
		}
	}
	seen := map[string]bool{}
	for offset := 0; offset < 75; offset += 25 {
		rows, err := w.Rows(asAdmin(t), "throttles", dbview.Selection{Sort: "name", Offset: offset, Limit: 25})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range rows.Values {
			seen[*v[1]] = true
		}
	}
	if len(seen) != 60 {
		t.Errorf("%d of 60 rows over three pages", len(seen))
	}
}

func TestTheStructureSaysWhatATableIsMadeOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, err := w.Structure(asAdmin(t), "api_tokens")
	if err != nil {
		t.Fatal(err)
	}
	var user, digest dbview.Column
	for _, c := range s.Columns {
		switch c.Name {
		case "user_id":
			user = c
		case "token_sha256":
			digest = c
		}
	}
	if diff := cmp.Diff(dbview.Column{Name: "user_id", Type: "bigint", Required: true, Shown: true, ToTable: "users", ToColumn: "id"}, user); diff != "" {
		t.Error(diff)
	}
	if digest.Shown || digest.Type != "bytea" || len(s.Indexes) == 0 || len(s.Constraints) == 0 || s.Indexes[0].Definition == "" {
		t.Errorf("%+v %+v %+v", digest, s.Indexes, s.Constraints)
	}
}

func TestActivityShowsWhoWaitsForWhomAndNoStatementsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	holder, waiter := connect(t, w.urls.Owner), connect(t, w.urls.Owner)
	for _, sql := range []string{"begin", "lock table blogs in access exclusive mode"} {
		if _, err := holder.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	go func() { _, _ = waiter.Exec(t.Context(), "select 'hush-hush' from blogs") }()
	for len(w.list(t, `select '' from pg_locks where not granted and relation = 'blogs'::regclass`)) == 0 {
		if t.Context().Err() != nil {
			t.Fatal("nobody waits")
		}
	}
	found, err := w.Activity(asAdmin(t))
	if err != nil {
		t.Fatal(err)
	}
	blocked := slices.ContainsFunc(found.Backends, func(b dbview.Backend) bool {
		return b.PID == int(waiter.PgConn().PID()) && slices.Equal(b.BlockedBy, []int32{int32(holder.PgConn().PID())})
	})
	waited := slices.ContainsFunc(found.Locks, func(l dbview.Lock) bool { return l.On == "blogs" && !l.Granted && l.Mode == "AccessShareLock" })
	if !blocked || !waited || strings.Contains(fmt.Sprintf("%+v", found), "hush") {
		t.Errorf("blocked %t, waited for %t: %+v", blocked, waited, found)
	}
	if _, err := holder.Exec(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
}
