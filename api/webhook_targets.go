package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/webhook"
)

// WebhookTargets lists the targets of forwards, by provider and name, and pauses and
// resumes them. The latter two return webhook.ErrTarget.
type WebhookTargets interface {
	Targets(ctx context.Context) ([]webhook.TargetState, error)
	PauseTarget(ctx context.Context, provider, name string) (webhook.TargetState, error)
	ResumeTarget(ctx context.Context, provider, name string) (webhook.TargetState, error)
}

// webhookOutcome is what became of an event at one of its targets.
type webhookOutcome struct {
	Name          string         `json:"name" maxLength:"100" example:"default" doc:"The target's name."`
	Status        webhook.Status `json:"status" enum:"pending,processed,failed" example:"processed" doc:"pending: an attempt is running or due. processed: the target took the event. failed: the last attempt failed; a replay tries again."`
	Attempts      int            `json:"attempts" minimum:"0" example:"1" doc:"How often the event was posted there."`
	NextAttemptAt *time.Time     `json:"next_attempt_at,omitempty" example:"2026-01-02T15:04:05Z" doc:"When the next attempt is due; absent while one is running and when none will follow. A paused target, or one that keeps failing, may get it later."`
	Error         string         `json:"error,omitempty" doc:"Why the latest attempt failed." example:"forward: the target answered 503"`
	HeadersGone   bool           `json:"headers_gone,omitempty" doc:"True when the provider's headers should have been forwarded but were erased by then, as they are once an event is settled."`
}

func toWebhookOutcomes(list []webhook.TargetOutcome) []webhookOutcome {
	out := make([]webhookOutcome, len(list))
	for i, t := range list {
		out[i] = webhookOutcome{Name: t.Name, Status: t.Status, Attempts: t.Attempts, NextAttemptAt: inUTC(t.NextAttemptAt), Error: t.Error, HeadersGone: t.HeadersGone}
	}
	return out
}

func inUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	at := t.UTC()
	return &at
}

type webhookTarget struct {
	Provider      string                      `json:"provider" maxLength:"50" example:"payment" doc:"The provider whose events go there."`
	Name          string                      `json:"name" maxLength:"100" example:"default" doc:"Unique among the provider's targets. One without a name in the configuration has the event type's, or default."`
	State         webhook.TargetCondition     `json:"state" enum:"ok,paused,failing,missing" example:"ok" doc:"failing means that the last attempts all failed: only one at a time is made now and then, until one succeeds, and none of them counts against an event's attempts. missing means that no running instance has the target."`
	Waiting       int64                       `json:"waiting" minimum:"0" example:"0" doc:"Events that it has not got yet, counted up to 10,000."`
	Due           int64                       `json:"due" minimum:"0" example:"0" doc:"How many of these could be sent now."`
	InFlight      int64                       `json:"in_flight" minimum:"0" example:"0" doc:"How many of these are being sent."`
	OldestAt      *time.Time                  `json:"oldest_at,omitempty" example:"2026-01-02T15:04:05Z" doc:"When the oldest of these events arrived; absent without any."`
	Rate          float64                     `json:"rate" minimum:"0" example:"0.5" doc:"Events a second that the answering instance forwarded to it, within the last minute."`
	FailureStreak int                         `json:"failure_streak" minimum:"0" example:"0" doc:"How many attempts in a row failed."`
	PausedAt      *time.Time                  `json:"paused_at,omitempty" example:"2026-01-02T15:04:05Z" doc:"Absent unless it is paused."`
	FailingSince  *time.Time                  `json:"failing_since,omitempty" example:"2026-01-02T15:04:05Z" doc:"Absent unless it keeps failing."`
	NextProbeAt   *time.Time                  `json:"next_probe_at,omitempty" example:"2026-01-02T15:04:05Z" doc:"When the next attempt at one that keeps failing may be made."`
	Configuration *webhookTargetConfiguration `json:"configuration,omitempty" doc:"What the answering instance's configuration says; absent when it lacks the target. URL and headers are not shown, since they may hold secrets."`
}

type webhookTargetConfiguration struct {
	EventType   string  `json:"event_type" maxLength:"100" example:"payment.succeeded" doc:"Empty for a target of all types without a handler of their own."`
	SecretEnv   string  `json:"secret_env" example:"FORWARD_SECRET" doc:"The environment variable with the signing secret."`
	SecretSet   bool    `json:"secret_set" example:"true" doc:"Whether that variable is set; while it is not, every attempt fails."`
	Attempts    int     `json:"attempts" minimum:"1" example:"10" doc:"How often an event is posted before it fails."`
	TimeoutMS   int64   `json:"timeout_ms" minimum:"1" example:"15000" doc:"The longest that an attempt may take."`
	Concurrency int     `json:"concurrency" minimum:"1" example:"16" doc:"How many attempts each instance makes at the same time."`
	RateLimit   float64 `json:"rate_limit,omitempty" example:"10" doc:"How many attempts a second each instance begins at most; absent without a limit."`
	PassHeaders bool    `json:"pass_headers" example:"false" doc:"Whether the provider's own headers are handed on."`
}

