package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/webhook"
)

// verbatimOutput is an answer in JSON whose bytes are made here and not by Huma, which
// would write a payload anew: without its white space.
type verbatimOutput struct {
	ContentType string `header:"Content-Type" hidden:"true"`
	Body        []byte
}

// answersJSON describes the answer of an operation that makes its own bytes of a T.
func answersJSON[T any](a huma.API) map[string]*huma.Response {
	return map[string]*huma.Response{"200": {
		Description: "OK",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")}},
	}}
}

// answerVerbatim is the answer of verbatim.
func answerVerbatim(a huma.API, answer any, shown ...*WebhookEvent) (*verbatimOutput, error) {
	body, err := verbatim(a, answer, shown...)
	return &verbatimOutput{ContentType: "application/json", Body: body}, err
}

// noPayload is how an event's payload is written before the bytes come into its place. It
// can't be part of a string, in which each quote has a backslash before it.
var noPayload = []byte(`"payload":null`)

// verbatim is answer, which points at all of the events shown, in their order, as JSON with
// their payloads byte for byte as they were sent.
func verbatim(a huma.API, answer any, shown ...*WebhookEvent) ([]byte, error) {
	payloads := make([]json.RawMessage, len(shown))
	size := 0
	for i, e := range shown {
		payloads[i], e.Payload = e.Payload, nil
		size += len(payloads[i])
	}
	var text bytes.Buffer
	if err := a.Marshal(&text, "application/json", answer); err != nil {
		return nil, err
	}
	rest := text.Bytes()
	out := make([]byte, 0, len(rest)+size)
	for _, payload := range payloads {
		before, after, ok := bytes.Cut(rest, noPayload)
		if !ok {
			return nil, errors.New("api: an event without a place for its payload")
		}
		out = append(out, before...)
		if rest = after; payload == nil {
			out = append(out, noPayload...)
			continue
		}
		out = append(out, `"payload":`...)
		out = append(out, payload...)
	}
	return append(out, rest...), nil
}

// payloadOf is a body as the payload of an event: as it was sent, or, of a form, an object
// of its fields with lists of their values. Null stands for a body that is left out.
func payloadOf(body []byte) json.RawMessage {
	if body == nil {
		return nil
	}
	return webhook.Payload(body)
}
