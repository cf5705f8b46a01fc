package e2e_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

// rescued is what a job's history has of a process that died.
const rescued = "The process that ran the job is gone."

// rescues counts what a job's history has of processes that died.
func (j shownJob) rescues() (n int) {
	for _, e := range j.Errors {
		if e.Error == rescued {
			n++
		}
	}
	return n
}

// Nothing is hurried here: it shows for how long a job lies after its process's death.
func TestTheJobsOfAKilledProcessRunAgainWithinAMinute(t *testing.T) {
	t.Parallel()
	d, urls := office(t)
	token := d.token
	siteID, _, _ := newSite(t, urls.App, "example.com", "UTC")
	const siteTable = "imported_lines" // an erasure empties it too
	releaseTask, releaseErasure := hold(t, urls.Owner, heldTable), hold(t, urls.Owner, siteTable)
	task := d.run(t, heldTask)
	if a := d.call(t, "DELETE", "/api/admin/sites/"+siteID); a.Status != 204 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	// What may still be written for the site is not waited for.
	behind(t, urls.Admin, `update sites set deleted_at = deleted_at - interval '3 minutes' where id = '`+siteID+`'`)
	list := d.jobs(t, "kind=sites.erase")
	if len(list) != 1 {
		t.Fatalf("the jobs of an erasure are %+v", list)
	}
	erasure := list[0]
	for _, id := range []int64{task.ID, erasure.ID} {
		d.await(t, id, "running")
	}
	d.p.waitFor(t, "both to wait", func() bool { return waitsAt(t, urls.Admin, heldTable) && waitsAt(t, urls.Admin, siteTable) })
	there := desk{startServe(t, urls.App), token}
	d.p.kill()
	killed := time.Now()
	// Whatever its backends were at is over before anybody takes the jobs up.
	for _, table := range []string{heldTable, siteTable} {
		there.p.waitFor(t, "the locks of the dead to go", func() bool {
			return countNow(t, urls.Admin, `select count(*) from (select pg_terminate_backend(l.pid) from pg_locks l join pg_database b on b.oid = l.database
				where b.datname = current_database() and l.relation = $1::regclass and not l.granted) x`, table) == 0
		})
	}
	releaseTask()
	releaseErasure()
	for _, j := range []shownJob{task, erasure} {
		if got := there.job(t, j.ID); got.State != "running" {
			t.Errorf("right after the death, a job is %+v", got)
		}
	}
	for _, j := range []shownJob{task, erasure} {
		if got := there.await(t, j.ID, "completed"); got.rescues() != 1 || len(got.Errors) != 1 || got.Attempt != 2 {
			t.Errorf("taken up, it ended as %+v", got)
		}
	}
	took := time.Since(killed)
	if t.Logf("both had ended %s after the death", took.Round(time.Second)); took > time.Minute {
		t.Errorf("they took %s", took)
	}
	// Its effect is there, once.
	if left := countNow(t, urls.Admin, `select count(*) from sites where id = $1`, siteID); left != 0 {
		t.Error("the site is still there")
	}
	var deletions []struct{ Op string }
	there.p.waitFor(t, "the deletion in the audit log", func() bool {
		var entries []struct{ Op string }
		there.ask(t, "GET", "/api/admin/audit?table=sites&row_id="+siteID, 200, &entries)
		deletions = nil
		for _, e := range entries {
			if e.Op == "delete" {
				deletions = append(deletions, e)
			}
		}
		return len(deletions) > 0
	})
	if len(deletions) != 1 {
		t.Errorf("%d deletions of one site", len(deletions))
	}
	if outcome := there.task(t, heldTask).LastOutcome; outcome != "ok" {
		t.Errorf("the task's outcome is %q", outcome)
	}
}

// A job of one attempt that kills its process each time is not started for ever.
func TestATaskWhoseProcessDiesTwiceIsGivenUp(t *testing.T) {
	t.Parallel()
	d, urls := office(t)
	release := hold(t, urls.Owner, heldTable)
	job := d.run(t, heldTask)
	for death := range 2 {
		d.p.waitFor(t, "the job to run", func() bool {
			j := d.job(t, job.ID)
			return j.State == "running" && j.rescues() == death
		})
		d.p.kill()
		behind(t, urls.Admin, `update job_runners set seen_at = now() - interval '1 hour'; delete from river_leader`)
		d = d.at(startServe(t, urls.App))
	}
	if j := d.await(t, job.ID, "discarded"); j.rescues() != 2 {
		t.Errorf("given up, it is %+v", j)
	}
	release()
	d.act(t, job.ID, "retry")
	d.await(t, job.ID, "completed")
}

// terminate begins the stop of a process and returns once it is about it: it answers
// nobody any more.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	silent := within(outside.Patience, func() bool {
		res, err := client.Get(p.url + "/healthz")
		if err == nil {
			_ = res.Body.Close()
		}
		return err != nil
	})
	if !silent {
		t.Fatal("it goes on answering")
	}
}

// ended waits for the end of a process, which must be a good one.
func (p *process) ended(t *testing.T) {
	t.Helper()
	select {
	case <-p.exited:
		if p.err != nil {
			t.Errorf("it ended with %v", p.err)
		}
	case <-time.After(outside.Patience):
		t.Fatalf("it still runs after %s", outside.Patience)
	}
}

func TestAJobThatIsSoonDoneIsFinishedBeforeTheProcessStops(t *testing.T) {
	t.Parallel()
	d, urls := office(t, "WAYPOST_SHUTDOWN_TIMEOUT=80s")
	release := hold(t, urls.Owner, heldTable)
	job := d.run(t, heldTask)
	d.await(t, job.ID, "running")
	there := d.at(startServe(t, urls.App))
	d.p.terminate(t)
	if j := there.job(t, job.ID); j.State != "running" {
		t.Errorf("while its process stops, the job is %+v", j)
	}
	release()
	d.p.ended(t)
	if j := there.job(t, job.ID); j.State != "completed" || j.Attempt != 1 || len(j.Errors) != 0 {
		t.Errorf("after its process stopped, the job is %+v", j)
	}
}

func TestAJobThatTakesTooLongForAStopIsGivenBackAtOnce(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	first := startServe(t, urls.App, "WAYPOST_SHUTDOWN_TIMEOUT=1s")
	d := desk{first, admin(t, first, urls.App)}
	d.settled(t, heldTask)
	release := hold(t, urls.Owner, heldTable)
	job := d.run(t, heldTask)
	d.await(t, job.ID, "running")
	there := d.at(startServe(t, urls.App))
	d.p.terminate(t)
	d.p.ended(t)
	// The dead leave leases behind, and what they ran is said to have been broken off.
	if left := countNow(t, urls.Admin, `select count(*) from job_runners`); left != 1 {
		t.Errorf("one of two processes stopped, and %d are on the list", left)
	}
	if j := there.job(t, job.ID); len(j.Errors) != 0 || j.State != "available" && j.State != "running" {
		t.Errorf("after its process stopped, the job is %+v", j)
	}
	there.await(t, job.ID, "running")
	release()
	if j := there.await(t, job.ID, "completed"); len(j.Errors) != 0 {
		t.Errorf("taken up, it ended as %+v", j)
	}
	if log := first.stderr.String(); strings.Contains(log, `"level":"ERROR"`) {
		t.Errorf("a stop that gives a job back logs errors: %s", tail(log, 2000))
	}
}
