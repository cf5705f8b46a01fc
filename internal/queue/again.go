package queue

import (
	"errors"
	"fmt"
	"time"
)

// again asks for another run of a job.
type again struct{ wait time.Duration }

func (a again) Error() string { return fmt.Sprintf("to be called again in %s", a.wait) }

// Again is returned by a worker whose job isn't done yet, although nothing went wrong:
// the job runs again after wait, and this run doesn't count as an attempt.
func Again(wait time.Duration) error { return again{wait} }

// AgainIn reports whether err was made by Again, and the wait that it asks for.
func AgainIn(err error) (time.Duration, bool) {
	a, ok := errors.AsType[again](err)
	return a.wait, ok
}

// gaveUp says that a job failed for good.
type gaveUp struct{ error }

func (g gaveUp) Unwrap() error { return g.error }

// GiveUp is returned by a worker whose job failed with err and is not to run again.
func GiveUp(err error) error { return gaveUp{err} }

// IsGivenUp reports whether err was made by GiveUp.
func IsGivenUp(err error) bool {
	_, ok := errors.AsType[gaveUp](err)
	return ok
}
