package pages

import (
	"context"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/internal/queue"
)

// Jobs is the work in the background; see api.JobService.
type Jobs interface {
	List(ctx context.Context, f queue.Filter, total *int64) ([]queue.Record, error)
	Get(ctx context.Context, id int64) (queue.Record, error)
	Retry(ctx context.Context, id int64) (queue.Record, error)
	Cancel(ctx context.Context, id int64) (queue.Record, error)
	Delete(ctx context.Context, id int64) error
	Queues(ctx context.Context) ([]queue.Info, error)
	PauseQueue(ctx context.Context, name string) (queue.Info, error)
	ResumeQueue(ctx context.Context, name string) (queue.Info, error)
	Tasks(ctx context.Context) ([]queue.Task, error)
	RunTask(ctx context.Context, name string) (queue.Record, error)
}

// JobPages are the pages of jobs, queues and periodic tasks.
func JobPages(s Jobs) Section {
	p := jobPages{s}
	return Section{Label: "Jobs", Screens: []Screen{
		{Path: "/jobs", Title: "Jobs", View: "listed", Live: true, Read: p.list},
		{Path: "/jobs/{id}", Title: "Job", View: "job", Live: true, Read: p.show, Acts: []Act{
			{Name: "retry", Operation: "retry-job", Done: "The job runs as soon as a worker is free.", Do: p.retry},
			{Name: "cancel", Operation: "cancel-job", Done: "The job was told to end.", Do: p.cancel},
			{Name: "delete", Operation: "delete-job", Done: "The job is deleted.", Do: p.remove, Ask: &Question{
				Title: "Delete this job?", Detail: "Whatever it was to do is not done, unless something else does it. This can't be undone.", Button: "Delete the job",
			}},
		}},
		{Path: "/queues", Title: "Queues", View: "listed", Live: true, Read: p.queues, Acts: []Act{
			{Name: "pause", Operation: "pause-queue", Done: "The queue is paused: no process takes a job of it.", Do: p.pause},
			{Name: "resume", Operation: "resume-queue", Done: "The queue is running.", Do: p.resume},
		}},
		{Path: "/cron", Title: "Periodic tasks", View: "listed", Live: true, Read: p.tasks, Acts: []Act{
			{Name: "run", Operation: "run-periodic-task", Done: "The task runs as soon as a worker is free.", Do: p.run},
		}},
	}}
}

type jobPages struct{ s Jobs }

var jobTabs = tabs{{"Jobs", DeskPath + "/jobs"}, {"Queues", DeskPath + "/queues"}, {"Periodic tasks", DeskPath + "/cron"}}

// listed is what most pages with a list show.
type listed struct {
	Tabs   []tab
	Filter Filter
	Table  Table
}

// forms implements formed.
func (l listed) forms() []Form { return l.Filter.forms() }

func (p jobPages) list(r *http.Request) (any, error) {
	states := choice("state", "State", "available", "scheduled", "retryable", "running", "pending", "completed", "cancelled", "discarded")
	view := listed{
		Tabs:   jobTabs.at("Jobs"),
		Filter: filterOf(r, states, Field{Name: "kind", Label: "Kind", Placeholder: "webhooks.attempt"}, Field{Name: "queue", Label: "Queue", Placeholder: "default"}),
	}
	var at before
	if err := continued(r, &at); err != nil {
		return view, err
	}
	q := r.URL.Query()
	jobs, err := p.s.List(r.Context(), queue.Filter{
		State: queue.State(q.Get("state")), Kind: q.Get("kind"), Queue: q.Get("queue"), Before: at.Before, Limit: pageRows + 1,
	}, nil)
	if err != nil {
		return view, err
	}
	t := Table{
		Caption: "Jobs, newest first",
		Columns: []Column{{Label: "Job"}, {Label: "State"}, {Label: "Queue"}, {Label: "Attempt", Number: true}, {Label: "Runs"}, {Label: "Created"}},
		Empty:   Empty{Title: "No jobs", Detail: "Completed jobs are deleted after a day, discarded ones after a week. Nothing here has these properties now."},
	}
	rows(&t, r, jobs, func(j queue.Record) Row {
		return Row{Cells: []any{
			Link{Text: j.Kind, Href: jobPath(j.ID), Detail: "No. " + strconv.FormatInt(j.ID, 10) + ", " + short(string(j.Args), 60)}, jobBadge(j.State), j.Queue,
			strconv.Itoa(j.Attempt) + " of " + strconv.Itoa(j.MaxAttempts), j.ScheduledAt, j.CreatedAt,
		}}
	}, func(j queue.Record) any { return before{j.ID} })
	view.Table = t
	return view, nil
}

