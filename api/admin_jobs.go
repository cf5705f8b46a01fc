package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
)

// JobAdmin lists and controls jobs. List returns validation faults, up to f.Limit jobs,
// newest first, and sets total when it is not nil; Get, Retry, Cancel and Delete return
// queue.ErrNoJob, Retry also queue.ErrNotRetryable and Delete queue.ErrJobRunning.
type JobAdmin interface {
	List(ctx context.Context, f queue.Filter, total *int64) ([]queue.Record, error)
	Get(ctx context.Context, id int64) (queue.Record, error)
	Retry(ctx context.Context, id int64) (queue.Record, error)
	Cancel(ctx context.Context, id int64) (queue.Record, error)
	Delete(ctx context.Context, id int64) error
}

// JobService is all of the work in the background.
type JobService interface {
	JobAdmin
	QueueAdmin
	TaskAdmin
}

type listJobsInput struct {
	Page
	State queue.State `query:"state" enum:"available,scheduled,retryable,running,pending,completed,cancelled,discarded" doc:"Only jobs in this state." example:"discarded"`
	Kind  string      `query:"kind" maxLength:"127" doc:"Only jobs of exactly this kind." example:"webhooks.attempt"`
	Queue string      `query:"queue" maxLength:"127" doc:"Only jobs of exactly this queue." example:"default"`
}

type listJobsOutput struct {
	Body list[Job]
}

// JobInput names a job.
type JobInput struct {
	ID int64 `path:"id" minimum:"1" doc:"The job's id." example:"42"`
}

type jobOutput struct {
	Body single[Job]
}

type jobCursor struct {
	Before int64 `json:"b"`
}

// Jobs are the operations on jobs, queues and periodic tasks.
func Jobs(s JobService) Resource {
	return Resource{
		Tag: "Jobs", Area: "Service",
		Description: "Background work of all processes: jobs, their queues, and scheduled tasks.",
		Register: func(a huma.API) {
			registerJobs(a, s)
			registerJobActions(a, s)
			registerQueues(a, s)
			registerTasks(a, s)
		},
	}
}

// anEndedJob is how exports ask for the job that their list showed first, which may
// have a twin at work by then.
func anEndedJob(order int, statuses ...int) export.Variant {
	return export.Variant{Order: order, Parameters: map[string]string{"id": "{{jobId}}"}, Status: statuses}
}

func registerJobs(a huma.API, s JobAdmin) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "list-jobs",
		Method:      http.MethodGet,
		Path:        "/api/admin/jobs",
		Summary:     "List jobs",
		Description: "Jobs in any state, newest first. Completed and cancelled jobs are deleted after a day, discarded ones after a week. Secrets in arguments and errors are replaced by `[redacted]`.",
	}, roles(identity.Admin)), export.Variant{
		Parameters: map[string]string{"state": "completed"}, Capture: map[string]string{"jobId": "/data/0/id"},
	}), func(ctx context.Context, in *listJobsInput) (*listJobsOutput, error) {
		var c jobCursor
		if err := decodeCursor(in.Cursor, &c); err != nil {
			return nil, err
		}
		var total *int64
		if in.Total {
			total = new(int64)
		}
		jobs, err := s.List(ctx, queue.Filter{State: in.State, Kind: in.Kind, Queue: in.Queue, Before: c.Before, Limit: in.Limit + 1}, total)
		if err != nil {
			return nil, within("query", err)
		}
		return &listJobsOutput{Body: newList(jobs, in.Limit, total, toJob, func(r queue.Record) any { return jobCursor{r.ID} })}, nil
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID: "get-job",
		Method:      http.MethodGet,
		Path:        "/api/admin/jobs/{id}",
		Summary:     "Show a job",
		Description: "One job, with the errors of its last 25 failed attempts.",
	}, roles(identity.Admin), queue.ErrNoJob), anEndedJob(0)), func(ctx context.Context, in *JobInput) (*jobOutput, error) {
		job, err := s.Get(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return &jobOutput{Body: single[Job]{Data: toJob(job), Message: "Job found."}}, nil
	})
}

