package db_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/identity"
)

// aUser inserts an account, as p.
func aUser(t *testing.T, d *db.DB, p identity.Principal, email string) error {
	t.Helper()
	return d.InTx(t.Context(), p, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `insert into users (first_name, last_name, email, email_key, password_hash, created_at, updated_at)
			values ('Ada', 'Lovelace', $1, $1, 'a secret hash', now(), now())`, email)
		return err
	})
}

func TestTheApplicationsRoleCanOnlyAddToTheAuditLogByChangingSomething(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	if err := aUser(t, d, identity.System("test"), "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Direct().Exec(t.Context(), `select audit_seal(100)`); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`insert into audit_pending (actor_type, op, salt, changes, changes_digest) values ('user', 'note', '', '{}', '')`,
		`insert into audit_log (seq, at, actor_type, op, changes_digest, prev_hash, hash) values (9, now(), 'user', 'note', '', '', '')`,
		`update audit_pending set at = now()`,
		`update audit_log set changes = '{}'`,
		`delete from audit_pending`,
		`delete from audit_log`,
		`truncate audit_log`,
		`truncate audit_pending`,
		`truncate users cascade`,
		`update audit_head set seq = 0`,
		`select from audit_head for update`,
		`insert into audit_tree values (8, 0, '')`,
		`update audit_checkpoints set size = 0`,
		`delete from audit_checkpoints`,
		`insert into audit_excluded values ('users', 'no')`,
		`delete from audit_excluded`,
		`alter table users disable trigger audit_row`,
		`alter table users disable trigger all`,
		`drop trigger audit_row on users`,
		`set session_replication_role = replica`,
		`create or replace function audit_row() returns trigger language plpgsql as $$ begin return null; end $$`,
		`select audit_write('note', 'users', '1', '{}')`,
		`select audit_note('audit_log', null, '{"what":"emptied","from_seq":1,"to_seq":1000}')`,
		`select audit_cover('users')`,
		`select audit_tree_add(256)`,
	} {
		if _, err := d.Single(identity.System("test")).Exec(t.Context(), sql); err == nil {
			t.Errorf("the application's role may: %s", sql)
		}
	}
	var n int
	if err := d.Direct().QueryRow(t.Context(), `select count(*) from audit_log`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d entries, %v; want the account's", n, err)
	}
}

func TestAChangeWithoutAnActorIsRefused(t *testing.T) {
	t.Parallel()
	d, urls := dbtest.NewWithURL(t)
	if err := aUser(t, d, identity.System("test"), "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	plain, _, _ := strings.Cut(urls.Admin, "&options=")
	conn, err := pgx.Connect(t.Context(), plain)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for _, before := range []string{
		``,
		`begin; set local waypost.actor_type = 'cli'; commit`, // leaves an empty setting behind
	} {
		if _, err := conn.Exec(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), `update users set role = 'ADMIN'`); err == nil || !strings.Contains(err.Error(), "needs an actor") {
			t.Errorf("after %q: %v", before, err)
		}
	}
	if _, err := conn.Exec(t.Context(), `set waypost.actor_type = 'cli'; set waypost.actor_id = 'ada'; update users set role = 'ADMIN'`); err != nil {
		t.Error(err)
	}
}

// entry is what these tests look at of an entry that waits for its place.
type entry struct{ Actor, Action, Op, Table, Row, Changes string }

