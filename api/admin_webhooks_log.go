package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/webhook"
)

// WebhookLog shows what the receiver refused and how its providers fare.
// ListRejected and CountRejected return validation faults.
type WebhookLog interface {
	ListRejected(ctx context.Context, f webhook.RejectedFilter, after *uuid.UUID, limit int) ([]webhook.Rejected, error)
	CountRejected(ctx context.Context, f webhook.RejectedFilter) (int64, error)
	ProviderStates(ctx context.Context, after string, limit int) ([]webhook.ProviderState, error)
	CountProviders() int64
}

type rejectedWebhook struct {
	ID        string              `json:"id" format:"uuid" example:"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10" doc:"The refused delivery's id, a UUID of version 7."`
	Provider  string              `json:"provider" maxLength:"50" example:"payment" doc:"The provider's name in the request's path, registered or not, cut to 50 characters."`
	Reason    webhook.Reason      `json:"reason" example:"signature_too_old" doc:"Why the delivery was refused. Senders are told less."`
	Address   string              `json:"address,omitempty" example:"203.0.113.7" doc:"The sender's address; absent when unknown."`
	Headers   map[string][]string `json:"headers" nullable:"false" example:"{\"Content-Type\":[\"application/json\"],\"Payment-Signature\":[\"[redacted]\"]}" doc:"Up to 32 headers, shortened; values that may be secrets are redacted."`
	Size      *int64              `json:"size,omitempty" minimum:"0" example:"1024" doc:"The body's size in bytes. It is the announced size if the body was not read, and absent when unknown."`
	CreatedAt time.Time           `json:"created_at" example:"2026-01-02T15:04:05Z" doc:"When the delivery arrived."`
}

func toRejectedWebhook(e webhook.Rejected) rejectedWebhook {
	out := rejectedWebhook{
		ID: e.ID.String(), Provider: e.Provider, Reason: e.Reason, Headers: e.Header, CreatedAt: e.At.UTC(),
	}
	if e.Address.IsValid() {
		out.Address = e.Address.String()
	}
	if e.Size >= 0 {
		out.Size = &e.Size
	}
	if out.Headers == nil {
		out.Headers = map[string][]string{}
	}
	return out
}

type listRejectedInput struct {
	Page
	Provider string         `query:"provider" maxLength:"50" doc:"Only deliveries to this provider." example:"payment"`
	Reason   webhook.Reason `query:"reason" enum:"unknown_provider,no_secret,bad_secret,signature_missing,signature_repeated,signature_malformed,signature_too_old,signature_too_new,signature_mismatch,verifier_refused,challenge_refused,body_too_large,body_too_slow,body_incomplete,body_invalid,field_invalid,extractor_failed" doc:"Only deliveries that were refused for this reason." example:"signature_mismatch"`
}

type listRejectedOutput struct {
	Body list[rejectedWebhook]
}

// rejectedCursor is the id of a page's last entry: ids are in order of time.
type rejectedCursor struct {
	ID uuid.UUID `json:"i"`
}

type webhookProvider struct {
	Name              string               `json:"name" maxLength:"50" example:"payment" doc:"Deliveries go to /webhooks/{name}."`
	SecretEnv         string               `json:"secret_env" example:"PAYMENT_WEBHOOK_SECRET" doc:"The environment variable that holds the provider's secret."`
	SecretSet         bool                 `json:"secret_set" example:"true" doc:"Whether that variable is set; while it is not, every delivery is refused."`
	PreviousSecretSet bool                 `json:"previous_secret_set" example:"false" doc:"Whether the variable with _PREVIOUS after its name is set. While it is, the former secret is accepted too."`
	Preset            string               `json:"preset,omitempty" enum:"github,gitlab,linear,paddle,shopify,slack,standard-webhooks,stripe,svix" example:"github" doc:"The preset that the provider was configured with; absent when there is none."`
	Verifier          string               `json:"verifier" enum:"timestamped-hmac,code-host,hmac,token,standard-webhooks,function" example:"timestamped-hmac" doc:"How signatures are checked."`
	Extractor         string               `json:"extractor" enum:"payment,code-host,json,form,standard-webhooks,headers,function" example:"payment" doc:"How an event's type and id are found."`
	BodyLimit         int64                `json:"body_limit" minimum:"1" example:"1048576" doc:"Largest body in bytes."`
	HandledTypes      []string             `json:"handled_types" nullable:"false" example:"[\"payment.succeeded\"]" doc:"Event types with a handler; an empty string means a handler for all other types."`
	Events            webhookProviderCount `json:"events" doc:"Stored events by status."`
	LastDeliveryAt    *time.Time           `json:"last_delivery_at,omitempty" example:"2026-01-02T15:04:05Z" doc:"When the newest stored event arrived; absent when there is none."`
	FailureStreak     int64                `json:"failure_streak" minimum:"0" example:"0" doc:"How many of the newest handled events in a row failed, or wait for another attempt after a failed one."`
}

