package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/webhook"
)

// WebhookReplays replays deliveries in bulk. StartBulk returns validation faults,
// Bulk webhook.ErrBulk, and CancelBulk also webhook.ErrBulkEnded.
type WebhookReplays interface {
	StartBulk(ctx context.Context, f webhook.Filter, force bool) (webhook.Bulk, error)
	Bulk(ctx context.Context, id uuid.UUID) (webhook.Bulk, error)
	// Bulks lists them without their progress, newest first, from behind after.
	Bulks(ctx context.Context, after *uuid.UUID, limit int) ([]webhook.Bulk, error)
	CountBulks(ctx context.Context) (int64, error)
	CancelBulk(ctx context.Context, id uuid.UUID) (webhook.Bulk, error)
}

// WebhookReplay is the body of a request for a bulk replay: the filters of the
// list, and force.
type WebhookReplay struct {
	_          struct{}  `model:"min=1"`
	Provider   string    `json:"provider,omitempty" model:"max=50" doc:"Only deliveries to this provider." example:"payment"`
	Status     string    `json:"status,omitempty" model:"oneof=pending processed failed skipped" doc:"Only deliveries in this state. Processed deliveries are replayed only with force." example:"failed"`
	EventType  string    `json:"event_type,omitempty" model:"max=100" doc:"Only events of this type." example:"payment.succeeded"`
	ExternalID string    `json:"external_id,omitempty" model:"max=255" doc:"Only the event with this id of the provider." example:"evt_1"`
	Target     string    `json:"target,omitempty" model:"max=100" doc:"Only events that go, or went, to the target of this name." example:"default"`
	Error      string    `json:"error,omitempty" model:"max=200" doc:"Only events whose error begins with this text, in upper or lower case." example:"the target answered 503"`
	Repeated   bool      `json:"repeated,omitempty" doc:"true: only deliveries whose body equals that of an earlier delivery of the provider." example:"false"`
	Handled    bool      `json:"handled" model:"default=true" doc:"false: only deliveries processed without a handler, because none was bound yet. They are replayed without force, since they had no effect." example:"true"`
	From       time.Time `json:"from,omitzero" doc:"Only deliveries at or after this instant." example:"2026-01-01T00:00:00Z"`
	To         time.Time `json:"to,omitzero" doc:"Only deliveries before this instant." example:"2026-02-01T00:00:00Z"`
	Force      bool      `json:"force,omitempty" doc:"Also replay processed events: their effect happens again." example:"false"`
}

func (r WebhookReplay) filter() webhook.Filter {
	return webhook.Filter{
		Provider: r.Provider, Status: webhook.Status(r.Status), EventType: r.EventType, ExternalID: r.ExternalID,
		Target: r.Target, Error: r.Error, Repeated: r.Repeated, Unhandled: !r.Handled, From: r.From, To: r.To,
	}
}

// replayProgress is a bulk replay as its administrators see it.
type replayProgress struct {
	ID         string             `json:"id" format:"uuid" example:"01968a3e-9e51-7b63-8a77-3b8c9d0e1f2a" doc:"The bulk replay's id."`
	Status     webhook.BulkStatus `json:"status" enum:"running,finished,cancelled" example:"running" doc:"Events that were already taken are still handled after a cancellation."`
	Filter     replayFilter       `json:"filter" doc:"The filters of the request."`
	Force      bool               `json:"force" example:"false" doc:"Whether processed events are replayed too."`
	Matched    int64              `json:"matched" minimum:"0" example:"5547" doc:"How many events matched when the replay was requested and could be replayed singly."`
	Replayed   int64              `json:"replayed" minimum:"0" example:"1200" doc:"How many events have been taken so far."`
	Processed  int64              `json:"processed" minimum:"0" example:"1180" doc:"How many of the taken events are processed now."`
	Failed     int64              `json:"failed" minimum:"0" example:"4" doc:"How many of the taken events are failed now."`
	Pending    int64              `json:"pending" minimum:"0" example:"16" doc:"How many of the taken events are pending now."`
	CreatedAt  time.Time          `json:"created_at" example:"2026-01-02T15:04:05Z" doc:"When the replay was requested."`
	FinishedAt *time.Time         `json:"finished_at,omitempty" example:"2026-01-02T15:05:00Z" doc:"When the last event was taken, or when the replay was cancelled."`
}

