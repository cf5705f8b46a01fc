// Package openai reads and changes requests and answers of OpenAI's API, and of those
// that are compatible with it. What it doesn't know it leaves as it is.
package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// RequestError says which member of a request is wrong; its message is for clients.
type RequestError struct{ Param, Message string }

// Error implements error.
func (e *RequestError) Error() string { return e.Param + ": " + e.Message }

func wrong(param, format string, args ...any) error {
	return &RequestError{param, fmt.Sprintf(format, args...)}
}

// Member is one of a request's, as it was sent.
type Member struct {
	Name  string
	Value jsontext.Value
}

// Request is one for a chat completion or for embeddings.
type Request struct {
	Model string
	// Stream asks for an answer in pieces; IncludeUsage, for its last to say what was used.
	Stream, IncludeUsage bool
	// MaxOutput is how many tokens the client wants at most; 0 for as many as there are.
	MaxOutput int64
	// Size is how large the prompt is.
	Size Size
	// Members are all, in their order. No two have the same name.
	Members []Member
}

// The members that are read here.
const (
	model               = "model"
	stream              = "stream"
	streamOptions       = "stream_options"
	includeUsage        = "include_usage"
	maxTokens           = "max_tokens"
	maxCompletionTokens = "max_completion_tokens"
	messages            = "messages"
	input               = "input"
)

// single are members whose number multiplies the cost of an answer.
var single = []string{"n", "best_of"}

// ParseChat reads a request for a chat completion. It returns a *RequestError.
func ParseChat(body []byte) (*Request, error) {
	r, err := parse(body)
	if err != nil {
		return nil, err
	}
	list := r.Member(messages)
	if list.Kind() != jsontext.KindBeginArray {
		return nil, wrong(messages, "Must be a list of messages.")
	}
	if n, err := elements(list); err != nil || n == 0 {
		return nil, wrong(messages, "Must hold a message at least.")
	}
	return r, nil
}

// ParseEmbeddings reads a request for embeddings. It returns a *RequestError.
func ParseEmbeddings(body []byte) (*Request, error) {
	r, err := parse(body)
	switch {
	case err != nil:
		return nil, err
	case r.Stream:
		return nil, wrong(stream, "Embeddings are not streamed.")
	}
	if k := r.Member(input).Kind(); k != jsontext.KindString && k != jsontext.KindBeginArray {
		return nil, wrong(input, "Must be a text, or a list of texts or tokens.")
	}
	return r, nil
}

func parse(body []byte) (*Request, error) {
	r := &Request{}
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	if d.PeekKind() != jsontext.KindBeginObject {
		return nil, wrong("", "The body must be a JSON object.")
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, unreadable(err)
	}
	for d.PeekKind() != jsontext.KindEndObject {
		name, err := d.ReadToken()
		if err != nil {
			return nil, unreadable(err)
		}
		m := Member{Name: name.String()}
		value, err := d.ReadValue()
		if err != nil {
			return nil, unreadable(err)
		}
		m.Value = value.Clone()
		if err := r.take(m); err != nil {
			return nil, err
		}
		r.Members = append(r.Members, m)
	}
	if r.Model == "" {
		return nil, wrong(model, "Write which model is to answer; GET /api/ai/v1/models lists them.")
	}
	return r, nil
}

func unreadable(err error) error {
	if strings.Contains(err.Error(), "duplicate") {
		return wrong("", "The body has a member twice.")
	}
	return wrong("", "The body is not well-formed JSON whose strings hold no lone surrogates.")
}