type webhookProviderCount struct {
	Pending   int64 `json:"pending" minimum:"0" example:"0" doc:"Events that are being handled, or wait to be handled."`
	Processed int64 `json:"processed" minimum:"0" example:"41" doc:"Events that were handled, or that have no handler."`
	Failed    int64 `json:"failed" minimum:"0" example:"1" doc:"Events that failed and can be replayed."`
}

func toWebhookProvider(p webhook.ProviderState) webhookProvider {
	out := webhookProvider{
		Name: p.Name, SecretEnv: p.SecretEnv, SecretSet: p.SecretSet, PreviousSecretSet: p.PreviousSecretSet,
		Preset: p.Preset, Verifier: p.Verifier, Extractor: p.Extractor, BodyLimit: p.BodyLimit, HandledTypes: p.EventTypes,
		Events: webhookProviderCount{Pending: p.Pending, Processed: p.Processed, Failed: p.Failed}, FailureStreak: p.FailureStreak,
	}
	if p.LastDelivery != nil {
		at := p.LastDelivery.UTC()
		out.LastDeliveryAt = &at
	}
	return out
}

type listProvidersInput struct {
	Page
}

type listProvidersOutput struct {
	Body list[webhookProvider]
}

type providerCursor struct {
	Name string `json:"n"`
}

func registerWebhookLog(a huma.API, s WebhookLog) {
	huma.Register(a, access(huma.Operation{
		OperationID: "list-webhook-rejections",
		Method:      http.MethodGet,
		Path:        "/api/admin/webhooks/rejected",
		Summary:     "List refused webhook deliveries",
		Description: "Deliveries that were refused and have no event, newest first. The newest 1,000 of each provider, and the newest 1,000 of all unknown providers together, are kept " +
			"for 30 days. Entries appear a moment after the refusal; during a flood some refusals are only counted.",
	}, roles(identity.Admin)), func(ctx context.Context, in *listRejectedInput) (*listRejectedOutput, error) {
		var after *uuid.UUID
		if in.Cursor != "" {
			var c rejectedCursor
			if err := decodeCursor(in.Cursor, &c); err != nil {
				return nil, err
			}
			after = &c.ID
		}
		f := webhook.RejectedFilter{Provider: in.Provider, Reason: in.Reason}
		entries, err := s.ListRejected(ctx, f, after, in.Limit+1)
		if err != nil {
			return nil, within("query", err)
		}
		var total *int64
		if in.Total {
			n, err := s.CountRejected(ctx, f)
			if err != nil {
				return nil, within("query", err)
			}
			total = &n
		}
		return &listRejectedOutput{Body: newList(entries, in.Limit, total, toRejectedWebhook, func(e webhook.Rejected) any {
			return rejectedCursor{ID: e.ID}
		})}, nil
	})

	huma.Register(a, access(huma.Operation{
		OperationID: "list-webhook-providers",
		Method:      http.MethodGet,
		Path:        "/api/admin/webhooks/providers",
		Summary:     "List webhook providers",
		Description: "The registered providers, by name: how they are verified, whether their secret is set (never the secret itself), and their number of events by state.",
	}, roles(identity.Admin)), func(ctx context.Context, in *listProvidersInput) (*listProvidersOutput, error) {
		var after providerCursor
		if err := decodeCursor(in.Cursor, &after); err != nil {
			return nil, err
		}
		providers, err := s.ProviderStates(ctx, after.Name, in.Limit+1)
		if err != nil {
			return nil, err
		}
		var total *int64
		if in.Total {
			n := s.CountProviders()
			total = &n
		}
		return &listProvidersOutput{Body: newList(providers, in.Limit, total, toWebhookProvider, func(p webhook.ProviderState) any {
			return providerCursor{Name: p.Name}
		})}, nil
	})
}
