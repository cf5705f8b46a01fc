package groupcommit_test

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

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/groupcommit"
)

// ledger is a Flush target that refuses every batch holding a bad item, as a
// database refuses a statement.
type ledger struct {
	mu      sync.Mutex
	batches [][]int
	gate    chan struct{} // when set, a flush waits for one receive
	bad     func(int) error
}

func (l *ledger) flush(ctx context.Context, items []int) ([]string, error) {
	if l.gate != nil {
		select {
		case <-l.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	out := make([]string, len(items))
	for i, item := range items {
		if l.bad != nil {
			if err := l.bad(item); err != nil {
				return nil, err
			}
		}
		out[i] = fmt.Sprint("stored ", item)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches = append(l.batches, slices.Clone(items))
	return out, nil
}

func (l *ledger) stored() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Concat(l.batches...)
	slices.Sort(all)
	return all
}

func TestWhatArrivesDuringACommitSharesTheNextOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{gate: make(chan struct{})}
		g := groupcommit.New(groupcommit.Options[int]{Flushers: 1, MaxBatch: 4}, l.flush)
		var callers sync.WaitGroup
		for i := range 6 {
			callers.Go(func() {
				if got, err := g.Submit(t.Context(), i); err != nil || got != fmt.Sprint("stored ", i) {
					t.Errorf("Submit(%d) = %q, %v", i, got, err)
				}
			})
			synctest.Wait()
		}
		close(l.gate)
		callers.Wait()
		if diff := cmp.Diff([][]int{{0}, {1, 2, 3, 4}, {5}}, l.batches); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestABadItemFailsAloneAndItsNeighboursAreStored(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(rt, "items")
		bad := rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 10).Draw(rt, "bad")
		panics := rapid.Bool().Draw(rt, "panics")
		refused := errors.New("refused")
		l := &ledger{bad: func(i int) error {
			if !slices.Contains(bad, i) {
				return nil
			}
			if panics {
				panic("broken item")
			}
			return refused
		}}
		g := groupcommit.New(groupcommit.Options[int]{MaxBatch: 16}, l.flush)
		var callers sync.WaitGroup
		var want []int
		for i := range n {
			isBad := slices.Contains(bad, i)
			if !isBad {
				want = append(want, i)
			}
			callers.Go(func() {
				if _, err := g.Submit(t.Context(), i); (err != nil) != isBad {
					rt.Errorf("Submit(%d) = %v, bad %v", i, err, isBad)
				}
			})
		}
		callers.Wait()
		if err := g.Close(t.Context()); err != nil {
			rt.Error(err)
		}
		if diff := cmp.Diff(want, l.stored()); diff != "" {
			rt.Errorf("stored (-want +got):\n%s", diff)
		}
	})
}

func TestAnUnavailableStoreIsAskedOncePerBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away := fault.New(fault.Unavailable, fault.CodeUnavailable, "away")
		calls := 0
		l := &ledger{gate: make(chan struct{}), bad: func(int) error { calls++; return away }}
		g := groupcommit.New(groupcommit.Options[int]{Flushers: 1}, l.flush)
		for i := range 9 {
			go func() {
				if _, err := g.Submit(t.Context(), i); !errors.Is(err, away) {
					t.Errorf("Submit = %v", err)
				}
			}()
			synctest.Wait()
		}
		close(l.gate)
		synctest.Wait()
		if calls != 2 {
			t.Errorf("the store was asked %d times for 2 batches", calls)
		}
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAFullQueueRefusesAtOnceByCountAndByBytes(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]groupcommit.Options[int]{
		"count": {Flushers: 1, MaxQueued: 3},
		"bytes": {Flushers: 1, MaxQueuedBytes: 30, Size: func(int) int { return 10 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &ledger{gate: make(chan struct{})}
				g := groupcommit.New(o, l.flush)
				for i := range 4 { // one with the flusher, three waiting
					go func() {
						if _, err := g.Submit(t.Context(), i); err != nil {
							t.Errorf("Submit(%d) = %v", i, err)
						}
					}()
					synctest.Wait()
				}
				_, err := g.Submit(t.Context(), 4)
				if !errors.Is(err, groupcommit.ErrFull) {
					t.Errorf("Submit to a full queue = %v", err)
				}
				if f, _ := errors.AsType[*fault.Error](err); f == nil || f.RetryAfter == 0 {
					t.Error("ErrFull names no time to come back")
				}
				close(l.gate)
				if err := g.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff([]int{0, 1, 2, 3}, l.stored()); diff != "" {
					t.Errorf("stored (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestACallerThatLeavesTheQueueIsNotStoredAndFreesItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{gate: make(chan struct{})}
		g := groupcommit.New(groupcommit.Options[int]{Flushers: 1, MaxQueued: 1}, l.flush)
		go func() { _, _ = g.Submit(t.Context(), 0) }()
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := g.Submit(ctx, 1)
			left <- err
		}()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("Submit = %v", err)
		}
		go func() {
			if _, err := g.Submit(t.Context(), 2); err != nil {
				t.Errorf("the freed place is not free: %v", err)
			}
		}()
		synctest.Wait()
		close(l.gate)
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]int{0, 2}, l.stored()); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	})
}

func TestCloseDrainsThenRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{gate: make(chan struct{})}
		g := groupcommit.New(groupcommit.Options[int]{Flushers: 1, MaxBatch: 2}, l.flush)
		for i := range 7 {
			go func() {
				if _, err := g.Submit(t.Context(), i); err != nil {
					t.Errorf("an accepted item was dropped: %v", err)
				}
			}()
			synctest.Wait()
		}
		closed := make(chan error)
		go func() { closed <- g.Close(t.Context()) }()
		synctest.Wait()
		if _, err := g.Submit(t.Context(), 7); !errors.Is(err, groupcommit.ErrClosed) {
			t.Errorf("Submit while closing = %v", err)
		}
		close(l.gate)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]int{0, 1, 2, 3, 4, 5, 6}, l.stored()); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	})
}

func TestCloseThatRunsOutOfTimeLeavesNoCallerWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{gate: make(chan struct{})} // never opened: the store hangs
		g := groupcommit.New(groupcommit.Options[int]{Flushers: 1, FlushTimeout: time.Hour}, l.flush)
		answers := make(chan error, 3)
		for i := range 3 {
			go func() {
				_, err := g.Submit(t.Context(), i)
				answers <- err
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := g.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close = %v", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("Close took %v of the bubble's time", took)
		}
		for range 3 {
			if err := <-answers; err == nil {
				t.Error("a caller was told that its item is stored")
			}
		}
	})
}

func TestAHangingFlushEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{gate: make(chan struct{})}
		g := groupcommit.New(groupcommit.Options[int]{FlushTimeout: 3 * time.Second}, l.flush)
		start := time.Now()
		if _, err := g.Submit(t.Context(), 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Submit = %v", err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("took %v of the bubble's time", took)
		}
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAFlushThatMiscountsIsAnErrorForEveryone(t *testing.T) {
	t.Parallel()
	g := groupcommit.New(groupcommit.Options[int]{}, func(context.Context, []int) ([]string, error) { return nil, nil })
	if _, err := g.Submit(t.Context(), 1); err == nil {
		t.Error("an item without a result was acknowledged")
	}
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhatWouldWaitTooLongIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{gate: make(chan struct{})}
		g := groupcommit.New(groupcommit.Options[int]{Flushers: 1, MaxBatch: 1, MaxWait: time.Second, FlushTimeout: time.Hour}, l.flush)
		var callers sync.WaitGroup
		submit := func(i int) {
			callers.Go(func() {
				if _, err := g.Submit(t.Context(), i); err != nil {
					t.Errorf("Submit(%d) = %v", i, err)
				}
			})
			synctest.Wait()
		}
		submit(0) // with the flusher
		submit(1) // the oldest that waits
		time.Sleep(time.Second)
		submit(2)
		time.Sleep(time.Nanosecond)
		if _, err := g.Submit(t.Context(), 3); !errors.Is(err, groupcommit.ErrFull) {
			t.Errorf("behind one that has waited too long: %v", err)
		}
		if err := g.Accepts(0); !errors.Is(err, groupcommit.ErrFull) {
			t.Errorf("asked before: %v", err)
		}
		l.gate <- struct{}{}
		synctest.Wait()
		if err := g.Accepts(0); err != nil { // 2 is the oldest now
			t.Errorf("once it has moved on: %v", err)
		}
		submit(4)
		close(l.gate)
		callers.Wait()
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := g.Accepts(0); !errors.Is(err, groupcommit.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
		if diff := cmp.Diff([]int{0, 1, 2, 4}, l.stored()); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	})
}

// A gap makes those who come close together share a batch, and delays nobody who
// comes after a pause.
func TestAGapGathersTheFewAndDelaysNoLoneCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var batches []int
		g := groupcommit.New(groupcommit.Options[int]{Gap: 10 * time.Millisecond, GapBatch: 4}, func(_ context.Context, items []int) ([]int, error) {
			mu.Lock()
			defer mu.Unlock()
			batches = append(batches, len(items))
			return items, nil
		})
		defer func() { _ = g.Close(t.Context()) }()
		submit := func(callers int) time.Duration {
			began := time.Now()
			var all sync.WaitGroup
			for n := range callers {
				all.Go(func() {
					if _, err := g.Submit(t.Context(), n); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			return time.Since(began)
		}
		for range 3 {
			if took := submit(1); took != 0 {
				t.Errorf("a lone caller waited %v", took)
			}
			time.Sleep(10 * time.Millisecond)
		}
		submit(1)
		if took := submit(3); took != 10*time.Millisecond {
			t.Errorf("three who came right after a batch waited %v, want the gap", took)
		}
		if diff := cmp.Diff([]int{1, 1, 1, 1, 3}, batches); diff != "" {
			t.Errorf("batches: %s", diff)
		}
	})
}
