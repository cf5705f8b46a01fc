package db_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

func TestASingleStatementIsATransactionOfItsPrincipal(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	p := identity.Principal{Kind: identity.KindUser, ID: `o'ne\`, SessionID: "s", Address: netip.MustParseAddr("192.0.2.1"), RequestID: "r"}
	var got [5]string
	err := d.Single(p).QueryRow(t.Context(), `select current_setting('waypost.actor_type'), current_setting('waypost.actor_id'),
		current_setting('waypost.session_id'), current_setting('waypost.ip'), current_setting('waypost.request_id')`).
		Scan(&got[0], &got[1], &got[2], &got[3], &got[4])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([5]string{"user", `o'ne\`, "s", "192.0.2.1", "r"}, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	// The connection that comes back to the pool is nobody's.
	for range 8 {
		var left string
		if err := d.Pool().QueryRow(t.Context(), `select coalesce(current_setting('waypost.actor_id', true), '')`).Scan(&left); err != nil || left != "" {
			t.Errorf("%q is left, %v", left, err)
		}
	}
}

func TestASingleStatementReportsItsCommitAndKeepsNothingThatFails(t *testing.T) {
	t.Parallel()
	d, urls := dbtest.NewWithURL(t)
	admin, err := pgx.Connect(t.Context(), urls.Admin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(context.Background()) }()
	_, err = admin.Exec(t.Context(), `create table things (n int, constraint things_once unique (n) deferrable initially deferred);
		grant select, insert on things to waypost_app`)
	if err != nil {
		t.Fatal(err)
	}
	s := d.Single(identity.System("test"))
	insert := func(values string) error {
		_, err := s.Exec(t.Context(), `insert into things select unnest($1::int[])`, values)
		return err
	}
	if tag, err := s.Exec(t.Context(), `insert into things select unnest($1::int[])`, []int{1, 2}); err != nil || tag.RowsAffected() != 2 {
		t.Errorf("%v, %v", tag, err)
	}
	for name, run := range map[string]func() error{
		"exec":  func() error { return insert("{3,3}") },
		"query": func() error { return collect(s.Query(t.Context(), `insert into things values (4), (4) returning n`)) },
		"row": func() error {
			var n int
			return s.QueryRow(t.Context(), `insert into things values (5), (5) returning n`).Scan(&n)
		},
	} {
		if err := run(); !db.Violates(err, "things_once") {
			t.Errorf("%s: a commit that fails is %v", name, err)
		}
	}
	if err := insert("{nonsense}"); err == nil {
		t.Error("nonsense is accepted")
	}
	if _, err := s.Query(t.Context(), `select 1/0`); err == nil {
		if err := collect(s.Query(t.Context(), `select 1/0`)); err == nil {
			t.Error("1/0 is fine")
		}
	}
	if _, err := s.Exec(t.Context(), `no SQL`); err == nil {
		t.Error("no SQL is fine")
	}
	if err := s.QueryRow(t.Context(), `select 1 where false`).Scan(new(int)); !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("no row: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Exec(ctx, `select 1`); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	_, err = s.Exec(t.Context(), `select pg_terminate_backend(pg_backend_pid())`)
	if fault.KindOf(db.Translate(err)) != fault.Unavailable {
		t.Errorf("a killed connection: %v", err)
	}
	var n int
	if err := d.Pool().QueryRow(t.Context(), `select count(*) from things`).Scan(&n); err != nil || n != 2 {
		t.Errorf("%d rows, %v", n, err)
	}
}

func collect(rows pgx.Rows, err error) error {
	if err != nil {
		return err
	}
	_, err = pgx.CollectRows(rows, pgx.RowTo[int])
	return err
}
