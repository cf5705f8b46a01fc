package webhook

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/waypost/waypost/internal/webhook/signature"
)

// About describes a provider in the API's description, in its exports and in dev. All
// fields are optional: those left out are derived from the verifier and the extractor.
type About struct {
	// Summary is one line, such as "A payment event".
	Summary string
	// Description says more, in Markdown.
	Description string
	// EventType and ExternalID are the type and the id of an example delivery.
	EventType, ExternalID string
	// Body is the body of that delivery, for a form an object with its fields. Its Go
	// type becomes the schema.
	Body any
	// Signing says how deliveries are signed. It is only needed where the verifier does
	// not say so itself.
	Signing signature.Recipe
	// DemoSecret generates a secret for dev. With nil, dev uses whsec_ and 32 random
	// bytes in base64, which every scheme of package signature accepts.
	DemoSecret func() string
}

// BuiltIn are the providers that every installation has.
func BuiltIn() []Registration { return []Registration{Payment(), CodeHost()} }

// Signing says how the provider signs. ok is false when neither About nor the verifier
// says so, for example when the verifier is a function.
func (r Registration) Signing() (recipe signature.Recipe, ok bool) {
	if r.About.Signing.Header != "" {
		return r.About.Signing, true
	}
	if v, known := r.Verifier.(interface{ Recipe() signature.Recipe }); known {
		return v.Recipe(), true
	}
	return signature.Recipe{}, false
}

// Example is a delivery that a provider could send, without its signature.
type Example struct {
	Body any
	// Headers are those that the extractor reads.
	Headers map[string]string
}

// Example returns the example of About, with a type and an id put where the extractor
// finds them. It returns an error when About and the extractor contradict each other.
func (r Registration) Example() (Example, error) {
	eventType, externalID := r.About.EventType, r.About.ExternalID
	if r.About.Body == nil {
		eventType, externalID = cmp.Or(eventType, "example"), cmp.Or(externalID, "evt_1")
	}
	e, err := r.compose(r.About.Body, eventType, externalID)
	if r.About.Body != nil {
		e.Body = r.About.Body
	}
	return e, err
}

// Renamed returns the changes that give Example another id: members of the body, as a
// merge patch (RFC 7396), and headers. If the extractor can't say where the id belongs,
// there are no changes.
func (r Registration) Renamed(externalID string) (Example, error) {
	return r.compose(nil, "", externalID)
}

// compose puts a type and an id, where they are not empty, into a body and headers.
func (r Registration) compose(body any, eventType, externalID string) (Example, error) {
	e := Example{Body: map[string]any{}, Headers: map[string]string{}}
	composer, can := r.Extractor.(Composer)
	if !can {
		return e, nil
	}
	if body == nil {
		body = struct{}{}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return e, fmt.Errorf("its example body is no JSON: %w", err)
	}
	h := http.Header{}
	if data, err = composer.Compose(eventType, externalID, data, h); err != nil {
		return e, fmt.Errorf("its example body is not of the event type %q and the id %q: %w", eventType, externalID, err)
	}
	if r.TakesForms() {
		if data, err = objectOf(data); err != nil {
			return e, fmt.Errorf("its example: %w", err)
		}
		delete(h, "Content-Type")
	}
	var members any
	if err := json.Unmarshal(data, &members); err != nil {
		return e, fmt.Errorf("its example: %w", err)
	}
	e.Body = withoutEmpty(members)
	for name := range h {
		if value := h.Get(name); value != "" {
			e.Headers[name] = value
		}
	}
	return e, nil
}

// withoutEmpty leaves out members that are empty texts: what was put there for want
// of a value.
func withoutEmpty(v any) any {
	members, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for name, value := range members {
		if value = withoutEmpty(value); value == "" {
			delete(members, name)
		}
	}
	return members
}

// check refuses an example that the extractor reads otherwise.
func (a About) check(r Registration) error {
	if a.Signing.Header == "" && a.Signing.Value+a.Signing.Message != "" {
		return errors.New("About.Signing names no header")
	}
	_, err := r.Example()
	return err
}
