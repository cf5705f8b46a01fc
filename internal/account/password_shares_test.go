package account

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowHasher takes 100 ms of a bubble's time for a hash.
func slowHasher(t *testing.T, concurrent int) *hasher {
	t.Helper()
	h, err := newHasher(cheap, concurrent, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	h.idKey = func(_, _ []byte, _, _ uint32, _ uint8, length uint32) []byte {
		time.Sleep(100 * time.Millisecond)
		return make([]byte, length)
	}
	return h
}

// floods are to whom the hashes of a flood's callers are charged.
var floods = map[string]func(i int) []string{
	"one account from one address":    func(int) []string { return []string{"account eve", "network 1"} },
	"many accounts from one address":  func(i int) []string { return []string{fmt.Sprint("account ", i), "network 1"} },
	"one account from many addresses": func(i int) []string { return []string{"account eve", fmt.Sprint("network ", i)} },
}

// 150 callers hash again and again. Whoever else asks is answered as if they were
// few, whether their account exists or not.
func TestAFloodOfHashesDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	for name, payers := range floods {
		for _, concurrent := range []int{1, 2, 8} {
			t.Run(fmt.Sprintf("%s, %d places", name, concurrent), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					h := slowHasher(t, concurrent)
					ctx, stop := context.WithCancel(t.Context())
					var wg sync.WaitGroup
					for i := range 150 {
						wg.Go(func() {
							for ctx.Err() == nil {
								if _, err := h.hash(ctx, "a password", payers(i)); errors.Is(err, ErrBusy) {
									time.Sleep(20 * time.Millisecond) // the answer's way back
								}
							}
						})
					}
					time.Sleep(2 * time.Second) // the flood is on, and has used much
					for n := range 5 {
						began := time.Now()
						_, err := h.verify(ctx, "a password", h.decoy, []string{fmt.Sprint("account of honest ", n), fmt.Sprint("network of honest ", n)})
						if took := time.Since(began); err != nil || took > 300*time.Millisecond {
							t.Errorf("number %d: %v after %s", n, err, took)
						}
					}
					stop()
					wg.Wait()
				})
			})
		}
	}
}

func TestAFloodOfHashesIsBoundedAndRefusedEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := slowHasher(t, 1)
		began := time.Now()
		var mu sync.Mutex
		answered, refused, late := 0, 0, 0
		var wg sync.WaitGroup
		for range 150 {
			wg.Go(func() {
				_, err := h.hash(t.Context(), "a password", []string{"account eve", "network 1"})
				mu.Lock()
				defer mu.Unlock()
				switch took := time.Since(began); {
				case err == nil:
					answered++
				case !errors.Is(err, ErrBusy):
					t.Errorf("error is %v, want ErrBusy", err)
				case took == 0:
					refused++
				case took == maxHashWait:
					late++
				default:
					t.Errorf("refused after %s", took)
				}
			})
		}
		wg.Wait()
		const inTime = int(maxHashWait / (100 * time.Millisecond)) // one after the other
		if answered < inTime || answered > inTime+1 || refused != 150-1-waitingPerHash || answered+late != 1+waitingPerHash {
			t.Errorf("%d answered, %d refused at once, %d refused after the longest wait", answered, refused, late)
		}
		if _, err := h.hash(t.Context(), "a password", []string{"account eve", "network 1"}); err != nil {
			t.Errorf("after the flood: %v", err)
		}
	})
}

func TestACallerWhoLeavesTheQueueTakesNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := slowHasher(t, 1)
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = h.hash(t.Context(), "a password", nil) })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := h.hash(ctx, "a password", nil); !errors.Is(err, context.Canceled) {
				t.Errorf("a caller who left got %v, want its own cancellation", err)
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()
		if _, err := h.hash(t.Context(), "a password", nil); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}
