package db_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// codes are answers to a COMMIT that leave open what became of it.
var codes = []string{"XX000", "XX001", "08006", "57P01", "57P03", dbtest.FIN, dbtest.RST}

// ledger is a database behind a proxy, with a table.
type ledger struct {
	*db.DB
	proxy *dbtest.Proxy
	admin *pgx.Conn
}

func newLedger(t *testing.T) ledger {
	t.Helper()
	urls := dbtest.NewURL(t)
	admin, err := pgx.Connect(t.Context(), urls.Admin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	if _, err := admin.Exec(t.Context(), `create table things (n int); grant select, insert on things to waypost_app`); err != nil {
		t.Fatal(err)
	}
	l := ledger{proxy: dbtest.NewProxy(t, urls.App), admin: admin}
	if l.DB, err = db.Open(t.Context(), db.Options{URL: l.proxy.URL(), MaxConns: 2}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func (l ledger) things(t *testing.T) []int {
	t.Helper()
	rows, err := l.admin.Query(t.Context(), `select n from things order by n`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// ways are the ways in which a transaction is committed; each returns what it read.
var ways = map[string]func(ctx context.Context, d *db.DB, n int) ([]int, error){
	"transaction": func(ctx context.Context, d *db.DB, n int) ([]int, error) { return insertIn(ctx, d.InTx, n) },
	"index transaction": func(ctx context.Context, d *db.DB, n int) ([]int, error) {
		return insertIn(ctx, d.InIndexTx, n)
	},
	"single statement": func(ctx context.Context, d *db.DB, n int) ([]int, error) {
		rows, err := d.Single(identity.System("test")).Query(ctx, insertThings, n)
		if err != nil {
			return nil, db.Translate(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowTo[int])
		return got, db.Translate(err)
	},
}

const insertThings = `insert into things select $1::int from generate_series(1, 2) returning n`

type inTx func(context.Context, identity.Principal, func(context.Context, pgx.Tx) error) error

func insertIn(ctx context.Context, in inTx, n int) ([]int, error) {
	var got []int
	err := in(ctx, identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, insertThings, n)
		if err != nil {
			return err
		}
		got, err = pgx.CollectRows(rows, pgx.RowTo[int])
		return err
	})
	return got, err
}

func insertOne(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `insert into things values (1)`)
	return err
}

func TestACommitWhoseAnswerSaysNothingIsAskedFor(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			n := 0
			for _, code := range codes {
				for _, fate := range []dbtest.Fate{dbtest.Applied, dbtest.Dropped} {
					n++
					before := l.things(t)
					l.proxy.SpoilNext(dbtest.Fault{Fate: fate, Answer: code})
					got, err := way(t.Context(), l.DB, n)
					after := l.things(t)
					stored := len(after) - len(before)
					switch {
					case fate == dbtest.Dropped && (fault.KindOf(err) != fault.Unavailable || stored != 0):
						t.Errorf("%s, %s: %v with %d rows stored, want unavailable with none", fate, code, err, stored)
					case fate == dbtest.Applied && stored != 2:
						t.Errorf("%s, %s: %d rows stored", fate, code, stored)
					case fate == dbtest.Applied && name == "single statement" && (code == dbtest.FIN || code == dbtest.RST):
						// Nothing of the answer arrived, so neither did the id.
						if !db.IsUnknownOutcome(err) || fault.KindOf(err) != fault.Unavailable {
							t.Errorf("%s, %s: %v, want an unknown outcome", fate, code, err)
						}
					case fate == dbtest.Applied && (err != nil || !slices.Equal(got, []int{n, n})):
						t.Errorf("%s, %s: %v, %v, want what was stored", fate, code, got, err)
					}
				}
			}
			// What comes after has connections that work.
			for range 4 {
				n++
				if got, err := way(t.Context(), l.DB, n); err != nil || !slices.Equal(got, []int{n, n}) {
					t.Errorf("afterwards: %v, %v", got, err)
				}
			}
		})
	}
}

func TestACommitThatIsStillInProgressIsWaitedForAndNeverTakenForLost(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			l.proxy.SpoilNext(dbtest.Fault{Fate: dbtest.Held, Answer: "XX000"})
			released := make(chan struct{})
			go func() {
				defer close(released)
				for l.proxy.Asked() < 3 && t.Context().Err() == nil {
					time.Sleep(time.Millisecond)
				}
				l.proxy.Release()
			}()
			got, err := way(t.Context(), l.DB, 1)
			<-released
			if err != nil || !slices.Equal(got, []int{1, 1}) || len(l.things(t)) != 2 {
				t.Errorf("%v, %v, %v", got, err, l.things(t))
			}
			l.proxy.SpoilNext(dbtest.Fault{Fate: dbtest.Held, Answer: "XX000"})
			if _, err := way(t.Context(), l.DB, 2); !db.IsUnknownOutcome(err) || fault.KindOf(err) != fault.Unavailable {
				t.Errorf("in progress for too long: %v", err)
			}
			l.proxy.Release()
			if got := l.things(t); !slices.Equal(got, []int{1, 1, 2, 2}) {
				t.Errorf("released: %v", got)
			}
		})
	}
}

