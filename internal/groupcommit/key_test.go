package groupcommit_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/groupcommit"
)

// ofTens are items whose key is their tens.
func ofTens(item int) any { return item / 10 }

func submitAll(t *testing.T, g *groupcommit.Group[int, string], items ...int) *sync.WaitGroup {
	t.Helper()
	callers := new(sync.WaitGroup)
	for _, item := range items {
		callers.Go(func() {
			if _, err := g.Submit(t.Context(), item); err != nil {
				t.Errorf("Submit(%d): %v", item, err)
			}
		})
		synctest.Wait()
	}
	return callers
}

func TestABatchHasItemsOfOneKeyAndTheOldestGoFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{gate: make(chan struct{})}
		g := groupcommit.New(groupcommit.Options[int]{Flushers: 1, MaxBatch: 3, Key: ofTens}, l.flush)
		callers := submitAll(t, g, 1, 20, 10, 21, 11, 22, 23, 12)
		close(l.gate)
		callers.Wait()
		if diff := cmp.Diff([][]int{{1}, {20, 21, 22}, {10, 11, 12}, {23}}, l.batches); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
		if n := g.Waiting(); n != 0 {
			t.Errorf("%d items wait", n)
		}
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestBatchesOfSeveralKeysAreCommittedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{gate: make(chan struct{})}
		g := groupcommit.New(groupcommit.Options[int]{Flushers: 2, Key: ofTens}, l.flush)
		callers := submitAll(t, g, 1, 10, 11)
		// Two flushes are under way, and the third item waits for a flusher.
		if n := g.Waiting(); n != 1 {
			t.Errorf("%d items wait, want 1", n)
		}
		close(l.gate)
		callers.Wait()
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAKeysGapDelaysNoOtherKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{}
		g := groupcommit.New(groupcommit.Options[int]{Flushers: 1, Key: ofTens, Gap: time.Minute}, l.flush)
		submitAll(t, g, 1).Wait()
		began := time.Now()
		submitAll(t, g, 10).Wait()
		if waited := time.Since(began); waited != 0 {
			t.Errorf("another key waited %v", waited)
		}
		submitAll(t, g, 2).Wait()
		if waited := time.Since(began); waited != time.Minute {
			t.Errorf("the same key waited %v, want its gap", waited)
		}
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestItemsWithoutAKeyShareABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{gate: make(chan struct{})}
		onlyOfTens := func(item int) any {
			if item < 10 {
				return nil
			}
			return ofTens(item)
		}
		g := groupcommit.New(groupcommit.Options[int]{Flushers: 1, Key: onlyOfTens}, l.flush)
		callers := submitAll(t, g, 1, 2, 20, 3, 21)
		close(l.gate)
		callers.Wait()
		if diff := cmp.Diff([][]int{{1}, {2, 3}, {20, 21}}, l.batches); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