func pending(t *testing.T, d *db.DB) []entry {
	t.Helper()
	rows, err := d.Direct().Query(t.Context(), `select concat_ws(' ', actor_type, actor_id), coalesce(action, ''), op, table_name, coalesce(row_id, ''), changes from audit_pending order by id`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestAnEntrySaysWhoChangedWhatWithoutSecrets(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	boss := identity.Token(7, identity.Admin, 12, identity.NewScopes(identity.Write)).Doing("update-user")
	if err := aUser(t, d, identity.Job(3, "demo.seed"), "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	err := d.InTx(t.Context(), boss, func(ctx context.Context, tx pgx.Tx) error {
		for _, sql := range []string{
			`update users set role = 'EDITOR'`,
			`update users set password_hash = 'another'`,
			`update users set role = role`,
			`insert into recovery_codes (user_id, code_sha256) select id, '\xabcdef0123456789' from users`,
			`update recovery_codes set used_at = '2026-01-02 03:04:05Z'`,
			`insert into totp_factors (user_id, secret, secret_key_id, created_at) select id, '\x01', 'k', '2026-01-02 03:04:05Z' from users`,
			`update totp_factors set last_step = 5`,
			`delete from users`,
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	list := pending(t, d)
	for i := range list { // what differs from run to run
		if list[i].Table == "users" && list[i].Op != "update" {
			list[i].Changes = fmt.Sprint(strings.Contains(list[i].Changes, `"password_hash": "[redacted]"`), strings.Contains(list[i].Changes, "hash\": \"an"))
		}
	}
	const who, what = "token 12", "update-user"
	want := []entry{
		{"job 3", "job:demo.seed", "insert", "users", "1", "true false"},
		{who, what, "update", "users", "1", `{"new": {"role": "EDITOR"}, "old": {"role": "USER"}}`},
		{who, what, "update", "users", "1", `{"new": {"password_hash": "[redacted]"}, "old": {"password_hash": "[redacted]"}}`},
		{who, what, "insert", "recovery_codes", "1/abcdef01", `{"new": {"used_at": null, "user_id": 1, "code_sha256": "[redacted]"}}`},
		{who, what, "update", "recovery_codes", "1/abcdef01", `{"new": {"used_at": "2026-01-02T03:04:05+00:00"}, "old": {"used_at": null}}`},
		{who, what, "insert", "totp_factors", "1", `{"new": {"secret": "[redacted]", "user_id": 1, "unproven": false, "last_step": 0, "created_at": "2026-01-02T03:04:05+00:00", "confirmed_at": null, "secret_key_id": "[redacted]"}}`},
		{who, what, "delete", "users", "1", "true false"},
		{who, what, "delete", "totp_factors", "1", `{"old": {"secret": "[redacted]", "user_id": 1, "unproven": false, "last_step": 5, "created_at": "2026-01-02T03:04:05+00:00", "confirmed_at": null, "secret_key_id": "[redacted]"}}`},
		{who, what, "delete", "recovery_codes", "1/abcdef01", `{"old": {"used_at": "2026-01-02T03:04:05+00:00", "user_id": 1, "code_sha256": "[redacted]"}}`},
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Error(diff)
	}
}

func TestAChangeThatIsRolledBackLeavesNoEntry(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	changed := errors.New("changed my mind")
	err := d.InTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `insert into webhook_alerts (provider, streak, alerted_at) values ('payment', 5, now())`); err != nil {
			return err
		}
		return changed
	})
	if !errors.Is(err, changed) {
		t.Fatal(err)
	}
	if list := pending(t, d); len(list) > 0 {
		t.Errorf("entries: %v", list)
	}
}

func TestALargeValueIsKeptAsItsDigest(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	if err := aUser(t, d, identity.System("test"), "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	_, err := d.Single(identity.System("test")).Exec(t.Context(), `insert into posts (author_id, title, body, created_at, updated_at) select id, 'Long', repeat('é', 3000), now(), now() from users`)
	if err != nil {
		t.Fatal(err)
	}
	list := pending(t, d)
	// printf 'é%.0s' $(seq 3000) | sha256sum
	const digest = `"body": {"bytes": 6000, "sha256": "557bf944b8c2f7b5ac98cd9894438f6b645f006e4f726e74fd307871d8d3c87a"`
	if got := list[len(list)-1].Changes; !strings.Contains(got, digest) || len(got) > 1000 {
		t.Errorf("changes: %.300s", got)
	}
}

func TestATableWithoutTheLogIsFound(t *testing.T) {
	t.Parallel()
	d, urls := dbtest.NewWithURL(t)
	if err := d.CheckAudited(t.Context()); err != nil {
		t.Fatal(err)
	}
	owner, err := pgx.Connect(t.Context(), urls.Owner)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = owner.Close(context.WithoutCancel(t.Context())) }()
	for _, c := range []struct{ name, breaks, says, mends string }{
		{"a new table", `create table notes (id bigint primary key)`, "notes: it has no trigger", `select audit_cover('notes')`},
		{"one that is excluded", `create table scratch (id bigint)`, "scratch: it has no trigger", `insert into audit_excluded values ('scratch', 'a test')`},
		{"a trigger that is off", `alter table users disable trigger audit_row`, "users: its trigger audit_row is not ENABLE ALWAYS", `alter table users enable always trigger audit_row`},
		{"an ordinary trigger, as after a restore", `alter table webhook_events enable trigger audit_update`, "webhook_events: its trigger audit_update is not ENABLE ALWAYS", `alter table webhook_events enable always trigger audit_update`},
		{"a truncation that is allowed", `drop trigger audit_truncate on posts`, "posts: it has no trigger audit_truncate",
			`create trigger audit_truncate before truncate on posts for each statement execute function audit_no_truncate(); alter table posts enable always trigger audit_truncate`},
	} {
		if _, err := owner.Exec(t.Context(), c.breaks); err != nil {
			t.Fatal(err)
		}
		if err := d.CheckAudited(t.Context()); !errors.Is(err, db.ErrNotAudited) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := owner.Exec(t.Context(), c.mends); err != nil {
			t.Fatal(err)
		}
		if err := d.CheckAudited(t.Context()); err != nil {
			t.Errorf("%s, mended: %v", c.name, err)
		}
	}
	if _, err := owner.Exec(t.Context(), `truncate posts`); err == nil {
		t.Error("the owner may truncate what is audited")
	}
}
