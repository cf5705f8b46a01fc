package api

import (
	"context"
	"sync"
)

// rounds runs one function for many callers, one run after the other: whoever comes while
// one goes on shares the next with all others who wait for it. So an answer is never
// older than its question, and what the function needs is needed once at a time.
type rounds[T any] struct {
	run  func() T
	turn chan struct{} // holds one while a round runs

	mu   sync.Mutex
	next *round[T] // which has not begun; nil when nobody waits
}

type round[T any] struct {
	ended  chan struct{}
	result T
}

func newRounds[T any](run func() T) *rounds[T] {
	return &rounds[T]{run: run, turn: make(chan struct{}, 1)}
}

// join returns what a run that begins after the call returns, or ctx's error.
func (r *rounds[T]) join(ctx context.Context) (T, error) {
	r.mu.Lock()
	of := r.next
	if of == nil {
		of = &round[T]{ended: make(chan struct{})}
		r.next = of
		go r.begin(of)
	}
	r.mu.Unlock()
	select {
	case <-of.ended:
		return of.result, nil
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func (r *rounds[T]) begin(of *round[T]) {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	r.mu.Lock()
	r.next = nil
	r.mu.Unlock()
	of.result = r.run()
	close(of.ended)
}
