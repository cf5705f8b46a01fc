package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

// heldTask runs for as long as somebody holds the lock of heldTable, which nothing else
// waits for. It is due every hour, and a run of it may take half an hour.
const (
	heldTask  = "uploads.sweep"
	heldTable = "uploads"
)

// hold keeps a task or a job from writing to its table until the function that it returns is called.
func hold(t *testing.T, databaseURL, table string) (release func()) {
	t.Helper()
	return dbtest.Lock(t, databaseURL, "lock table "+table+" in exclusive mode")
}

// waitsAt reports whether anything waits for the lock of a table.
func waitsAt(t *testing.T, databaseURL, table string) bool {
	t.Helper()
	return countNow(t, databaseURL, `select count(*) from pg_locks l join pg_database d on d.oid = l.database
		where d.datname = current_database() and l.relation = $1::regclass and not l.granted`, table) > 0
}

// shownJob is a job as administrators see it.
type shownJob struct {
	ID     int64
	Kind   string
	Queue  string
	State  string
	Args   struct{ Name string }
	Errors []struct {
		At    time.Time
		Error string
	}
	Attempt     int
	MaxAttempts int       `json:"max_attempts"`
	CreatedAt   time.Time `json:"created_at"`
	ScheduledAt time.Time `json:"scheduled_at"`
}

// shownTask is a periodic task as administrators see it.
type shownTask struct {
	Name         string
	NextRunAt    time.Time  `json:"next_run_at"`
	LastRunAt    *time.Time `json:"last_run_at"`
	LastOutcome  string     `json:"last_outcome"`
	LastError    string     `json:"last_error"`
	LastDuration *float64   `json:"last_duration"`
}

// shownQueue is a queue as administrators see it.
type shownQueue struct {
	Name                 string
	Counts               map[string]int
	OldestWaitingSeconds *float64   `json:"oldest_waiting_seconds"`
	PausedAt             *time.Time `json:"paused_at"`
}

// desk is an administrator at one instance.
type desk struct {
	p     *process
	token string
}

// at is the same administrator at another instance.
func (d desk) at(p *process) desk { return desk{p, d.token} }

func (d desk) call(t *testing.T, method, path string) outside.Answer {
	t.Helper()
	return outside.Do(t, method, d.p.url+path, "", "Authorization", "Bearer "+d.token)
}

// ask decodes the data of an answer that must have a status.
func (d desk) ask(t *testing.T, method, path string, status int, data any) outside.Answer {
	t.Helper()
	a := d.call(t, method, path)
	if a.Status != status {
		t.Fatalf("%s %s: %d %s, want %d", method, path, a.Status, a.Body, status)
	}
	a.Into(t, &struct{ Data any }{data})
	return a
}

func (d desk) refused(t *testing.T, method, path string, status int, code string) {
	t.Helper()
	wantError(t, d.call(t, method, path), status, code)
}

func jobAt(id int64, action ...string) string {
	return strings.Join(append([]string{fmt.Sprint("/api/admin/jobs/", id)}, action...), "/")
}

func (d desk) job(t *testing.T, id int64) (j shownJob) {
	t.Helper()
	d.ask(t, "GET", jobAt(id), 200, &j)
	return j
}

// act is a POST to a job.
func (d desk) act(t *testing.T, id int64, action string) (j shownJob) {
	t.Helper()
	d.ask(t, "POST", jobAt(id, action), 200, &j)
	return j
}

// run starts a task.
func (d desk) run(t *testing.T, task string) (j shownJob) {
	t.Helper()
	a := d.ask(t, "POST", "/api/admin/cron/"+task+"/run", 202, &j)
	if j.Kind != "cron" || j.Args.Name != task || a.Header.Get("Location") != jobAt(j.ID) {
		t.Errorf("a run of %s is answered %s, Location %q", task, a.Body, a.Header.Get("Location"))
	}
	return j
}

// await waits until a job is in a state.
func (d desk) await(t *testing.T, id int64, state string) (j shownJob) {
	t.Helper()
	d.p.waitFor(t, fmt.Sprintf("job %d to be %s", id, state), func() bool {
		j = d.job(t, id)
		return j.State == state
	})
	return j
}

func (d desk) task(t *testing.T, name string) shownTask {
	t.Helper()
	var list []shownTask
	d.ask(t, "GET", "/api/admin/cron", 200, &list)
	for _, task := range list {
		if task.Name == name {
			return task
		}
	}
	t.Fatalf("no task %s among %v", name, list)
	return shownTask{}
}

func (d desk) queue(t *testing.T, name string) shownQueue {
	t.Helper()
	var list []shownQueue
	d.ask(t, "GET", "/api/admin/queues", 200, &list)
	for _, q := range list {
		if q.Name == name {
			return q
		}
	}
	t.Fatalf("no queue %s among %v", name, list)
	return shownQueue{}
}

// jobs lists all jobs of a query, newest first, through all pages.
func (d desk) jobs(t *testing.T, query string) []shownJob {
	t.Helper()
	var all []shownJob
	for cursor := ""; ; {
		var page struct {
			Data []shownJob
			Meta struct {
				HasMore    bool   `json:"has_more"`
				NextCursor string `json:"next_cursor"`
			}
		}
		d.call(t, "GET", "/api/admin/jobs?limit=100&"+query+cursor).Into(t, &page)
		all = append(all, page.Data...)
		if !page.Meta.HasMore {
			return all
		}
		cursor = "&cursor=" + page.Meta.NextCursor
	}
}

// runsOf are the jobs of a periodic task, newest first.
func (d desk) runsOf(t *testing.T, task string) (runs []shownJob) {
	t.Helper()
	for _, j := range d.jobs(t, "kind=cron") {
		if j.Args.Name == task {
			runs = append(runs, j)
		}
	}
	return runs
}

// notes are what the audit log has of a user's actions on a row, oldest first, once it
// has that many.
func (d desk) notes(t *testing.T, table, row string, want int) (did []string) {
	t.Helper()
	d.p.waitFor(t, fmt.Sprintf("%d notes on %s %s", want, table, row), func() bool {
		var entries []struct {
			ActorType string  `json:"actor_type"`
			ActorID   *string `json:"actor_id"`
			Op        string
			Action    string
			Changes   string
		}
		d.ask(t, "GET", "/api/admin/audit?limit=100&table="+table+"&row_id="+row, 200, &entries)
		did = nil
		for _, e := range entries {
			var changes struct{ Note struct{ Did string } }
			if err := json.Unmarshal([]byte(e.Changes), &changes); err != nil {
				t.Fatal(err)
			}
			if e.Op != "note" || e.ActorType != "user" || e.ActorID == nil || *e.ActorID != "1" {
				t.Errorf("the audit log has %+v", e)
			}
			did = append([]string{changes.Note.Did + " by " + e.Action}, did...)
		}
		return len(did) >= want
	})
	return did
}

// settled waits until a task has run for the first time, which is at the first start.
func (d desk) settled(t *testing.T, task string) {
	t.Helper()
	d.p.waitFor(t, "the first run of "+task, func() bool {
		for _, j := range d.runsOf(t, task) {
			if j.State != "completed" {
				return false
			}
		}
		return d.task(t, task).LastRunAt != nil
	})
}

// office is an instance with an administrator, after the first run of heldTask.
func office(t *testing.T, env ...string) (desk, dbtest.URLs) {
	t.Helper()
	urls := dbtest.NewURL(t)
	p := startServe(t, urls.App, env...)
	d := desk{p, admin(t, p, urls.App)}
	d.settled(t, heldTask)
	return d, urls
}
