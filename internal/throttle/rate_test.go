package throttle_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/throttle"
)

// another is a second instance on the same database, with a clock of its own.
func (f fixture) another(t *testing.T, now func() time.Time) *throttle.Service {
	t.Helper()
	s, err := throttle.New(throttle.Options{DB: f.db, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// takes uses a subject until it is refused, n times at most, and returns how often it
// was allowed.
func takes(t *testing.T, r *throttle.Rates, subject string, perMinute, n int) int {
	t.Helper()
	for i := range n {
		switch _, err := r.Take(t.Context(), subject, perMinute); {
		case errors.Is(err, throttle.ErrLimited):
			return i
		case err != nil:
			t.Fatal(err)
		}
	}
	return n
}

func TestARateHoldsForAllInstancesTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	clock := func() time.Time { return *f.now }
	var instances []*throttle.Rates
	for range 4 {
		instances = append(instances, f.another(t, clock).NewRates("rate"))
	}
	for _, rate := range []int{1, 7, 60, 1000} {
		*f.now = f.now.Add(time.Minute)
		var allowed atomic.Int64
		var all sync.WaitGroup
		for i := range 4 * 5 {
			all.Go(func() {
				for range rate {
					switch _, err := instances[i%4].Take(t.Context(), "a", rate); {
					case err == nil:
						allowed.Add(1)
					case !errors.Is(err, throttle.ErrLimited):
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if int(allowed.Load()) != rate {
			t.Errorf("%d of %d were allowed", allowed.Load(), rate)
		}
	}
}

func TestARateBeginsAnewAfterAMinuteAndSaysWhen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.NewRates("rate")
	if n := takes(t, r, "a", 3, 10); n != 3 {
		t.Errorf("%d were allowed", n)
	}
	*f.now = f.now.Add(20 * time.Second)
	state, err := r.Take(t.Context(), "a", 3)
	if left := wait(t, err); left != 40*time.Second {
		t.Errorf("come back in %s", left)
	}
	if want := (identity.Rate{PerMinute: 3, Reset: 40 * time.Second}); state != want {
		t.Errorf("%+v", state)
	}
	if n := takes(t, r, "b", 3, 10); n != 3 {
		t.Errorf("another subject: %d", n)
	}
	*f.now = f.now.Add(40 * time.Second)
	if n := takes(t, r, "a", 3, 10); n != 3 {
		t.Errorf("in the next minute: %d", n)
	}
}

func TestARateIsCountedInSixtyShares(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.NewRates("rate")
	for used := 1; used <= 6000; used++ {
		if n := takes(t, r, "a", 6000, 1); n != 1 {
			t.Fatalf("use %d was refused", used)
		}
		if used%100 > 1 {
			continue
		}
		var counted int
		err := f.db.Direct().QueryRow(t.Context(), `select count from throttles where name = 'rate' and subject = 'a'`).Scan(&counted)
		if want := (used + 99) / 100 * 100; err != nil || counted != want {
			t.Fatalf("after %d uses %d are counted, want %d: %v", used, counted, want, err)
		}
	}
	if n := takes(t, r, "a", 6000, 1); n != 0 {
		t.Error("one too many was allowed")
	}
}

// Whatever the order of uses by two instances and of the passing time: in no minute from
// its first use on is more allowed than the rate, and never less than what one share of
// the other instance leaves.
func TestARateIsNeverExceededWithinItsMinute(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	clock := func() time.Time { return *f.now }
	subject := 0
	rapid.Check(t, func(rt *rapid.T) {
		subject++
		name := time.Duration(subject).String()
		rate := rapid.IntRange(1, 130).Draw(rt, "rate")
		instances := []*throttle.Rates{f.another(t, clock).NewRates("rate"), f.another(t, clock).NewRates("rate")}
		var began time.Time
		allowed := 0
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			*f.now = f.now.Add(time.Duration(rapid.IntRange(0, 45).Draw(rt, "seconds")) * time.Second)
			if f.now.Sub(began) >= time.Minute {
				began, allowed = *f.now, 0
			}
			asked := rapid.IntRange(1, 60).Draw(rt, "uses")
			n := takes(t, instances[rapid.IntRange(0, 1).Draw(rt, "instance")], name, rate, asked)
			allowed += n
			if share := max(rate/60, 1) - 1; allowed > rate || n < asked && allowed < rate-share {
				rt.Fatalf("%d of %d were allowed", allowed, rate)
			}
		}
	})
}

func TestARateSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r, other := f.NewRates("rate"), f.NewRates("rate")
	for i, of := range []*throttle.Rates{r, r, r, other, r} {
		state, err := of.Take(t.Context(), "a", 120) // in shares of two
		want := identity.Rate{PerMinute: 120, Left: []int{119, 118, 117, 115, 116}[i], Reset: time.Minute}
		if err != nil || state != want {
			t.Errorf("%d: %+v, %v", i, state, err)
		}
	}
}
