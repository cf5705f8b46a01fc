package queue

import (
	"time"

	"github.com/waypost/waypost/internal/fault"
)

// ErrNoTask says that no running program has a periodic task of that name.
var ErrNoTask = fault.Missing("periodic task")

// Outcome is how a run of a periodic task ended.
type Outcome string

// The outcomes of a run.
const (
	OK     Outcome = "ok"
	Failed Outcome = "failed"
)

// Task is a periodic task and its latest run. internal/jobs keeps the table of them.
type Task struct {
	Name        string
	Description string
	Schedule    string // "every 30s", or an expression of cron
	Timezone    string // in which an expression is meant
	// Everywhere says that every instance runs it by itself.
	Everywhere bool
	NextRunAt  time.Time
	// What follows is of the latest run that ended, on any instance; LastRunAt, its
	// beginning, is nil before the first.
	LastRunAt    *time.Time
	LastOutcome  Outcome
	LastError    string // "" unless it failed
	LastDuration time.Duration
}
