package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
)

// log is what was logged, for tests whose jobs run meanwhile.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }

// lines counts the lines at a level about a name.
func (l *log) lines(level slog.Level, name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, "level="+level.String()) && strings.Contains(line, "name="+name+" ") && strings.Contains(line, errTest.Error()) {
			n++
		}
	}
	return n
}

var errTest = errors.New("permission-denied")

func newTestFailures(t *testing.T) (*failures, *log) {
	t.Helper()
	l := new(log)
	f, err := newFailures(slog.New(slog.NewTextHandler(l, nil)), prometheus.NewRegistry(), []string{"statistics.fold"})
	if err != nil {
		t.Fatal(err)
	}
	return f, l
}

var start = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)

func ended(kind, args string, state rivertype.JobState, at time.Time, text string) *river.Event {
	e := &river.Event{Kind: river.EventKindJobFailed, Job: &rivertype.JobRow{Kind: kind, EncodedArgs: []byte(args), State: state, FinalizedAt: &at}}
	switch state {
	case rivertype.JobStateCompleted:
		e.Kind = river.EventKindJobCompleted
		return e
	case rivertype.JobStateCancelled:
		e.Kind = river.EventKindJobCancelled
	}
	e.Job.Errors = []rivertype.AttemptError{{At: at, Error: text}, {At: at.Add(-time.Hour), Error: "earlier"}}
	return e
}

func TestAPeriodicTaskIsToldOfFromItsThirdFailureInARowUntilItSucceeds(t *testing.T) {
	t.Parallel()
	f, l := newTestFailures(t)
	fold := func(state rivertype.JobState, second int) {
		f.note(ended("cron", `{"name":"statistics.fold"}`, state, start.Add(time.Duration(second)*time.Second), errTest.Error()))
	}
	want := func(after string, warnings, errors int, counted float64, list map[string]Failure) {
		t.Helper()
		if w, e := l.lines(slog.LevelWarn, "statistics.fold"), l.lines(slog.LevelError, "statistics.fold"); w != warnings || e != errors {
			t.Errorf("%s: %d warnings and %d errors, want %d and %d", after, w, e, warnings, errors)
		}
		if n := testutil.ToFloat64(f.counter.WithLabelValues("statistics.fold")); n != counted {
			t.Errorf("%s: counted %v, want %v", after, n, counted)
		}
		if diff := cmp.Diff(list, f.list()); diff != "" {
			t.Errorf("%s:\n%s", after, diff)
		}
	}
	none := map[string]Failure{}
	want("at first", 0, 0, 0, none)
	fold(rivertype.JobStateDiscarded, 0)
	fold(rivertype.JobStateDiscarded, 5)
	fold(rivertype.JobStateCompleted, 10)
	want("two failures and a success", 2, 0, 0, none)
	fold(rivertype.JobStateDiscarded, 15)
	fold(rivertype.JobStateDiscarded, 20)
	fold(rivertype.JobStateDiscarded, 25)
	want("three", 4, 1, 1, map[string]Failure{"statistics.fold": {Count: 3, Since: start.Add(15 * time.Second), Last: start.Add(25 * time.Second)}})
	for n := range 97 {
		fold(rivertype.JobStateDiscarded, 30+5*n)
	}
	// Told at 3, 6, 12, 24, 48 and 96 failures.
	want("a hundred", 4, 6, 98, map[string]Failure{"statistics.fold": {Count: 100, Since: start.Add(15 * time.Second), Last: start.Add(510 * time.Second)}})
	fold(rivertype.JobStateCompleted, 600)
	want("a success", 4, 6, 98, none)
}

