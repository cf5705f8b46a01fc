package pages

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func newGlance(read func(context.Context) (int, error)) *glance[int] {
	return &glance[int]{name: "test", read: read, fresh: partsFresh, limit: partsLimit, now: time.Now, logger: slog.New(slog.DiscardHandler)}
}

func TestTwentyTabsReadOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		g := newGlance(func(context.Context) (int, error) {
			time.Sleep(50 * time.Millisecond)
			return int(reads.Add(1)), nil
		})
		for round := 1; round <= 3; round++ {
			var tabs sync.WaitGroup
			for range 20 {
				tabs.Go(func() {
					if s := g.look(t.Context()); s.value != round || s.err != nil {
						t.Errorf("round %d: %+v", round, s)
					}
				})
			}
			tabs.Wait()
			time.Sleep(recently)
		}
		if n := reads.Load(); n != 3 {
			t.Errorf("read %d times", n)
		}
	})
}

func TestWhatHangsIsWaitedForOnceAndReadByOneGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		hang, gone := make(chan struct{}), make(chan struct{})
		g := newGlance(func(context.Context) (int, error) {
			if reads.Add(1) == 2 {
				<-hang
				defer close(gone)
			}
			return 7, nil
		})
		if s := g.look(t.Context()); s.value != 7 || s.err != nil {
			t.Fatalf("%+v", s)
		}
		time.Sleep(partsFresh)
		began := time.Now()
		if s := g.look(t.Context()); s.value != 7 || s.err != nil || time.Since(began) != briefly {
			t.Errorf("after %v: %+v", time.Since(began), s)
		}
		began = time.Now()
		if s := g.look(t.Context()); s.value != 7 || s.err != nil || time.Since(began) != 0 {
			t.Errorf("again, after %v: %+v", time.Since(began), s)
		}
		time.Sleep(keptFor)
		if s := g.look(t.Context()); s.err != errLate || s.value != 0 {
			t.Errorf("an old value is shown for the present: %+v", s)
		}
		if n := reads.Load(); n != 2 {
			t.Errorf("%d readings were begun", n)
		}
		close(hang)
		<-gone
		synctest.Wait()
		if s := g.look(t.Context()); s.value != 7 || s.err != nil {
			t.Errorf("once it is back: %+v", s)
		}
	})
}

func TestARenewalIsAtMostOneBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		g := newGlance(func(context.Context) (int, error) {
			reads++
			time.Sleep(100 * time.Millisecond)
			return reads, nil
		})
		for _, want := range []int{1, 1, 2, 3} {
			if s := g.look(t.Context()); s.value != want || s.err != nil {
				t.Errorf("%+v, want %d", s, want)
			}
			time.Sleep(5 * time.Second)
		}
		time.Sleep(recently)
		if s := g.look(t.Context()); s.value != 5 {
			t.Errorf("who comes later is shown %+v", s)
		}
	})
}

func TestWhatFailsOrPanicsIsReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		g := newGlance(func(context.Context) (int, error) {
			switch reads++; reads {
			case 1:
				return 0, errors.New("away")
			case 2:
				panic("a bug")
			}
			return 5, nil
		})
		for i := range 3 {
			if s := g.look(t.Context()); (s.err != nil) != (i < 2) {
				t.Errorf("%d: %+v", i, s)
			}
			time.Sleep(partsFresh)
		}
	})
}

func TestAReadingThatWaitsForAPlaceIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGlance(func(context.Context) (int, error) { return 1, nil })
		g.places = make(chan struct{}, 1)
		g.places <- struct{}{}
		g.look(t.Context())
		time.Sleep(partsLimit)
		synctest.Wait()
		if s := g.look(t.Context()); !errors.Is(s.err, context.DeadlineExceeded) {
			t.Errorf("%+v", s)
		}
		<-g.places
		time.Sleep(partsFresh)
		if s := g.look(t.Context()); s.value != 1 || s.err != nil || len(g.places) != 0 {
			t.Errorf("%+v", s)
		}
	})
}
