package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/groupcommit"
	"github.com/waypost/waypost/internal/webhook"
)

// Case 49 of the adversarial catalogue: an insert waits for the transaction of an
// equal key to end, so no handler may run inside one.
func TestCase49ADuplicateIsAnsweredWhileTheFirstIsBeingHandled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	entered, release := make(chan struct{}), make(chan struct{})
	r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "", func(ctx context.Context, d *webhook.Delivery) error {
		if err := inTx(ctx, d); err != nil {
			return err
		}
		close(entered)
		<-release
		return nil
	})}})
	in := signed(t, "payment", "paid", "evt_1", `{}`)
	first := make(chan webhook.Receipt, 1)
	go func() {
		got, err := r.Receive(t.Context(), in)
		if err != nil {
			t.Error(err)
		}
		first <- got
	}()
	<-entered
	again := mustReceive(t, r, in)
	close(release)
	if got := <-first; again.Status != webhook.Skipped || again.ID != got.ID || got.Status != webhook.Processed {
		t.Errorf("the first is %+v, the second %+v", got, again)
	}
}

// Case 50: batches with the same keys in opposite orders.
func TestCase50InstancesThatStoreTheSameKeysNeverWaitForEachOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	receivers := []*faces{f.receiver(t, setup{}), f.receiver(t, setup{})}
	var stored, skipped atomic.Int64
	var senders sync.WaitGroup
	const rounds, keys = 20, 100
	for round := range rounds {
		deliveries := make([]webhook.Inbound, keys)
		for i := range deliveries {
			deliveries[i] = signed(t, "payment", "paid", fmt.Sprintf("evt_%d_%04d", round, i), `{}`)
		}
		for n, r := range receivers {
			for i := range deliveries {
				in := deliveries[i]
				if n == 1 {
					in = deliveries[keys-1-i]
				}
				senders.Go(func() {
					got, err := r.Receive(t.Context(), in)
					switch {
					case err != nil:
						t.Error(err)
					case got.Status == webhook.Skipped:
						skipped.Add(1)
					default:
						stored.Add(1)
					}
				})
			}
		}
		senders.Wait()
	}
	if stored.Load() != rounds*keys || skipped.Load() != rounds*keys {
		t.Errorf("%d are stored, %d skipped", stored.Load(), skipped.Load())
	}
	for _, r := range receivers {
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	f.db.Close() // sessions report their deadlocks when they end
	gone := within(patience, func() bool {
		return f.count(t, `select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`) == 0
	})
	if n := f.count(t, `select deadlocks from pg_stat_database where datname = current_database()`); !gone || n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// Case 53: the pool is exhausted.
func TestCase53WithoutAFreeConnectionADeliveryIsRefusedInTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var calls atomic.Int64
	r := f.receiver(t, setup{
		bindings: []webhook.Binding{webhook.Handle("payment", "", counting(&calls))},
		change:   func(o *webhook.Options) { o.StoreTimeout = 200 * time.Millisecond },
	})
	pool := f.db.Pool()
	var taken []*pgxpool.Conn
	for range pool.Config().MaxConns {
		c, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	in := signed(t, "payment", "paid", "evt_1", `{}`)
	if got, err := r.Receive(ctx, in); !errors.Is(err, webhook.ErrStorage) || ctx.Err() != nil {
		t.Errorf("Receive: %+v, %v", got, err)
	}
	for _, c := range taken {
		c.Release()
	}
	got := webhook.Receipt{}
	if !within(patience, func() bool { got, _ = r.Receive(ctx, in); return got.Status != "" }) || got.Status != webhook.Processed || calls.Load() != 1 {
		t.Errorf("afterwards: %+v, %d calls", got, calls.Load())
	}
}

// mutable is a way to a PostgreSQL server that can lose its answers.
type mutable struct {
	url   string
	muted atomic.Bool

	mu    sync.Mutex
	conns []net.Conn
}

func newMutable(t *testing.T, database string) *mutable {
	t.Helper()
	c, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	network, address := "tcp", net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	if filepath.IsAbs(c.Host) {
		network, address = "unix", filepath.Join(c.Host, fmt.Sprintf(".s.PGSQL.%d", c.Port))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mutable{url: (&url.URL{Scheme: "postgres", User: url.UserPassword(c.User, c.Password), Host: l.Addr().String(), Path: c.Database, RawQuery: "sslmode=disable"}).String()}
	t.Cleanup(func() { _ = l.Close(); m.cut() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial(network, address)
			if err != nil {
				_ = client.Close()
				continue
			}
			m.mu.Lock()
			m.conns = append(m.conns, client, server)
			m.mu.Unlock()
			go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
			go func() { _, _ = io.Copy(m.answers(client), server); _ = client.Close() }()
		}
	}()
	return m
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// answers passes the server's answers on, unless they are to get lost.
func (m *mutable) answers(to io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		if m.muted.Load() {
			return len(p), nil
		}
		return to.Write(p)
	})
}

// cut ends every connection.
func (m *mutable) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		_ = c.Close()
	}
	m.conns = nil
}