// listedReplay is a bulk replay in a list.
type listedReplay struct {
	ID         string             `json:"id" format:"uuid" example:"01968a3e-9e51-7b63-8a77-3b8c9d0e1f2a" doc:"The bulk replay's id."`
	Status     webhook.BulkStatus `json:"status" enum:"running,finished,cancelled" example:"running" doc:"Events that were already taken are still handled after a cancellation."`
	Filter     replayFilter       `json:"filter" doc:"The filters of the request."`
	Force      bool               `json:"force" example:"false" doc:"Whether processed events are replayed too."`
	Matched    int64              `json:"matched" minimum:"0" example:"5547" doc:"How many events matched when the replay was requested and could be replayed singly."`
	CreatedAt  time.Time          `json:"created_at" example:"2026-01-02T15:04:05Z" doc:"When the replay was requested."`
	FinishedAt *time.Time         `json:"finished_at,omitempty" example:"2026-01-02T15:05:00Z" doc:"When the last event was taken, or when the replay was cancelled."`
}

func toListedReplay(b webhook.Bulk) listedReplay {
	p := toReplayProgress(b)
	return listedReplay{ID: p.ID, Status: p.Status, Filter: p.Filter, Force: p.Force, Matched: p.Matched, CreatedAt: p.CreatedAt, FinishedAt: p.FinishedAt}
}

type listReplaysInput struct {
	Page
}

type listReplaysOutput struct {
	Body list[listedReplay]
}

// replayCursor is the id of a page's last entry: ids are in order of time.
type replayCursor struct {
	ID uuid.UUID `json:"i"`
}

// replayFilter is the filter in an answer: only what was given.
type replayFilter struct {
	Provider   string         `json:"provider,omitempty" example:"payment" doc:"Only deliveries to this provider."`
	Status     webhook.Status `json:"status,omitempty" example:"failed" doc:"Only events in this state."`
	EventType  string         `json:"event_type,omitempty" example:"payment.succeeded" doc:"Only events of this type."`
	ExternalID string         `json:"external_id,omitempty" example:"evt_1" doc:"Only the event with this id of the provider."`
	Target     string         `json:"target,omitempty" example:"default" doc:"Only events that go, or went, to this target."`
	Error      string         `json:"error,omitempty" example:"the target answered 503" doc:"Only events whose error begins with this text."`
	Repeated   bool           `json:"repeated,omitempty" example:"true" doc:"Only deliveries whose body equals that of an earlier one."`
	Handled    *bool          `json:"handled,omitempty" doc:"False when the replay takes only what no handler was bound for." example:"false"`
	From       *time.Time     `json:"from,omitempty" example:"2026-01-01T00:00:00Z" doc:"Only deliveries at or after this instant."`
	To         *time.Time     `json:"to,omitempty" example:"2026-02-01T00:00:00Z" doc:"Only deliveries before this instant."`
}

func toReplayProgress(b webhook.Bulk) replayProgress {
	given := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return utc(&t)
	}
	var handled *bool
	if b.Filter.Unhandled {
		handled = new(bool)
	}
	return replayProgress{
		ID: b.ID.String(), Status: b.Status, Force: b.Force, Matched: b.Matched, Replayed: b.Replayed,
		Processed: b.Processed, Failed: b.Failed, Pending: b.Pending,
		CreatedAt: b.CreatedAt.UTC(), FinishedAt: utc(b.FinishedAt),
		Filter: replayFilter{
			Provider: b.Filter.Provider, Status: b.Filter.Status, EventType: b.Filter.EventType, ExternalID: b.Filter.ExternalID,
			Target: b.Filter.Target, Error: b.Filter.Error, Repeated: b.Filter.Repeated, Handled: handled,
			From: given(b.Filter.From), To: given(b.Filter.To),
		},
	}
}

type startReplayInput struct {
	Body model.Request[WebhookReplay]
}

type startReplayOutput struct {
	Location string `header:"Location" doc:"The path that shows the replay's progress." example:"/api/admin/webhooks/replays/01968a3e-9e51-7b63-8a77-3b8c9d0e1f2a"`
	Body     single[replayProgress]
}

type replayInput struct {
	ID uuidText `path:"id" doc:"The bulk replay's id." example:"01968a3e-9e51-7b63-8a77-3b8c9d0e1f2a"`
}

