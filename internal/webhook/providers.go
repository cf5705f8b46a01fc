package webhook

import (
	"net/http"

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
	}
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
	}
}

// BodyFields extracts two members of the body's top level: strings, or numbers as
// they are spelled. Missing and null are "". Any other JSON type is an error.
type BodyFields struct {
	Type, ID string // names of the members
}

// Extract implements Extractor.
func (f BodyFields) Extract(body []byte, _ http.Header) (string, string, error) {
	m := members(body)
	eventType, err := scalar("event_type", m[f.Type])
	if err != nil {
		return "", "", err
	}
	externalID, err := scalar("external_id", m[f.ID])
	if err != nil {
		return "", "", err
	}
	return eventType, externalID, nil
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
