package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	f, err := newFailures(slog.New(slog.DiscardHandler), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Whatever still waits for this test at the stop is broken off.
	ctx, cancel := context.WithCancel(t.Context())
	instances := []*ownTasks{ownTest(t, table, f, nil), ownTest(t, table, f, nil)}
	for _, i := range instances {
		i.start(ctx)
	}
	times := map[string]int{}
	for times["at start"] < 2 || times["failing"] < 5 || times["panicking"] < 5 {
		times[<-ran]++
	}
	cancel()
	for _, i := range instances {
		if !i.stop(t.Context()) { // and waits
			t.Error("some are left")
		}
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
}

// ownTest is an instance's own tasks of a table; record, if not nil, gets the outcomes.
func ownTest(t *testing.T, list []Periodic, f *failures, record func(name string, failed error)) *ownTasks {
	t.Helper()
	table, err := newTable(list)
	if err != nil {
		t.Fatal(err)
	}
	i := newOwnTasks(table, slog.New(slog.DiscardHandler), f, &outcomes{now: time.Now})
	i.record = func(_ context.Context, name string, _ time.Time, failed error) {
		if record != nil {
			record(name, failed)
		}
	}
	return i
}

func TestAStopWaitsForATaskNoLongerThanItMay(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}), make(chan struct{})
	i := ownTest(t, []Periodic{{Name: "stuck", Every: time.Hour, Everywhere: true, Run: func(context.Context) (int, error) {
		close(started)
		<-release
		return 0, nil
	}}}, nil, nil)
	i.start(t.Context())
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if i.stop(ctx) {
		t.Error("a task that runs is taken for ended")
	}
	close(release)
}

func TestATaskOfAnInstanceFinishesBeforeAStopAndIsEndedWhenThatTakesTooLong(t *testing.T) {
	t.Parallel()
	for name, hurried := range map[string]bool{"in time": false, "too late": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			started, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			i := ownTest(t, []Periodic{{Name: "at work", Every: time.Hour, Everywhere: true, Run: func(ctx context.Context) (int, error) {
				close(started)
				select {
				case <-release:
				case <-ctx.Done():
				}
				ended <- ctx.Err()
				return 0, ctx.Err()
			}}}, nil, func(string, error) { t.Error("what a stop broke off has no outcome") })
			if !hurried {
				i.record = func(context.Context, string, time.Time, error) {}
				i.failures, _ = newFailures(i.logger, nil, nil)
			}
			i.start(t.Context())
			<-started
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stopped := make(chan bool, 1)
			go func() { stopped <- i.stop(ctx) }()
			<-i.quit // the stop has begun
			select {
			case err := <-ended:
				t.Fatalf("ended by the stop at once: %v", err)
			default:
			}
			if hurried {
				cancel()
			} else {
				close(release)
			}
			if err := <-ended; (err != nil) != hurried {
				t.Errorf("the task ended with %v", err)
			}
			if all := <-stopped; all == hurried {
				t.Errorf("the stop says that nothing is left: %v", all)
			}
			if !i.wait(t.Context()) {
				t.Error("it still runs")
			}
		})
	}
}

func TestAnOutcomeIsRecordedWhenItChangesAndOtherwiseOnceAMinute(t *testing.T) {
	t.Parallel()
	f, err := newFailures(slog.New(slog.DiscardHandler), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var now time.Time
	fails := false
	var recorded []string
	i := ownTest(t, []Periodic{{Name: "sweep", Every: 10 * time.Second, Everywhere: true, Run: func(context.Context) (int, error) {
		if fails {
			return 0, errTest
		}
		return 0, nil
	}}}, f, func(_ string, failed error) { recorded = append(recorded, fmt.Sprint(now.Sub(start), " ", failed)) })
	i.now = func() time.Time { return now }
	var last lastOutcome
	for second := 0; second <= 120; second += 10 {
		now, fails = start.Add(time.Duration(second)*time.Second), second == 80 || second == 90
		i.once(t.Context(), i.table[0], &last)
	}
	want := []string{"0s <nil>", "1m0s <nil>", "1m20s permission-denied", "1m40s <nil>"}
	if diff := cmp.Diff(want, recorded); diff != "" {
		t.Error(diff)
	}
}