func TestAJobIsToldOfWhenItsLastAttemptFailedAndOnlyThen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		event *river.Event
		want  int
	}{
		"an attempt that is followed by another": {ended("webhooks.attempt", `{}`, rivertype.JobStateRetryable, start, errTest.Error()), 0},
		"one that is followed at once":           {ended("webhooks.attempt", `{}`, rivertype.JobStateAvailable, start, errTest.Error()), 0},
		"the last attempt":                       {ended("webhooks.attempt", `{}`, rivertype.JobStateDiscarded, start, errTest.Error()), 1},
		"given up by its worker":                 {ended("webhooks.attempt", `{}`, rivertype.JobStateCancelled, start, "JobCancelError: "+errTest.Error()), 1},
		"cancelled by somebody":                  {ended("webhooks.attempt", `{}`, rivertype.JobStateCancelled, start, rivertype.ErrJobCancelledRemotely.Error()), 0},
		"another version's periodic task":        {ended("cron", `{"name":"webhooks.attempt"}`, rivertype.JobStateCancelled, start, errTest.Error()), 0},
		"a success":                              {ended("webhooks.attempt", `{}`, rivertype.JobStateCompleted, start, ""), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, l := newTestFailures(t)
			f.note(c.event)
			if got := len(f.list()); got != c.want {
				t.Errorf("listed: %v", f.list())
			}
			if got := l.lines(slog.LevelError, "webhooks.attempt"); got != c.want {
				t.Errorf("%d lines", got)
			}
			if got := testutil.ToFloat64(f.counter.WithLabelValues("webhooks.attempt")); got != float64(c.want) {
				t.Errorf("counted %v", got)
			}
			f.note(ended("webhooks.attempt", `{}`, rivertype.JobStateCompleted, start, ""))
			if got := f.list(); len(got) > 0 {
				t.Errorf("after a success: %v", got)
			}
		})
	}
}

// mailJob and alertJob are kinds of job; the former had another name once.
type (
	mailJob  struct{}
	alertJob struct{}
	formerly struct{}
)

func (mailJob) Kind() string          { return "test.mail" }
func (mailJob) KindAliases() []string { return []string{formerly{}.Kind()} }
func (alertJob) Kind() string         { return "test.alert" }
func (formerly) Kind() string         { return "mail" }

// insert adds a job that has one attempt left.
func insert(t *testing.T, d *db.DB, admin *pgx.Conn, job queue.Job, attempts int) {
	t.Helper()
	q, err := queue.New(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	err = d.InTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error { return q.Insert(ctx, tx, job) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Exec(t.Context(), `update river_job set attempt = $2 - 1, max_attempts = greatest($2, 1) where kind = $1`, job.Kind(), attempts); err != nil {
		t.Fatal(err)
	}
}

func TestWhatRealJobsEndWithIsSeen(t *testing.T) {
	t.Parallel()
	d, urls := dbtest.NewWithURL(t)
	admin, err := pgx.Connect(t.Context(), urls.Admin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(context.Background()) }()
	l := new(log)
	var mu sync.Mutex
	broken := true
	fail := func() error {
		mu.Lock()
		defer mu.Unlock()
		if broken {
			return errTest
		}
		return nil
	}
	const alertAttempts = 8
	var again atomic.Bool
	r, err := New(Options{
		DB: d, Logger: slog.New(slog.NewTextHandler(l, nil)),
		Periodic: []Periodic{{Name: "keys.rotate", Every: time.Hour, Run: func(context.Context) (int, error) { panic(errTest) }}},
		Workers: []Worker{
			Work(func(context.Context, mailJob) error {
				if again.CompareAndSwap(false, true) {
					return queue.Again(0)
				}
				return fail()
			}, Limits{}),
			Work(func(context.Context, alertJob) error { return fail() }, Limits{Attempts: alertAttempts}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	mailed, alert := mailJob{}.Kind(), alertJob{}.Kind()
	insert(t, d, admin, mailJob{}, 1)
	insert(t, d, admin, alertJob{}, alertAttempts)
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both failures", func() bool {
		list := r.Failures()
		return list[mailed].Count == 1 && list[alert].Count == 1 && len(list) == 2
	})
	for _, kind := range []string{mailed, alert} {
		if n := l.lines(slog.LevelError, kind); n != 1 {
			t.Errorf("%s: %d lines", kind, n)
		}
	}
	// It panics once at start, which is a failure like another.
	eventually(t, "the panic", func() bool { return l.lines(slog.LevelWarn, "keys.rotate") == 1 })
	mu.Lock()
	broken = false
	mu.Unlock()
	insert(t, d, admin, formerly{}, 1)
	eventually(t, "a success under the former name", func() bool {
		var n int
		err := admin.QueryRow(t.Context(), `select count(*) from river_job where kind = 'mail' and state = 'completed'`).Scan(&n)
		return err == nil && n == 1
	})
	insert(t, d, admin, mailJob{}, 1)
	eventually(t, "a success", func() bool { _, failing := r.Failures()[mailed]; return !failing })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.Stop(ctx); err != nil {
		t.Error(err)
	}
	if strings.Contains(l.b.String(), "possible bug with Worker") {
		t.Error("the panic's stack is River's own line")
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			t.Fatal(fmt.Sprint("never seen: ", what))
		}
		time.Sleep(10 * time.Millisecond)
	}
}
