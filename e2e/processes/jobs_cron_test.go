package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

// hoursSince is how many full hours, at which hourly tasks are due, began since then.
func hoursSince(began time.Time) int {
	return int(time.Now().Truncate(time.Hour).Sub(began.Truncate(time.Hour)) / time.Hour)
}

// idsOf are the jobs of a task, none of which has failed.
func (d desk) idsOf(t *testing.T, task string) (ids []int64) {
	t.Helper()
	for _, j := range d.runsOf(t, task) {
		if j.State == "cancelled" || j.State == "discarded" || len(j.Errors) > 0 {
			t.Errorf("a run of %s is %+v", task, j)
		}
		ids = append(ids, j.ID)
	}
	slices.Sort(ids)
	return ids
}

// Everything is down when the task is due, several times over. Then two instances start
// at once.
func TestARunThatWasMissedWhileAllWasDownHappensOnce(t *testing.T) {
	t.Parallel()
	began := time.Now()
	d, urls := office(t)
	before := d.idsOf(t, heldTask)
	ran := *d.task(t, heldTask).LastRunAt
	if len(before) > 1+hoursSince(began) {
		t.Errorf("at its first start the task ran as %v", before)
	}
	d.p.stop(t)

	// A restart in between makes up for nothing.
	d = d.at(startServe(t, urls.App))
	d.settled(t, "mails.end_lost")
	if now := d.idsOf(t, heldTask); len(now) > len(before)+hoursSince(began) {
		t.Errorf("nothing was missed, and the task ran as %v, before %v", now, before)
	}
	before = d.idsOf(t, heldTask)
	d.p.stop(t)

	// So long was it down.
	behind(t, urls.Admin, `update cron set next_run_at = now() - interval '5 hours 10 minutes' where name = '`+heldTask+`'`)
	began = time.Now()
	both := [2]*process{}
	for i := range both {
		both[i] = startProgram(t, binary(t), serveSettings(urls.App), "serve", "--addr", "127.0.0.1:0")
	}
	for _, p := range both {
		p.waitReady(t, func() string { return listeningURL(p.stderr.String()) })
	}
	d = d.at(both[0])
	d.p.waitFor(t, "the missed run", func() bool { return d.task(t, heldTask).LastRunAt.After(ran) })
	for _, p := range both {
		task := d.at(p).task(t, heldTask)
		if task.LastOutcome != "ok" || !task.LastRunAt.After(ran) || !task.NextRunAt.After(began) || task.NextRunAt.After(time.Now().Add(time.Hour)) {
			t.Errorf("after the missed run the task is %+v", task)
		}
	}
	// Both schedulers have had their turns: each claims what is due several times a minute.
	turns := d.task(t, "statistics.fold").LastRunAt
	for range 2 {
		d.p.waitFor(t, "another task's next run", func() bool { return d.task(t, "statistics.fold").LastRunAt.After(*turns) })
		turns = d.task(t, "statistics.fold").LastRunAt
	}
	if now := d.idsOf(t, heldTask); len(now) <= len(before) || len(now) > len(before)+1+hoursSince(began) {
		t.Errorf("the missed run's jobs are among %v, before %v", now, before)
	}
}

// TestTasksGoOnWhileTwoVersionsRun has an instance beside it whose program has one more
// task, as during an upgrade or its undoing.
func TestTasksGoOnWhileTwoVersionsRun(t *testing.T) {
	t.Parallel()
	const added = "greetings.send"
	program := buildWith(t, map[string]string{"cmd/waypost/extensions.go": `package main

import (
	"context"
	"time"

	"github.com/waypost/waypost/internal/app"
	"github.com/waypost/waypost/internal/jobs"
)

func extensions() app.Extensions {
	return app.Extensions{Periodic: func(*app.Services) []jobs.Periodic {
		return []jobs.Periodic{{Name: "` + added + `", Description: "Greets.", Every: time.Second, Run: func(context.Context) (int, error) { return 1, nil }}}
	}}
}
`})
	urls := dbtest.NewURL(t)
	other := startServe(t, urls.App)
	d := desk{other, admin(t, other, urls.App)}
	d.settled(t, heldTask)
	newer := startServeOf(t, program, urls.App)
	// About half of the jobs come to the instance that doesn't know them, which leaves
	// them to the other one.
	both := within(3*outside.Patience, func() bool {
		return len(d.runsOf(t, added)) > 2 && len(d.runsOf(t, "statistics.fold")) > 2
	})
	if !both {
		t.Fatal("the tasks of one of two programs are not run")
	}
	for _, p := range []*process{other, newer} {
		if task := d.at(p).task(t, added); task.LastOutcome != "ok" {
			t.Errorf("the other program's task is %+v", task)
		}
		if a := outside.Do(t, "GET", p.url+"/readyz", ""); a.Status != 200 {
			t.Errorf("readiness: %d %s", a.Status, a.Body)
		}
	}
	for _, j := range d.jobs(t, "kind=cron") {
		if j.State == "cancelled" || j.State == "discarded" || len(j.Errors) > 0 {
			t.Errorf("a run failed: %+v", j)
		}
	}
	// With the newer one gone, its task is shown and nobody's to start.
	newer.stop(t)
	last := *d.task(t, added).LastRunAt
	fold := *d.task(t, "statistics.fold").LastRunAt
	d.p.waitFor(t, "the older one's tasks to go on", func() bool { return d.task(t, "statistics.fold").LastRunAt.After(fold) })
	if task := d.task(t, added); !task.LastRunAt.Equal(last) {
		t.Errorf("the task of a program that is gone ran: %s", fmt.Sprint(task))
	}
}
