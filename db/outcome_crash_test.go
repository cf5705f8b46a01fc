package db_test

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/db/embedded"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// A server that crashes forgets ids that it gave away and had not written down, and gives
// them to others. What became of these says nothing.
func TestAnIDThatACrashGaveToAnotherTransactionDoesNotPassForTheLostOne(t *testing.T) {
	t.Parallel()
	dir := dbtest.TempDir(t)
	server, err := embedded.Start(t.Context(), embedded.Options{DataDir: dir, BinDir: os.Getenv("WAYPOST_POSTGRES_BIN"), Download: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Stop(context.Background())
		if err := embedded.Remove(context.Background(), dir); err != nil {
			t.Error(err)
		}
	})
	if err := server.EnsureDatabase(t.Context(), "ids"); err != nil {
		t.Fatal(err)
	}
	url := server.OwnerURL("ids")
	psql(t, url, `create table things (n int)`, `grant select, insert on things to `+embedded.AppRole)
	proxy := dbtest.NewProxy(t, url)
	d, err := db.Open(t.Context(), db.Options{URL: proxy.URL(), MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	type victim struct {
		id      int64
		backend int
	}
	victims, next := make(chan victim, 1), make(chan int64, 1)
	crash := func() (dbtest.Fault, bool) {
		v := <-victims
		crashBackend(t, v.backend)
		next <- giveAway(t, url, v.id)
		return dbtest.Fault{Fate: dbtest.Dropped, Answer: dbtest.FIN}, true
	}
	// The server writes its log every 200 ms; an id that is in it isn't lost. Then the try
	// proves nothing.
	var v victim
	var again int64
	for range 20 {
		proxy.Spoil(crash)
		err = d.InTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
			if err := insertOne(ctx, tx); err != nil {
				return err
			}
			err := tx.QueryRow(ctx, `select pg_current_xact_id()::text::bigint, pg_backend_pid()`).Scan(&v.id, &v.backend)
			victims <- v
			return err
		})
		if !db.IsUnknownOutcome(err) || fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%v, want an unknown outcome", err)
		}
		if again = <-next; again <= v.id {
			break
		}
	}
	if again > v.id {
		t.Errorf("no lost id was given away again: %d, then %d", v.id, again)
	}
	// Whoever begins afterwards can be asked about again.
	proxy.SpoilNext(dbtest.Fault{Fate: dbtest.Applied, Answer: "XX000"})
	if err := d.InTx(t.Context(), identity.System("test"), insertOne); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// crashBackend kills a process of the server, and waits until the server knows: it takes
// no connection from then on until it has recovered.
func crashBackend(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(time.Minute); syscall.Kill(pid, 0) == nil; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("process %d is still there", pid)
			return
		}
	}
}

// giveAway waits until the server has recovered, and commits transactions until one has
// the id last. It returns the first id.
func giveAway(t *testing.T, url string, last int64) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	for err != nil && ctx.Err() == nil {
		<-time.After(5 * time.Millisecond)
		conn, err = pgx.Connect(ctx, url)
	}
	if err != nil {
		t.Error(err)
		return 0
	}
	defer func() { _ = conn.Close(ctx) }()
	var first, id int64
	for id < last {
		if err := conn.QueryRow(ctx, `insert into things values (0) returning pg_current_xact_id()::text::bigint`).Scan(&id); err != nil {
			t.Error(err)
			return 0
		}
		if first == 0 {
			first = id
		}
	}
	return first
}
