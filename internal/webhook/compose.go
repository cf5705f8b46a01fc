package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/webhook/signature"
)

// Signer is a Verifier that can also sign as the provider would.
type Signer interface {
	Sign(secret, body []byte, h http.Header, now time.Time)
}

// Composer is an Extractor that can also put a type and an id where it finds them.
type Composer interface {
	// Compose returns data, or a body made up when data is empty, with both put into
	// it or into h.
	Compose(eventType, externalID string, data []byte, h http.Header) ([]byte, error)
}

// TestDelivery is what a delivery is made of.
type TestDelivery struct {
	EventType, ExternalID string
	Data                  []byte // a JSON body; empty for a made-up one
	Secret                string
	Now                   time.Time
}

// Compose makes a delivery as the provider would send it: the body and its
// headers, signed.
func (r *Registry) Compose(provider string, t TestDelivery) ([]byte, http.Header, error) {
	p, err := r.Provider(provider)
	if err != nil {
		return nil, nil, err
	}
	signer, canSign := p.Verifier.(Signer)
	composer, canCompose := p.Extractor.(Composer)
	switch {
	case !canSign || !canCompose:
		return nil, nil, fmt.Errorf("webhook: provider %q can verify deliveries, but not make them", provider)
	case t.Secret == "":
		return nil, nil, fmt.Errorf("webhook: provider %q: no secret in %s", provider, p.SecretEnv)
	}
	if c, ok := p.Verifier.(interface{ CheckSecret([]byte) error }); ok {
		if err := c.CheckSecret([]byte(t.Secret)); err != nil {
			return nil, nil, fmt.Errorf("webhook: provider %q: %s: %w", provider, p.SecretEnv, err)
		}
	}
	h := http.Header{"Content-Type": {"application/json"}}
	body, err := composer.Compose(t.EventType, t.ExternalID, t.Data, h)
	if err != nil {
		return nil, nil, fmt.Errorf("webhook: provider %q: %w", provider, err)
	}
	if s, ok := p.Verifier.(signature.Scheme); ok {
		if body, err = s.Stamp(body, t.Now); err != nil {
			return nil, nil, fmt.Errorf("webhook: provider %q: %w", provider, err)
		}
	}
	signer.Sign([]byte(t.Secret), body, h, t.Now)
	return body, h, nil
}

// Compose implements Composer. Members that data has already stay as they are,
// and must not contradict.
func (f BodyFields) Compose(eventType, externalID string, data []byte, _ http.Header) ([]byte, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		data = []byte("{}")
	}
	if !json.Valid(data) || data[0] != '{' {
		return nil, errors.New("the data is not a JSON object")
	}
	for _, m := range []struct{ path, value string }{{f.Type, eventType}, {f.ID, externalID}} {
		if m.path == "" {
			continue
		}
		var err error
		if data, err = put(data, m.path, m.value); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// put adds a string to an object where the path leads, and the objects on the way
// to it; all else keeps its place and its spelling.
func put(object []byte, path, value string) ([]byte, error) {
	name, rest, more := strings.Cut(path, ".")
	start, end := find(object, name)
	switch there := object[start:end]; {
	case len(there) == 0 && more:
		inner, err := put([]byte("{}"), rest, value)
		if err != nil {
			return nil, err
		}
		return prepend(object, name, inner)
	case len(there) == 0:
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		return prepend(object, name, text)
	case more && there[0] != '{':
		return nil, fmt.Errorf("%q in the data is no object", name)
	case more:
		inner, err := put(there, rest, value)
		if err != nil {
			return nil, err
		}
		return slices.Concat(object[:start], inner, object[end:]), nil
	default:
		if text, err := scalar(name, there); err != nil || text != value && value != "" {
			return nil, fmt.Errorf("the data already has another %q", name)
		}
		return object, nil
	}
}

// prepend makes a member the first of an object.
func prepend(object []byte, name string, value []byte) ([]byte, error) {
	key, err := json.Marshal(name)
	if err != nil {
		return nil, err
	}
	comma := ","
	if len(members(object)) == 0 {
		comma = ""
	}
	return slices.Concat([]byte("{"), key, []byte(":"), value, []byte(comma), object[1:]), nil
}

// find returns where in a well-formed object the value of its last member of that
// name lies, 0 and 0 when it has none.
func find(object []byte, name string) (int, int) {
	start, end := 0, 0
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return 0, 0
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return 0, 0
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return 0, 0
		}
		if key == name {
			end = int(d.InputOffset())
			start = end - len(value)
		}
	}
	return start, end
}

// Compose implements Composer.
func (StandardFields) Compose(eventType, externalID string, data []byte, h http.Header) ([]byte, error) {
	h.Set(signature.StandardID, externalID)
	return BodyFields{Type: "type"}.Compose(eventType, "", data, h)
}

// Compose implements Composer.
func (f HeaderFields) Compose(eventType, externalID string, data []byte, h http.Header) ([]byte, error) {
	h.Set(f.Type, eventType)
	h.Set(f.ID, externalID)
	if len(bytes.TrimSpace(data)) == 0 {
		return []byte("{}"), nil
	}
	if !json.Valid(data) {
		return nil, errors.New("the data is not JSON")
	}
	return data, nil
}