func toWebhookTarget(t webhook.TargetState) webhookTarget {
	out := webhookTarget{
		Provider: t.Provider, Name: t.Name, State: t.Condition, Waiting: t.Waiting, Due: t.Due, InFlight: t.InFlight, OldestAt: inUTC(t.Oldest),
		Rate: t.Rate, FailureStreak: t.Failures, PausedAt: inUTC(t.PausedAt), FailingSince: inUTC(t.OpenedAt), NextProbeAt: inUTC(t.ProbedAt),
	}
	if c := t.Here; c != nil {
		out.Configuration = &webhookTargetConfiguration{
			EventType: c.EventType, SecretEnv: c.SecretEnv, SecretSet: c.SecretSet, Attempts: c.Attempts, TimeoutMS: c.Timeout.Milliseconds(),
			Concurrency: c.Concurrency, RateLimit: c.RateLimit, PassHeaders: c.PassHeaders,
		}
	}
	return out
}

type listTargetsInput struct {
	Page
}

type listTargetsOutput struct {
	Body list[webhookTarget]
}

type targetCursor struct {
	Provider string `json:"p"`
	Name     string `json:"n"`
}

// WebhookTargetInput names a target. It is exported because Huma passes over embedded
// structs that are not.
type WebhookTargetInput struct {
	Provider string `path:"provider" maxLength:"50" doc:"The provider's name." example:"payment"`
	Name     string `path:"name" maxLength:"100" doc:"The target's name." example:"default"`
}

type targetOutput struct {
	Body single[webhookTarget]
}

func registerWebhookTargets(a huma.API, s WebhookTargets) {
	huma.Register(a, access(huma.Operation{
		OperationID: "list-webhook-targets",
		Method:      http.MethodGet,
		Path:        "/api/admin/webhooks/targets",
		Summary:     "List webhook targets",
		Description: "Targets that events are forwarded to, by provider and name: those that running instances have or had within the last hour, and those that an event still waits for.",
	}, roles(identity.Admin)), func(ctx context.Context, in *listTargetsInput) (*listTargetsOutput, error) {
		var after targetCursor
		if err := decodeCursor(in.Cursor, &after); err != nil {
			return nil, err
		}
		all, err := s.Targets(ctx)
		if err != nil {
			return nil, err
		}
		n := int64(len(all))
		rest := slices.DeleteFunc(all, func(t webhook.TargetState) bool {
			if c := strings.Compare(t.Provider, after.Provider); c != 0 {
				return c < 0
			}
			return in.Cursor != "" && t.Name <= after.Name
		})
		out := &listTargetsOutput{}
		var total *int64
		if in.Total {
			total = &n
		}
		out.Body = newList(rest[:min(len(rest), in.Limit+1)], in.Limit, total, toWebhookTarget, func(t webhook.TargetState) any { return targetCursor{t.Provider, t.Name} })
		return out, nil
	})
	registerTargetChange(a, huma.Operation{
		OperationID: "pause-webhook-target",
		Path:        "/api/admin/webhooks/targets/{provider}/{name}/pause",
		Summary:     "Pause a webhook target",
		Description: "Send nothing to the target, from any instance, until it is resumed. Running requests finish. New events wait and use no attempts. Pausing a paused target changes nothing.",
	}, func(ctx context.Context, provider, name string) (webhook.TargetState, error) {
		return s.PauseTarget(ctx, provider, name)
	}, "Paused.")
	registerTargetChange(a, huma.Operation{
		OperationID: "resume-webhook-target",
		Path:        "/api/admin/webhooks/targets/{provider}/{name}/resume",
		Summary:     "Resume a webhook target",
		Description: "End a pause. A target that keeps failing is retried at once too. Events waiting for their next attempt keep its time; replay them to send them now.",
	}, func(ctx context.Context, provider, name string) (webhook.TargetState, error) {
		return s.ResumeTarget(ctx, provider, name)
	}, "Resumed.")
}

func registerTargetChange(a huma.API, op huma.Operation, change func(ctx context.Context, provider, name string) (webhook.TargetState, error), message string) {
	op.Method = http.MethodPost
	huma.Register(a, exported(access(op, roles(identity.Admin), webhook.ErrTarget), // a service may forward to nobody
		export.Variant{Status: []int{http.StatusOK, http.StatusNotFound}}), func(ctx context.Context, in *WebhookTargetInput) (*targetOutput, error) {
		t, err := change(ctx, in.Provider, in.Name)
		if err != nil {
			return nil, err
		}
		return &targetOutput{Body: single[webhookTarget]{Data: toWebhookTarget(t), Message: message}}, nil
	})
}
