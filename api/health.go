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
	Status string            `json:"status" enum:"alive,ready" example:"ready" doc:"Alive says nothing of readiness."`
	Checks map[string]string `json:"checks,omitempty" doc:"Each condition and its state." example:"{\"database\":\"ok\",\"jobs\":\"ok\",\"migrations\":\"ok\"}"`
}

type healthOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         health
}

func registerHealth(a huma.API, checks []Check) {
	huma.Register(a, access(huma.Operation{
		OperationID: "get-health",
		Method:      http.MethodGet,
		Path:        "/healthz",
		Summary:     "Is the process alive?",
		Description: "Answers as long as the process serves requests; it asks nothing of the database.",
		Tags:        []string{tagService},
	}, public()), func(context.Context, *struct{}) (*healthOutput, error) {
		return &healthOutput{CacheControl: "no-store", Body: health{Status: "alive"}}, nil
	})

	huma.Register(a, access(huma.Operation{
		OperationID: "get-readiness",
		Method:      http.MethodGet,
		Path:        "/readyz",
		Summary:     "Can it serve?",
		Description: "Ready when the database answers, its migrations are complete and jobs are being worked; else 503, whose details say which is not.",
		Tags:        []string{tagService},
	}, public(), errNotReady), func(ctx context.Context, _ *struct{}) (*healthOutput, error) {
		ctx, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		out := &healthOutput{CacheControl: "no-store", Body: health{Status: "ready", Checks: map[string]string{}}}
		var causes []error
		for _, c := range checks {
			state := "ok"
			if c.State != "" {
				state = c.State
			} else if err := c.Test(ctx); err != nil {
				state = "failed"
				causes = append(causes, fmt.Errorf("%s: %w", c.Name, err))
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
