package embedded

import (
	"errors"
	"fmt"
)

// ErrNotRunning says that there is no server to attach to.
var ErrNotRunning = errors.New("embedded: no server is running for this data directory")

// InUseError says that a living process holds the data directory's server.
type InUseError struct {
	DataDir string
	PID     int // 0 when the process has not written it down yet
}

func (e *InUseError) Error() string {
	who := "another waypost"
	if e.PID != 0 {
		who = fmt.Sprintf("another waypost (pid %d)", e.PID)
	}
	return fmt.Sprintf("embedded: %s is using the data directory %s; stop it, or give another directory with --data-dir", who, e.DataDir)
}
