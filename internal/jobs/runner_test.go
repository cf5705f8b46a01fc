package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
)

// startRunner runs one until the test's end.
func startRunner(t *testing.T, o Options) *Runner {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.running.Load() {
			stopRunner(t, r, time.Minute)
		}
	})
	return r
}

func stopRunner(t *testing.T, r *Runner, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := r.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// insertJob adds a job and returns its id.
func insertJob(t *testing.T, d *db.DB, job queue.Job) int64 {
	t.Helper()
	q, err := queue.New(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var id int64
	err = d.InTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		id, _, err = q.InsertOnce(ctx, tx, "", job)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// states of a job and its attempts, as "running 1/25".
func look(t *testing.T, d *db.DB, id int64) string {
	t.Helper()
	var state string
	err := d.Direct().QueryRow(t.Context(), `select format('%s %s/%s', state, attempt, max_attempts) from river_job where id = $1`, id).Scan(&state)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// blocking works jobs until release is closed or their contexts end.
type blocking struct {
	started chan struct{}
	ended   chan error // why a context ended
	release chan struct{}
}

func newBlocking() *blocking {
	return &blocking{make(chan struct{}, 100), make(chan error, 100), make(chan struct{})}
}

func (b *blocking) work(ctx context.Context) error {
	b.started <- struct{}{}
	select {
	case <-b.release:
		return nil
	case <-ctx.Done():
		b.ended <- context.Cause(ctx)
		return errors.New("broken off") // not the context's error: workers may say anything
	}
}

func (b *blocking) worker() []Worker {
	return []Worker{Work(func(ctx context.Context, _ mailJob) error { return b.work(ctx) }, Limits{Attempts: 1})}
}

func TestAJobThatAStopBreaksOffIsGivenBackAndRunsElsewhereAtOnce(t *testing.T) {
	t.Parallel()
	for name, periodic := range map[string]bool{"a job": false, "a periodic task": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dbtest.New(t)
			first, second := newBlocking(), newBlocking()
			options := func(b *blocking) Options {
				o := Options{DB: d, Workers: b.worker()}
				if periodic {
					o.Periodic = []Periodic{{Name: "nightly", Every: 24 * time.Hour, Run: func(ctx context.Context) (int, error) { return 0, b.work(ctx) }}}
				}
				return o
			}
			r := startRunner(t, options(first))
			if !periodic {
				insertJob(t, d, mailJob{})
			}
			<-first.started
			stopRunner(t, r, 10*time.Millisecond)
			if cause := <-first.ended; cause == nil {
				t.Error("not broken off")
			}
			var id int64
			if err := d.Direct().QueryRow(t.Context(), `select id from river_job`).Scan(&id); err != nil {
				t.Fatal(err)
			}
			if got := look(t, d, id); got != "available 0/25" && got != "available 0/1" {
				t.Errorf("after the stop: %s", got)
			}
			if len(r.Failures()) > 0 {
				t.Errorf("told of as failing: %v", r.Failures())
			}
			tasks, err := admin(t, d, nil).Tasks(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, task := range tasks {
				if task.LastRunAt != nil {
					t.Errorf("what was broken off has an outcome: %+v", task)
				}
			}
			startRunner(t, options(second))
			<-second.started
			close(second.release)
			eventually(t, "its end", func() bool { s := look(t, d, id); return s == "completed 1/25" || s == "completed 1/1" })
		})
	}
}

func TestAStopWaitsForJobsThatEndInTime(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	b := newBlocking()
	r := startRunner(t, Options{DB: d, Workers: b.worker()})
	id := insertJob(t, d, mailJob{})
	<-b.started
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stopRunner(t, r, time.Minute)
	}()
	eventually(t, "the stop", func() bool { return !r.running.Load() })
	close(b.release)
	<-stopped
	if got := look(t, d, id); got != "completed 1/25" {
		t.Errorf("after the stop: %s", got)
	}
	var runners int
	if err := d.Direct().QueryRow(t.Context(), `select count(*) from job_runners`).Scan(&runners); err != nil || runners != 0 {
		t.Errorf("%d runners are left, %v", runners, err)
	}
}

func TestTheJobsOfAProcessThatIsGoneRunAgainLongBeforeTheirTimeIsOver(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	b := newBlocking()
	close(b.release)
	id := insertJob(t, d, mailJob{})
	exec := func(sql string) {
		t.Helper()
		if _, err := d.Direct().Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`update river_job set state = 'running', attempt = 1, attempted_at = now(), attempted_by = '{killed}'`)
	exec(`insert into job_runners (id, seen_at) values ('killed', now())`)
	const short = 3 * time.Second
	workers := []Worker{Work(func(ctx context.Context, _ mailJob) error { return b.work(ctx) }, Limits{Timeout: 6 * time.Hour})}
	startRunner(t, Options{DB: d, Lease: short, Workers: workers})
	eventually(t, "another attempt", func() bool { return look(t, d, id) == "completed 2/25" })
	var text string
	if err := d.Direct().QueryRow(t.Context(), `select errors[1]->>'error' from river_job`).Scan(&text); err != nil || text == "" {
		t.Errorf("the first attempt's error is %q, %v", text, err)
	}
}

func TestAProcessThatLosesItsLeaseEndsItsJobsAndTheAttemptDoesNotCount(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	b := newBlocking()
	r := startRunner(t, Options{DB: d, Workers: b.worker()})
	id := insertJob(t, d, mailJob{})
	<-b.started
	r.lease.lost()
	if cause := <-b.ended; !errors.Is(cause, errLost) {
		t.Errorf("ended by %v", cause)
	}
	// Until the lease is renewed, whatever it takes ends at once.
	if err := r.lease.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(b.release)
	eventually(t, "its end", func() bool { return look(t, d, id) == "completed 1/25" })
}

func TestALeaseThatCannotBeRenewedIsLost(t *testing.T) {
	t.Parallel()
	d, alive := dbtest.New(t), dbtest.New(t)
	b := newBlocking()
	startRunner(t, Options{DB: d, AliveDB: alive, Lease: 300 * time.Millisecond, Workers: b.worker()})
	insertJob(t, d, mailJob{})
	<-b.started
	alive.Pool().Close()
	if cause := <-b.ended; !errors.Is(cause, errLost) {
		t.Errorf("ended by %v", cause)
	}
}

func TestACancellationReachesTheProcessThatRunsTheJob(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	b, idle := newBlocking(), newBlocking()
	startRunner(t, Options{DB: d, Workers: b.worker()})
	id := insertJob(t, d, mailJob{})
	<-b.started
	startRunner(t, Options{DB: d, Workers: idle.worker()})
	job, err := admin(t, d, nil).Cancel(t.Context(), id)
	if err != nil || job.State != queue.Running {
		t.Fatalf("%+v, %v", job, err)
	}
	<-b.ended
	eventually(t, "its end", func() bool { return look(t, d, id) == "cancelled 1/25" })
}

func TestAPausedQueueStaysPausedOverARestart(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	a := admin(t, d, nil)
	b := newBlocking()
	close(b.release)
	if _, err := a.PauseQueue(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	id := insertJob(t, d, mailJob{})
	for range 2 {
		r := startRunner(t, Options{DB: d, Workers: b.worker()})
		// A job of another queue shows that jobs are worked.
		other := insertJob(t, d, alertJob{})
		if _, err := d.Direct().Exec(t.Context(), `update river_job set queue = 'rollups' where id = $1`, other); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a job of another queue", func() bool { s := look(t, d, other); return s != "available 0/25" && s != "running 1/25" })
		if got := look(t, d, id); got != "available 0/25" {
			t.Errorf("a job of a paused queue is %s", got)
		}
		stopRunner(t, r, time.Minute)
	}
	startRunner(t, Options{DB: d, Workers: b.worker()})
	if _, err := a.ResumeQueue(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its end", func() bool { return look(t, d, id) == "completed 1/25" })
}

func TestRunsOfPeriodicTasksHaveOutcomes(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	var broken atomic.Bool
	do := func(context.Context) (int, error) {
		if broken.Load() {
			return 0, fmt.Errorf("%w with wp_0123456789abcdef", errTest)
		}
		return 1, nil
	}
	startRunner(t, Options{DB: d, Periodic: []Periodic{
		{Name: "hourly", Description: "Does it.", Every: time.Hour, Run: do},
		{Name: "own", Every: 50 * time.Millisecond, Everywhere: true, Run: do},
	}})
	a := admin(t, d, nil)
	outcomes := func(want queue.Outcome, text string) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s, %q", want, text), func() bool {
			tasks, err := a.Tasks(t.Context())
			if err != nil || len(tasks) != 2 {
				t.Fatal(tasks, err)
			}
			for _, task := range tasks {
				if task.LastOutcome != want || task.LastError != text || task.LastRunAt == nil || task.LastDuration < 0 || task.NextRunAt.Before(time.Now().Add(-time.Minute)) {
					return false
				}
			}
			return true
		})
	}
	outcomes(queue.OK, "")
	broken.Store(true)
	// The run before may be ending still, and would be the one that is on.
	eventually(t, "another run", func() bool {
		job, err := a.RunTask(t.Context(), "hourly")
		if err != nil {
			t.Fatal(err)
		}
		return job.State == queue.Available
	})
	outcomes(queue.Failed, errTest.Error()+" with [redacted]")
	broken.Store(false)
	// Also a task of all instances can be run by hand.
	for _, name := range []string{"hourly", "own"} {
		eventually(t, "a run of "+name, func() bool { // the one before may be ending still
			job, err := a.RunTask(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "its end", func() bool { s := look(t, d, job.ID); return s == "completed 1/1" || s == "discarded 1/1" })
			return look(t, d, job.ID) == "completed 1/1"
		})
	}
	outcomes(queue.OK, "")
}

func TestARunByHandIsTheOneThatIsOn(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	b := newBlocking()
	startRunner(t, Options{DB: d, Periodic: []Periodic{{Name: "hourly", Every: time.Hour, Run: func(ctx context.Context) (int, error) { return 0, b.work(ctx) }}}})
	<-b.started
	a := admin(t, d, nil)
	on, err := a.RunTask(t.Context(), "hourly")
	if err != nil || on.State != queue.Running {
		t.Errorf("%+v, %v", on, err)
	}
	if again, err := a.RunTask(t.Context(), "hourly"); err != nil || again.ID != on.ID {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := a.RunTask(t.Context(), "no such task"); !errors.Is(err, queue.ErrNoTask) {
		t.Error(err)
	}
	close(b.release)
	eventually(t, "its end", func() bool { return look(t, d, on.ID) == "completed 1/1" })
	if next, err := a.RunTask(t.Context(), "hourly"); err != nil || next.ID == on.ID {
		t.Errorf("%+v, %v", next, err)
	}
}

func TestAnotherVersionsTaskIsLeftToItForAWhile(t *testing.T) {
	t.Parallel()
	w := newCronWorker(nil, slog.New(slog.DiscardHandler), nil, nil)
	work := func(age time.Duration) error {
		return w.Work(t.Context(), &river.Job[cronJob]{JobRow: &rivertype.JobRow{CreatedAt: time.Now().Add(-age)}, Args: cronJob{"theirs"}})
	}
	if _, put := errors.AsType[*river.JobSnoozeError](work(0)); !put {
		t.Error("a young job is not put off")
	}
	if _, cancelled := errors.AsType[*river.JobCancelError](work(leaveFor)); !cancelled {
		t.Error("an old job is not given up")
	}
}

func TestWhatAdministratorsDoIsNoted(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	a := admin(t, d, nil)
	turn(t, instance(t, d, time.Now, hourly))
	ctx := identity.NewContext(t.Context(), identity.Account(7, identity.Admin, "").Doing("test"))
	id := insertJob(t, d, mailJob{})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := a.Cancel(ctx, id)
	must(err)
	_, err = a.Cancel(ctx, id) // changes nothing
	must(err)
	_, err = a.Retry(ctx, id)
	must(err)
	_, err = a.Retry(ctx, id)
	if !errors.Is(err, queue.ErrNotRetryable) {
		t.Error(err)
	}
	must(a.Delete(ctx, id))
	_, err = a.PauseQueue(ctx, "rollups")
	must(err)
	_, err = a.PauseQueue(ctx, "rollups")
	must(err)
	_, err = a.ResumeQueue(ctx, "rollups")
	must(err)
	run, err := a.RunTask(ctx, "hourly")
	must(err)
	rows, err := d.Direct().Query(t.Context(), `select format('%s %s %s %s', actor_id, table_name, row_id, changes::jsonb -> 'note' ->> 'did') from audit_pending where action = 'test' order by id`)
	must(err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(err)
	want := []string{
		fmt.Sprintf("7 river_job %d cancel", id), fmt.Sprintf("7 river_job %d retry", id), fmt.Sprintf("7 river_job %d delete", id),
		"7 river_queue rollups pause", "7 river_queue rollups resume", "7 cron hourly run",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("noted %q, want %q", got, want)
	}
	if run.Kind != "cron" || run.State != queue.Available {
		t.Errorf("%+v", run)
	}
}
