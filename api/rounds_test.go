package api

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestThoseWhoComeDuringARoundShareTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs, atOnce, most atomic.Int64
		r := newRounds(func() int64 {
			most.Store(max(most.Load(), atOnce.Add(1)))
			defer atOnce.Add(-1)
			time.Sleep(time.Second)
			return runs.Add(1)
		})
		var all sync.WaitGroup
		ask := func(want int64) {
			all.Go(func() {
				if got, err := r.join(t.Context()); got != want || err != nil {
					t.Errorf("got round %d, want %d (%v)", got, want, err)
				}
			})
		}
		ask(1)
		synctest.Wait()
		for range 20 {
			ask(2)
		}
		time.Sleep(1500 * time.Millisecond) // the second round goes on
		ask(3)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := r.join(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("whose time is over: %v", err)
		}
		all.Wait()
		if runs.Load() != 3 || most.Load() != 1 {
			t.Errorf("%d runs, %d at once", runs.Load(), most.Load())
		}
	})
}
