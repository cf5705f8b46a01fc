package mail_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/seal"
)

// fixture is an outbox on a database of its own, whose jobs the test works.
type fixture struct {
	*mail.Outbox
	db  *db.DB
	now *clock
	o   mail.Options
}

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func newFixture(t *testing.T, change func(*mail.Options)) fixture {
	t.Helper()
	f := fixture{db: dbtest.New(t), now: &clock{at: time.Now().UTC().Truncate(time.Microsecond)}}
	jobs, err := queue.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := seal.New(mail.SealPurpose, []byte("a secret key for tests, longer than 32 bytes"), nil)
	if err != nil {
		t.Fatal(err)
	}
	f.o = mail.Options{DB: f.db, Jobs: jobs, Sealer: key, Composer: composer(t), From: "waypost@sender.example", Transport: &outbound{}, Now: f.now.now}
	if change != nil {
		change(&f.o)
	}
	return f.again(t, nil)
}

// again is another instance on the same database.
func (f fixture) again(t *testing.T, change func(*mail.Options)) fixture {
	t.Helper()
	o := f.o
	if change != nil {
		change(&o)
	}
	var err error
	if f.Outbox, err = mail.New(o); err != nil {
		t.Fatal(err)
	}
	return f
}

// outbound is a Transport that keeps what it gets, and fails as it is told.
type outbound struct {
	mu   sync.Mutex
	got  []mail.Envelope
	fail error
}

func (o *outbound) Deliver(_ context.Context, e mail.Envelope) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fail != nil {
		return o.fail
	}
	o.got = append(o.got, e)
	return nil
}

func (f fixture) in(t *testing.T, do func(ctx context.Context, tx pgx.Tx) error) error {
	t.Helper()
	return f.db.InTx(t.Context(), identity.System("test"), do)
}

// put sends m and returns its row's id.
func (f fixture) put(t *testing.T, m mail.Message) int64 {
	t.Helper()
	if err := f.in(t, func(ctx context.Context, tx pgx.Tx) error { return f.Send(ctx, tx, m) }); err != nil {
		t.Fatal(err)
	}
	return f.list(t, mail.Filter{})[0].ID
}

func (f fixture) list(t *testing.T, filter mail.Filter) []mail.Mail {
	t.Helper()
	list, err := f.List(t.Context(), filter, 0, 100, nil)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func (f fixture) find(t *testing.T, id int64) mail.Mail {
	t.Helper()
	m, err := f.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sealed is whether a mail still has its secret.
func (f fixture) sealed(t *testing.T, id int64) bool {
	t.Helper()
	var has bool
	if err := f.db.Direct().QueryRow(t.Context(), "select secret is not null or secret_key_id is not null from mails where id = $1", id).Scan(&has); err != nil {
		t.Fatal(err)
	}
	return has
}

func (f fixture) jobs(t *testing.T) []string {
	t.Helper()
	rows, err := f.db.Direct().Query(t.Context(), "select args::text || ' ' || queue from river_job where kind = 'mails.send' order by id")
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// person makes an account.
func (f fixture) person(t *testing.T, email, role string) int64 {
	t.Helper()
	var id int64
	err := f.in(t, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `insert into users (first_name, last_name, email, email_key, password_hash, role, active, created_at, updated_at)
			values ('Ada', 'Lovelace', $1, lower($1), 'x', $2, true, now(), now()) returning id`, email, role).Scan(&id)
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func anonymous(kind mail.Kind) mail.Message {
	m := message(kind)
	m.UserID = 0
	return m
}