type replayOutput struct {
	Body single[replayProgress]
}

func registerWebhookReplays(a huma.API, s WebhookReplays) {
	huma.Register(a, exported(creates(access(huma.Operation{
		OperationID: "create-webhook-replay",
		Method:      http.MethodPost,
		Path:        "/api/admin/webhooks/replay",
		Summary:     "Replay webhook deliveries in bulk",
		Description: "Replay all deliveries that match the filters, in the background, newest first: failed ones, pending ones that nobody is handling (including those waiting for their " +
			"next attempt), with `force` processed ones, and with `handled` false those processed before a handler was bound, so that a new handler gets them. At least one " +
			"filter is required.",
		DefaultStatus: http.StatusAccepted,
	}, roles(identity.Admin))), export.Variant{Order: orderReplay, Capture: map[string]string{"replayId": "/data/id"}}), func(ctx context.Context, in *startReplayInput) (*startReplayOutput, error) {
		b, err := s.StartBulk(ctx, in.Body.Value().filter(), in.Body.Value().Force)
		if err != nil {
			return nil, within("body", err)
		}
		return &startReplayOutput{
			Location: "/api/admin/webhooks/replays/" + b.ID.String(),
			Body:     single[replayProgress]{Data: toReplayProgress(b), Message: "The replay has started."},
		}, nil
	})

	huma.Register(a, access(huma.Operation{
		OperationID: "list-webhook-replays",
		Method:      http.MethodGet,
		Path:        "/api/admin/webhooks/replays",
		Summary:     "List bulk replays",
		Description: "Bulk replays, newest first. Show one to see its progress. A replay is deleted when none of its deliveries is stored any more.",
	}, roles(identity.Admin)), func(ctx context.Context, in *listReplaysInput) (*listReplaysOutput, error) {
		return listReplays(ctx, s, in)
	})

	byID := export.Variant{Order: orderReplay, Parameters: map[string]string{"id": "{{replayId}}"}}
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "get-webhook-replay",
		Method:      http.MethodGet,
		Path:        "/api/admin/webhooks/replays/{id}",
		Summary:     "Show a bulk replay's progress",
		Description: "How many deliveries were taken so far, and how many of them are processed, failed and pending.",
	}, roles(identity.Admin), webhook.ErrBulk), byID), func(ctx context.Context, in *replayInput) (*replayOutput, error) {
		return answerReplay(ctx, in, s.Bulk, "Found.")
	})

	cancel := byID
	cancel.Status = []int{http.StatusOK, http.StatusConflict} // it may have finished
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "cancel-webhook-replay",
		Method:      http.MethodPost,
		Path:        "/api/admin/webhooks/replays/{id}/cancel",
		Summary:     "Cancel a bulk replay",
		Description: "Take no more deliveries. Deliveries already taken are still handled.",
	}, roles(identity.Admin), webhook.ErrBulk, webhook.ErrBulkEnded), cancel), func(ctx context.Context, in *replayInput) (*replayOutput, error) {
		return answerReplay(ctx, in, s.CancelBulk, "Cancelled.")
	})
}

func answerReplay(ctx context.Context, in *replayInput, do func(context.Context, uuid.UUID) (webhook.Bulk, error), message string) (*replayOutput, error) {
	id, err := parseID(in.ID, webhook.ErrBulk)
	if err != nil {
		return nil, err
	}
	b, err := do(ctx, id)
	if err != nil {
		return nil, err
	}
	return &replayOutput{Body: single[replayProgress]{Data: toReplayProgress(b), Message: message}}, nil
}

func listReplays(ctx context.Context, s WebhookReplays, in *listReplaysInput) (*listReplaysOutput, error) {
	var after *uuid.UUID
	if in.Cursor != "" {
		var c replayCursor
		if err := decodeCursor(in.Cursor, &c); err != nil {
			return nil, err
		}
		after = &c.ID
	}
	all, err := s.Bulks(ctx, after, in.Limit+1)
	if err != nil {
		return nil, err
	}
	var total *int64
	if in.Total {
		n, err := s.CountBulks(ctx)
		if err != nil {
			return nil, err
		}
		total = &n
	}
	return &listReplaysOutput{Body: newList(all, in.Limit, total, toListedReplay, func(b webhook.Bulk) any { return replayCursor{b.ID} })}, nil
}
