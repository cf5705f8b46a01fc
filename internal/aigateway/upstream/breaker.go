package upstream

import (
	"sync"
	"time"
)

const (
	// failuresToOpen is how many in a row open a breaker.
	failuresToOpen = 5
	// openFor is how long it stays open before a trial.
	openFor = 30 * time.Second
)

// Result is what a request says of its target.
type Result int

// The results.
const (
	// Neutral says nothing: the client went away, or the target has too much to do.
	Neutral Result = iota
	Succeeded
	Failed
)

// State is a breaker's.
type State int

// The states, as metrics show them.
const (
	Closed State = iota
	HalfOpen
	Open
)

// Breaker keeps requests from a target that failed 5 times in a row: for 30 s none passes,
// then one as a trial, which decides. It belongs to one process.
type Breaker struct {
	Now func() time.Time // the clock

	mu       sync.Mutex
	failures int
	until    time.Time // when a trial may pass; zero while closed
	trial    bool      // one is on
}

// Allow reports whether a request may pass. Who is allowed says how it ended, once, with
// done; only the first call of done counts.
func (b *Breaker) Allow() (done func(Result), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	trial := !b.until.IsZero()
	if trial && (b.trial || b.Now().Before(b.until)) {
		return nil, false
	}
	b.trial = trial
	var once sync.Once
	return func(r Result) { once.Do(func() { b.done(r, trial) }) }, true
}

func (b *Breaker) done(r Result, trial bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if trial {
		b.trial = false
	}
	switch {
	case r == Succeeded && (trial || b.until.IsZero()):
		b.failures, b.until = 0, time.Time{}
	case r == Failed:
		b.failures++
		if trial || b.until.IsZero() && b.failures >= failuresToOpen {
			b.until = b.Now().Add(openFor)
		}
	}
}

// State is how it stands.
func (b *Breaker) State() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.until.IsZero():
		return Closed
	case b.trial || !b.Now().Before(b.until):
		return HalfOpen
	}
	return Open
}
