package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/webhook"
)

// DeliveryReceiver takes webhook deliveries in. It returns a receipt only for a delivery
// that is durable.
type DeliveryReceiver interface {
	Receive(ctx context.Context, a webhook.Arrival) (webhook.Receipt, error)
	// Challenge returns what a provider that asks by GET wants back, or
	// webhook.ErrProvider, ErrNoChallenge, ErrChallenge or ErrPayload.
	Challenge(ctx context.Context, q webhook.Question) (string, error)
}

// WebhookService is what operators ask and do of webhooks.
type WebhookService interface {
	WebhookAdmin
	WebhookLog
	WebhookEvents
	WebhookReplays
	WebhookTargets
}

// receipt is the answer to a delivery. Which members it has depends on the status.
type receipt struct {
	Status     webhook.Status `json:"status" enum:"processed,failed,pending,skipped" example:"processed" doc:"What became of the delivery. processed: handled. pending: stored, and handled soon. failed: the handler failed. skipped: a duplicate, which is not stored again."`
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

// receiveWebhook answers POST /webhooks/{provider}. What is judged are the bytes as they came
// over the wire, whatever their announced type or coding.
func receiveWebhook(s DeliveryReceiver) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := identity.NewContext(r.Context(), identity.FromContext(r.Context()).Doing(receiveOperation))
		got, err := s.Receive(ctx, webhook.Arrival{
			Provider: chi.URLParam(r, "provider"), Header: r.Header, Length: r.ContentLength, Body: r.Body,
			Deadline: http.NewResponseController(w).SetReadDeadline,
		})
		if err != nil {
			httpedge.WriteError(w, r, err)
			return
		}
		if got.Challenge != "" {
			answerChallenge(w, got.Challenge)
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

// getChallenge answers GET /webhooks/{provider}: with the value that a provider wants
// back, which has asked whether the address takes its events.
func getChallenge(s DeliveryReceiver) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value, err := s.Challenge(r.Context(), webhook.Question{Provider: chi.URLParam(r, "provider"), Header: r.Header, Query: r.URL.RawQuery})
		if err != nil {
			httpedge.WriteError(w, r, err)
			return
		}
		answerChallenge(w, value)
	})
}

// answerChallenge sends a value back as nothing but text: the sender chose it.
func answerChallenge(w http.ResponseWriter, value string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, value) // the sender has gone when this fails
}
