package jobs

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"
)

func TestEveryInstanceRunsItsOwnTasksAtStartAndWhateverBecomesOfThem(t *testing.T) {
	t.Parallel()
	ran := make(chan string)
	task := func(name string, every time.Duration, then func() error) Periodic {
		return Periodic{Name: name, Every: every, Everywhere: true, Run: func(ctx context.Context) (int, error) {
			select {
			case ran <- name:
				return 1, then()
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}}
	}
	table := []Periodic{
		task("at start", time.Hour, func() error { return nil }),
		task("failing", time.Millisecond, func() error { return errors.New("the database is away") }),
		task("panicking", time.Millisecond, func() error { panic("a bug") }),
		{Name: "one instance's", Every: time.Hour, Run: func(context.Context) (int, error) { t.Error("it ran"); return 0, nil }},
	}
	logger := slog.New(slog.DiscardHandler)
	f, err := newFailures(logger, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	instances := []*ownTasks{newOwnTasks(table, logger, f), newOwnTasks(table, logger, f)}
	for _, i := range instances {
		i.start(t.Context())
	}
	times := map[string]int{}
	for times["at start"] < 2 || times["failing"] < 5 || times["panicking"] < 5 {
		times[<-ran]++
	}
	for _, i := range instances {
		i.stop(t.Context()) // and waits
	}
	select {
	case name := <-ran:
		t.Errorf("%s ran after the stop", name)
	default:
	}
	failing := f.list()
	for _, name := range []string{"failing", "panicking"} {
		if failing[name].Count <= tolerated {
			t.Errorf("%s is told of as %+v", name, failing[name])
		}
	}
	if len(failing) != 2 {
		t.Errorf("told of as failing: %v", failing)
	}
	if n := len(periodicJobs(table)); n != 1 {
		t.Errorf("%d tasks are the queue's", n)
	}
}

func TestAStopWaitsForATaskNoLongerThanItMay(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}), make(chan struct{})
	i := newOwnTasks([]Periodic{{Name: "stuck", Every: time.Hour, Everywhere: true, Run: func(context.Context) (int, error) {
		close(started)
		<-release
		return 0, nil
	}}}, slog.New(slog.DiscardHandler), nil)
	i.start(t.Context())
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	i.stop(ctx)
	close(release)
}
