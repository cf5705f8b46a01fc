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
