package api

import (
	"encoding/json"
	"time"

	"github.com/waypost/waypost/internal/queue"
)

// Job is a piece of work in the background, as administrators see it.
type Job struct {
	ID          int64           `json:"id" minimum:"1" example:"42" doc:"Assigned by the server; later jobs have higher ids."`
	Kind        string          `json:"kind" example:"webhooks.attempt" doc:"What sort of work it is; cron is a run of a periodic task."`
	Queue       string          `json:"queue" example:"default" doc:"The queue in which it waits."`
	State       queue.State     `json:"state" enum:"available,scheduled,retryable,running,pending,completed,cancelled,discarded" example:"completed" doc:"available: runs as soon as a worker is free; scheduled: runs at scheduled_at; retryable: an attempt failed, the next is at scheduled_at; discarded: its last attempt failed."`
	Priority    int             `json:"priority" minimum:"1" maximum:"4" example:"1" doc:"Among the jobs that wait, 1 runs first."`
	Attempt     int             `json:"attempt" minimum:"0" example:"1" doc:"How many attempts began."`
	MaxAttempts int             `json:"max_attempts" example:"25" doc:"How many attempts there may be. Some kinds of jobs are given up earlier."`
	Args        json.RawMessage `json:"args" example:"{\"id\":\"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10\"}" doc:"The arguments, an object. Secrets are replaced by [redacted]; arguments over 16 KiB are left out."`
	Errors      []JobError      `json:"errors" nullable:"false" doc:"Why attempts failed, oldest first; at most the latest 25."`
	CreatedAt   time.Time       `json:"created_at" example:"2026-01-02T15:04:05Z" doc:"When it was queued."`
	ScheduledAt time.Time       `json:"scheduled_at" example:"2026-01-02T15:04:05Z" doc:"The earliest time of the next attempt, or of the latest if there is none to come."`
	AttemptedAt *time.Time      `json:"attempted_at,omitempty" example:"2026-01-02T15:04:06Z" doc:"When the latest attempt began; absent before the first."`
	FinalizedAt *time.Time      `json:"finalized_at,omitempty" example:"2026-01-02T15:04:07Z" doc:"When it ended; absent while it has not."`
}

// JobError is why an attempt failed.
type JobError struct {
	At      time.Time `json:"at" example:"2026-01-02T15:04:06Z" doc:"When the attempt began, or was found broken off."`
	Attempt int       `json:"attempt" minimum:"0" example:"1" doc:"Which attempt it was."`
	Error   string    `json:"error" example:"dial tcp 192.0.2.1:443: connect: connection refused" doc:"At most 2,000 characters, secrets replaced by [redacted]."`
}

func toJob(r queue.Record) Job {
	j := Job{
		ID: r.ID, Kind: r.Kind, Queue: r.Queue, State: r.State, Priority: r.Priority, Attempt: r.Attempt, MaxAttempts: r.MaxAttempts,
		Args: r.Args, Errors: make([]JobError, len(r.Errors)),
		CreatedAt: r.CreatedAt.UTC(), ScheduledAt: r.ScheduledAt.UTC(), AttemptedAt: utc(r.AttemptedAt), FinalizedAt: utc(r.FinalizedAt),
	}
	for i, e := range r.Errors {
		j.Errors[i] = JobError{At: e.At.UTC(), Attempt: e.Attempt, Error: e.Error}
	}
	return j
}

// Queue is where jobs wait, as administrators see it.
type Queue struct {
	Name                 string      `json:"name" example:"default" doc:"The queue's name."`
	Counts               QueueCounts `json:"counts" doc:"How many jobs are in each state. Completed, cancelled and discarded jobs are counted up to 10,000 each."`
	OldestWaitingSeconds *float64    `json:"oldest_waiting_seconds,omitempty" minimum:"0" example:"1.5" doc:"For how many seconds the first job whose time has come has been waiting for a worker; absent when none waits."`
	PausedAt             *time.Time  `json:"paused_at,omitempty" example:"2026-01-02T15:04:05Z" doc:"Since when the queue is paused; absent while it runs."`
}

