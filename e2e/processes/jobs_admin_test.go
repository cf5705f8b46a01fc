package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/e2e/outside"
)

func TestATaskRunsNowOnceAtATimeAndIsFoundInItsRow(t *testing.T) {
	t.Parallel()
	d, urls := office(t)
	before := d.task(t, heldTask)
	release := hold(t, urls.Owner, heldTable)
	first := d.run(t, heldTask)
	if again := d.run(t, heldTask); again.ID != first.ID {
		t.Errorf("while job %d waits or runs, a run is job %d", first.ID, again.ID)
	}
	d.await(t, first.ID, "running")
	if again := d.run(t, heldTask); again.ID != first.ID || again.State != "running" {
		t.Errorf("while job %d runs, a run is job %d, %s", first.ID, again.ID, again.State)
	}
	d.refused(t, "DELETE", jobAt(first.ID), 409, "job_running")
	d.refused(t, "POST", jobAt(first.ID, "retry"), 409, "not_retryable")
	if now := d.task(t, heldTask); !now.LastRunAt.Equal(*before.LastRunAt) {
		t.Errorf("a run that has not ended is the latest one: %+v", now)
	}
	release()
	d.await(t, first.ID, "completed")
	after := d.task(t, heldTask)
	if !after.LastRunAt.After(*before.LastRunAt) || after.LastOutcome != "ok" || after.LastError != "" || *after.LastDuration <= 0 {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if after.NextRunAt.Before(before.NextRunAt) || after.NextRunAt.After(time.Now().Add(time.Hour)) {
		t.Errorf("the next run was to be at %s and is at %s", before.NextRunAt, after.NextRunAt)
	}
	second := d.run(t, heldTask)
	if second.ID == first.ID {
		t.Error("a run after the end of one is the same job")
	}
	d.await(t, second.ID, "completed")
	d.refused(t, "POST", "/api/admin/cron/no.such_task/run", 404, "not_found")
	want := []string{"run by run-periodic-task", "run by run-periodic-task", "run by run-periodic-task", "run by run-periodic-task"}
	if diff := cmp.Diff(want, d.notes(t, "cron", heldTask, len(want))); diff != "" {
		t.Error(diff)
	}
}

// Two instances work the queue, and neither takes a job while it is paused.
func TestJobsOfAPausedQueueWaitAreCancelledRetriedAndDeletedAndRunOnceItIsResumed(t *testing.T) {
	t.Parallel()
	d, urls := office(t)
	there := d.at(startServe(t, urls.App))
	var q shownQueue
	d.ask(t, "POST", "/api/admin/queues/default/pause", 200, &q)
	if q.PausedAt == nil {
		t.Fatalf("paused, it is %+v", q)
	}
	since := *q.PausedAt
	// The other one hears of it a moment later; some periodic task is always due soon.
	d.p.waitFor(t, "jobs that wait", func() bool {
		q = there.queue(t, "default")
		return q.OldestWaitingSeconds != nil && *q.OldestWaitingSeconds > 3
	})
	there.ask(t, "POST", "/api/admin/queues/default/pause", 200, &q)
	if !q.PausedAt.Equal(since) {
		t.Errorf("paused at %s, then again, and that since %s", since, q.PausedAt)
	}
	oldest := *q.OldestWaitingSeconds

	kept, given, gone := d.run(t, heldTask), d.run(t, "mails.sweep"), d.run(t, "accounts.sweep")
	for _, j := range []shownJob{kept, given, gone} {
		if j.State != "available" || j.Queue != "default" {
			t.Errorf("in a paused queue a job is %+v", j)
		}
	}
	if j := there.act(t, given.ID, "cancel"); j.State != "cancelled" {
		t.Errorf("cancelled while it waits, it is %+v", j)
	}
	if j := there.act(t, given.ID, "cancel"); j.State != "cancelled" {
		t.Errorf("cancelled again, it is %+v", j)
	}
	if j := d.act(t, given.ID, "retry"); j.State != "available" {
		t.Errorf("retried after its cancellation, it is %+v", j)
	}
	d.refused(t, "POST", jobAt(given.ID, "retry"), 409, "not_retryable")
	if a := d.call(t, "DELETE", jobAt(gone.ID)); a.Status != 204 || len(a.Body) > 0 {
		t.Errorf("a deletion is answered %d %s", a.Status, a.Body)
	}
	for method, path := range map[string]string{"GET": jobAt(gone.ID), "DELETE": jobAt(gone.ID), "POST": jobAt(gone.ID, "cancel")} {
		there.refused(t, method, path, 404, "not_found")
	}
	d.refused(t, "POST", jobAt(gone.ID, "retry"), 404, "not_found")
	d.refused(t, "POST", "/api/admin/queues/nothing/pause", 404, "not_found")

	d.p.waitFor(t, "a longer wait", func() bool {
		q = d.queue(t, "default")
		return q.OldestWaitingSeconds != nil && *q.OldestWaitingSeconds > oldest+2
	})
	if q.Counts["running"] != 0 || q.Counts["available"] < 2 {
		t.Errorf("paused, it is %+v", q)
	}
	for _, id := range []int64{kept.ID, given.ID} {
		if j := d.job(t, id); j.State != "available" || j.Attempt != 0 {
			t.Errorf("in a paused queue a job became %+v", j)
		}
	}
	var resumed shownQueue
	there.ask(t, "POST", "/api/admin/queues/default/resume", 200, &resumed)
	if resumed.PausedAt != nil {
		t.Errorf("resumed, it is %+v", resumed)
	}
	d.await(t, kept.ID, "completed")
	d.await(t, given.ID, "completed")
	d.ask(t, "POST", "/api/admin/queues/default/resume", 200, &q)

	// What changed nothing is not noted.
	for row, want := range map[string][]string{
		"river_queue/default":              {"pause by pause-queue", "resume by resume-queue"},
		fmt.Sprint("river_job/", given.ID): {"cancel by cancel-job", "retry by retry-job"},
		fmt.Sprint("river_job/", gone.ID):  {"delete by delete-job"},
		"cron/mails.sweep":                 {"run by run-periodic-task"},
	} {
		table, id, _ := strings.Cut(row, "/")
		if diff := cmp.Diff(want, d.notes(t, table, id, len(want))); diff != "" {
			t.Error(row, diff)
		}
	}
}

// The administrator speaks to an instance that doesn't run the job.
func TestARunningJobThatIsCancelledEndsAndRunsAgainWhenItIsRetried(t *testing.T) {
	t.Parallel()
	d, urls := office(t)
	release := hold(t, urls.Owner, heldTable)
	job := d.run(t, heldTask)
	d.await(t, job.ID, "running")
	d.p.waitFor(t, "the job to wait", func() bool { return waitsAt(t, urls.Admin, heldTable) })
	there := d.at(startServe(t, urls.App))
	if j := there.act(t, job.ID, "cancel"); j.State != "running" && j.State != "cancelled" {
		t.Errorf("told to end, it is %+v", j)
	}
	// It ends while what it waits for still is away.
	if j := there.await(t, job.ID, "cancelled"); len(j.Errors) != 1 || !strings.Contains(j.Errors[0].Error, "cancelled remotely") { // not by a timeout
		t.Errorf("cancelled, it is %+v", j)
	}
	d.p.waitFor(t, "the job to let go", func() bool { return !waitsAt(t, urls.Admin, heldTable) })
	if j := there.act(t, job.ID, "retry"); j.State != "available" && j.State != "running" {
		t.Errorf("retried, it is %+v", j)
	}
	there.await(t, job.ID, "running")
	release()
	if j := there.await(t, job.ID, "completed"); j.Attempt != 2 {
		t.Errorf("retried, it ended as %+v", j)
	}
	want := []string{"cancel by cancel-job", "retry by retry-job"}
	if diff := cmp.Diff(want, there.notes(t, "river_job", fmt.Sprint(job.ID), len(want))); diff != "" {
		t.Error(diff)
	}
}

func TestADiscardedJobIsRetriedAndTheTaskIsWellAgain(t *testing.T) {
	t.Parallel()
	d, urls := office(t)
	const missing = `relation "` + heldTable + `" does not exist`
	behind(t, urls.Owner, "alter table "+heldTable+" rename to put_away")
	job := d.await(t, d.run(t, heldTask).ID, "discarded")
	if len(job.Errors) != 1 || !strings.Contains(job.Errors[0].Error, missing) {
		t.Errorf("it failed as %+v", job)
	}
	if task := d.task(t, heldTask); task.LastOutcome != "failed" || !strings.Contains(task.LastError, missing) {
		t.Errorf("the task of a run that failed is %+v", task)
	}
	behind(t, urls.Owner, "alter table put_away rename to "+heldTable)
	d.act(t, job.ID, "retry")
	if j := d.await(t, job.ID, "completed"); j.Attempt != 2 || len(j.Errors) != 1 {
		t.Errorf("retried, it ended as %+v", j)
	}
	if task := d.task(t, heldTask); task.LastOutcome != "ok" || task.LastError != "" {
		t.Errorf("the task of a run that failed and was retried is %+v", task)
	}
}

func TestAJobThatWaitsForItsNextAttemptIsBroughtForward(t *testing.T) {
	t.Parallel()
	d, _ := office(t, "WAYPOST_SMTP_HOST=127.0.0.1", "WAYPOST_SMTP_PORT=1", "WAYPOST_SMTP_TLS=none", "WAYPOST_MAIL_FROM=waypost@sender.example")
	a := outside.Do(t, "POST", d.p.url+"/api/admin/mails/test", `{"to":"ada@example.com"}`, "Authorization", "Bearer "+d.token, "Content-Type", "application/json")
	if a.Status != 202 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	list := d.jobs(t, "kind=mails.send")
	if len(list) != 1 {
		t.Fatalf("the jobs of one mail are %+v", list)
	}
	due := make([]time.Time, 4) // by attempt
	for attempt := 1; attempt <= 3; attempt++ {
		var job shownJob
		d.p.waitFor(t, fmt.Sprintf("failure %d", attempt), func() bool {
			job = d.job(t, list[0].ID)
			return job.State == "retryable" && job.Attempt == attempt
		})
		if len(job.Errors) != attempt {
			t.Fatalf("after attempt %d, %+v", attempt, job)
		}
		// The last one would have been a minute away.
		if attempt == 3 && !job.Errors[2].At.Before(due[2]) {
			t.Errorf("an attempt that was due at %s and brought forward was at %s", due[2], job.Errors[2].At)
		}
		due[attempt] = job.ScheduledAt
		if attempt < 3 {
			if j := d.act(t, job.ID, "retry"); j.State == "retryable" && j.Attempt == attempt {
				t.Errorf("brought forward, it is %+v", j)
			}
		}
	}
	if j := d.act(t, list[0].ID, "cancel"); j.State != "cancelled" {
		t.Errorf("cancelled between two attempts, it is %+v", j)
	}
	want := []string{"retry by retry-job", "retry by retry-job", "cancel by cancel-job"}
	if diff := cmp.Diff(want, d.notes(t, "river_job", fmt.Sprint(list[0].ID), len(want))); diff != "" {
		t.Error(diff)
	}
}

func TestOnlyAdministratorsSeeAndControlJobs(t *testing.T) {
	t.Parallel()
	d, urls := office(t)
	job := d.run(t, heldTask)
	d.await(t, job.ID, "completed")
	person := func(role string) []string {
		t.Helper()
		email := role + "@example.com"
		code, out, errOut := command(t, []string{"DATABASE_URL=" + urls.App}, outside.Password,
			"user", "create", "--email", email, "--first-name", "Eve", "--last-name", "Ve", "--role", role)
		if code != 0 {
			t.Fatal(out, errOut)
		}
		return []string{"Authorization", "Bearer " + signIn(t, d.p, email, outside.Password)}
	}
	bot := func(scopes string) []string {
		t.Helper()
		var made struct{ Data struct{ Token string } }
		a := outside.Do(t, "POST", d.p.url+"/api/auth/tokens", `{"name":"A bot","scopes":[`+scopes+`]}`, "Authorization", "Bearer "+d.token, "Content-Type", "application/json")
		a.Into(t, &made)
		return []string{"Authorization", "Bearer " + made.Data.Token}
	}
	callers := []struct {
		name       string
		credential []string
		status     int
		code       string
	}{
		{"nobody", nil, 401, "unauthenticated"},
		{"a USER", person("user"), 403, "forbidden"},
		{"an EDITOR", person("editor"), 403, "forbidden"},
		{"an ADMIN's token without admin", bot(`"read","write"`), 403, "forbidden"},
	}
	operations := []struct {
		method, path string
		status       int // for an ADMIN's token with all scopes
	}{
		{"GET", "/api/admin/jobs", 200}, {"GET", jobAt(job.ID), 200}, {"GET", "/api/admin/queues", 200}, {"GET", "/api/admin/cron", 200},
		{"POST", jobAt(job.ID, "cancel"), 200}, {"POST", jobAt(job.ID, "retry"), 200},
		{"POST", "/api/admin/queues/rollups/pause", 200}, {"POST", "/api/admin/queues/rollups/resume", 200},
		{"POST", "/api/admin/cron/" + heldTask + "/run", 202}, {"DELETE", jobAt(job.ID), 204},
	}
	before := d.job(t, job.ID)
	for _, o := range operations {
		for _, c := range callers {
			if a := outside.Do(t, o.method, d.p.url+o.path, "", c.credential...); a.Status != c.status {
				t.Errorf("%s: %s %s: %d %s", c.name, o.method, o.path, a.Status, a.Body)
			} else {
				wantError(t, a, c.status, c.code)
			}
		}
	}
	if diff := cmp.Diff(before, d.job(t, job.ID)); diff != "" || d.queue(t, "rollups").PausedAt != nil || len(d.notes(t, "cron", heldTask, 1)) != 1 {
		t.Errorf("what was refused had an effect: %s", diff)
	}
	trusted := bot(`"read","write","admin"`)
	for _, o := range operations {
		if o.method == "DELETE" {
			d.await(t, job.ID, "completed")
		}
		if a := outside.Do(t, o.method, d.p.url+o.path, "", trusted...); a.Status != o.status {
			t.Errorf("a token with all scopes: %s %s: %d %s", o.method, o.path, a.Status, a.Body)
		}
	}
	if a := d.call(t, http.MethodGet, "/api/admin/audit?table=river_job&actor_type=token"); !strings.Contains(string(a.Body), `\"did\"`) {
		t.Errorf("the audit log has of the token's actions %s", a.Body)
	}
}
