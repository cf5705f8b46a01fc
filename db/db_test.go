package db_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

func TestATransactionCarriesItsActorWhateverTheActorIsCalled(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	for _, p := range []identity.Principal{
		identity.System("sweep"),
		{Kind: identity.KindUser, ID: "7", SessionID: "s", Address: netip.MustParseAddr("2001:db8::1"), RequestID: "r-1", Action: "create-post"},
		{Kind: identity.KindProvider, ID: `o'; drop table users; --`},
		{Kind: identity.KindProvider, ID: `back\slash' and \' more`},
	} {
		var got [6]string
		err := d.InTx(t.Context(), p, func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, `select current_setting('waypost.actor_type'), current_setting('waypost.actor_id'),
				current_setting('waypost.session_id'), current_setting('waypost.ip'), current_setting('waypost.request_id'), current_setting('waypost.action')`).
				Scan(&got[0], &got[1], &got[2], &got[3], &got[4], &got[5])
		})
		if err != nil {
			t.Fatal(err)
		}
		kind, id := p.Actor()
		address := ""
		if p.Address.IsValid() {
			address = p.Address.String()
		}
		if diff := cmp.Diff([6]string{kind, id, p.SessionID, address, p.RequestID, p.Action}, got); diff != "" {
			t.Error(diff)
		}
	}
	var after string
	if err := d.Pool().QueryRow(t.Context(), `select coalesce(current_setting('waypost.actor_id', true), '')`).Scan(&after); err != nil || after != "" {
		t.Errorf("the actor outlives its transaction: %q (%v)", after, err)
	}
}

func TestThePoolWorksAsARoleThatOwnsNothing(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	var role string
	if err := d.Pool().QueryRow(t.Context(), `select current_user`).Scan(&role); err != nil || role != db.AppRole {
		t.Fatalf("current_user %q (%v)", role, err)
	}
	for _, ddl := range []string{
		`create table mine (id int)`,
		`alter table users add column x int`,
		`drop table posts`,
		`truncate webhook_events`,
		`update goose_db_version set is_applied = false`,
	} {
		_, err := d.Pool().Exec(t.Context(), ddl)
		if pe, ok := errors.AsType[*pgconn.PgError](err); !ok || pe.Code != "42501" {
			t.Errorf("%s: %v, want permission denied", ddl, err)
		}
	}
}

func TestManyProcessesMigrateExactlyOnce(t *testing.T) {
	t.Parallel()
	url := dbtest.Unmigrated(t).Owner
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		wg.Go(func() { _, errs[i] = db.Upgrade(t.Context(), db.UpgradeOptions{OwnerURL: url}) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	list, err := db.Status(t.Context(), url)
	if err != nil || len(list) == 0 {
		t.Fatalf("status: %v (%d)", err, len(list))
	}
	for _, m := range list {
		if !m.Applied {
			t.Errorf("%s is pending", m.Name)
		}
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var rows, distinct int
	if err := conn.QueryRow(t.Context(), `select count(*), count(distinct version_id) from goose_db_version`).Scan(&rows, &distinct); err != nil || rows != distinct {
		t.Errorf("%d rows for %d versions (%v)", rows, distinct, err)
	}
	if current, err := db.IsCurrent(t.Context(), url); err != nil || !current {
		t.Errorf("IsCurrent: %v, %v", current, err)
	}
}

func TestADatabaseThatIsAwayIsUnavailableAndNothingElseIs(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	err := d.InTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `select pg_terminate_backend(pg_backend_pid())`)
		return err
	})
	if fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a killed connection is %v", err)
	}
	err = d.InTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `select 1/0`)
		return err
	})
	if fault.KindOf(err) != fault.Internal {
		t.Errorf("a defect is %v", err)
	}
	if _, err := db.Open(t.Context(), db.Options{URL: "postgres://nobody:hunter2@127.0.0.1:1/none"}); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the password shows in %v", err)
	}
}
