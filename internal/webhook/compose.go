package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
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
	h := http.Header{"Content-Type": {"application/json"}}
	body, err := composer.Compose(t.EventType, t.ExternalID, t.Data, h)
	if err != nil {
		return nil, nil, fmt.Errorf("webhook: provider %q: %w", provider, err)
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
	has := members(data)
	var added []byte
	for _, m := range []struct{ name, value string }{{f.ID, externalID}, {f.Type, eventType}} {
		if raw, there := has[m.name]; there {
			if text, err := scalar(m.name, raw); err != nil || text != m.value && m.value != "" {
				return nil, fmt.Errorf("the data already has another %q", m.name)
			}
			continue
		}
		pair, err := json.Marshal(map[string]string{m.name: m.value})
		if err != nil {
			return nil, err
		}
		added = append(append(added, pair[1:len(pair)-1]...), ',')
	}
	rest := data[1:]
	if len(has) == 0 {
		added = bytes.TrimSuffix(added, []byte(","))
	}
	return append(append([]byte("{"), added...), rest...), nil
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
