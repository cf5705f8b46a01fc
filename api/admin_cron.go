package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
)

// TaskAdmin lists periodic tasks and runs them. RunTask returns queue.ErrNoTask.
type TaskAdmin interface {
	Tasks(ctx context.Context) ([]queue.Task, error)
	RunTask(ctx context.Context, name string) (queue.Record, error)
}

// TaskInput names a periodic task.
type TaskInput struct {
	Name string `path:"name" maxLength:"200" doc:"The task's name." example:"accounts.sweep"`
}

type startedTaskOutput struct {
	Location string `header:"Location" doc:"The path of the job that runs the task." example:"/api/admin/jobs/42"`
	Body     single[Job]
}

func registerTasks(a huma.API, s TaskAdmin) {
	huma.Register(a, access(huma.Operation{
		OperationID: "list-periodic-tasks",
		Method:      http.MethodGet,
		Path:        "/api/admin/cron",
		Summary:     "List periodic tasks",
		Description: "Scheduled tasks by name, with their next and last run. Schedules survive restarts: a run that was due while no process was up happens once at the next start.",
	}, roles(identity.Admin)), func(ctx context.Context, _ *struct{}) (*struct{ Body list[PeriodicTask] }, error) {
		tasks, err := s.Tasks(ctx)
		if err != nil {
			return nil, err
		}
		return &struct{ Body list[PeriodicTask] }{newWhole(tasks, toPeriodicTask)}, nil
	})

	huma.Register(a, access(huma.Operation{
		OperationID:   "run-periodic-task",
		Method:        http.MethodPost,
		Path:          "/api/admin/cron/{name}/run",
		Summary:       "Run a periodic task now",
		Description:   "Start an extra run and return its job; the schedule stays. If a run is waiting or running already, its job is returned. Only one instance runs the task.",
		DefaultStatus: http.StatusAccepted,
	}, roles(identity.Admin), queue.ErrNoTask), func(ctx context.Context, in *TaskInput) (*startedTaskOutput, error) {
		job, err := s.RunTask(ctx, in.Name)
		if err != nil {
			return nil, err
		}
		return &startedTaskOutput{Location: jobPath(job.ID), Body: single[Job]{Data: toJob(job), Message: "The task runs as soon as a worker is free."}}, nil
	})
}
