package webhook

import (
	"errors"
	"fmt"
	"time"
)

const (
	maxAttempts = 100
	// maxBackoff bounds one wait between two attempts.
	maxBackoff = 7 * 24 * time.Hour
)

// Retry says how often and when an event is handled again whose handler failed.
// The zero value is once.
type Retry struct {
	// Attempts is how often in all, the first time included, at most 100; 0 and 1
	// mean once.
	Attempts int
	// Backoff is the wait after the nth failure in a row, n from 1; nil means
	// Exponential(5*time.Second, time.Hour). At most a week is waited.
	Backoff func(n int) time.Duration
}

// Exponential doubles the wait after each failure, from first up to most.
func Exponential(first, most time.Duration) func(n int) time.Duration {
	return func(n int) time.Duration {
		d := first
		for range n - 1 {
			if d >= most/2 {
				return most
			}
			d *= 2
		}
		return min(d, most)
	}
}

func (r Retry) check() error {
	if r.Attempts < 0 || r.Attempts > maxAttempts {
		return fmt.Errorf("an event is attempted 1 to %d times", maxAttempts)
	}
	return nil
}

// again returns the wait before the next attempt after tries of them, and whether
// there is one.
func (r Retry) again(tries int, err error) (time.Duration, bool) {
	if tries >= r.Attempts {
		return 0, false
	}
	backoff := r.Backoff
	if backoff == nil {
		backoff = Exponential(5*time.Second, time.Hour)
	}
	wait := backoff(tries)
	if asked, ok := errors.AsType[*RetryAfterError](err); ok {
		wait = max(wait, asked.Wait)
	}
	return min(max(wait, 0), maxBackoff), true
}

// RetryAfterError is a handler's failure that asks for a longer wait than its
// binding's backoff.
type RetryAfterError struct {
	Wait time.Duration
	Err  error
}

// Error implements error.
func (e *RetryAfterError) Error() string { return e.Err.Error() }

// Unwrap gives the cause to errors.Is and errors.As.
func (e *RetryAfterError) Unwrap() error { return e.Err }
