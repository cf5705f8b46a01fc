package idempotency_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/idempotency"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/seal"
)

type fixture struct {
	db  *db.DB
	now time.Time
	p   identity.Principal
	*idempotency.Store
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{db: dbtest.New(t), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	var id int64
	err := f.db.Single(identity.System("test")).QueryRow(t.Context(), `insert into users (first_name, last_name, email, email_key, role, password_hash, created_at, updated_at)
		values ('Ada', 'Lovelace', 'a@example.com', 'a@example.com', 'USER', 'none', now(), now()) returning id`).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	f.p = identity.Principal{Kind: identity.KindUser, UserID: id, Role: identity.User}
	f.Store = f.with(t, "the first secret key of thirty-two bytes")
	return f
}

func (f *fixture) with(t *testing.T, secret string) *idempotency.Store {
	t.Helper()
	sealer, err := seal.New(idempotency.SealPurpose, []byte(secret), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := idempotency.New(idempotency.Options{
		DB: f.db, BackgroundDB: f.db, Sealer: sealer, Random: rand.Reader, Now: func() time.Time { return f.now }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func request(s string) [sha256.Size]byte { return sha256.Sum256([]byte(s)) }

var made = idempotency.Answer{Status: 201, Header: map[string]string{"Location": "/things/1"}, Body: []byte(`{"data":1}`)}

// once carries a request out, unless it was before.
func (f *fixture) once(t *testing.T, s *idempotency.Store, operation, key, what string, secret bool) (*idempotency.Answer, error) {
	t.Helper()
	a := s.Begin(f.p, operation, key)
	defer a.Close()
	found, err := a.Find(t.Context(), request(what))
	if err != nil || found != nil {
		return found, err
	}
	return nil, a.Keep(a.Context(t.Context()), made, secret)
}

func TestAnAnswerIsGivenAgainForADayToTheSameRequestOfTheSameAccount(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if found, err := f.once(t, f.Store, "create", "key", "a", false); found != nil || err != nil {
		t.Fatal(found, err)
	}
	f.now = f.now.Add(idempotency.Life - time.Second)
	found, err := f.once(t, f.Store, "create", "key", "a", false)
	if diff := cmp.Diff(&made, found); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if _, err := f.once(t, f.Store, "create", "key", "b", false); !errors.Is(err, idempotency.ErrReused) {
		t.Errorf("another request: %v", err)
	}
	for name, other := range map[string][2]string{"another key": {"create", "other"}, "another operation": {"rotate", "key"}} {
		if found, err := f.once(t, f.Store, other[0], other[1], "b", false); found != nil || err != nil {
			t.Errorf("%s: %v %v", name, found, err)
		}
	}
	f.now = f.now.Add(time.Second)
	if found, err := f.once(t, f.Store, "create", "key", "b", false); found != nil || err != nil {
		t.Errorf("after a day: %v %v", found, err)
	}
	if n, err := f.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	f.now = f.now.Add(idempotency.Life)
	if n, err := f.Sweep(t.Context()); n != 3 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
}

func TestAnAnswerThatIsNotKeptIsNotCarriedOutAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.once(t, f.Store, "create-key", "secret", "a", true); err != nil {
		t.Fatal(err)
	}
	if _, err := f.once(t, f.Store, "create", "sealed", "a", false); err != nil {
		t.Fatal(err)
	}
	later := f.with(t, "another secret key of thirty-two bytes!!")
	for operation, key := range map[string]string{"create-key": "secret", "create": "sealed"} {
		if found, err := f.once(t, later, operation, key, "a", false); found != nil || !errors.Is(err, idempotency.ErrNotKept) {
			t.Errorf("%s: %v %v", operation, found, err)
		}
	}
	var plain int
	if err := f.db.Direct().QueryRow(t.Context(), `select count(*) from idempotency_keys where position('data' in encode(answer, 'escape')) > 0`).Scan(&plain); err != nil || plain != 0 {
		t.Errorf("%d answers can be read in the database, %v", plain, err)
	}
}

func TestOfTwoThatPassedTheFirstLookOneWorks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	work := func(a *idempotency.Attempt) error {
		return f.db.InTx(a.Context(t.Context()), f.p, func(context.Context, pgx.Tx) error { return nil })
	}
	var attempts []*idempotency.Attempt
	for range 3 {
		a := f.Begin(f.p, "create", "key")
		defer a.Close()
		if found, err := a.Find(t.Context(), request("a")); found != nil || err != nil {
			t.Fatal(found, err)
		}
		attempts = append(attempts, a)
	}
	if err := work(attempts[0]); err != nil {
		t.Fatal(err)
	}
	if err := work(attempts[1]); !errors.Is(err, idempotency.ErrInFlight) || attempts[1].Refused() == nil {
		t.Errorf("while the first works: %v", err)
	}
	if err := attempts[0].Keep(t.Context(), made, false); err != nil {
		t.Fatal(err)
	}
	if err := work(attempts[2]); !errors.Is(err, idempotency.ErrRepeated) || cmp.Diff(&made, attempts[2].Repeated()) != "" {
		t.Errorf("after the first: %v %+v", err, attempts[2].Repeated())
	}
}

func TestWhatIsNotKeptLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.Begin(f.p, "create", "key")
	if _, err := a.Find(t.Context(), request("a")); err != nil {
		t.Fatal(err)
	}
	err := f.db.InTx(a.Context(t.Context()), f.p, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `update users set first_name = 'Eve'`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	var name string
	if err := f.db.Direct().QueryRow(t.Context(), `select first_name from users`).Scan(&name); err != nil || name != "Ada" {
		t.Errorf("%q, %v", name, err)
	}
	if found, err := f.once(t, f.Store, "create", "key", "b", false); found != nil || err != nil {
		t.Errorf("another request with the key: %v %v", found, err)
	}
}
