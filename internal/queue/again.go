package queue

import (
	"errors"
	"fmt"
	"time"
)

// again asks for another run of a job.
type again struct{ wait time.Duration }

func (a again) Error() string { return fmt.Sprintf("to be called again in %s", a.wait) }

// Again is what the work of a job returns that isn't done, though nothing went
// wrong: it is called again after wait, and the run doesn't count as an attempt.
func Again(wait time.Duration) error { return again{wait} }

// AgainIn says whether err is of Again, and after how long.
func AgainIn(err error) (time.Duration, bool) {
	a, ok := errors.AsType[again](err)
	return a.wait, ok
}
