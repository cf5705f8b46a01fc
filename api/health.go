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

// readyTimeout bounds all readiness checks together.
const readyTimeout = 3 * time.Second

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
	CacheControl string `header:"Cache-Control"`
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
// trailing slash, docs the path of the documentation.
func Service(baseURL, docs string, c Condition) Resource {
	return Resource{
		Tag: "Service", Area: "Service", Description: "Whether the service is alive and ready, and where its entry points are.",
		Register: func(a huma.API) {
			registerHealth(a, c.Ready, c.JobFailures)
			registerIndex(a, baseURL, docs)
		},
	}
}

func registerHealth(a huma.API, checks []Check, failing func() map[string]JobFailure) {
	huma.Register(a, access(huma.Operation{
		OperationID: "get-health",
		Method:      http.MethodGet,
		Path:        "/healthz",
		Summary:     "Is the process alive?",
		Description: "Answers as long as the process serves requests. It does not use the database.",
	}, public()), func(context.Context, *struct{}) (*healthOutput, error) {
		return &healthOutput{CacheControl: "no-store", Body: health{Status: "alive"}}, nil
	})

	huma.Register(a, access(huma.Operation{
		OperationID: "get-readiness",
		Method:      http.MethodGet,
		Path:        "/readyz",
		Summary:     "Is the service ready?",
		Description: "The service is ready when the database answers, its migrations are complete and jobs run. Otherwise the answer is 503, and its details say which check fails. Background work that keeps failing is listed, but does not make the service unready.",
	}, public(), errNotReady), func(ctx context.Context, _ *struct{}) (*healthOutput, error) {
		ctx, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		out := &healthOutput{CacheControl: "no-store", Body: health{Status: "ready", Checks: map[string]string{}}}
		if failing != nil {
			out.Body.JobFailures = failing()
		}
		var causes []error
		for _, c := range checks {
			state := "ok"
			switch {
			case c.State != "":
				state = c.State
			case c.Tell != nil:
				state = c.Tell(ctx)
			default:
				if err := c.Test(ctx); err != nil {
					state = "failed"
					causes = append(causes, fmt.Errorf("%s: %w", c.Name, err))
				}
			}
			out.Body.Checks[c.Name] = state
		}
		if len(causes) > 0 {
			return nil, errNotReady.With(out.Body.Checks).Because(errors.Join(causes...))
		}
		return out, nil
	})
}

var errNotReady = fault.New(fault.Unavailable, fault.CodeUnavailable, "The service is not ready; details say what fails.").After(time.Second)
