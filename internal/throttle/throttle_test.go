package throttle_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/throttle"
)

var (
	window = throttle.Limit{Name: "window", Max: 3, Window: time.Hour}
	streak = throttle.Limit{Name: "streak", Max: 3, Block: time.Minute, MaxBlock: 5 * time.Minute}
)

type fixture struct {
	*throttle.Service
	db  *db.DB
	now *time.Time
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	f := fixture{db: dbtest.New(t), now: &now}
	var err error
	if f.Service, err = throttle.New(throttle.Options{DB: f.db, Now: func() time.Time { return *f.now }}); err != nil {
		t.Fatal(err)
	}
	return f
}

// wait is how long err asks to stay away; 0 when it asks nothing.
func wait(t *testing.T, err error) time.Duration {
	t.Helper()
	if err == nil {
		return 0
	}
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || !errors.Is(err, throttle.ErrLimited) || f.RetryAfter <= 0 {
		t.Fatalf("error is %v", err)
	}
	return f.RetryAfter
}

func (f fixture) pass(t *testing.T, keys ...throttle.Key) error {
	t.Helper()
	return f.db.InTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error { return f.Pass(ctx, tx, keys...) })
}

func TestAWindowAllowsItsNumberFromTheFirstOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := throttle.Key{Limit: window, Subject: "a"}
	for range 3 {
		if err := errors.Join(f.Check(t.Context(), key), f.Count(t.Context(), key)); err != nil {
			t.Fatal(err)
		}
		*f.now = f.now.Add(10 * time.Minute)
	}
	for _, got := range []error{f.Check(t.Context(), key), f.Count(t.Context(), key), f.pass(t, key)} {
		if wait(t, got) != 30*time.Minute {
			t.Errorf("%v", got)
		}
	}
	if err := f.Count(t.Context(), throttle.Key{Limit: window, Subject: "b"}); err != nil {
		t.Errorf("another subject: %v", err)
	}
	*f.now = f.now.Add(30 * time.Minute)
	if err := f.Count(t.Context(), key); err != nil {
		t.Errorf("the next window: %v", err)
	}
}

func TestAStreakBlocksLongerEachTimeButNotForGood(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := throttle.Key{Limit: streak, Subject: "a"}
	for range 2 {
		if err := f.Count(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	var blocks []time.Duration
	for range 5 {
		if err := f.Count(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		block := wait(t, f.Check(t.Context(), key))
		if counted := wait(t, f.Count(t.Context(), key)); counted != block {
			t.Errorf("counted while it blocks: %s", counted)
		}
		blocks = append(blocks, block)
		*f.now = f.now.Add(block)
		if err := f.Check(t.Context(), key); err != nil {
			t.Errorf("after the block: %v", err)
		}
	}
	want := []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute}
	if diff := cmp.Diff(want, blocks); diff != "" {
		t.Error(diff)
	}
	if err := f.pass(t, key); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.Count(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Check(t.Context(), key); err != nil {
		t.Errorf("the streak did not start anew: %v", err)
	}
	*f.now = f.now.Add(24 * time.Hour)
	if err := errors.Join(f.Count(t.Context(), key), f.Check(t.Context(), key)); err != nil {
		t.Errorf("a streak of yesterday: %v", err)
	}
}

func TestOfManyAtOnceNoMoreThanTheLimitGetThrough(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, limit := range []throttle.Limit{window, streak} {
		errs := make([]error, 30)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				// In both orders: they must not wait for each other in a circle.
				keys := []throttle.Key{{Limit: limit, Subject: "a"}, {Limit: limit, Subject: "b"}}
				if i%2 == 0 {
					keys[0], keys[1] = keys[1], keys[0]
				}
				errs[i] = f.Count(t.Context(), keys...)
			})
		}
		wg.Wait()
		through := 0
		for _, err := range errs {
			if wait(t, err) == 0 {
				through++
			}
		}
		if through != limit.Max {
			t.Errorf("%s: %d got through", limit.Name, through)
		}
	}
}

func TestForgivingLiftsABlockAndPassingDoesNot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := throttle.Key{Limit: streak, Subject: "a"}
	for range 3 {
		if err := f.Count(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if wait(t, f.pass(t, key)) == 0 || wait(t, f.Check(t.Context(), key)) == 0 {
		t.Error("a success during the block lifted it")
	}
	err := f.db.InTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error { return f.Forgive(ctx, tx, key) })
	if err := errors.Join(err, f.Check(t.Context(), key)); err != nil {
		t.Error(err)
	}
}

// A neighbour who is refused all the time must not close the limit that both share.
func TestWhatIsRefusedUsesUpNoOtherLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	own, shared := throttle.Key{Limit: window, Subject: "own"}, throttle.Key{Limit: throttle.Limit{Name: "wide", Max: 6, Window: time.Hour}, Subject: "shared"}
	for range 3 {
		if err := f.Count(t.Context(), own, shared); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		if wait(t, f.Count(t.Context(), own, shared)) != time.Hour {
			t.Fatal("it went on")
		}
	}
	neighbour := throttle.Key{Limit: window, Subject: "neighbour"}
	for range 3 {
		if err := f.Count(t.Context(), neighbour, shared); err != nil {
			t.Fatalf("the neighbour: %v", err)
		}
	}
	if wait(t, f.Count(t.Context(), throttle.Key{Limit: window, Subject: "another"}, shared)) != time.Hour {
		t.Error("the shared limit did not hold")
	}
	var rows int
	if err := f.db.Direct().QueryRow(t.Context(), `select count(*) from throttles`).Scan(&rows); err != nil || rows != 3 {
		t.Errorf("%d rows (%v), want those of what was counted", rows, err)
	}
}

func TestAllSubjectsThatBeginAlikeAreForgiven(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	subjects := []string{"ab@1.2.3.4", "ab@2001:db8::/64", "ab@", "ab@\U0010ffff", "ab", "abA1.2.3.4", "ab?", "AB@1.2.3.4", "\u00e4b@1.2.3.4"}
	var keys []throttle.Key
	for _, s := range subjects {
		keys = append(keys, throttle.Key{Limit: streak, Subject: s}, throttle.Key{Limit: window, Subject: s})
	}
	for range 3 {
		if err := f.Count(t.Context(), keys...); err != nil {
			t.Fatal(err)
		}
	}
	err := f.db.InTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error { return f.ForgiveAll(ctx, tx, streak, "ab@") })
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range keys {
		forgiven := k.Limit.Name == streak.Name && i < 8
		if limited := f.Check(t.Context(), k) != nil; limited == forgiven {
			t.Errorf("%s of %q: limited %v", k.Limit.Name, k.Subject, limited)
		}
	}
}

func TestTheSweepForgetsWhatMeansNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if err := f.Count(t.Context(), throttle.Key{Limit: window, Subject: "a"}, throttle.Key{Limit: streak, Subject: "a"}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		wait time.Duration
		want int
	}{{0, 0}, {time.Hour + time.Second, 1}, {24 * time.Hour, 1}, {0, 0}} {
		*f.now = f.now.Add(tc.wait)
		if n, err := f.Sweep(t.Context()); err != nil || n != tc.want {
			t.Errorf("after %s more: %d, %v, want %d", tc.wait, n, err, tc.want)
		}
	}
}

func TestTheDatabaseIsMandatory(t *testing.T) {
	t.Parallel()
	if _, err := throttle.New(throttle.Options{}); err == nil {
		t.Error("made without one")
	}
}