func registerJobActions(a huma.API, s JobAdmin) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "retry-job",
		Method:      http.MethodPost,
		Path:        "/api/admin/jobs/{id}/retry",
		Summary:     "Retry a job",
		Description: "A job waiting for its next attempt starts it now. A job that ended, successfully or not, runs again, with one more attempt if it had used all. A job that is " +
			"running, waiting for a worker or scheduled is 409; so is a job of a kind that allows only one at a time while another one is active.",
	}, roles(identity.Admin), queue.ErrNoJob, queue.ErrNotRetryable), anEndedJob(1, http.StatusOK, http.StatusConflict)), func(ctx context.Context, in *JobInput) (*jobOutput, error) {
		job, err := s.Retry(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return &jobOutput{Body: single[Job]{Data: toJob(job), Message: "The job runs as soon as a worker is free."}}, nil
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID: "cancel-job",
		Method:      http.MethodPost,
		Path:        "/api/admin/jobs/{id}/cancel",
		Summary:     "Cancel a job",
		Description: "A job that is not running is cancelled at once. A running job is told to stop: the answer still says `running`, and the job becomes `cancelled` when its worker has " +
			"stopped, or `completed` if the worker finishes first. A job that ended stays as it is.",
	}, roles(identity.Admin), queue.ErrNoJob), anEndedJob(2)), func(ctx context.Context, in *JobInput) (*jobOutput, error) {
		job, err := s.Cancel(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		message := "The job had ended already."
		switch job.State {
		case queue.Running:
			message = "The process that runs the job was told to end it."
		case queue.Cancelled:
			message = "The job is cancelled."
		}
		return &jobOutput{Body: single[Job]{Data: toJob(job), Message: message}}, nil
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID:   "delete-job",
		Method:        http.MethodDelete,
		Path:          "/api/admin/jobs/{id}",
		Summary:       "Delete a job",
		Description:   "Delete a job without running it. A periodic sweep may create the same work again. A running job is 409; cancel it first.",
		DefaultStatus: http.StatusNoContent,
	}, roles(identity.Admin), queue.ErrNoJob, queue.ErrJobRunning), anEndedJob(3, http.StatusNoContent, http.StatusConflict)), func(ctx context.Context, in *JobInput) (*struct{}, error) {
		return nil, s.Delete(ctx, in.ID)
	})
}

// QueueAdmin lists and controls queues. PauseQueue and ResumeQueue return
// queue.ErrNoQueue.
type QueueAdmin interface {
	Queues(ctx context.Context) ([]queue.Info, error)
	PauseQueue(ctx context.Context, name string) (queue.Info, error)
	ResumeQueue(ctx context.Context, name string) (queue.Info, error)
}

// QueueInput names a queue.
type QueueInput struct {
	Name string `path:"name" maxLength:"127" doc:"The queue's name." example:"rollups"`
}

type queueOutput struct {
	Body single[Queue]
}

func registerQueues(a huma.API, s QueueAdmin) {
	huma.Register(a, access(huma.Operation{
		OperationID: "list-queues",
		Method:      http.MethodGet,
		Path:        "/api/admin/queues",
		Summary:     "List queues",
		Description: "All queues, by name. Queues do not delay each other.",
	}, roles(identity.Admin)), func(ctx context.Context, _ *struct{}) (*struct{ Body list[Queue] }, error) {
		queues, err := s.Queues(ctx)
		if err != nil {
			return nil, err
		}
		return &struct{ Body list[Queue] }{newWhole(queues, toQueue)}, nil
	})

	huma.Register(a, access(huma.Operation{
		OperationID: "pause-queue",
		Method:      http.MethodPost,
		Path:        "/api/admin/queues/{name}/pause",
		Summary:     "Pause a queue",
		Description: "Stop all processes from starting jobs of this queue until it is resumed, even after a restart. Running jobs finish. Pausing a paused queue changes nothing.",
	}, roles(identity.Admin), queue.ErrNoQueue), func(ctx context.Context, in *QueueInput) (*queueOutput, error) {
		q, err := s.PauseQueue(ctx, in.Name)
		if err != nil {
			return nil, err
		}
		return &queueOutput{Body: single[Queue]{Data: toQueue(q), Message: "The queue is paused."}}, nil
	})

	huma.Register(a, access(huma.Operation{
		OperationID: "resume-queue",
		Method:      http.MethodPost,
		Path:        "/api/admin/queues/{name}/resume",
		Summary:     "Resume a queue",
		Description: "Let processes start jobs of this queue again. Resuming a queue that is not paused changes nothing.",
	}, roles(identity.Admin), queue.ErrNoQueue), func(ctx context.Context, in *QueueInput) (*queueOutput, error) {
		q, err := s.ResumeQueue(ctx, in.Name)
		if err != nil {
			return nil, err
		}
		return &queueOutput{Body: single[Queue]{Data: toQueue(q), Message: "The queue is running."}}, nil
	})
}

// jobPath is where a job is shown.
func jobPath(id int64) string { return "/api/admin/jobs/" + strconv.FormatInt(id, 10) }
