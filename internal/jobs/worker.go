package jobs

import (
	"context"
	"time"

	"github.com/riverqueue/river"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
)

// Worker works the jobs of one kind. Work and WorkByID make one.
type Worker struct {
	kind     string
	register func(*river.Workers, *lease, trace.Tracer) error
}

// Limits bound the runs of one kind of job. The zero value is right for most kinds.
type Limits struct {
	// Timeout bounds one run; 0 means a minute.
	Timeout time.Duration
	// Attempts is the number of failures after which a job is given up; 0 means River's
	// default of 25, over three weeks.
	Attempts int
	// Wait returns how long to wait after that many failures; nil for River's backoff,
	// which is the number's fourth power in seconds.
	Wait func(failures int) time.Duration
}

// SoonAgain waits five seconds more after each failure, at most a minute. It is for
// jobs that only fail when the database is away.
func SoonAgain(failures int) time.Duration {
	return min(time.Duration(failures)*5*time.Second, time.Minute)
}

// Work makes a worker. An error from do is a failed attempt, unless queue.Again made
// it, and the last attempt if queue.GiveUp made it.
func Work[A queue.Job](do func(context.Context, A) error, l Limits) Worker {
	return WorkByID(func(ctx context.Context, a A, _ int64) error { return do(ctx, a) }, l)
}

// WorkByID is Work for a function that also needs the job's id.
func WorkByID[A queue.Job](do func(ctx context.Context, a A, id int64) error, l Limits) Worker {
	var a A
	return Worker{kind: a.Kind(), register: func(to *river.Workers, held *lease, tracer trace.Tracer) error {
		return river.AddWorkerSafely(to, &worker[A]{do: do, limits: l, lease: held, tracer: tracer})
	}}
}

type worker[A queue.Job] struct {
	river.WorkerDefaults[A]
	do     func(context.Context, A, int64) error
	limits Limits
	lease  *lease
	tracer trace.Tracer
}

// Timeout implements river.Worker; 0 is the client's.
func (w *worker[A]) Timeout(*river.Job[A]) time.Duration { return w.limits.Timeout }

// NextRetry implements river.Worker; the zero time is the client's.
func (w *worker[A]) NextRetry(job *river.Job[A]) time.Time {
	if w.limits.Wait == nil {
		return time.Time{}
	}
	return time.Now().Add(w.limits.Wait(job.Attempt))
}

// Work implements river.Worker.
func (w *worker[A]) Work(ctx context.Context, job *river.Job[A]) error {
	ctx, release := w.lease.bind(ctx)
	defer release()
	ctx, span := w.begin(ctx, job)
	defer span.End()
	err := w.do(identity.NewContext(ctx, identity.Job(job.ID, job.Kind)), job.Args, job.ID)
	if wait, again := queue.AgainIn(err); again {
		return river.JobSnooze(wait)
	}
	if err != nil {
		span.SetStatus(codes.Error, "") // the text is the job's
	}
	if broken := brokenOff(ctx, err); broken != nil {
		return broken
	}
	if queue.IsGivenUp(err) || err != nil && w.limits.Attempts > 0 && job.Attempt >= w.limits.Attempts {
		return river.JobCancel(err)
	}
	return err
}

// begin makes the span of a run, in the trace of what inserted the job.
func (w *worker[A]) begin(ctx context.Context, job *river.Job[A]) (context.Context, trace.Span) {
	return w.tracer.Start(queue.ContinueTrace(ctx, job.Metadata), job.Kind, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.Int64("waypost.job.id", job.ID), attribute.String("waypost.job.queue", job.Queue), attribute.Int("waypost.job.attempt", job.Attempt)))
}
