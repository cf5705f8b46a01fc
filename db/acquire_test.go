package db_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

func openAreas(t *testing.T, url string, conns int32) db.Areas {
	t.Helper()
	a, err := db.OpenAreas(t.Context(), db.Options{URL: url, MaxConns: conns})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// takeAll takes every connection of a pool until the test ends.
func takeAll(t *testing.T, d *db.DB) {
	t.Helper()
	for range d.MaxConns() {
		conn, err := d.Pool().Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Release)
	}
}

func TestAnAreaWithoutAFreeConnectionIsBusyAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	a := openAreas(t, dbtest.NewURL(t).App, db.LeastConns())
	for _, d := range []*db.DB{a.Requests, a.Questions, a.Readiness} {
		takeAll(t, d)
	}
	ask := map[string]func(*db.DB) error{
		"a transaction": func(d *db.DB) error {
			return d.InTx(t.Context(), identity.System("test"), func(context.Context, pgx.Tx) error { return nil })
		},
		"a snapshot": func(d *db.DB) error {
			return d.InSnapshot(t.Context(), func(context.Context, pgx.Tx) error { return nil })
		},
		"rows": func(d *db.DB) error {
			rows, err := d.Direct().Query(t.Context(), "select 1")
			if err == nil {
				rows.Close()
			}
			return err
		},
		"a row":       func(d *db.DB) error { return d.Direct().QueryRow(t.Context(), "select 1").Scan(new(int)) },
		"a statement": func(d *db.DB) error { _, err := d.Direct().Exec(t.Context(), "select 1"); return err },
		"a single statement": func(d *db.DB) error {
			_, err := d.Single(identity.System("test")).Exec(t.Context(), "select 1")
			return err
		},
		"a ping": func(d *db.DB) error { return d.Ping(t.Context()) },
	}
	var all sync.WaitGroup
	for what, of := range ask {
		for _, d := range []*db.DB{a.Requests, a.Questions, a.Readiness} {
			all.Go(func() {
				f, ok := errors.AsType[*fault.Error](of(d))
				if !ok || f.Kind != fault.Unavailable || f.Code != fault.CodeBusy || f.RetryAfter <= 0 {
					t.Errorf("%s without a free connection: %v", what, f)
				}
			})
		}
		for _, d := range []*db.DB{a.Deliveries, a.Collection, a.Background} {
			if err := of(d); err != nil {
				t.Errorf("%s of another area: %v", what, err)
			}
		}
	}
	all.Wait()
}

func TestAConnectionIsGivenBackWhateverItWasUsedFor(t *testing.T) {
	t.Parallel()
	a := openAreas(t, dbtest.NewURL(t).App, db.LeastConns())
	d := a.Questions // one connection
	for range 3 {
		rows, err := d.Direct().Query(t.Context(), "select generate_series(1, 3)")
		if err != nil {
			t.Fatal(err)
		}
		rows.Next()
		rows.Close()
		rows.Close()
		if _, err := pgx.CollectRows(mustQuery(t, d, "select 1"), pgx.RowTo[int]); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Direct().Query(t.Context(), "no sql"); err == nil {
			t.Error("no SQL was run")
		}
		if err := d.Direct().QueryRow(t.Context(), "select 1 where false").Scan(new(int)); !errors.Is(err, pgx.ErrNoRows) {
			t.Error(err)
		}
		if _, err := d.Direct().Exec(t.Context(), "no sql"); err == nil {
			t.Error("no SQL was run")
		}
	}
	if n := d.Pool().Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are still out", n)
	}
}

func mustQuery(t *testing.T, d *db.DB, sql string) pgx.Rows {
	t.Helper()
	rows, err := d.Direct().Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// Whoever waits for a database that takes connections and says nothing must not
// read that the service has too much to do.
func TestADatabaseThatSaysNothingIsUnavailableAndNotBusy(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = db.OpenAreas(ctx, db.Options{URL: "postgres://nobody@" + l.Addr().String() + "/none?sslmode=disable", MaxConns: db.LeastConns()})
	if err == nil || errors.Is(err, db.ErrBusy) || !strings.Contains(err.Error(), "cannot connect") {
		t.Errorf("got %v", err)
	}
}

func TestAllAreasTogetherKeepToTheirNumberOfConnections(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	const conns = 15
	a := openAreas(t, urls.App, conns)
	for _, d := range []*db.DB{a.Requests, a.Deliveries, a.Collection, a.Questions, a.Background} {
		takeAll(t, d)
	}
	var n int
	if err := a.Readiness.Direct().QueryRow(t.Context(), `select count(*) from pg_stat_activity where datname = current_database() and usename = session_user`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n != conns-1 { // the last is for River to take out of the pool
		t.Errorf("%d connections are open, want %d", n, conns-1)
	}
}

// On a busy machine a connection takes longer to make than a request waits for one.
func TestEveryAreaHasAConnectionFromTheStart(t *testing.T) {
	t.Parallel()
	a := openAreas(t, dbtest.NewURL(t).App, db.LeastConns())
	for area, d := range a.All() {
		if n := d.Pool().Stat().TotalConns(); n == 0 {
			t.Errorf("%s has none", area)
		}
	}
}

// What nobody waits for any more must not go on in the database.
func TestAQuestionWhoseAskerLeftIsCancelledInTheDatabase(t *testing.T) {
	t.Parallel()
	a := openAreas(t, dbtest.NewURL(t).App, db.LeastConns())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- a.Questions.InLimitedSnapshot(ctx, time.Minute, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "select pg_sleep(3600)")
			return err
		})
	}()
	sleeping := func() bool {
		var n int
		err := a.Readiness.Direct().QueryRow(t.Context(), `select count(*) from pg_stat_activity where datname = current_database() and state = 'active' and query like 'select pg_sleep%'`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	}
	for !sleeping() {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the statement ended by itself")
	}
	for sleeping() {
		time.Sleep(time.Millisecond)
	}
}

func TestTheServerEndsAStatementOfALimitedSnapshot(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	err := d.InLimitedSnapshot(t.Context(), time.Millisecond, func(ctx context.Context, tx pgx.Tx) error {
		var timeout, workers, isolation, readOnly string
		err := tx.QueryRow(ctx, `select current_setting('statement_timeout'), current_setting('max_parallel_workers_per_gather'),
			current_setting('transaction_isolation'), current_setting('transaction_read_only')`).Scan(&timeout, &workers, &isolation, &readOnly)
		if err != nil {
			return err
		}
		if got := strings.Join([]string{timeout, workers, isolation, readOnly}, ", "); got != "1001ms, 0, repeatable read, on" {
			t.Errorf("settings: %s", got)
		}
		_, err = tx.Exec(ctx, "select pg_sleep(3600)")
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "57014") {
		t.Errorf("got %v", err)
	}
	var after string
	if err := d.Direct().QueryRow(t.Context(), `select current_setting('statement_timeout')`).Scan(&after); err != nil || after != "0" {
		t.Errorf("the timeout outlives its transaction: %s (%v)", after, err)
	}
}

func TestTheEndOfACallersTimeIsNoAbsentDatabase(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := d.InTx(ctx, identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "select pg_sleep(3600)")
		return err
	})
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != fault.Unavailable || strings.Contains(f.Message, "cannot reach") {
		t.Errorf("got %v", err)
	}
}