// Case 54: nobody knows whether COMMIT came through.
func TestCase54ADeliveryWhoseCommitIsUnknownIsRefusedThenSkippedAndHandledOnce(t *testing.T) {
	t.Parallel()
	f, urls := newFixtureWithURL(t)
	way := newMutable(t, urls.App)
	d, err := db.Open(t.Context(), db.Options{URL: way.url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	bindings := []webhook.Binding{webhook.Handle("payment", "", inTx)}
	r := fixture{db: d, admin: f.admin}.receiver(t, setup{bindings: bindings, change: func(o *webhook.Options) { o.StoreTimeout = 500 * time.Millisecond }})
	mustReceive(t, r, signed(t, "payment", "paid", "evt_0", `{}`)) // statements are prepared
	way.muted.Store(true)
	in := signed(t, "payment", "paid", "evt_1", `{}`)
	if got, err := r.Receive(t.Context(), in); !errors.Is(err, webhook.ErrStorage) {
		t.Errorf("without an answer from the database: %+v, %v", got, err)
	}
	if n := f.count(t, `select count(*) from webhook_events where external_id = 'evt_1' and status = 'pending'`); n != 1 {
		t.Fatalf("%d rows: the commit did not come through", n)
	}
	way.muted.Store(false)
	way.cut()
	var again webhook.Receipt
	if !within(patience, func() bool { again, err = r.Receive(t.Context(), in); return err == nil }) || again.Status != webhook.Skipped {
		t.Fatalf("again: %+v, %v", again, err)
	}
	f.expireLeases(t)
	if n, err := f.receiver(t, setup{bindings: bindings}).Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("Sweep = %d, %v", n, err)
	}
	if n := f.count(t, `select count(*) from effects where event = $1`, again.ID); n != 1 || mustFind(t, r, again.ID).Status != webhook.Processed {
		t.Errorf("%d effects", n)
	}
}

func TestWhatCouldNotBeStoredInTimeIsRefusedAtOnceAndWhatWaitsIsStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.receiver(t, setup{change: func(o *webhook.Options) { o.StoreTimeout, o.MaxQueueWait = patience, 100*time.Millisecond }})
	f.exec(t, `begin`)
	f.exec(t, `lock table webhook_events in exclusive mode`)
	var stored atomic.Int64
	var senders sync.WaitGroup
	sent := 0
	refused := within(patience/2, func() bool {
		in, err := r.Admit("payment", 2)
		if err != nil {
			return errors.Is(err, webhook.ErrStorage)
		}
		in.Release()
		delivery := signed(t, "payment", "paid", eventID(sent), `{}`)
		sent++
		senders.Go(func() {
			if _, err := r.Receive(t.Context(), delivery); err != nil && !errors.Is(err, groupcommit.ErrFull) {
				t.Errorf("one that waits: %v", err)
			} else if err == nil {
				stored.Add(1)
			}
		})
		return false
	})
	if !refused {
		t.Error("deliveries are let in while others wait and wait")
	}
	f.exec(t, `commit`)
	senders.Wait()
	if n := f.count(t, `select count(*) from webhook_events`); n != int(stored.Load()) || n < 3 { // two are stored at a time
		t.Errorf("%d rows of %d deliveries, %d stored", n, sent, stored.Load())
	}
	if _, err := r.Admit("payment", 2); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
