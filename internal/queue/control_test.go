package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
)

type testJob struct {
	Name string `json:"name"`
}

func (testJob) Kind() string { return "test.job" }

// harness is a queue that nobody works.
type harness struct {
	*queue.Queue
	db *db.DB
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	q, err := queue.New(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return &harness{q, dbtest.New(t)}
}

func (h *harness) inTx(t *testing.T, fn func(ctx context.Context, tx pgx.Tx) error) error {
	t.Helper()
	return h.db.InTx(t.Context(), identity.System("test"), fn)
}

// stored is a job's row as a test wants it.
type stored struct {
	state         queue.State
	kind, queue   string
	attempt, max  int
	args, runner  string
	errors        int
	scheduled     time.Duration // from now
	priority      int
	uniqueKey     string
	cancelledOnce bool
}

// put stores a job and returns its id.
func (h *harness) put(t *testing.T, s stored) int64 {
	t.Helper()
	or := func(s, by string) string {
		if s == "" {
			return by
		}
		return s
	}
	var id int64
	err := h.db.Direct().QueryRow(t.Context(), `insert into river_job (state, kind, queue, args, attempt, max_attempts, attempted_at, attempted_by, finalized_at, scheduled_at, priority, errors, metadata, unique_key, unique_states)
		values ($1::text::river_job_state, $2, $3, $4::text::jsonb, $5::int, $6, case when $5::int > 0 then now() end, array[$7::text],
			case when $1::text in ('completed', 'cancelled', 'discarded') then now() end, now() + make_interval(secs => $8::float8), $9,
			(select array_agg(jsonb_build_object('at', now(), 'attempt', n, 'error', 'failure ' || n, 'trace', '')) from generate_series(1, $10::int) n),
			case when $11::boolean then '{"cancel_attempted_at": 1}' else '{}' end::jsonb, nullif($12::text, '')::bytea, case when $12::text <> '' then b'11110001' end)
		returning id`,
		string(s.state), or(s.kind, "test.job"), or(s.queue, "default"), or(s.args, "{}"), s.attempt, max(s.max, 1), or(s.runner, "nobody"),
		s.scheduled.Seconds(), max(s.priority, 1), s.errors, s.cancelledOnce, s.uniqueKey).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestAJobOfATransactionThatIsRolledBackDoesNotExist(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	undone := errors.New("undone")
	for _, insert := range []func(context.Context, pgx.Tx) error{
		func(ctx context.Context, tx pgx.Tx) error { return h.Insert(ctx, tx, testJob{"a"}) },
		func(ctx context.Context, tx pgx.Tx) error {
			_, err := h.InsertMany(ctx, tx, []queue.Entry{{Job: testJob{"b"}}})
			return err
		},
		func(ctx context.Context, tx pgx.Tx) error {
			_, inserted, err := h.InsertOnce(ctx, tx, "", testJob{"c"})
			if !inserted {
				t.Error("not inserted")
			}
			return err
		},
	} {
		err := h.inTx(t, func(ctx context.Context, tx pgx.Tx) error {
			if err := insert(ctx, tx); err != nil {
				return err
			}
			if n, err := h.Count(ctx, tx, queue.Filter{}); n != 1 || err != nil {
				t.Errorf("%d jobs within the transaction, %v", n, err)
			}
			return undone
		})
		if !errors.Is(err, undone) {
			t.Fatal(err)
		}
	}
	if n, err := h.Count(t.Context(), h.db.Direct(), queue.Filter{}); n != 0 || err != nil {
		t.Errorf("%d jobs afterwards, %v", n, err)
	}
}

// kindOf is an error's code, "" for nil.
func kindOf(err error) string {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

func TestEachActionDoesInEachStateWhatItsStateAllows(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	const ok, unretryable, running = "<nil>", "not_retryable", "job_running"
	for state, want := range map[queue.State]struct {
		retry, deletion string
		cancelled       queue.State // the state after a cancellation
	}{
		queue.Available: {unretryable, ok, queue.Cancelled},
		queue.Scheduled: {unretryable, ok, queue.Cancelled},
		queue.Pending:   {unretryable, ok, queue.Cancelled},
		queue.Running:   {unretryable, running, queue.Running},
		queue.Retryable: {ok, ok, queue.Cancelled},
		queue.Completed: {ok, ok, queue.Completed},
		queue.Cancelled: {ok, ok, queue.Cancelled},
		queue.Discarded: {ok, ok, queue.Discarded},
	} {
		row := stored{state: state, attempt: 3, max: 3, scheduled: time.Hour}
		err := h.inTx(t, func(ctx context.Context, tx pgx.Tx) error {
			before := time.Now()
			job, err := h.Retry(ctx, tx, h.put(t, row))
			if kindOf(err) != want.retry {
				t.Errorf("retry of a job that is %s: %v", state, err)
			}
			if err == nil && (job.State != queue.Available || job.MaxAttempts <= job.Attempt || job.ScheduledAt.After(before.Add(time.Minute)) || job.FinalizedAt != nil) {
				t.Errorf("after a retry of a job that was %s: %+v", state, job)
			}
			id := h.put(t, row)
			job, changed, err := h.Cancel(ctx, tx, id)
			if err != nil || job.State != want.cancelled || changed == state.Ended() {
				t.Errorf("cancelled, a job that was %s is %s, %v, %v", state, job.State, changed, err)
			}
			if _, err = h.Delete(ctx, tx, h.put(t, row)); kindOf(err) != want.deletion {
				t.Errorf("deletion of a job that is %s: %v", state, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err := h.inTx(t, func(ctx context.Context, tx pgx.Tx) error {
		_, retried := h.Retry(ctx, tx, 1<<40)
		_, _, cancelled := h.Cancel(ctx, tx, 1<<40)
		_, deleted := h.Delete(ctx, tx, 1<<40)
		for _, err := range []error{retried, cancelled, deleted} {
			if !errors.Is(err, queue.ErrNoJob) {
				t.Errorf("on no job: %v", err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestARetryBesideATwinIsRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	ended := h.put(t, stored{state: queue.Completed, uniqueKey: "twins"})
	h.put(t, stored{state: queue.Running, uniqueKey: "twins"})
	err := h.inTx(t, func(ctx context.Context, tx pgx.Tx) error {
		_, err := h.Retry(ctx, tx, ended)
		return err
	})
	if kindOf(err) != "not_retryable" {
		t.Error(err)
	}
}

func TestOfActionsAtOnceEachSeesWhatTheOtherDid(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for range 20 {
		id := h.put(t, stored{state: queue.Discarded})
		var racing sync.WaitGroup
		codes := make([]string, 4)
		for i := range codes {
			racing.Go(func() {
				codes[i] = kindOf(h.inTx(t, func(ctx context.Context, tx pgx.Tx) error {
					var err error
					if i == 0 {
						_, err = h.Delete(ctx, tx, id)
					} else {
						_, err = h.Retry(ctx, tx, id)
					}
					return err
				}))
			})
		}
		racing.Wait()
		count := map[string]int{}
		for _, code := range codes[1:] {
			count[code]++
		}
		if codes[0] != "<nil>" || count["<nil>"] > 1 || count["<nil>"]+count["not_retryable"]+count["not_found"] != 3 {
			t.Fatalf("a deletion and three retries: %v", codes)
		}
	}
}

func TestALostProcesssJobsRunAgainAndNobodyElses(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	rows := map[string]int64{
		"an attempt left":                h.put(t, stored{state: queue.Running, attempt: 2, max: 5, runner: "gone"}),
		"its last attempt":               h.put(t, stored{state: queue.Running, attempt: 5, max: 5, runner: "gone"}),
		"its only attempt":               h.put(t, stored{state: queue.Running, attempt: 1, max: 1, runner: "gone"}),
		"cancelled":                      h.put(t, stored{state: queue.Running, attempt: 1, max: 5, runner: "gone", cancelledOnce: true}),
		"of a process that lives":        h.put(t, stored{state: queue.Running, attempt: 1, max: 5, runner: "alive"}),
		"given back by the process":      h.put(t, stored{state: queue.Available, attempt: 1, max: 5, runner: "gone"}),
		"completed by the process since": h.put(t, stored{state: queue.Completed, attempt: 1, max: 5, runner: "gone"}),
	}
	rescue := func() int64 {
		var n int64
		err := h.inTx(t, func(ctx context.Context, tx pgx.Tx) error {
			var err error
			n, err = h.RescueFrom(ctx, tx, []string{"gone", "unheard of"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := rescue(); n != 4 {
		t.Errorf("%d jobs rescued", n)
	}
	got := map[string]string{}
	for name, id := range rows {
		job, err := h.Get(t.Context(), h.db.Direct(), id)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = fmt.Sprintf("%s %d/%d, %d errors", job.State, job.Attempt, job.MaxAttempts, len(job.Errors))
	}
	want := map[string]string{
		"an attempt left":                "retryable 2/5, 1 errors",
		"its last attempt":               "discarded 5/5, 1 errors",
		"its only attempt":               "retryable 1/2, 1 errors",
		"cancelled":                      "cancelled 1/5, 1 errors",
		"of a process that lives":        "running 1/5, 0 errors",
		"given back by the process":      "available 1/5, 0 errors",
		"completed by the process since": "completed 1/5, 0 errors",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := rescue(); n != 0 {
		t.Errorf("%d jobs rescued again", n)
	}
	// A job that takes its process with it is not started for ever.
	if _, err := h.db.Direct().Exec(t.Context(), `update river_job set state = 'running', attempt = 2 where id = $1`, rows["its only attempt"]); err != nil {
		t.Fatal(err)
	}
	rescue()
	if job, err := h.Get(t.Context(), h.db.Direct(), rows["its only attempt"]); err != nil || job.State != queue.Discarded {
		t.Errorf("after a second process: %s, %v", job.State, err)
	}
}

func TestAListIsPagedNewestFirstAndFiltered(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var ids []int64
	for i := range 10 {
		s := stored{state: queue.Completed, kind: "a"}
		if i%2 == 0 {
			s.kind, s.queue, s.state = "b", "webhooks", queue.Scheduled
		}
		ids = append(ids, h.put(t, s))
	}
	list := func(f queue.Filter) (found []int64) {
		t.Helper()
		jobs, err := h.List(t.Context(), h.db.Direct(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			found = append(found, j.ID)
		}
		return found
	}
	var pages []int64
	before := int64(0)
	for {
		page := list(queue.Filter{Limit: 3, Before: before})
		if len(page) == 0 {
			break
		}
		pages, before = append(pages, page...), page[len(page)-1]
		h.put(t, stored{state: queue.Completed}) // newer, so on none of the pages to come
	}
	for i, id := range pages {
		if id != ids[len(ids)-1-i] {
			t.Fatalf("pages: %v of %v", pages, ids)
		}
	}
	for name, f := range map[string]queue.Filter{
		"kind": {Kind: "b"}, "queue": {Queue: "webhooks"}, "state": {State: queue.Scheduled}, "all": {Kind: "b", Queue: "webhooks", State: queue.Scheduled},
	} {
		f.Limit = 100
		if got := list(f); len(got) != 5 || got[0] != ids[8] {
			t.Errorf("by %s: %v", name, got)
		}
		if n, err := h.Count(t.Context(), h.db.Direct(), f); n != 5 || err != nil {
			t.Errorf("counted by %s: %d, %v", name, n, err)
		}
	}
	if got := list(queue.Filter{Kind: "b", State: queue.Completed, Limit: 10}); got != nil {
		t.Errorf("of no match: %v", got)
	}
}

func TestWhatIsShownOfAJobIsBounded(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.put(t, stored{state: queue.Retryable, args: `{"text":"` + strings.Repeat("x", 1<<20) + `"}`, errors: 40})
	_, err := h.db.Direct().Exec(t.Context(), `update river_job set errors = array_append(errors, jsonb_build_object('at', now(), 'attempt', 41, 'error', repeat('e', 1000000)))`)
	if err != nil {
		t.Fatal(err)
	}
	job, err := h.Get(t.Context(), h.db.Direct(), id)
	if err != nil {
		t.Fatal(err)
	}
	if len(job.Args) > queue.MaxArgs || !json.Valid(job.Args) {
		t.Errorf("%d bytes of arguments", len(job.Args))
	}
	if n := len(job.Errors); n != queue.MaxErrors || job.Errors[n-1].Attempt != 41 || len(job.Errors[n-1].Error) != queue.MaxErrorText || job.Errors[0].Attempt != 41-n+1 {
		t.Errorf("%d errors, %d to %d", n, job.Errors[0].Attempt, job.Errors[n-1].Attempt)
	}
}

func TestQueuesHaveCountsAndTheAgeOfWhatWaits(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	configured := []string{"default", "rollups"}
	h.put(t, stored{state: queue.Available, priority: 4, scheduled: -time.Hour})
	h.put(t, stored{state: queue.Available, scheduled: -time.Minute})
	h.put(t, stored{state: queue.Scheduled, scheduled: time.Hour})
	h.put(t, stored{state: queue.Completed, scheduled: -24 * time.Hour})
	if _, err := h.db.Direct().Exec(t.Context(), `insert into river_queue (name, created_at, updated_at) values ('another program''s', now(), now())`); err != nil {
		t.Fatal(err)
	}
	list, err := h.Queues(t.Context(), h.db.Direct(), configured)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, q := range list {
		wait := "nothing waits"
		if q.OldestWaiting != nil {
			wait = fmt.Sprint(q.OldestWaiting.Round(time.Minute))
		}
		var counts []int64
		for _, s := range []queue.State{queue.Available, queue.Scheduled, queue.Retryable, queue.Running, queue.Pending, queue.Completed, queue.Cancelled, queue.Discarded} {
			counts = append(counts, q.Counts[s])
		}
		got[q.Name] = fmt.Sprint(counts, wait, q.PausedAt)
	}
	want := map[string]string{
		"default":           "[2 1 0 0 0 1 0 0]1h0m0s<nil>",
		"rollups":           "[0 0 0 0 0 0 0 0]nothing waits<nil>",
		"another program's": "[0 0 0 0 0 0 0 0]nothing waits<nil>",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAQueueCanBePausedBeforeAnybodyWorkedIt(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	configured := []string{"default", "rollups"}
	type control = func(context.Context, pgx.Tx, []string, string) (queue.Info, bool, error)
	do := func(c control, name string) (string, error) {
		var state string
		err := h.inTx(t, func(ctx context.Context, tx pgx.Tx) error {
			info, changed, err := c(ctx, tx, configured, name)
			state = fmt.Sprintf("paused %v, changed %v", info.PausedAt != nil, changed)
			return err
		})
		return state, err
	}
	for i, step := range []struct {
		do   control
		want string
	}{
		{h.Resume, "paused false, changed false"},
		{h.Pause, "paused true, changed true"},
		{h.Pause, "paused true, changed false"},
		{h.Resume, "paused false, changed true"},
	} {
		if got, err := do(step.do, "rollups"); got != step.want || err != nil {
			t.Errorf("step %d: %s, %v", i, got, err)
		}
	}
	for _, c := range []control{h.Pause, h.Resume} {
		if _, err := do(c, "*"); !errors.Is(err, queue.ErrNoQueue) { // River's word for all
			t.Errorf("an unknown queue: %v", err)
		}
	}
}
