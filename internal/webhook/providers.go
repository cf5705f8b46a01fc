package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/waypost/waypost/internal/webhook/signature"
)

// Headers of the code host's deliveries.
const (
	codeHostEvent    = "X-Codehost-Event"
	codeHostDelivery = "X-Codehost-Delivery"
)

// Payment is the registration of the built-in payment provider: timestamped HMAC,
// type and id from the body.
func Payment() Registration {
	return Registration{
		Name:      "payment",
		SecretEnv: "PAYMENT_WEBHOOK_SECRET",
		Verifier:  signature.Timestamped{Header: "Payment-Signature"},
		Extractor: BodyFields{Type: "type", ID: "id"},
		About: About{
			Summary:     "A payment event",
			Description: "The body's `id` is the event's own id; repetitions are recognized by it.",
			EventType:   "payment.succeeded", ExternalID: "evt_1",
			Body: paymentDelivery{ID: "evt_1", Type: "payment.succeeded", Data: map[string]any{"amount": 1900, "currency": "EUR"}},
		},
	}
}

// paymentDelivery and codehostDelivery describe what the providers send; the
// receiver itself takes any JSON.
type paymentDelivery struct {
	_    struct{}       `json:"-" additionalProperties:"true"`
	ID   string         `json:"id,omitempty" maxLength:"255" doc:"The event's id. Without an id, repetitions are not recognized." example:"evt_1"`
	Type string         `json:"type,omitempty" maxLength:"100" doc:"The event's type." example:"payment.succeeded"`
	Data map[string]any `json:"data,omitempty" doc:"The object that the event is about." example:"{\"amount\":1900,\"currency\":\"EUR\"}"`
}

type codehostDelivery struct {
	_     struct{} `json:"-" additionalProperties:"true"`
	Ref   string   `json:"ref,omitempty" doc:"The branch or tag that was pushed to." example:"refs/heads/main"`
	After string   `json:"after,omitempty" doc:"The newest commit." example:"9f2c1e"`
}

// CodeHost is the registration of the built-in code host: HMAC of the body, type
// and id from headers, which that signature does not cover. A captured body can so
// be sent again under a new id; Record.RepeatedBodyOf shows it.
func CodeHost() Registration {
	return Registration{
		Name:      "codehost",
		SecretEnv: "CODEHOST_WEBHOOK_SECRET",
		Verifier:  signature.HMAC{Header: "X-Hub-Signature-256", Prefix: "sha256="},
		Extractor: HeaderFields{Type: codeHostEvent, ID: codeHostDelivery},
		About: About{
			Summary:     "A code host event",
			Description: "The event's type and id are in headers, which the signature does not cover.",
			EventType:   "push", ExternalID: "d-1",
			Body: codehostDelivery{Ref: "refs/heads/main", After: "9f2c1e"},
		},
	}
}

// StandardWebhooks is the registration of a provider that follows the Standard
// Webhooks specification: the id is a signed header, the type in the body.
func StandardWebhooks(name, secretEnv string) Registration {
	return Registration{Name: name, SecretEnv: secretEnv, Verifier: signature.Standard{}, Extractor: StandardFields{}}
}

// BodyFields extracts two members of the body: strings, or numbers as they are
// spelled. Each is a name, or a path of names through objects, separated by full
// stops. Missing, null, or behind something that is no object is "", and so is one
// whose name is empty here. Any other JSON type is an error.
type BodyFields struct {
	Type, ID string // paths of the members
}

// Validate returns an error for a path with an empty name in it.
func (f BodyFields) Validate() error {
	if f.Type == "" && f.ID == "" {
		return errors.New("names neither a field for the type nor one for the id")
	}
	for _, path := range []string{f.Type, f.ID} {
		if path != "" && slices.Contains(strings.Split(path, "."), "") {
			return fmt.Errorf("%q is no path of names separated by full stops", path)
		}
	}
	return nil
}

// Extract implements Extractor.
func (f BodyFields) Extract(body []byte, _ http.Header) (string, string, error) {
	top := members(body)
	eventType, err := scalar("event_type", follow(top, f.Type))
	if err != nil {
		return "", "", err
	}
	externalID, err := scalar("external_id", follow(top, f.ID))
	if err != nil {
		return "", "", err
	}
	return eventType, externalID, nil
}

// follow walks a path from the members of the top level; nil when it leads nowhere.
func follow(top map[string]json.RawMessage, path string) json.RawMessage {
	if path == "" {
		return nil
	}
	for {
		name, rest, more := strings.Cut(path, ".")
		if !more {
			return top[name]
		}
		top, path = members(top[name]), rest
	}
}

// StandardFields extracts as in the Standard Webhooks specification: the id is
// the header webhook-id, the type the body's member "type".
type StandardFields struct{}

// Extract implements Extractor.
func (StandardFields) Extract(body []byte, h http.Header) (string, string, error) {
	eventType, err := scalar("event_type", members(body)["type"])
	if err != nil {
		return "", "", err
	}
	_, id, err := HeaderFields{ID: signature.StandardID}.Extract(body, h)
	return eventType, id, err
}

// HeaderFields extracts two headers. A missing one is "", one sent twice an error.
type HeaderFields struct {
	Type, ID string // names of the headers
}

// Extract implements Extractor.
func (f HeaderFields) Extract(_ []byte, h http.Header) (string, string, error) {
	for field, name := range map[string]string{"event_type": f.Type, "external_id": f.ID} {
		if len(h.Values(name)) > 1 {
			return "", "", &FieldError{Field: field, Reason: "Its header was sent more than once."}
		}
	}
	return h.Get(f.Type), h.Get(f.ID), nil
}
