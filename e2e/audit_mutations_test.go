package e2e_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/identity"
)

// mutator changes rows of its own as actors of all kinds, and counts the entries that
// this must leave in the audit log.
type mutator struct {
	db      *db.DB
	number  int
	rand    *rand.Rand
	entries int
	user    int64
	posts   []int64
	// Of its webhook deliveries: those without an outcome, and those with one.
	pending, settled []uuid.UUID
	// keepsBodies says that it empties none.
	keepsBodies bool
}

func newMutator(t *testing.T, d *db.DB, number int) *mutator {
	t.Helper()
	m := &mutator{db: d, number: number, rand: rand.New(rand.NewPCG(10_000, uint64(number)))}
	if err := m.register(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

// run makes changes until entries of them are in the log.
func (m *mutator) run(ctx context.Context, entries int) error {
	for upTo := m.entries + entries; m.entries < upTo; {
		steps := []func(context.Context) error{m.register, m.write, m.write, m.edit, m.edit, m.remove, m.open, m.receive, m.receive, m.settle, m.empty, m.note, m.touch, m.fail}
		if err := steps[m.rand.IntN(len(steps))](ctx); err != nil {
			return err
		}
	}
	return nil
}

// edge is the principal of a request before anybody is known.
func (m *mutator) edge(action string) identity.Principal {
	return identity.Principal{
		Kind: identity.KindAnonymous, Action: action, RequestID: fmt.Sprintf("%016x", m.rand.Uint64()),
		Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(m.number)}),
	}
}

func (m *mutator) account(action string) identity.Principal {
	return identity.Account(m.user, identity.Editor, uuid.NewString()).From(m.edge(action))
}

// change runs one statement, in either way of the application, which must leave that
// many entries.
func (m *mutator) change(ctx context.Context, p identity.Principal, entries int, sql string, args ...any) error {
	m.entries += entries
	if m.rand.IntN(2) == 0 {
		_, err := m.db.Single(p).Exec(ctx, sql, args...)
		return err
	}
	return m.db.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
}

func (m *mutator) register(ctx context.Context) error {
	m.entries++
	email := uuid.NewString() + "@example.com"
	return m.db.Single(m.edge("register")).QueryRow(ctx, `insert into users (first_name, last_name, email, email_key, password_hash, role, created_at, updated_at)
		values ('Zoë', 'Łoś', $1, $1, 'planted secret', 'EDITOR', now(), now()) returning id`, email).Scan(&m.user)
}

// write makes some posts in one transaction.
func (m *mutator) write(ctx context.Context) error {
	return m.db.InTx(ctx, m.account("create-post"), func(ctx context.Context, tx pgx.Tx) error {
		for range 1 + m.rand.IntN(3) {
			var id int64
			body := strings.Repeat("ä<&>\"\\\n ", 1+m.rand.IntN(1000)) // up to twice what an entry shows
			if err := tx.QueryRow(ctx, `insert into posts (author_id, title, body, tags, created_at, updated_at) values ($1, 'T', $2, '{a,b}', now(), now()) returning id`, m.user, body).Scan(&id); err != nil {
				return err
			}
			m.entries++
			m.posts = append(m.posts, id)
		}
		return nil
	})
}

func (m *mutator) edit(ctx context.Context) error {
	some := m.posts[max(len(m.posts)-5, 0):]
	bot := identity.Token(m.user, identity.Editor, int64(m.number+1), 0).From(m.edge("update-post"))
	return m.change(ctx, bot, len(some), `update posts set title = title || '!', updated_at = now() where id = any ($1)`, some)
}

func (m *mutator) remove(ctx context.Context) error {
	if len(m.posts) == 0 {
		return nil
	}
	id := m.posts[0]
	m.posts = m.posts[1:]
	return m.change(ctx, identity.Command("ada", "post delete"), 1, `delete from posts where id = $1`, id)
}

// open makes a site with a time zone and a secret.
func (m *mutator) open(ctx context.Context) error {
	return m.change(ctx, m.account("create-site"), 2, `with s as (
			insert into sites (id, name, domain, site_key, import_secret, created_at, updated_at)
			values ($1, 'Sité', 'example.com', 'wps_' || $1::uuid::text, convert_to('planted secret', 'UTF8'), now(), now()) returning id)
		insert into site_zones (site_id, effective_from, timezone) select id, now(), 'Europe/Warsaw' from s`, uuid.New())
}

// receive stores deliveries, which leave one entry.
func (m *mutator) receive(ctx context.Context) error {
	var ids []uuid.UUID
	var bodies, digests [][]byte
	for range 1 + m.rand.IntN(5) {
		body := fmt.Appendf(nil, `{"n":%d}`, m.rand.Int64())
		digest := sha256.Sum256(body)
		ids, bodies, digests = append(ids, uuid.New()), append(bodies, body), append(digests, digest[:])
	}
	m.pending = append(m.pending, ids...)
	provider := identity.Principal{Kind: identity.KindProvider, ID: "payment", Action: "receive-webhook"}
	return m.change(ctx, provider, 1, `insert into webhook_events (id, provider, event_type, external_id, created_at, raw, raw_sha256, headers, lease_id, lease_until)
		select i, 'payment', 'paid.ü', i::text, now(), b, d, '{}', gen_random_uuid(), now() from unnest($1::uuid[], $2::bytea[], $3::bytea[]) as x (i, b, d)`, ids, bodies, digests)
}

// settle gives all deliveries their outcome, which leaves one entry.
func (m *mutator) settle(ctx context.Context) error {
	if len(m.pending) == 0 {
		return nil
	}
	ids := m.pending
	m.pending, m.settled = nil, append(m.settled, ids...)
	return m.change(ctx, identity.Job(int64(m.entries), "webhook"), 1, `update webhook_events
		set status = case when id = $2 then 'failed' else 'processed' end, processed_at = now(), lease_id = null, lease_until = null where id = any ($1)`, ids, ids[0])
}

// empty forgets the body of a delivery, which leaves one entry.
func (m *mutator) empty(ctx context.Context) error {
	if len(m.settled) == 0 || m.keepsBodies {
		return nil
	}
	id := m.settled[0]
	m.settled = m.settled[1:]
	return m.change(ctx, identity.System("webhook-retention"), 1, `update webhook_events set raw = null where id = $1`, id)
}

func (m *mutator) note(ctx context.Context) error {
	m.entries++
	return m.db.InTx(ctx, m.edge("login"), func(ctx context.Context, tx pgx.Tx) error {
		return audit.Note(ctx, tx, "users", fmt.Sprint(m.user), map[string]any{"what": "sign_in_failed", "reason": "<wrong>"})
	})
}

// touch leaves no entry.
func (m *mutator) touch(ctx context.Context) error {
	return m.change(ctx, identity.Site("s"), 0, `update webhook_events set lease_until = now() where id = any ($1)`, m.pending)
}

// fail leaves no entry either: the transaction is rolled back.
func (m *mutator) fail(ctx context.Context) error {
	sorry := errors.New("sorry")
	err := m.db.InTx(ctx, m.account("update-user"), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `update users set first_name = 'Nobody' where id = $1`, m.user); err != nil {
			return err
		}
		return sorry
	})
	if errors.Is(err, sorry) {
		return nil
	}
	return fmt.Errorf("a failed transaction returned %w", err)
}
