// Package anthropic speaks to Anthropic's Messages API for clients that speak OpenAI's:
// requests, answers and streams are translated, with tools and images.
package anthropic

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/waypost/waypost/internal/aigateway/openai"
)

// Version is the header anthropic-version of what is spoken here.
const Version = "2023-06-01"

// What OpenAI's requests have and Messages have not.
var (
	// hints change nothing that a client could rely on, and are left out.
	hints = []string{
		"frequency_penalty", "presence_penalty", "logit_bias", "seed", "store", "metadata", "service_tier", "reasoning_effort", "verbosity",
		"stream_options", "prompt_cache_key", "safety_identifier", "n", "best_of", "max_tokens", "max_completion_tokens", "parallel_tool_calls", "prompt_cache_retention",
	}
	// impossible would make another answer, so that they are refused unless they ask for nothing.
	impossible = []string{"logprobs", "top_logprobs", "response_format", "modalities", "audio", "prediction", "web_search_options", "functions", "function_call"}
	// harmless are values of impossible ones that ask for nothing.
	harmless = []string{"null", "false", "0", "[]", `["text"]`, `{"type":"text"}`, `"none"`}
)

// request is the body of POST /v1/messages.
type request struct {
	Model         string          `json:"model"`
	MaxTokens     int64           `json:"max_tokens"`
	System        string          `json:"system,omitempty"`
	Messages      []message       `json:"messages"`
	Tools         []tool          `json:"tools,omitempty"`
	ToolChoice    *toolChoice     `json:"tool_choice,omitempty"`
	StopSequences []string        `json:"stop_sequences,omitempty"`
	Temperature   *float64        `json:"temperature,omitempty"`
	TopP          json.RawMessage `json:"top_p,omitempty"`
	Metadata      *metadata       `json:"metadata,omitempty"`
	Stream        bool            `json:"stream,omitempty"`
}

type metadata struct {
	UserID string `json:"user_id"`
}

type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// block is a part of a message; which members it has depends on its type.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Source    *source         `json:"source,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   []block         `json:"content,omitempty"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type toolChoice struct {
	Type            string `json:"type"`
	Name            string `json:"name,omitempty"`
	DisableParallel bool   `json:"disable_parallel_tool_use,omitempty"`
}

// Request translates a request for a chat completion. It returns an
// *openai.RequestError for what Messages can't express.
func Request(r *openai.Request, model string, maxOutput int64) ([]byte, error) {
	out := request{Model: model, MaxTokens: maxOutput, Stream: r.Stream}
	extra := map[string]json.RawMessage{}
	for _, m := range r.Members {
		known, err := out.take(m.Name, json.RawMessage(m.Value))
		switch {
		case err != nil:
			return nil, err
		case !known:
			extra[m.Name] = json.RawMessage(m.Value)
		}
	}
	if v := r.Member("parallel_tool_calls"); string(v) == "false" && len(out.Tools) > 0 {
		if out.ToolChoice == nil {
			out.ToolChoice = &toolChoice{Type: "auto"}
		}
		out.ToolChoice.DisableParallel = out.ToolChoice.Type != "none"
	}
	if len(out.Tools) == 0 {
		out.ToolChoice = nil
	}
	if len(out.Messages) == 0 {
		return nil, wrong("messages", "Must hold a message of the user.")
	}
	return withMembers(out, extra)
}

// withMembers writes a request together with members that the client added for
// Anthropic, such as thinking.
func withMembers(r request, extra map[string]json.RawMessage) ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil || len(extra) == 0 {
		return b, err
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, err
	}
	for name, value := range extra {
		if _, own := all[name]; !own {
			all[name] = value
		}
	}
	return json.Marshal(all)
}

func wrong(param, format string, args ...any) error {
	return &openai.RequestError{Param: param, Message: fmt.Sprintf(format, args...)}
}

// take translates a member, and reports whether it is one of OpenAI's.
func (r *request) take(name string, v json.RawMessage) (bool, error) {
	if string(v) == "null" && name != "messages" {
		return true, nil
	}
	switch name {
	case "model", "stream":
		return true, nil
	case "messages":
		return true, r.takeMessages(v)
	case "tools":
		return true, r.takeTools(v)
	case "tool_choice":
		return true, r.takeToolChoice(v)
	case "stop":
		return true, r.takeStop(v)
	case "temperature":
		var t float64
		if json.Unmarshal(v, &t) != nil {
			return true, wrong(name, "Must be a number.")
		}
		t = min(t, 1) // the most that there is
		r.Temperature = &t
		return true, nil
	case "top_p":
		r.TopP = v
		return true, nil
	case "user":
		var user string
		if json.Unmarshal(v, &user) != nil {
			return true, wrong(name, "Must be a string.")
		}
		r.Metadata = &metadata{user}
		return true, nil
	}
	// These decide what the answer costs, or what is asked; they are written from others.
	if slices.ContainsFunc([]string{"model", "stream", "messages", "max_tokens", "system", "tools", "tool_choice", "stop_sequences"}, func(own string) bool { return strings.EqualFold(own, name) }) && !slices.Contains(hints, name) {
		return true, wrong(name, "Is not a member of this request.")
	}
	if slices.Contains(impossible, name) && !slices.Contains(harmless, string(v)) {
		return true, wrong(name, "This model can't do that.")
	}
	return slices.Contains(hints, name) || slices.Contains(impossible, name), nil
}

func (r *request) takeStop(v json.RawMessage) error {
	var one string
	if json.Unmarshal(v, &one) == nil {
		r.StopSequences = []string{one}
		return nil
	}
	if json.Unmarshal(v, &r.StopSequences) != nil {
		return wrong("stop", "Must be a text or a list of texts.")
	}
	return nil
}

func (r *request) takeTools(v json.RawMessage) error {
	var list []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	if json.Unmarshal(v, &list) != nil {
		return wrong("tools", "Must be a list of tools.")
	}
	for i, t := range list {
		if t.Type != "function" || t.Function.Name == "" {
			return wrong(fmt.Sprintf("tools[%d]", i), "Must be a function with a name.")
		}
		schema := t.Function.Parameters
		if len(schema) == 0 || string(schema) == "null" {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		r.Tools = append(r.Tools, tool{t.Function.Name, t.Function.Description, schema})
	}
	return nil
}

func (r *request) takeToolChoice(v json.RawMessage) error {
	var word string
	if json.Unmarshal(v, &word) == nil {
		kinds := map[string]string{"auto": "auto", "none": "none", "required": "any"}
		if kinds[word] == "" {
			return wrong("tool_choice", "Must be auto, none, required or a function.")
		}
		r.ToolChoice = &toolChoice{Type: kinds[word]}
		return nil
	}
	var one struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if json.Unmarshal(v, &one) != nil || one.Type != "function" || one.Function.Name == "" {
		return wrong("tool_choice", "Must be auto, none, required or a function.")
	}
	r.ToolChoice = &toolChoice{Type: "tool", Name: one.Function.Name}
	return nil
}
