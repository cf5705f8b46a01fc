package jobs

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// Periodic is one line of the cron table: a task that is safe to repeat, also while it
// is running, and that finds its work in the database rather than in its arguments.
type Periodic struct {
	Name string
	// Description says in a sentence what the task does, for operators.
	Description string
	// Every is the time from one run to the next. The first is when the first instance
	// with that task starts; one that was due while no instance ran is made up for, once.
	Every time.Duration
	// Cron, instead of Every, is an expression of cron's five fields, such as
	// "0 3 * * *", and Timezone the IANA time zone in which it is meant; "" is UTC.
	// Every and Cron alike, a schedule that can't be read fails the start.
	Cron, Timezone string
	// Everywhere makes each instance run the task by itself, because the result depends
	// on the instance's configuration; with Every also once at its start. Without it,
	// one instance runs the task for all.
	Everywhere bool
	// Timeout bounds one run; 0 means a minute.
	Timeout time.Duration
	// Run returns how many rows it changed.
	Run func(ctx context.Context) (int, error)
}

// task is a periodic task whose times were read.
type task struct {
	Periodic
	schedule schedule
}

// newTable checks the periodic tasks.
func newTable(list []Periodic) ([]task, error) {
	table, names := make([]task, 0, len(list)), make(map[string]bool, len(list))
	for _, p := range list {
		if p.Name == "" || p.Run == nil {
			return nil, fmt.Errorf("jobs: periodic task %q is incomplete", p.Name)
		}
		if names[p.Name] {
			return nil, fmt.Errorf("jobs: periodic task %q is listed twice", p.Name)
		}
		names[p.Name] = true
		s, err := newSchedule(p)
		if err != nil {
			return nil, fmt.Errorf("jobs: periodic task %q: %w", p.Name, err)
		}
		table = append(table, task{p, s})
	}
	return table, nil
}

// run is one run of p. A panic is a failure like another: River would write its stack
// into the log each time.
func run(ctx context.Context, p Periodic) (int, error) {
	var n int
	var err error
	func() {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
			}
		}()
		n, err = p.Run(ctx)
	}()
	return n, err
}
