package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/fault"
)

// readyTimeout bounds all readiness checks together, tellTimeout what is only told.
const (
	readyTimeout = 3 * time.Second
	tellTimeout  = time.Second
)

type health struct {
	Status string            `json:"status" enum:"alive,ready" example:"ready" doc:"Alive does not mean ready."`
	Checks map[string]string `json:"checks,omitempty" doc:"Each condition and its state." example:"{\"database\":\"ok\",\"jobs\":\"ok\",\"migrations\":\"ok\"}"`
	// JobFailures are no condition: what they concern is late, and nothing is refused.
	JobFailures map[string]JobFailure `json:"job_failures,omitempty" doc:"In readiness only, and absent while there are none. Kinds of jobs whose latest job failed at its last attempt, and periodic tasks that failed at least three times in a row, by name, among the runs of this process. The log has their errors."`
}

// JobFailure is work in the background that fails for good. It goes away when the
// work succeeds again.
type JobFailure struct {
	Count int       `json:"count" minimum:"1" example:"4" doc:"How many failures in a row."`
	Since time.Time `json:"since" example:"2026-11-22T10:00:00Z" doc:"When the first of these failures happened."`
	Last  time.Time `json:"last" example:"2026-11-22T10:00:15Z" doc:"When the latest of these failures happened."`
}

type healthOutput struct {
	CacheControl string `header:"Cache-Control" doc:"The state changes, so the answer must not be stored." example:"no-store"`
	Body         health
}

// Check is one condition of readiness, or with State or Tell something worth knowing
// that is none.
type Check struct {
	Name string
	Test func(context.Context) error
	// State is shown as it is, and Test not called.
	State string
	// Tell returns what is shown, and Test is not called.
	Tell func(context.Context) string
}

// Condition is how a service is.
type Condition struct {
	// Ready lists what must work for the service to be ready, in a fixed order.
	Ready []Check
	// JobFailures returns the work in the background that fails for good, by name; nil
	// for none.
	JobFailures func() map[string]JobFailure
}

// Service are the operations on the service itself. baseURL is its own, without a
// trailing slash, docs the path of the documentation, tools that of the tools for
// assistants, "" for none.
func Service(baseURL, docs, tools string, c Condition) Resource {
	return Resource{
		Tag: "Service", Area: "Service", Description: "Liveness, readiness and entry points of the service.",
		Register: func(a huma.API) {
			registerHealth(a, c.Ready, c.JobFailures)
			registerIndex(a, baseURL, docs, tools)
		},
	}
}

func registerHealth(a huma.API, checks []Check, failing func() map[string]JobFailure) {
	huma.Register(a, access(huma.Operation{
		OperationID: "get-health",
		Method:      http.MethodGet,
		Path:        "/healthz",
		Summary:     "Check liveness",
		Description: "Answers while the process serves requests. Does not use the database.",
	}, public()), func(context.Context, *struct{}) (*healthOutput, error) {
		return &healthOutput{CacheControl: "no-store", Body: health{Status: "alive"}}, nil
	})

	all := newRounds(func() checked { return checkAll(checks) })
	huma.Register(a, access(huma.Operation{
		OperationID: "get-readiness",
		Method:      http.MethodGet,
		Path:        "/readyz",
		Summary:     "Check readiness",
		Description: "Ready means that the database answers, its migrations are complete and jobs run. Otherwise the answer is 503, with the failing check in its details. Background work " +
			"that keeps failing is listed, but does not make the service unready.",
	}, public(), errNotReady), func(ctx context.Context, _ *struct{}) (*healthOutput, error) {
		r, err := all.join(ctx)
		if err != nil {
			return nil, errNotReady.Because(err)
		}
		out := &healthOutput{CacheControl: "no-store", Body: health{Status: "ready", Checks: r.checks}}
		if failing != nil {
			out.Body.JobFailures = failing()
		}
		if r.failed != nil {
			return nil, errNotReady.With(r.checks).Because(r.failed)
		}
		return out, nil
	})
}

// checked is what came of all checks.
type checked struct {
	checks map[string]string // never changed
	failed error
}

// checkAll asks what must work first: what is only told must not take its time.
func checkAll(checks []Check) checked {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	of := checked{checks: make(map[string]string, len(checks))}
	var causes []error
	for _, c := range checks {
		switch {
		case c.State != "":
			of.checks[c.Name] = c.State
		case c.Tell == nil:
			of.checks[c.Name] = "ok"
			if err := c.Test(ctx); err != nil {
				of.checks[c.Name] = "failed"
				causes = append(causes, fmt.Errorf("%s: %w", c.Name, err))
			}
		}
	}
	of.failed = errors.Join(causes...)
	ctx, cancelTold := context.WithTimeout(ctx, tellTimeout)
	defer cancelTold()
	for _, c := range checks {
		if c.State == "" && c.Tell != nil {
			of.checks[c.Name] = c.Tell(ctx)
		}
	}
	return of
}

var errNotReady = fault.New(fault.Unavailable, fault.CodeUnavailable, "The service is not ready; details say what fails.").After(time.Second)
