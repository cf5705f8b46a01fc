package api

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/webhook"
)

// WebhookAdmin lists and replays stored deliveries. List and Count return
// validation faults; Replay returns webhook.ErrEvent, ErrEmptied,
// ErrInFlight and ErrNotReplayable.
type WebhookAdmin interface {
	List(ctx context.Context, f webhook.Filter, after *webhook.Position, limit int) ([]webhook.Record, error)
	Count(ctx context.Context, f webhook.Filter) (int64, error)
	Replay(ctx context.Context, id uuid.UUID, force bool) (webhook.Record, error)
}

// WebhookEvent is a stored delivery. It is exported because Huma leaves an
// unexported embedded struct out of the schema.
type WebhookEvent struct {
	ID             string          `json:"id" format:"uuid" example:"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10" doc:"The event's id, a UUID of version 7."`
	Provider       string          `json:"provider" maxLength:"50" example:"payment" doc:"The provider that sent the delivery."`
	EventType      string          `json:"event_type" maxLength:"100" example:"payment.succeeded" doc:"Empty when the delivery has none."`
	ExternalID     string          `json:"external_id" maxLength:"255" example:"evt_1" doc:"The provider's own id for the event; duplicates are recognized by it. Empty when the delivery has none."`
	Payload        json.RawMessage `json:"payload" doc:"The body as it was sent: members in their order, numbers as they were spelled. Of a form, an object of the names of its fields to the lists of their values. Null when the body is left out." example:"{\"id\":\"evt_1\",\"type\":\"payment.succeeded\"}"`
	PayloadOmitted bool            `json:"payload_omitted,omitempty" doc:"True when the body is left out because it has 16 KiB or more."`
	PayloadEmptied bool            `json:"payload_emptied,omitempty" doc:"True when the body was deleted because its retention is over."`
	PayloadSize    int             `json:"payload_size" example:"40" doc:"The body's size in bytes."`
	PayloadSHA256  string          `json:"payload_sha256" pattern:"^[0-9a-f]{64}$" example:"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" doc:"SHA-256 of the body as it was sent."`
	RepeatedBodyOf string          `json:"repeated_body_of,omitempty" format:"uuid" doc:"The provider's earliest event with an equal body, if it has another external id, or if one of the two events has none: the delivery may be a replayed capture."`
	Status         webhook.Status  `json:"status" enum:"pending,processed,failed" example:"processed" doc:"pending: being handled, or waiting for an attempt. processed: handled, or nothing is bound to it. failed: the last attempt failed; a replay tries again."`
	HandlerError   string          `json:"handler_error,omitempty" doc:"The handler's error when it failed."`
	RetryCount     int             `json:"retry_count" minimum:"0" example:"0" doc:"How often the event was replayed."`
	ProcessedAt    *time.Time      `json:"processed_at,omitempty" example:"2026-01-02T15:04:05Z" doc:"When the event's handler succeeded."`
	CreatedAt      time.Time       `json:"created_at" example:"2026-01-02T15:04:05Z" doc:"When the delivery arrived."`
	// Targets are left out for an event that none has.
	Targets []webhookOutcome `json:"targets,omitempty" doc:"The targets that the event is forwarded to; absent when there are none. It is processed when all of them have it."`
}

func toWebhookEvent(r webhook.Record) WebhookEvent {
	e := WebhookEvent{
		ID:             r.ID.String(),
		Provider:       r.Provider,
		EventType:      r.EventType,
		ExternalID:     r.ExternalID,
		Payload:        payloadOf(r.Body),
		PayloadOmitted: r.Body == nil && !r.Emptied,
		PayloadEmptied: r.Emptied,
		PayloadSize:    r.BodySize,
		PayloadSHA256:  hex.EncodeToString(r.BodySHA256),
		Status:         r.Status,
		HandlerError:   r.HandlerError,
		RetryCount:     r.RetryCount,
		CreatedAt:      r.CreatedAt.UTC(),
	}
	if len(r.Targets) > 0 {
		e.Targets = toWebhookOutcomes(r.Targets)
	}
	if r.RepeatedBodyOf != nil {
		e.RepeatedBodyOf = r.RepeatedBodyOf.String()
	}
	if r.ProcessedAt != nil {
		at := r.ProcessedAt.UTC()
		e.ProcessedAt = &at
	}
	return e
}

