package fairqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/fairqueue"
	"github.com/waypost/waypost/internal/fault"
)

func open(t interface{ Fatal(...any) }, o fairqueue.Options) *fairqueue.Queue {
	q, err := fairqueue.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// occupy takes places until release is called.
func occupy(t *testing.T, q *fairqueue.Queue, keys ...string) func() {
	t.Helper()
	leave, err := q.Enter(t.Context(), keys...)
	if err != nil {
		t.Fatal(err)
	}
	return leave
}

// crowd lets callers with the given keys wait, in this order, each holding its
// place for a second once it has one, and returns the order of admission.
type crowd struct {
	mu       sync.Mutex
	admitted []string
	refused  []string
	all      sync.WaitGroup
}

func (c *crowd) add(ctx context.Context, q *fairqueue.Queue, name string, keys ...string) {
	c.all.Go(func() {
		leave, err := q.Enter(ctx, keys...)
		c.mu.Lock()
		if err != nil {
			c.refused = append(c.refused, name)
		} else {
			c.admitted = append(c.admitted, name)
		}
		c.mu.Unlock()
		if err == nil {
			time.Sleep(time.Second)
			leave()
		}
	})
	synctest.Wait()
}

func TestAFreePlaceIsHadAtOnce(t *testing.T) {
	t.Parallel()
	q := open(t, fairqueue.Options{Places: 2})
	first, second := occupy(t, q, "a"), occupy(t, q, "a")
	first()
	second()
	occupy(t, q)()
}

func TestTheNextPlaceGoesToWhoHasNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := open(t, fairqueue.Options{Places: 1, MaxWait: time.Minute})
		leave := occupy(t, q, "flood")
		var c crowd
		for i := range 3 {
			c.add(t.Context(), q, fmt.Sprint("flood ", i), "flood")
		}
		c.add(t.Context(), q, "honest", "honest")
		time.Sleep(time.Second)
		leave()
		c.all.Wait()
		if diff := cmp.Diff([]string{"honest", "flood 0", "flood 1", "flood 2"}, c.admitted); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOneKeyLeavesAPlaceForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := open(t, fairqueue.Options{Places: 3, PerKey: 2})
		occupy(t, q, "slow")
		occupy(t, q, "slow")
		if _, err := q.Enter(t.Context(), "slow"); !errors.Is(err, fairqueue.ErrBusy) {
			t.Errorf("a third place: %v", err)
		}
		began := time.Now()
		occupy(t, q, "other")()
		occupy(t, q, "slow's neighbour", "other")()
		if waited := time.Since(began); waited != 0 {
			t.Errorf("others waited %v for the place that was free", waited)
		}
	})
}

func TestACallerRanksAsTheBusiestOfItsKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := open(t, fairqueue.Options{Places: 1, MaxWait: time.Minute})
		leave := occupy(t, q, "address 1", "account 1")
		var c crowd
		c.add(t.Context(), q, "new account, busy address", "address 1", "account 2")
		c.add(t.Context(), q, "new address, busy account", "address 2", "account 1")
		c.add(t.Context(), q, "both new", "address 3", "account 3")
		time.Sleep(time.Second)
		leave()
		c.all.Wait()
		if diff := cmp.Diff([]string{"both new", "new account, busy address", "new address, busy account"}, c.admitted); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWhatWasUsedIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := open(t, fairqueue.Options{Places: 1, MaxWait: time.Minute, HalfLife: time.Second})
		leave := occupy(t, q, "much, long ago")
		time.Sleep(100 * time.Second)
		leave()
		time.Sleep(30 * time.Second)
		leave = occupy(t, q, "little, just now")
		time.Sleep(time.Second)
		var c crowd
		c.add(t.Context(), q, "little, just now", "little, just now")
		c.add(t.Context(), q, "much, long ago", "much, long ago")
		leave()
		c.all.Wait()
		if diff := cmp.Diff([]string{"much, long ago", "little, just now"}, c.admitted); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAFullQueueRefusesTheGreediestAndNotTheNewest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := open(t, fairqueue.Options{Places: 1, MaxWaiting: 3, MaxWait: time.Minute})
		leave := occupy(t, q, "flood")
		var c crowd
		for i := range 5 {
			c.add(t.Context(), q, fmt.Sprint("flood ", i), "flood")
		}
		c.add(t.Context(), q, "honest", "honest")
		time.Sleep(time.Second)
		leave()
		c.all.Wait()
		if diff := cmp.Diff([]string{"honest", "flood 0", "flood 1"}, c.admitted); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"flood 3", "flood 4", "flood 2"}, c.refused); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTheWaitIsBoundedAndEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := open(t, fairqueue.Options{Places: 1, MaxWait: time.Second})
		leave := occupy(t, q, "a")
		began := time.Now()
		_, err := q.Enter(t.Context(), "b")
		if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.Unavailable || f.Code != "busy" || f.RetryAfter <= 0 {
			t.Errorf("want busy with a time to return, got %v", err)
		}
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("waited %v", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := q.Enter(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, err := q.Enter(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		leave()
		leave() // a second call gives back nothing
		again := occupy(t, q, "a")
		if _, err := q.Enter(t.Context(), "b"); !errors.Is(err, fairqueue.ErrBusy) {
			t.Errorf("there is one place only: %v", err)
		}
		again()
	})
}

// Whatever comes and goes, there are never more callers inside than places, and in
// the end all places are free.
func TestThereAreNeverMoreCallersThanPlaces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		places := rapid.IntRange(1, 4).Draw(rt, "places")
		q := open(rt, fairqueue.Options{Places: places, MaxWaiting: rapid.IntRange(1, 5).Draw(rt, "waiting"), MaxWait: time.Millisecond})
		holds := rapid.SliceOfN(rapid.IntRange(0, 300), 1, 30).Draw(rt, "holds in microseconds")
		var mu sync.Mutex
		inside, most := 0, 0
		count := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			inside += by
			most = max(most, inside)
		}
		var all sync.WaitGroup
		for i, hold := range holds {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+hold)*10*time.Microsecond)
				defer cancel()
				leave, err := q.Enter(ctx, fmt.Sprint(i%3), fmt.Sprint("b", i%2))
				if err != nil {
					return
				}
				count(1)
				time.Sleep(time.Duration(hold) * time.Microsecond)
				count(-1)
				leave()
			})
		}
		all.Wait()
		if most > places {
			rt.Errorf("%d callers in %d places", most, places)
		}
		leaves := make([]func(), places)
		for i := range leaves {
			leave, err := q.Enter(t.Context(), "last")
			if err != nil {
				rt.Fatalf("a place was lost: %v", err)
			}
			leaves[i] = leave
		}
		for _, leave := range slices.Backward(leaves) {
			leave()
		}
	})
}

func TestOptionsThatMakeNoQueueAreRefused(t *testing.T) {
	t.Parallel()
	for _, o := range []fairqueue.Options{{}, {Places: -1}, {Places: 1, PerKey: -1}, {Places: 1, MaxWaiting: -1}, {Places: 1, MaxWait: -1}, {Places: 1, HalfLife: -1}} {
		if _, err := fairqueue.New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
