package audit_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/identity"
)

func secret(fill byte) []byte { return bytes.Repeat([]byte{fill}, 32) }

type movingClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *movingClock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *movingClock) wait(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// fixture is a database with a log, its service, and its owner, who tampers.
type fixture struct {
	*audit.Service
	db    *db.DB
	owner *pgx.Conn
	clock *movingClock
	rand  *rand.Rand
}

func newFixture(t *testing.T, change func(*audit.Options)) *fixture {
	t.Helper()
	d, urls := dbtest.NewWithURL(t)
	owner, err := pgx.Connect(t.Context(), urls.Owner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = owner.Close(context.Background()) })
	f := &fixture{db: d, owner: owner, clock: &movingClock{now: time.Now()}, rand: rand.New(rand.NewPCG(1, 2))}
	f.Service = f.another(t, change)
	return f
}

// another is another instance of the service.
func (f *fixture) another(t *testing.T, change func(*audit.Options)) *audit.Service {
	t.Helper()
	o := audit.Options{DB: f.db, SecretKey: secret('k'), Now: f.clock.read}
	if change != nil {
		change(&o)
	}
	s, err := audit.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// do makes a change as the application.
func (f *fixture) do(t *testing.T, sql string, args ...any) {
	t.Helper()
	err := f.db.InTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// tamper does as the owner what nobody should.
func (f *fixture) tamper(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := f.owner.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func ask[T any](t *testing.T, f *fixture, sql string, args ...any) T {
	t.Helper()
	var value T
	if err := f.owner.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func (f *fixture) addSite(t *testing.T) uuid.UUID {
	t.Helper()
	id := uuid.New()
	f.do(t, `insert into sites (id, name, domain, site_key, created_at, updated_at) values ($1, $2, 'example.com', $3, now(), now())`,
		id, fmt.Sprintf("Sité %d", f.rand.IntN(1000)), strings.ReplaceAll(id.String(), "-", ""))
	return id
}

// receive stores n deliveries in one statement, which makes one entry.
func (f *fixture) receive(t *testing.T, n int) []uuid.UUID {
	t.Helper()
	var ids []uuid.UUID
	var bodies, digests [][]byte
	for range n {
		body := fmt.Appendf(nil, `{"n":%d}`, f.rand.Int64())
		digest := sha256.Sum256(body)
		ids, bodies, digests = append(ids, uuid.New()), append(bodies, body), append(digests, digest[:])
	}
	f.do(t, `insert into webhook_events (id, provider, event_type, external_id, status, processed_at, created_at, raw, raw_sha256, headers)
		select i, 'payment', 'paid', i::text, 'processed', now(), now(), b, d, '{}' from unnest($1::uuid[], $2::bytea[], $3::bytea[]) as x (i, b, d)`,
		ids, bodies, digests)
	return ids
}

// fill makes n entries of all kinds and seals them.
func (f *fixture) fill(t *testing.T, n int) {
	t.Helper()
	start := ask[int](t, f, `select (select count(*) from audit_pending) + (select count(*) from audit_log)`)
	for made := start; made < start+n; made = ask[int](t, f, `select (select count(*) from audit_pending) + (select count(*) from audit_log)`) {
		f.do(t, `insert into sites (id, name, domain, site_key, created_at, updated_at)
			select gen_random_uuid(), 'Sité', 'example.com', gen_random_uuid()::text, now(), now() from generate_series(1, $1)`, min(1+f.rand.IntN(20), start+n-made))
		if start+n-made < 80 {
			continue
		}
		f.do(t, `update sites set name = name || '!' where id in (select id from sites order by id limit 20)`)
		f.do(t, `delete from sites where id in (select id from sites order by id limit 5)`)
		ids := f.receive(t, 1+f.rand.IntN(8))
		f.do(t, `update webhook_events set retry_count = 1 where id = $1`, ids[0])
		f.note(t, map[string]any{"what": "<&>", "n": made})
	}
	f.seal(t)
}

func (f *fixture) note(t *testing.T, what any) {
	t.Helper()
	err := f.db.InTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
		return audit.Note(ctx, tx, "", "", what)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) seal(t *testing.T) {
	t.Helper()
	if _, err := f.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// sign signs a checkpoint of all that is sealed.
func (f *fixture) sign(t *testing.T) audit.Checkpoint {
	t.Helper()
	if _, err := f.Key(t.Context()); err != nil { // which makes an entry the first time
		t.Fatal(err)
	}
	f.seal(t)
	f.clock.wait(time.Minute)
	if signed, err := f.SignCheckpoint(t.Context(), true); err != nil || !signed {
		t.Fatalf("signed: %v, %v", signed, err)
	}
	list, err := f.Checkpoints(t.Context(), 0, 1)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	return list[0]
}

func (f *fixture) verify(t *testing.T, from, to int64) audit.Verdict {
	t.Helper()
	v, err := f.Verify(t.Context(), from, to, 0)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (f *fixture) export(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := f.Export(t.Context(), 0, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func (f *fixture) verifierKey(t *testing.T) string {
	t.Helper()
	k, err := f.Key(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return k.VerifierKey
}

// wantBad fails unless v names that entry, 0 for none, with that reason; "" is a log
// that is whole.
func wantBad(t *testing.T, v audit.Verdict, seq int64, reason string) {
	t.Helper()
	var want *audit.Bad
	if reason != "" {
		want = &audit.Bad{Reason: reason}
		if seq != 0 {
			want.Seq = &seq
		}
	}
	if diff := cmp.Diff(want, v.FirstBad); diff != "" {
		t.Error(diff)
	}
	if v.OK != (want == nil) {
		t.Errorf("ok is %v", v.OK)
	}
}

func noWarning(t *testing.T) func(string) {
	return func(sentence string) { t.Logf("warned: %s", sentence) }
}
