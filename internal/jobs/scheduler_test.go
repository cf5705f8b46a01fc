package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
)

// clock is put by a test.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }

func (c *clock) add(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.at = c.at.Add(d) }

// instance is a scheduler without a process, whose turns a test makes.
func instance(t *testing.T, d *db.DB, now func() time.Time, list ...Periodic) *scheduler {
	t.Helper()
	for i := range list {
		list[i].Run = func(context.Context) (int, error) { return 0, nil }
	}
	table, err := newTable(list)
	if err != nil {
		t.Fatal(err)
	}
	o, err := Options{DB: d, Logger: slog.New(slog.DiscardHandler), Now: now}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return newScheduler(o, table)
}

func turn(t *testing.T, s *scheduler) time.Time {
	t.Helper()
	next, err := s.turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// inserted are the tasks of all jobs so far, which are then as if they had run.
func inserted(t *testing.T, d *db.DB) []string {
	t.Helper()
	rows, err := d.Direct().Query(t.Context(), `delete from river_job returning kind || ' ' || (args->>'name')`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func wantInserted(t *testing.T, d *db.DB, when string, want ...string) {
	t.Helper()
	for i := range want {
		want[i] = "cron " + want[i]
	}
	if got := inserted(t, d); !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", when, got, want)
	}
}

var hourly, daily = Periodic{Name: "hourly", Every: time.Hour}, Periodic{Name: "nightly", Cron: "0 3 * * *", Timezone: "Europe/Berlin"}

func TestAScheduleSurvivesRestartsAndARunThatWasMissedHappensOnce(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	c := &clock{at: time.Date(2026, 11, 22, 10, 20, 0, 0, time.UTC)}
	everywhere := Periodic{Name: "everywhere", Every: time.Second, Everywhere: true}
	start := func() *scheduler { return instance(t, d, c.now, hourly, daily, everywhere) }

	if next := turn(t, start()); !next.Equal(c.now().Add(longestWait)) {
		t.Errorf("the next turn is at %s", next)
	}
	wantInserted(t, d, "at the first start", "hourly")
	turn(t, start())
	wantInserted(t, d, "after a restart")
	c.add(40 * time.Minute)
	running := start()
	turn(t, running)
	wantInserted(t, d, "when it is due", "hourly")
	c.add(30 * time.Minute)
	turn(t, running)
	wantInserted(t, d, "before it is due again")
	// Down for two days: 48 and 2 runs were missed.
	c.add(48 * time.Hour)
	turn(t, start())
	wantInserted(t, d, "after a long time", "hourly", "nightly")
	turn(t, start())
	wantInserted(t, d, "after another restart")
}

func TestEachRunIsOneInstances(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	c := &clock{at: start}
	var list []Periodic
	for i := range 20 {
		list = append(list, Periodic{Name: fmt.Sprintf("task %02d", i), Every: time.Duration(1+i%3) * time.Minute})
	}
	var instances []*scheduler
	for i := range 4 {
		if i%2 == 1 {
			slices.Reverse(list)
		}
		instances = append(instances, instance(t, d, c.now, slices.Clone(list)...))
	}
	due := map[int]int{0: 20, 1: 7, 2: 14, 3: 13, 4: 14, 5: 7, 6: 20} // every 1, 2 and 3 minutes
	for minute := range 7 {
		var racing sync.WaitGroup
		for _, s := range instances {
			racing.Go(func() {
				for range 3 {
					if _, err := s.turn(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		racing.Wait()
		if got := inserted(t, d); len(got) != due[minute] || len(slices.Compact(got)) != due[minute] {
			t.Errorf("in minute %d: %d jobs, want %d: %q", minute, len(got), due[minute], got)
		}
		c.add(time.Minute)
	}
}

func TestATaskThatWaitsOrRunsIsNotQueuedBesides(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	c := &clock{at: start}
	s := instance(t, d, c.now, hourly)
	for _, state := range []string{"available", "running"} {
		turn(t, s)
		if _, err := d.Direct().Exec(t.Context(), `update river_job set state = $1::text::river_job_state`, state); err != nil {
			t.Fatal(err)
		}
		c.add(time.Hour)
	}
	turn(t, s)
	wantInserted(t, d, "in three hours", "hourly")
}

func TestATurnIsWhenTheNextTaskIsDue(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	c := &clock{at: start.Add(2500 * time.Millisecond)}
	s := instance(t, d, c.now, Periodic{Name: "often", Every: 5 * time.Second}, hourly)
	other := instance(t, d, c.now, Periodic{Name: "often", Every: 5 * time.Second}, hourly)
	for i := range 3 {
		want := start.Add(time.Duration(5*(i+1)) * time.Second)
		if got := turn(t, s); !got.Equal(want) {
			t.Errorf("turn %d: the next is at %s, want %s", i, got, want)
		}
		if got := turn(t, other); !got.Equal(want) {
			t.Errorf("turn %d of another: the next is at %s, want %s", i, got, want)
		}
		c.at = want
	}
}

func TestAnotherScheduleTakesEffectAndLosesNoRunThatIsDue(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	c := &clock{at: start}
	turn(t, instance(t, d, c.now, hourly, Periodic{Name: "other", Every: time.Hour}))
	inserted(t, d)
	// Down over a run, and then both run daily.
	c.add(time.Hour)
	turn(t, instance(t, d, c.now, Periodic{Name: "hourly", Every: 24 * time.Hour}))
	wantInserted(t, d, "what was due", "hourly")
	c.add(-30 * time.Minute) // so the other is not due yet
	turn(t, instance(t, d, c.now, Periodic{Name: "hourly", Every: 24 * time.Hour}, Periodic{Name: "other", Every: 24 * time.Hour}))
	c.add(3 * time.Hour)
	turn(t, instance(t, d, c.now, Periodic{Name: "hourly", Every: 24 * time.Hour}, Periodic{Name: "other", Every: 24 * time.Hour}))
	wantInserted(t, d, "by the old schedule")
	c.add(24 * time.Hour)
	turn(t, instance(t, d, c.now, Periodic{Name: "hourly", Every: 24 * time.Hour}, Periodic{Name: "other", Every: 24 * time.Hour}))
	wantInserted(t, d, "by the new schedule", "hourly", "other")
}

func TestAClockThatIsPutBackStopsNoTask(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	c := &clock{at: start.Add(365 * 24 * time.Hour)}
	turn(t, instance(t, d, c.now, hourly, daily))
	inserted(t, d)
	c.at = start
	s := instance(t, d, c.now, hourly, daily)
	turn(t, s)
	c.add(24 * time.Hour)
	turn(t, s)
	wantInserted(t, d, "a day later", "hourly", "nightly")
}

func admin(t *testing.T, d *db.DB, now func() time.Time) *Admin {
	t.Helper()
	q, err := queue.New(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewAdmin(AdminOptions{DB: d, Queue: q, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func names(t *testing.T, a *Admin) []string {
	t.Helper()
	tasks, err := a.Tasks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, task := range tasks {
		list = append(list, task.Name)
	}
	return list
}

func TestVersionsWithDifferentTasksLeaveEachOthersAlone(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	c := &clock{at: start}
	a := admin(t, d, c.now)
	older := instance(t, d, c.now, hourly, Periodic{Name: "gone since", Every: time.Minute})
	newer := instance(t, d, c.now, hourly, Periodic{Name: "new", Every: time.Minute})
	want := func(when string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, names(t, a)); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	turn(t, older)
	turn(t, newer)
	want("both run", "gone since", "hourly", "new")
	// Each goes on with its own.
	inserted(t, d)
	c.add(time.Minute)
	turn(t, newer)
	wantInserted(t, d, "the newer's turn", "new")
	turn(t, older)
	wantInserted(t, d, "the older's turn", "gone since")
	for range 6 { // only the newer runs
		c.add(declareEvery + time.Second)
		turn(t, newer)
	}
	want("the older is no more", "hourly", "new")
	if _, err := a.RunTask(t.Context(), "gone since"); !errors.Is(err, queue.ErrNoTask) {
		t.Errorf("a run of what nobody has: %v", err)
	}
	turn(t, older)
	want("the older is back", "gone since", "hourly", "new")
	c.add(keptFor + time.Hour)
	turn(t, newer)
	var rows int
	if err := d.Direct().QueryRow(t.Context(), `select count(*) from cron`).Scan(&rows); err != nil || rows != 2 {
		t.Errorf("%d rows after a long time, %v", rows, err)
	}
}

func TestARowThatSomebodyDeletesComesBack(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	c := &clock{at: start}
	s := instance(t, d, c.now, hourly, daily)
	turn(t, s)
	if _, err := d.Direct().Exec(t.Context(), `delete from cron`); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c.add(longestWait)
		turn(t, s)
	}
	if got := names(t, admin(t, d, c.now)); !slices.Equal(got, []string{"hourly", "nightly"}) {
		t.Errorf("listed: %q", got)
	}
}

func TestATurnThatFailsClaimsNothing(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	c := &clock{at: start}
	s := instance(t, d, c.now, hourly)
	if err := s.declare(t.Context()); err != nil {
		t.Fatal(err)
	}
	undone := errors.New("undone")
	err := d.InTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
		rows, err := s.queries.ClaimDueCron(ctx, tx, s.names, c.now(), s.nextRuns(c.now(), false))
		if err != nil || !rows[0].IsClaimed {
			t.Errorf("%v, %v", rows, err)
		}
		// Another's turn meanwhile does not wait, and claims nothing either.
		if next, err := s.turn(t.Context()); err != nil || next.After(c.now()) {
			t.Errorf("the next turn of another is at %s, %v", next, err)
		}
		return undone
	})
	if !errors.Is(err, undone) {
		t.Fatal(err)
	}
	turn(t, s)
	wantInserted(t, d, "afterwards", "hourly")
}