func jobPath(id int64) string { return DeskPath + "/jobs/" + strconv.FormatInt(id, 10) }

func jobBadge(s queue.State) Badge {
	switch s {
	case queue.Completed:
		return Badge{string(s), "good"}
	case queue.Discarded:
		return Badge{string(s), "bad"}
	case queue.Running, queue.Retryable:
		return Badge{string(s), "wait"}
	}
	return Badge{string(s), "quiet"}
}

// jobPage is one job.
type jobPage struct {
	Job     queue.Record
	Facts   []Fact
	Args    string
	Errors  Table
	Buttons []Button
}

// PageTitle names the job.
func (j jobPage) PageTitle() string { return j.Job.Kind + " no. " + strconv.FormatInt(j.Job.ID, 10) }

func (p jobPages) show(r *http.Request) (any, error) {
	id, err := numberIn(r, "id", queue.ErrNoJob)
	if err != nil {
		return nil, err
	}
	j, err := p.s.Get(r.Context(), id)
	if err != nil {
		return nil, err
	}
	view := jobPage{Job: j, Args: indented(j.Args), Facts: []Fact{
		{"State", jobBadge(j.State)}, {"Queue", j.Queue}, {"Attempt", strconv.Itoa(j.Attempt) + " of " + strconv.Itoa(j.MaxAttempts)},
		{"Created", j.CreatedAt}, {"Runs", j.ScheduledAt}, {"Latest attempt", j.AttemptedAt}, {"Ended", j.FinalizedAt},
	}}
	view.Errors = Table{
		Caption: "Failed attempts", Columns: []Column{{Label: "Attempt", Number: true}, {Label: "When"}, {Label: "Error", Wide: true}},
		Empty: Empty{Title: "No attempt has failed"},
	}
	for _, e := range j.Errors {
		view.Errors.Rows = append(view.Errors.Rows, Row{Cells: []any{int64(e.Attempt), e.At, Code(e.Error)}})
	}
	at := jobPath(id)
	if j.State.Ended() || j.State == queue.Retryable {
		view.Buttons = append(view.Buttons, Button{Label: "Run again", Action: at + "/retry"})
	}
	if !j.State.Ended() {
		view.Buttons = append(view.Buttons, Button{Label: "Cancel", Action: at + "/cancel"})
	}
	if j.State != queue.Running {
		view.Buttons = append(view.Buttons, Button{Label: "Delete", Action: at + "/delete", Asks: true, Danger: true})
	}
	return view, nil
}

func (p jobPages) retry(r *http.Request) (Outcome, error) {
	id, err := numberIn(r, "id", queue.ErrNoJob)
	if err == nil {
		_, err = p.s.Retry(r.Context(), id)
	}
	return Outcome{}, err
}

func (p jobPages) cancel(r *http.Request) (Outcome, error) {
	id, err := numberIn(r, "id", queue.ErrNoJob)
	if err == nil {
		_, err = p.s.Cancel(r.Context(), id)
	}
	return Outcome{}, err
}

func (p jobPages) remove(r *http.Request) (Outcome, error) {
	id, err := numberIn(r, "id", queue.ErrNoJob)
	if err == nil {
		err = p.s.Delete(r.Context(), id)
	}
	return Outcome{To: "/jobs"}, err
}