func TestACommitIsAskedForAlsoWhenItsCallerHasGone(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	ctx, cancel := context.WithCancel(t.Context())
	l.proxy.Spoil(func() (dbtest.Fault, bool) {
		cancel()
		return dbtest.Fault{Fate: dbtest.Applied, Answer: "XX000"}, true
	})
	if got, err := ways["transaction"](ctx, l.DB, 1); err != nil || !slices.Equal(got, []int{1, 1}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAStatementWhoseRowsDidNotAllArriveIsNoSuccessThoughItIsCommitted(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.proxy.SpoilNext(dbtest.Fault{Fate: dbtest.Applied, Answer: "XX000", Early: true})
	if _, err := ways["single statement"](t.Context(), l.DB, 1); !db.IsUnknownOutcome(err) {
		t.Errorf("%v, want an unknown outcome", err)
	}
	l.proxy.SpoilNext(dbtest.Fault{Fate: dbtest.Dropped, Answer: "XX000", Early: true})
	if _, err := ways["single statement"](t.Context(), l.DB, 2); err == nil || db.IsUnknownOutcome(err) {
		t.Errorf("%v, want the statement's own error", err)
	}
	if got := l.things(t); !slices.Equal(got, []int{1, 1}) {
		t.Errorf("stored: %v", got)
	}
}

func TestACommitThatPostgreSQLRefusesHasAKnownOutcome(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	if _, err := l.admin.Exec(t.Context(), `alter table things add constraint things_once unique (n) deferrable initially deferred`); err != nil {
		t.Fatal(err)
	}
	for name, way := range ways {
		if _, err := way(t.Context(), l.DB, 1); !db.Violates(err, "things_once") || db.IsUnknownOutcome(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, code := range []string{"40001", "40P01", "57014", "53100"} {
		l.proxy.SpoilNext(dbtest.Fault{Fate: dbtest.Dropped, Answer: code})
		err := l.InTx(t.Context(), identity.System("test"), insertOne)
		if refusal, ok := errors.AsType[*pgconn.PgError](err); !ok || refusal.Code != code {
			t.Errorf("%s: %v", code, err)
		}
		l.Pool().Reset() // the proxy drops the connection as well
	}
	if l.proxy.Asked() != 0 || len(l.things(t)) != 0 {
		t.Errorf("asked %d times; %v", l.proxy.Asked(), l.things(t))
	}
}

func TestAnOutcomeThatCannotBeAskedForIsUnknown(t *testing.T) {
	t.Parallel()
	const mods = `set allow_system_table_mods = on; create or replace function pg_catalog.`
	for name, away := range map[string]string{
		"no right to ask":       `revoke execute on function pg_xact_status(xid8) from public`,
		"another timeline":      mods + `pg_walfile_name(pg_lsn) returns text language sql as $$ select '0000FFFF0000000000000001' $$`,
		"an id long forgotten":  mods + `pg_xact_status(xid8) returns text language sql as $$ select null::text $$`,
		"an id from the future": mods + `pg_xact_status(xid8) returns text language sql as $$ select (1/0)::text $$`, // an error, like that one
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			if err := l.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := l.admin.Exec(t.Context(), away); err != nil {
				t.Fatal(err)
			}
			l.proxy.SpoilNext(dbtest.Fault{Fate: dbtest.Applied, Answer: "XX000"})
			err := l.InTx(t.Context(), identity.System("test"), insertOne)
			if !db.IsUnknownOutcome(err) || fault.KindOf(err) != fault.Unavailable {
				t.Errorf("%v", err)
			}
		})
	}
}

// A pooler keeps our connections open while the database crashes, or while another is
// promoted: what they remember of it is then out of date.
func TestAfterAnotherHistoryBeganOutcomesAreLearntAgain(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	var all []*pgxpool.Conn
	for range l.MaxConns() {
		conn, err := l.Pool().Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, conn)
	}
	for _, conn := range all {
		conn.Release()
	}
	if _, err := l.admin.Exec(t.Context(), `set allow_system_table_mods = on; create or replace function pg_catalog.pg_walfile_name(pg_lsn) returns text language sql as $$ select '0000FFFF0000000000000001' $$`); err != nil {
		t.Fatal(err)
	}
	for n, want := range []bool{true, false} {
		l.proxy.SpoilNext(dbtest.Fault{Fate: dbtest.Applied, Answer: "XX000"})
		if err := l.InTx(t.Context(), identity.System("test"), insertOne); db.IsUnknownOutcome(err) != want || !want && err != nil {
			t.Errorf("transaction %d: %v", n, err)
		}
	}
}

func TestWhatASnapshotReadStandsWhateverItsCommitIsAnswered(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, code := range codes {
		l.proxy.SpoilNext(dbtest.Fault{Fate: dbtest.Dropped, Answer: code})
		n := 0
		err := l.InSnapshot(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, `select 1 + count(*) from things`).Scan(&n)
		})
		if err != nil || n != 1 {
			t.Errorf("%s: %d, %v", code, n, err)
		}
	}
	if l.proxy.Asked() != 0 {
		t.Errorf("asked %d times", l.proxy.Asked())
	}
}
