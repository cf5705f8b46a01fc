package api

import (
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/apidoc"
	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/webhook"
)

const (
	deliveryPath            = "/webhooks/{provider}"
	schemePaymentSignature  = "paymentSignature"
	schemeCodehostSignature = "codehostSignature"
)

// builtIn are the deliveries of the built-in providers, as senders see them.
func builtIn() []delivery {
	return []delivery{{
		registration: webhook.Payment(),
		scheme:       schemePaymentSignature,
		summary:      "A payment event",
		description: "Signed over `<t>.<body>`; `t` lies within 300 seconds of the receiver's clock. " +
			"The body's `id` is the event's own id, by which a repetition is known.",
		body: paymentDelivery{ID: "evt_1", Type: "payment.succeeded", Data: map[string]any{"amount": 1900, "currency": "EUR"}},
		variant: export.Variant{
			Body:      map[string]any{"id": "evt_{{$guid}}"},
			Signature: &export.Signature{Secret: "paymentSecret", Message: "{timestamp}.{body}", Value: "t={timestamp},v1={hmac}"},
		},
	}, {
		registration: webhook.CodeHost(),
		scheme:       schemeCodehostSignature,
		summary:      "A code host event",
		description:  "Signed over the body. The event's type and id are in headers, which the signature does not cover.",
		body:         codehostDelivery{Ref: "refs/heads/main", After: "9f2c1e"},
		headers:      map[string]string{"X-Codehost-Event": "push", "X-Codehost-Delivery": "d-1"},
		variant: export.Variant{
			Headers:   map[string]string{"X-Codehost-Event": "push", "X-Codehost-Delivery": "{{$guid}}"},
			Signature: &export.Signature{Secret: "codehostSecret", Message: "{body}", Value: "sha256={hmac}"},
		},
	}}
}

type delivery struct {
	registration         webhook.Registration
	scheme               string
	summary, description string
	body                 any
	headers              map[string]string
	variant              export.Variant
}

func (d delivery) signatureHeader() string { return d.registration.Verifier.Headers()[0] }

// paymentDelivery and codehostDelivery describe what the providers send; the
// receiver itself takes any JSON.
type paymentDelivery struct {
	_    struct{}       `json:"-" additionalProperties:"true"`
	ID   string         `json:"id,omitempty" maxLength:"255" doc:"The event's id. Without one no repetition is recognised." example:"evt_1"`
	Type string         `json:"type,omitempty" maxLength:"100" doc:"The event's type." example:"payment.succeeded"`
	Data map[string]any `json:"data,omitempty" doc:"What it is about." example:"{\"amount\":1900,\"currency\":\"EUR\"}"`
}

type codehostDelivery struct {
	_     struct{} `json:"-" additionalProperties:"true"`
	Ref   string   `json:"ref,omitempty" doc:"What was pushed to." example:"refs/heads/main"`
	After string   `json:"after,omitempty" doc:"The newest commit." example:"9f2c1e"`
}

// deliveryFailures are what a delivery can be refused with.
func deliveryFailures() []error {
	return []error{
		webhook.ErrProvider, webhook.ErrSignature, webhook.ErrTooLarge, errBodySlow, webhook.ErrStorage,
		webhook.ErrPayload.With(map[string]string{"external_id": "It is longer than 255 characters."}),
	}
}

// describeDelivery is the description of POST /webhooks/{provider}.
func describeDelivery() *apidoc.Operation {
	o := apidoc.Describe().
		ID("receive-webhook").
		Summary("Deliver a webhook").
		Description("Takes a delivery from a registered provider: the signature is checked over the bytes as they came, the event is stored, "+
			"and only then answered. A repetition of an event is stored once and answered `skipped`. Content-Type is ignored.\n\n"+
			"Access: a signature by the provider's secret.").
		Tags(tagWebhooks).
		Path("provider", &huma.Schema{Type: huma.TypeString, Pattern: "^[a-z0-9_-]+$", MaxLength: new(50)}, "The provider's name.", "payment").
		Body(&huma.Schema{Description: "UTF-8 JSON, whatever the provider sends."})
	var schemes []string
	var variants []export.Variant
	for _, d := range builtIn() {
		name := d.registration.Name
		o.BodyExample(name, d.body)
		d.addHeaders(o)
		schemes = append(schemes, d.scheme)
		v := d.variant
		v.Name, v.Summary, v.Example = name, d.summary, name
		v.Parameters = map[string]string{"provider": name}
		v.Signature.Header = d.signatureHeader()
		variants = append(variants, v)
	}
	o.Security(schemes...).Extension(export.Extension, export.Hints{Variants: variants, Variant: export.Variant{Order: orderDeliver}})
	return withReceipts(o)
}

// Webhooks are what the built-in providers send here, for the description's
// section of that name.
func Webhooks() []apidoc.Webhook {
	var list []apidoc.Webhook
	for _, d := range builtIn() {
		name := d.registration.Name
		o := apidoc.Describe().
			ID("deliver-"+name+"-webhook").
			Summary(d.summary).
			Description(d.description+" Sent to `POST "+deliveryPath+"`, where the provider is `"+name+"`.").
			Tags(tagWebhooks).
			Security(d.scheme).
			Body(d.body).
			BodyExample(name, d.body)
		d.addHeaders(o)
		list = append(list, apidoc.Webhook{Name: name, ReceivedAt: deliveryPath, Operation: withReceipts(o)})
	}
	return list
}

// addHeaders describes the headers beside the signature, which is a matter of
// security.
func (d delivery) addHeaders(o *apidoc.Operation) {
	for _, name := range slices.Sorted(maps.Keys(d.headers)) {
		o.Header(name, "", "Sent by the provider `"+d.registration.Name+"`.", d.headers[name])
	}
}

// withReceipts describes the answers to a delivery.
func withReceipts(o *apidoc.Operation) *apidoc.Operation {
	o.Response(http.StatusOK, receipt{}, "Durable. `processed`: handled, or nothing is to be done. `failed`: the handler failed; an administrator can replay the event. "+
		"`pending`: it is still being handled. `skipped`: a repetition.").
		ResponseHeader(http.StatusOK, requestIDHeader, headerReference(requestIDHeader), "")
	for name, r := range receiptExamples() {
		o.ResponseExample(http.StatusOK, name, r)
	}
	return withFailures(o, deliveryFailures()...)
}

// receiptExamples are the answers to a delivery, by status.
func receiptExamples() map[string]receipt {
	const id = "01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10"
	kind, external := "payment.succeeded", "evt_1"
	return map[string]receipt{
		"processed": {Status: webhook.Processed, ID: id, EventType: &kind, ExternalID: &external},
		"failed":    {Status: webhook.Failed, ID: id},
		"skipped":   {Status: webhook.Skipped, ID: id, Reason: "duplicate"},
		"pending":   {Status: webhook.Pending, ID: id, EventType: &kind, ExternalID: &external},
	}
}