func (p jobPages) queues(r *http.Request) (any, error) {
	list, err := p.s.Queues(r.Context())
	if err != nil {
		return nil, err
	}
	t := Table{
		Caption: "Queues", Empty: Empty{Title: "No queues"},
		Columns: []Column{{Label: "Queue"}, {Label: "State"}, {Label: "Waiting", Number: true}, {Label: "Longest wait"}, {Label: "Running", Number: true}, {Label: "To retry", Number: true}, {Label: "Discarded", Number: true}},
	}
	for _, q := range list {
		row := Row{Cells: []any{
			Link{Text: q.Name, Href: DeskPath + "/jobs?" + query("queue", q.Name)}, Badge{"running", "good"},
			q.Counts[queue.Available], wait(q.OldestWaiting), q.Counts[queue.Running], q.Counts[queue.Retryable], q.Counts[queue.Discarded],
		}, Buttons: []Button{{Label: "Pause", Action: DeskPath + "/queues/pause", Values: map[string]string{"name": q.Name}}}}
		if q.PausedAt != nil {
			row.Cells[1] = Badge{"paused", "wait"}
			row.Buttons = []Button{{Label: "Resume", Action: DeskPath + "/queues/resume", Values: map[string]string{"name": q.Name}}}
		}
		t.Rows = append(t.Rows, row)
	}
	return listed{Tabs: jobTabs.at("Queues"), Table: t}, nil
}

func (p jobPages) pause(r *http.Request) (Outcome, error) {
	_, err := p.s.PauseQueue(r.Context(), r.PostForm.Get("name"))
	return Outcome{}, err
}

func (p jobPages) resume(r *http.Request) (Outcome, error) {
	_, err := p.s.ResumeQueue(r.Context(), r.PostForm.Get("name"))
	return Outcome{}, err
}

func (p jobPages) tasks(r *http.Request) (any, error) {
	list, err := p.s.Tasks(r.Context())
	if err != nil {
		return nil, err
	}
	t := Table{
		Caption: "Periodic tasks", Empty: Empty{Title: "No periodic tasks"},
		Columns: []Column{{Label: "Task", Wide: true}, {Label: "Schedule"}, {Label: "Next run"}, {Label: "Latest run"}, {Label: "Outcome", Wide: true}, {Label: "Took", Number: true}},
	}
	for _, task := range list {
		outcome := []any{Badge{string(task.LastOutcome), "good"}}
		switch {
		case task.LastRunAt == nil:
			outcome = []any{nil}
		case task.LastOutcome == queue.Failed:
			outcome = []any{Badge{string(task.LastOutcome), "bad"}, task.LastError}
		}
		schedule := task.Schedule
		if task.Timezone != "" && task.Timezone != "UTC" {
			schedule += " (" + task.Timezone + ")"
		}
		t.Rows = append(t.Rows, Row{
			Cells:   []any{Link{Text: task.Name, Href: DeskPath + "/jobs?" + query("kind", task.Name), Detail: task.Description}, schedule, task.NextRunAt, task.LastRunAt, outcome, took(task.LastDuration)},
			Buttons: []Button{{Label: "Run now", Action: DeskPath + "/cron/run", Values: map[string]string{"name": task.Name}}},
		})
	}
	return listed{Tabs: jobTabs.at("Periodic tasks"), Table: t}, nil
}

func (p jobPages) run(r *http.Request) (Outcome, error) {
	job, err := p.s.RunTask(r.Context(), r.PostForm.Get("name"))
	return Outcome{To: "/jobs/" + strconv.FormatInt(job.ID, 10)}, err
}

// numberIn is the number in a path, or missing where that is none.
func numberIn(r *http.Request, name string, missing error) (int64, error) {
	n, err := strconv.ParseInt(chi.URLParam(r, name), 10, 64)
	if err != nil || n < 1 {
		return 0, missing
	}
	return n, nil
}
