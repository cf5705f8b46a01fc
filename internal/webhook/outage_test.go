package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/db/embedded"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/webhook"
)

// newCluster starts a server of the test's own, with a migrated database, and
// returns what stops it and what starts it again.
func newCluster(t *testing.T) (*embedded.Server, func(), func()) {
	t.Helper()
	o := embedded.Options{DataDir: dbtest.TempDir(t), Disposable: true}
	var server *embedded.Server
	start := func() {
		t.Helper()
		var err error
		if server, err = embedded.Start(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	stop := func() {
		t.Helper()
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}
	start()
	t.Cleanup(func() {
		stop()
		if err := embedded.Remove(context.Background(), o.DataDir); err != nil {
			t.Error(err)
		}
	})
	if err := server.EnsureDatabase(t.Context(), "waypost"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Upgrade(t.Context(), db.UpgradeOptions{OwnerURL: server.OwnerURL("waypost")}); err != nil {
		t.Fatal(err)
	}
	return server, stop, start
}

// Case 52, with the server itself.
func TestADatabaseThatIsStoppedUnderLoadIsA503AndThenEverythingGoesOn(t *testing.T) {
	t.Parallel()
	server, stop, start := newCluster(t)
	f := fixture{}
	connect := func() {
		t.Helper()
		var err error
		if f.admin, err = pgx.Connect(t.Context(), server.AdminURL("waypost")); err != nil {
			t.Fatal(err)
		}
	}
	connect()
	f.createEffects(t)
	d, err := db.Open(t.Context(), db.Options{URL: server.AppURL("waypost"), MaxConns: 12})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	f.db = d
	r, err := processReceiver(d)
	if err != nil {
		t.Fatal(err)
	}
	runner, err := processJobs(d, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	var mu sync.Mutex
	acknowledged := map[string]uuid.UUID{}
	var refused, sent atomic.Int64
	var senders sync.WaitGroup
	done := make(chan struct{})
	for s := range 16 {
		senders.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				kind := []string{kindTx, kindPlain, kindNone, kindFlaky}[(s+i)%4]
				id := fmt.Sprintf("%s-%d-%d", kind, s, i)
				got, err := r.Receive(t.Context(), signed(t, "payment", kind, id, `{}`))
				sent.Add(1)
				if refusal, _ := errors.AsType[*fault.Error](err); err != nil {
					if !errors.Is(err, webhook.ErrStorage) || refusal.Kind != fault.Unavailable || refusal.RetryAfter <= 0 {
						t.Errorf("%s: %v", id, err)
					}
					refused.Add(1)
					continue
				}
				mu.Lock()
				acknowledged[id] = got.ID
				mu.Unlock()
			}
		})
	}
	stored := func() int { mu.Lock(); defer mu.Unlock(); return len(acknowledged) }
	for range 2 {
		before := stored()
		if !within(patience, func() bool { return stored() >= before+100 }) {
			t.Fatal("nothing is stored")
		}
		_ = f.admin.Close(t.Context())
		stop()
		none := refused.Load()
		if !within(patience, func() bool { return refused.Load() >= none+16 }) {
			t.Error("nothing is refused while the database is away")
		}
		start()
		connect()
	}
	before := stored()
	if !within(patience, func() bool { return stored() >= before+100 }) {
		t.Error("nothing is stored after the database is back")
	}
	close(done)
	senders.Wait()
	settled := within(4*patience, func() bool {
		_, _ = r.Sweep(t.Context())
		return f.count(t, `select count(*) from webhook_events where status = 'pending'`) == 0
	})
	if !settled {
		t.Errorf("%d events are still pending", f.count(t, `select count(*) from webhook_events where status = 'pending'`))
	}
	for id, event := range acknowledged {
		if n := f.count(t, `select count(*) from webhook_events where external_id = $1 and id = $2`, id, event); n != 1 {
			t.Errorf("%s was acknowledged and is not there", id)
		}
	}
	if n := f.count(t, `select count(*) from webhook_events e where event_type in ($1, $2)
		and (status <> 'processed' or (select count(*) from effects where event = e.id) <> 1)`, kindTx, kindFlaky); n != 0 {
		t.Errorf("%d events without their one effect", n)
	}
	t.Logf("%d sent, %d acknowledged, %d refused", sent.Load(), len(acknowledged), refused.Load())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := errors.Join(runner.Stop(ctx), r.Close(ctx), f.admin.Close(ctx)); err != nil {
		t.Error(err)
	}
}
