package upload

import (
	"sync"

	"github.com/waypost/waypost/internal/fairqueue"
)

// places bound how many files are received at once, and so the memory for them: a
// client that sends slowly keeps its place for long, but only from others of its own
// account, and no account has all places.
type places struct {
	mu         sync.Mutex
	free, each int
	taken      map[int64]int // by account
}

func newPlaces(all, each int) *places { return &places{free: all, each: each, taken: map[int64]int{}} }

// take returns a function that gives the place back, or fairqueue.ErrBusy.
func (p *places) take(account int64) (func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free == 0 || p.taken[account] >= p.each {
		return nil, fairqueue.ErrBusy
	}
	p.free--
	p.taken[account]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free++
		if p.taken[account]--; p.taken[account] == 0 {
			delete(p.taken, account)
		}
	}, nil
}
