package api

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/webhook"
)

// WebhookEvents shows single deliveries. Both methods return webhook.ErrEvent, Raw
// also webhook.ErrEmptied.
type WebhookEvents interface {
	Detail(ctx context.Context, id uuid.UUID) (webhook.Detail, error)
	Raw(ctx context.Context, id uuid.UUID) ([]byte, error)
}

type webhookEventDetail struct {
	WebhookEvent
	Headers  map[string][]string `json:"headers" example:"{\"Content-Type\":[\"application/json\"],\"Payment-Signature\":[\"[redacted]\"]}" doc:"The delivery's headers; signatures and credentials are redacted."`
	Attempts []webhookAttempt    `json:"attempts" nullable:"false" doc:"Every attempt to handle the event, oldest first. Empty when no handler is registered for it."`
}

type webhookAttempt struct {
	Number     int                    `json:"number" minimum:"1" example:"1" doc:"The attempt's number, from 1."`
	At         time.Time              `json:"at" example:"2026-01-02T15:04:05Z" doc:"When the attempt began."`
	Outcome    webhook.AttemptOutcome `json:"outcome" enum:"running,processed,failed,interrupted" example:"processed" doc:"interrupted means that the attempt has no outcome, because the process or its database went away."`
	Target     string                 `json:"target,omitempty" doc:"The target that it was made at; absent for a handler in code." example:"default"`
	Error      string                 `json:"error,omitempty" doc:"The handler's error when it failed." example:"the target answered 503"`
	DurationMS *float64               `json:"duration_ms,omitempty" minimum:"0" example:"12.4" doc:"Absent while the attempt runs, and when it was interrupted."`
}

func toWebhookDetail(d webhook.Detail) webhookEventDetail {
	out := webhookEventDetail{WebhookEvent: toWebhookEvent(d.Record), Headers: d.Header, Attempts: make([]webhookAttempt, len(d.Attempts))}
	for i, a := range d.Attempts {
		out.Attempts[i] = webhookAttempt{Number: a.Number, At: a.At.UTC(), Outcome: a.Outcome, Target: a.Target, Error: a.Error}
		if a.Duration != nil {
			ms := float64(a.Duration.Microseconds()) / 1000
			out.Attempts[i].DurationMS = &ms
		}
	}
	return out
}

// WebhookInput names an event. It is exported because Huma passes over embedded
// structs that are not.
type WebhookInput struct {
	ID uuidText `path:"id" doc:"The event's id." example:"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10"`
}

type getWebhookInput struct {
	WebhookInput
	Raw bool `query:"raw" doc:"Answer with the delivery's exact bytes instead, as a download."`
}

// bytesOutput writes its own body: JSON, or bytes as they came.
type bytesOutput struct {
	ContentType        string `header:"Content-Type" hidden:"true"`
	ContentDisposition string `header:"Content-Disposition" doc:"With raw=true, a name for the file." example:"attachment; filename=\"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10\""`
	NoSniff            string `header:"X-Content-Type-Options" hidden:"true"`
	Body               []byte
}

// answerRaw is the download of a delivery's bytes.
func answerRaw(id uuid.UUID, raw []byte) *bytesOutput {
	return &bytesOutput{
		ContentType: "application/octet-stream", ContentDisposition: `attachment; filename="` + id.String() + `"`,
		NoSniff: "nosniff", Body: raw,
	}
}

func registerWebhookEvent(a huma.API, s WebhookEvents) {
	op := access(huma.Operation{
		OperationID: "get-webhook-event",
		Method:      http.MethodGet,
		Path:        "/api/admin/webhooks/{id}",
		Summary:     "Show a webhook delivery",
		Description: "One event with its headers, its payload of any size, and every attempt to handle it. `raw=true` returns the exact bytes of the delivery.",
		Responses: map[string]*huma.Response{"200": {
			Description: "OK",
			Content: map[string]*huma.MediaType{
				"application/json":         {Schema: a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[single[webhookEventDetail]](), true, "")},
				"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary", Description: "The delivery's bytes, with `raw=true`."}},
			},
		}},
	}, roles(identity.Admin), webhook.ErrEvent, webhook.ErrEmptied)
	withholdFromTools(&op, "raw")
	huma.Register(a, exported(op, export.Variant{
		Order: orderEvents, Parameters: map[string]string{"id": "{{eventId}}"},
	}), func(ctx context.Context, in *getWebhookInput) (*bytesOutput, error) {
		id, err := parseID(in.ID, webhook.ErrEvent)
		if err != nil {
			return nil, err
		}
		if in.Raw {
			raw, err := s.Raw(ctx, id)
			if err != nil {
				return nil, err
			}
			return answerRaw(id, raw), nil
		}
		d, err := s.Detail(ctx, id)
		if err != nil {
			return nil, err
		}
		answer := single[webhookEventDetail]{Data: toWebhookDetail(d), Message: "Found."}
		body, err := verbatim(a, &answer, &answer.Data.WebhookEvent)
		return &bytesOutput{ContentType: "application/json", Body: body}, err
	})
}