// QueueCounts are a queue's jobs by state.
type QueueCounts struct {
	Available int64 `json:"available" minimum:"0" example:"0" doc:"Jobs that run as soon as a worker is free."`
	Scheduled int64 `json:"scheduled" minimum:"0" example:"0" doc:"Jobs that run at a later time."`
	Retryable int64 `json:"retryable" minimum:"0" example:"0" doc:"Jobs that failed and will be tried again."`
	Running   int64 `json:"running" minimum:"0" example:"1" doc:"Jobs that are running."`
	Pending   int64 `json:"pending" minimum:"0" example:"0" doc:"Jobs that are held back and don't run by themselves."`
	Completed int64 `json:"completed" minimum:"0" example:"17280" doc:"Jobs that succeeded."`
	Cancelled int64 `json:"cancelled" minimum:"0" example:"0" doc:"Jobs that were cancelled."`
	Discarded int64 `json:"discarded" minimum:"0" example:"0" doc:"Jobs that failed at their last attempt."`
}

func toQueue(q queue.Info) Queue {
	out := Queue{Name: q.Name, PausedAt: utc(q.PausedAt), Counts: QueueCounts{
		Available: q.Counts[queue.Available], Scheduled: q.Counts[queue.Scheduled], Retryable: q.Counts[queue.Retryable], Running: q.Counts[queue.Running],
		Pending: q.Counts[queue.Pending], Completed: q.Counts[queue.Completed], Cancelled: q.Counts[queue.Cancelled], Discarded: q.Counts[queue.Discarded],
	}}
	if q.OldestWaiting != nil {
		seconds := max(q.OldestWaiting.Seconds(), 0)
		out.OldestWaitingSeconds = &seconds
	}
	return out
}

// PeriodicTask is what runs by a schedule, as administrators see it.
type PeriodicTask struct {
	Name         string        `json:"name" example:"accounts.sweep" doc:"The task's name."`
	Description  string        `json:"description" example:"Deletes spent and expired sessions, links and codes." doc:"What the task does."`
	Schedule     string        `json:"schedule" example:"every 1h" doc:"An interval such as every 30s, or a cron expression: minute, hour, day of the month, month, day of the week."`
	Timezone     string        `json:"timezone" example:"UTC" doc:"The IANA time zone of a cron expression."`
	Everywhere   bool          `json:"everywhere" example:"false" doc:"Each instance runs the task by itself, at times of its own: next_run_at is about right, and the latest run is one of the last minute's."`
	NextRunAt    time.Time     `json:"next_run_at" example:"2026-01-02T16:00:00Z" doc:"When the task runs next."`
	LastRunAt    *time.Time    `json:"last_run_at,omitempty" example:"2026-01-02T15:00:00Z" doc:"When the latest run that ended began; absent before the first."`
	LastOutcome  queue.Outcome `json:"last_outcome,omitempty" enum:"ok,failed" example:"ok" doc:"How it ended; absent before the first."`
	LastError    string        `json:"last_error,omitempty" doc:"Why it failed; absent unless it did." example:"the database is away"`
	LastDuration *float64      `json:"last_duration,omitempty" minimum:"0" example:"0.012" doc:"How many seconds it took; absent before the first."`
}

func toPeriodicTask(t queue.Task) PeriodicTask {
	out := PeriodicTask{
		Name: t.Name, Description: t.Description, Schedule: t.Schedule, Timezone: t.Timezone, Everywhere: t.Everywhere,
		NextRunAt: t.NextRunAt.UTC(), LastRunAt: utc(t.LastRunAt), LastOutcome: t.LastOutcome, LastError: t.LastError,
	}
	if t.LastRunAt != nil {
		seconds := max(t.LastDuration.Seconds(), 0)
		out.LastDuration = &seconds
	}
	return out
}