type listWebhooksInput struct {
	Page
	Provider   string         `query:"provider" maxLength:"50" doc:"Only deliveries to this provider." example:"payment"`
	Status     webhook.Status `query:"status" enum:"pending,processed,failed,skipped" doc:"Only deliveries in this state. A skipped duplicate is not stored, so skipped finds nothing." example:"failed"`
	EventType  string         `query:"event_type" maxLength:"100" doc:"Only events of this type." example:"payment.succeeded"`
	ExternalID string         `query:"external_id" maxLength:"255" doc:"Only the event with this id of the provider." example:"evt_1"`
	Target     string         `query:"target" maxLength:"100" doc:"Only events that go, or went, to the target of this name." example:"default"`
	Error      string         `query:"error" maxLength:"200" doc:"Only events whose error begins with this text, in upper or lower case." example:"the target answered 503"`
	Repeated   bool           `query:"repeated" doc:"true: only deliveries whose body equals that of an earlier delivery of the provider." example:"false"`
	Handled    bool           `query:"handled" default:"true" doc:"false: only deliveries processed without a handler, because none was bound yet." example:"true"`
	From       time.Time      `query:"from" doc:"Only deliveries at or after this instant." example:"2025-05-01T00:00:00Z"`
	To         time.Time      `query:"to" doc:"Only deliveries before this instant." example:"2025-06-01T00:00:00Z"`
}

type replayWebhookInput struct {
	WebhookInput
	Force bool `query:"force" doc:"Also replay a processed event: its effect happens again."`
}

type webhookCursor struct {
	CreatedAt time.Time `json:"t"`
	ID        uuid.UUID `json:"i"`
}

func (in *listWebhooksInput) filter() (webhook.Filter, *webhook.Position, error) {
	f := webhook.Filter{
		Provider: in.Provider, Status: in.Status, EventType: in.EventType, ExternalID: in.ExternalID,
		Target: in.Target, Error: in.Error, Repeated: in.Repeated, Unhandled: !in.Handled, From: in.From, To: in.To,
	}
	if in.Cursor == "" {
		return f, nil, nil
	}
	var c webhookCursor
	err := decodeCursor(in.Cursor, &c)
	return f, &webhook.Position{CreatedAt: c.CreatedAt, ID: c.ID}, err
}

// replayMessages say how a replay ended.
var replayMessages = map[webhook.Status]string{
	webhook.Processed: "Replayed: the handler succeeded.",
	webhook.Failed:    "Replayed: the handler failed again.",
	webhook.Pending:   "Replaying: the handler is still running, or another instance's or a job's to run.",
}

func registerAdminWebhooks(a huma.API, s WebhookAdmin) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "list-webhook-events",
		Method:      http.MethodGet,
		Path:        "/api/admin/webhooks",
		Summary:     "List webhook deliveries",
		Description: "Stored deliveries, newest first.",
		Responses:   answersJSON[list[WebhookEvent]](a),
	}, roles(identity.Admin)), export.Variant{Order: orderEvents, Capture: map[string]string{"eventId": "/data/0/id"}}), func(ctx context.Context, in *listWebhooksInput) (*verbatimOutput, error) {
		f, after, err := in.filter()
		if err != nil {
			return nil, err
		}
		events, err := s.List(ctx, f, after, in.Limit+1)
		if err != nil {
			return nil, within("query", err)
		}
		var total *int64
		if in.Total {
			n, err := s.Count(ctx, f)
			if err != nil {
				return nil, within("query", err)
			}
			total = &n
		}
		page := newList(events, in.Limit, total, toWebhookEvent, func(r webhook.Record) any {
			return webhookCursor{CreatedAt: r.CreatedAt, ID: r.ID}
		})
		shown := make([]*WebhookEvent, len(page.Data))
		for i := range page.Data {
			shown[i] = &page.Data[i]
		}
		return answerVerbatim(a, &page, shown...)
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID: "replay-webhook-event",
		Method:      http.MethodPost,
		Path:        "/api/admin/webhooks/{id}/replay",
		Summary:     "Replay a webhook delivery",
		Description: "Run the event's handler again on the stored bytes and return the event with its new outcome. Failed events can be replayed, and pending events that nobody is " +
			"handling; a waiting attempt starts now. Processed events need `force=true`. An event with targets goes to those that don't have it yet; with `force=true` to all " +
			"targets of the current configuration, with another `webhook-id` (`<id>_r<n>` after n times). The answer is `pending` if the handler takes longer than 8 seconds, if " +
			"the event is forwarded, or if only another instance has a handler for it.",
		Responses: answersJSON[single[WebhookEvent]](a),
	}, roles(identity.Admin), webhook.ErrEvent, webhook.ErrInFlight, webhook.ErrNotReplayable, webhook.ErrEmptied), export.Variant{
		Order: orderReplay, Parameters: map[string]string{"id": "{{eventId}}", "force": "true"},
	}), func(ctx context.Context, in *replayWebhookInput) (*verbatimOutput, error) {
		id, err := parseID(in.ID, webhook.ErrEvent)
		if err != nil {
			return nil, err
		}
		event, err := s.Replay(ctx, id, in.Force)
		if err != nil {
			return nil, err
		}
		answer := single[WebhookEvent]{Data: toWebhookEvent(event), Message: replayMessages[event.Status]}
		return answerVerbatim(a, &answer, &answer.Data)
	})
}
