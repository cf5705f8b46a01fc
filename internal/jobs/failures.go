package jobs

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// tolerated is how many runs of a periodic task may fail in a row before that is told:
// its next run is the retry.
const tolerated = 2

// Failure is work that fails for good, until some of it succeeds again.
type Failure struct {
	Count int       // in a row
	Since time.Time // the first of them
	Last  time.Time
}

// failures tell of jobs that fail for good, of which this process worked: those whose
// last attempt failed or that their worker gave up, by their kind, and periodic tasks
// that fail again and again, by their name.
type failures struct {
	logger  *slog.Logger
	counter *prometheus.CounterVec
	took    *prometheus.HistogramVec // runs of jobs by name and outcome
	waited  *prometheus.HistogramVec // by queue

	named map[string]bool // what may be a label

	mu  sync.Mutex
	row map[string]streak
}

type streak struct {
	Failure
	periodic bool
}

// tolerable reports whether nobody is told yet.
func (s streak) tolerable() bool { return s.periodic && s.Count <= tolerated }

// newFailures makes the metric, with a series for each of names from the start, so
// that their first failure is an increase.
func newFailures(logger *slog.Logger, metrics prometheus.Registerer, names []string) (*failures, error) {
	f := &failures{logger: logger, row: make(map[string]streak), named: make(map[string]bool), counter: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "waypost_job_failures_total",
		Help: "Jobs whose last attempt failed, by kind, and failed runs of periodic tasks, counted from the third failure in a row, by name.",
	}, []string{"name"})}
	f.took = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "waypost_job_seconds", Help: "Time of a job's run, by kind, of a periodic task's, by name. Those that every process runs by itself are not in it.",
		Buckets: []float64{.01, .05, .1, .5, 1, 5, 10, 60, 600},
	}, []string{"name", "outcome"})
	f.waited = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "waypost_job_wait_seconds", Help: "Time from the moment when a job may run to its start, by queue.",
		Buckets: []float64{.05, .1, .5, 1, 5, 10, 60, 600},
	}, []string{"queue"})
	for _, name := range names {
		f.counter.WithLabelValues(name)
		f.named[name] = true
	}
	if metrics == nil {
		return f, nil
	}
	for _, c := range []prometheus.Collector{f.counter, f.took, f.waited} {
		if err := metrics.Register(c); err != nil {
			return nil, fmt.Errorf("jobs: metrics: %w", err)
		}
	}
	return f, nil
}

// measure takes the times of one run.
func (f *failures) measure(e *river.Event, name string) {
	if e.JobStats == nil {
		return
	}
	if !f.named[name] { // of another version of the program, which any name may be
		name = "(other)"
	}
	outcome := "ok"
	if e.Kind != river.EventKindJobCompleted {
		outcome = "failed"
	}
	f.took.WithLabelValues(name, outcome).Observe(e.JobStats.RunDuration.Seconds())
	f.waited.WithLabelValues(e.Job.Queue).Observe(e.JobStats.QueueWaitDuration.Seconds())
}

// watch takes note of events until there are no more.
func (f *failures) watch(events <-chan *river.Event) {
	for e := range events {
		f.note(e)
	}
}

// note takes the end of one job's run.
func (f *failures) note(e *river.Event) {
	name, periodic := nameOf(e.Job)
	f.measure(e, name)
	switch {
	case e.Kind == river.EventKindJobCompleted:
		f.succeeded(name)
	case isForGood(e.Job, periodic):
		at := time.Now()
		if e.Job.FinalizedAt != nil {
			at = *e.Job.FinalizedAt
		}
		f.failed(name, periodic, at, lastError(e.Job), "job", e.Job.ID)
	}
}

func (f *failures) succeeded(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.row, name)
}

// isForGood reports whether a run that failed was the job's last, other than by
// somebody's wish. A periodic one that was cancelled is of another version's table.
func isForGood(job *rivertype.JobRow, periodic bool) bool {
	switch job.State {
	case rivertype.JobStateDiscarded:
		return true
	case rivertype.JobStateCancelled:
		return !periodic && lastError(job) != rivertype.ErrJobCancelledRemotely.Error()
	default:
		return false
	}
}

// failed takes note of work that ended with cause; more are fields of its log line.
func (f *failures) failed(name string, periodic bool, at time.Time, cause string, more ...any) {
	f.mu.Lock()
	row := f.row[name]
	if row.Count == 0 {
		row.Since = at
	}
	row.Count, row.Last, row.periodic = row.Count+1, at, periodic
	f.row[name] = row
	f.mu.Unlock()
	fields := append([]any{"name", name, "in_a_row", row.Count, "since", row.Since, "error", cause}, more...)
	switch {
	case row.tolerable():
		f.logger.Warn("a periodic task failed", fields...)
		return
	case !periodic:
		f.logger.Error("a job failed for good", fields...)
	case isTold(row.Count):
		f.logger.Error("a periodic task keeps failing", fields...)
	}
	f.counter.WithLabelValues(name).Inc()
}

// isTold thins out the lines about a task that fails every few seconds: the third
// failure in a row is told, and then each time their number has doubled.
func isTold(count int) bool {
	for n := tolerated + 1; n <= count; n *= 2 {
		if n == count {
			return true
		}
	}
	return false
}

// list returns what fails for good, by name.
func (f *failures) list() map[string]Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make(map[string]Failure)
	for name, row := range f.row {
		if !row.tolerable() {
			list[name] = row.Failure
		}
	}
	return list
}

// nameOf is a periodic task's name, or a job's kind.
func nameOf(job *rivertype.JobRow) (string, bool) {
	if job.Kind != (cronJob{}).Kind() {
		return job.Kind, false
	}
	var args cronJob
	if err := json.Unmarshal(job.EncodedArgs, &args); err != nil || args.Name == "" {
		return job.Kind, false
	}
	return args.Name, true
}

func lastError(job *rivertype.JobRow) string {
	if len(job.Errors) == 0 {
		return "unknown"
	}
	return slices.MaxFunc(job.Errors, func(a, b rivertype.AttemptError) int { return a.At.Compare(b.At) }).Error
}