// take reads a member.
func (r *Request) take(m Member) error {
	switch m.Name {
	case model:
		if json.Unmarshal(m.Value, &r.Model) != nil || r.Model == "" {
			return wrong(model, "Must be the name of a model.")
		}
		return nil
	case stream:
		if m.Value.Kind() != 'n' && json.Unmarshal(m.Value, &r.Stream) != nil {
			return wrong(stream, "Must be true or false.")
		}
		return nil
	case streamOptions:
		return r.takeStreamOptions(m.Value)
	case maxTokens, maxCompletionTokens:
		if m.Value.Kind() == 'n' {
			return nil
		}
		n, err := strconv.ParseInt(string(m.Value), 10, 64)
		if err != nil || n < 1 {
			return wrong(m.Name, "Must be a whole number of 1 or more.")
		}
		if r.MaxOutput == 0 || n < r.MaxOutput {
			r.MaxOutput = n
		}
		return nil
	}
	if slices.Contains(single, m.Name) {
		if s := string(m.Value); s != "1" && s != "null" {
			return wrong(m.Name, "Only 1 is possible here; ask again for another answer.")
		}
		return nil
	}
	// Some upstreams read names in any case, and would take these for others.
	for _, known := range append([]string{model, stream, streamOptions, maxTokens, maxCompletionTokens}, single...) {
		if strings.EqualFold(known, m.Name) {
			return wrong(m.Name, "Is not a member of this request; did you mean %s?", known)
		}
	}
	// OpenAI takes twice the price for it.
	if m.Name == "service_tier" && string(m.Value) == `"priority"` {
		return wrong(m.Name, "The tier priority can't be asked for here.")
	}
	r.Size.add(m)
	return nil
}

func (r *Request) takeStreamOptions(v jsontext.Value) error {
	if v.Kind() == 'n' {
		return nil
	}
	var options map[string]json.RawMessage
	if json.Unmarshal(v, &options) != nil {
		return wrong(streamOptions, "Must be an object.")
	}
	if wanted, ok := options[includeUsage]; ok && string(wanted) != "null" && json.Unmarshal(wanted, &r.IncludeUsage) != nil {
		return wrong(streamOptions+"."+includeUsage, "Must be true or false.")
	}
	return nil
}

// Member is the value of a member, nil where there is none.
func (r *Request) Member(name string) jsontext.Value {
	for _, m := range r.Members {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// Chat writes the request for an upstream: for its own model, with so many tokens of
// output at most, and with usage if it is a stream. OpenAI itself knows
// max_completion_tokens alone for its newer models; compatible services know max_tokens
// for sure, and the other where the client relied on it.
func (r *Request) Chat(upstreamModel string, maxOutput int64, official bool) []byte {
	limit := strconv.FormatInt(maxOutput, 10)
	set := map[string]string{maxTokens: limit}
	switch {
	case official:
		set = map[string]string{maxCompletionTokens: limit}
	case r.Member(maxCompletionTokens) != nil:
		set[maxCompletionTokens] = limit
	}
	if r.Stream {
		set[streamOptions] = withUsage(r.Member(streamOptions))
	}
	return r.write(upstreamModel, set, []string{maxTokens, maxCompletionTokens, streamOptions})
}

// Embeddings writes the request for an upstream.
func (r *Request) Embeddings(upstreamModel string) []byte {
	return r.write(upstreamModel, nil, []string{streamOptions})
}

// write writes all members but those of dropped, and those of set.
func (r *Request) write(upstreamModel string, set map[string]string, dropped []string) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	put := func(name string, value []byte) {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		quoted, _ := jsontext.AppendQuote(nil, name) // read as JSON, so it can be written
		b.Write(quoted)
		b.WriteByte(':')
		b.Write(value)
	}
	for _, m := range r.Members {
		switch {
		case m.Name == model:
			quoted, _ := jsontext.AppendQuote(nil, upstreamModel)
			put(model, quoted)
		case !slices.Contains(dropped, m.Name):
			put(m.Name, m.Value)
		}
	}
	for _, name := range []string{maxTokens, maxCompletionTokens, streamOptions} {
		if value, ok := set[name]; ok {
			put(name, []byte(value))
		}
	}
	b.WriteByte('}')
	return b.Bytes()
}

// withUsage is the member stream_options with include_usage.
func withUsage(v jsontext.Value) string {
	options := map[string]json.RawMessage{}
	if v.Kind() == jsontext.KindBeginObject {
		_ = json.Unmarshal(v, &options) // read before
	}
	options[includeUsage] = json.RawMessage("true")
	b, _ := json.Marshal(options)
	return string(b)
}

// elements counts those of a list.
func elements(list jsontext.Value) (int, error) {
	var all []json.RawMessage
	err := json.Unmarshal(list, &all)
	return len(all), err
}
