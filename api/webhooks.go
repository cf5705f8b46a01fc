package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/webhook"
)

// DeliveryReceiver takes webhook deliveries in. Admit returns
// webhook.ErrProvider for an unknown provider, and the memory for a body of the
// announced bytes, -1 when unknown; Receive returns a receipt only for a delivery
// that is durable.
type DeliveryReceiver interface {
	Admit(provider string, announced int64) (*webhook.Intake, error)
	Receive(ctx context.Context, in webhook.Inbound) (webhook.Receipt, error)
	// Refuse counts and logs what was refused before Receive; it never waits.
	Refuse(ctx context.Context, f webhook.Refusal)
}

// WebhookService is what webhooks take as a whole.
type WebhookService interface {
	DeliveryReceiver
	WebhookAdmin
	WebhookLog
	WebhookEvents
	WebhookReplays
}

var errDeliveryCut = webhook.ErrPayload.With(map[string]string{"body": "It ended before its announced length."})

// receipt is the answer to a delivery. Which members it has depends on the status.
type receipt struct {
	Status     webhook.Status `json:"status" enum:"processed,failed,pending,skipped" example:"processed"`
	Reason     string         `json:"reason,omitempty" enum:"duplicate" doc:"Why the delivery was skipped."`
	ID         string         `json:"id" format:"uuid" doc:"The stored event's id." example:"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10"`
	EventType  *string        `json:"event_type,omitempty" maxLength:"100" doc:"Empty when the delivery has none."`
	ExternalID *string        `json:"external_id,omitempty" maxLength:"255" doc:"Empty when the delivery has none."`
}

func toReceipt(r webhook.Receipt) receipt {
	out := receipt{Status: r.Status, ID: r.ID.String()}
	switch r.Status {
	case webhook.Skipped:
		out.Reason = "duplicate"
	case webhook.Processed, webhook.Pending:
		out.EventType, out.ExternalID = &r.EventType, &r.ExternalID
	}
	return out
}

const receiveOperation = "receive-webhook"

// receiveWebhook answers POST /webhooks/{provider}. The provider is looked up
// before the body is read, and the body is read whole before anything judges it.
func receiveWebhook(s DeliveryReceiver) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		provider := chi.URLParam(r, "provider")
		ctx := identity.NewContext(r.Context(), identity.FromContext(r.Context()).Doing(receiveOperation))
		refuse := func(err error) {
			s.Refuse(r.Context(), webhook.Refusal{Provider: provider, Header: r.Header, Size: r.ContentLength, Err: err})
			httpedge.WriteError(w, r, err)
		}
		intake, err := s.Admit(provider, r.ContentLength)
		if err != nil {
			refuse(err)
			return
		}
		body, err := readDelivery(w, r, intake)
		if err != nil {
			intake.Release()
			refuse(err)
			return
		}
		got, err := s.Receive(ctx, webhook.Inbound{Provider: provider, Header: r.Header, Body: body, Release: intake.Release})
		if err != nil {
			httpedge.WriteError(w, r, err)
			return
		}
		answer, err := json.Marshal(toReceipt(got))
		if err != nil {
			httpedge.WriteError(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(append(answer, '\n')) // the sender has gone when this fails
	})
}

// readDelivery returns the bytes as they came over the wire, whatever their
// announced type or coding.
func readDelivery(w http.ResponseWriter, r *http.Request, intake *webhook.Intake) ([]byte, error) {
	body, err := inTime(w, func() ([]byte, error) { return intake.Read(r.Body) })
	switch {
	case err == nil, errors.Is(err, webhook.ErrTooLarge), errors.Is(err, webhook.ErrStorage), errors.Is(err, errBodySlow):
		return body, err
	default:
		return nil, errDeliveryCut.Because(fmt.Errorf("%w: %w", webhook.ErrIncomplete, err))
	}
}
