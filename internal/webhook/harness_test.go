package webhook_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/webhook"
)

const (
	paymentSecret  = "payment secret"
	codeHostSecret = "code host secret"
	patience       = 30 * time.Second // for what must happen, however slow the machine
)

var discard = slog.New(slog.DiscardHandler)

// fixture is a database with a table for handlers' effects.
type fixture struct {
	db    *db.DB
	admin *pgx.Conn
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	f, _ := newFixtureWithURL(t)
	return f
}

func newFixtureWithURL(t *testing.T) (fixture, dbtest.URLs) {
	t.Helper()
	d, urls := dbtest.NewWithURL(t)
	admin, err := pgx.Connect(t.Context(), urls.Admin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	f := fixture{db: d, admin: admin}
	f.createEffects(t)
	return f, urls
}

func (f fixture) createEffects(t *testing.T) {
	t.Helper()
	f.exec(t, `create table effects (
		event  uuid not null,
		once   int,
		constraint effects_once unique (once) deferrable initially deferred);
		grant select, insert on effects to waypost_app`)
}

func (f fixture) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := f.admin.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (f fixture) count(t *testing.T, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := f.admin.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// expireLeases makes every event that is pending look left behind.
func (f fixture) expireLeases(t *testing.T) {
	t.Helper()
	f.exec(t, `update webhook_events set lease_until = now() - interval '1 second' where status = 'pending' and lease_until < 'infinity'`)
	f.exec(t, `update webhook_forwards set due_at = now() - interval '1 second' where lease_id is not null`)
}

// workJobs makes the attempts whose jobs wait, however long they were to wait, and
// returns how many jobs it worked.
func (f fixture) workJobs(t *testing.T, r *faces) int {
	t.Helper()
	rows, err := f.admin.Query(t.Context(), `select id, args from river_job
		where kind = 'webhooks.attempt' and state in ('available', 'scheduled') order by id`)
	if err != nil {
		t.Fatal(err)
	}
	type job struct {
		ID   int64
		Args webhook.AttemptJob
	}
	jobs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[job])
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if err := r.Attempt(t.Context(), j.Args, j.ID); err != nil {
			t.Errorf("job %d: %v", j.ID, err)
		}
		f.exec(t, `update river_job set state = 'completed', finalized_at = now() where id = $1`, j.ID)
	}
	return len(jobs) + f.forward(t, r)
}

// forward makes each attempt at a target that waits, however long it was to wait, once,
// and returns how many those were.
func (f fixture) forward(t *testing.T, r *faces) int {
	t.Helper()
	f.exec(t, `update webhook_forwards set due_at = now() where status = 'pending' and lease_id is null`)
	n, err := r.ForwardDue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// attempts are the outcomes of an event's ledger, in words.
func attempts(t *testing.T, r *faces, id uuid.UUID) string {
	t.Helper()
	d, err := r.Detail(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for i, a := range d.Attempts {
		if a.Number != i+1 || a.At.IsZero() {
			t.Errorf("attempt %d has number %d, at %v", i+1, a.Number, a.At)
		}
		ended := a.Outcome == webhook.AttemptProcessed || a.Outcome == webhook.AttemptFailed
		if ended != (a.Duration != nil) || (a.Outcome == webhook.AttemptFailed) != (a.Error != "") {
			t.Errorf("attempt %+v", a)
		}
		words = append(words, string(a.Outcome))
	}
	return strings.Join(words, " ")
}

type setup struct {
	secrets  map[string]string
	change   func(*webhook.Options)
	bindings []webhook.Binding
}

func secrets() map[string]string {
	return map[string]string{"PAYMENT_WEBHOOK_SECRET": paymentSecret, "CODEHOST_WEBHOOK_SECRET": codeHostSecret}
}

// faces are all faces of one receiver.
type faces struct {
	*webhook.Receiver
	*webhook.Admin
	*webhook.Worker
}

func newFaces(o webhook.Options) (*faces, error) {
	s, err := webhook.New(o)
	if err != nil {
		return nil, err
	}
	return &faces{s.Receiver, s.Admin, s.Worker}, nil
}

// Receive takes a delivery whose body is at hand.
func (f *faces) Receive(ctx context.Context, in webhook.Inbound) (webhook.Receipt, error) {
	return f.Receiver.Receive(ctx, webhook.Arrival{Provider: in.Provider, Header: in.Header, Length: int64(len(in.Body)), Body: bytes.NewReader(in.Body)})
}

func (f fixture) receiver(t *testing.T, s setup) *faces {
	t.Helper()
	registry, err := webhook.NewRegistry([]webhook.Registration{webhook.Payment(), webhook.CodeHost()}, s.bindings...)
	if err != nil {
		t.Fatal(err)
	}
	if s.secrets == nil {
		s.secrets = secrets()
	}
	jobs, err := queue.New(discard)
	if err != nil {
		t.Fatal(err)
	}
	o := webhook.Options{
		DB: f.db, Registry: registry, Logger: discard, Jobs: jobs,
		LookupSecret: func(name string) string { return s.secrets[name] },
	}
	if s.change != nil {
		s.change(&o)
	}
	r, err := newFaces(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

// signed makes a delivery as the provider sends it.
func signed(t testing.TB, provider, eventType, externalID, data string) webhook.Inbound {
	t.Helper()
	registry, err := webhook.NewRegistry([]webhook.Registration{webhook.Payment(), webhook.CodeHost()})
	if err != nil {
		t.Fatal(err)
	}
	secret := map[string]string{"payment": paymentSecret, "codehost": codeHostSecret}[provider]
	body, h, err := registry.Compose(provider, webhook.TestDelivery{
		EventType: eventType, ExternalID: externalID, Data: []byte(data), Secret: secret, Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return webhook.Inbound{Provider: provider, Header: h, Body: body}
}

func mustReceive(t *testing.T, r *faces, in webhook.Inbound) webhook.Receipt {
	t.Helper()
	got, err := r.Receive(t.Context(), in)
	if err != nil {
		t.Fatalf("Receive: %v", err)
	}
	return got
}

func mustFind(t *testing.T, r *faces, id uuid.UUID) webhook.Record {
	t.Helper()
	rec, err := r.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// eventually waits until the event has the status.
func eventually(t *testing.T, r *faces, id uuid.UUID, want webhook.Status) webhook.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		rec, err := r.Find(ctx, id)
		if err == nil && rec.Status == want {
			return rec
		}
		if ctx.Err() != nil {
			t.Fatalf("event %s never became %s: %+v, %v", id, want, rec, err)
		}
	}
}

// inTx is a handler whose effect is one row in its transaction.
func inTx(ctx context.Context, d *webhook.Delivery) error {
	tx, err := d.Tx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `insert into effects (event) values ($1)`, d.Event.ID)
	return err
}

// counting counts the calls of a handler that needs no transaction.
func counting(n *atomic.Int64) webhook.Handler {
	return func(context.Context, *webhook.Delivery) error {
		n.Add(1)
		return nil
	}
}

var errHandler = errors.New("the card was declined")

func failing(context.Context, *webhook.Delivery) error { return errHandler }

func eventID(i int) string { return fmt.Sprintf("evt_%04d", i) }

// isAgain says whether a job wants to be called again.
func isAgain(err error) bool {
	_, again := queue.AgainIn(err)
	return again
}
