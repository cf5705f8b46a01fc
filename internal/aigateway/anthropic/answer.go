package anthropic

import (
	"encoding/json"

	"github.com/waypost/waypost/internal/aigateway/openai"
)

// answer is that of POST /v1/messages.
type answer struct {
	Type       string  `json:"type"`
	ID         string  `json:"id"`
	Model      string  `json:"model"`
	Content    []block `json:"content"`
	StopReason string  `json:"stop_reason"`
	Usage      tokens  `json:"usage"`
}

// tokens are a usage; what was read from or written to a cache is input too.
type tokens struct {
	Input         *int64 `json:"input_tokens"`
	Output        *int64 `json:"output_tokens"`
	CacheRead     *int64 `json:"cache_read_input_tokens"`
	CacheCreation *int64 `json:"cache_creation_input_tokens"`
}

func (t tokens) stated() openai.Stated {
	s := openai.Nothing()
	if t.Input != nil {
		sum := int64(0)
		for _, part := range []*int64{t.Input, t.CacheRead, t.CacheCreation} {
			if part != nil && sum >= 0 {
				sum += *part
				if *part < 0 || *part > openai.MaxTokens {
					sum = -1
				}
			}
		}
		if sum <= openai.MaxTokens {
			s.Input = sum
		}
	}
	if t.Output != nil && *t.Output >= 0 && *t.Output <= openai.MaxTokens {
		s.Output = *t.Output
	}
	return s
}

// reasons are why an answer ended, in OpenAI's words.
var reasons = map[string]string{
	"end_turn": "stop", "stop_sequence": "stop", "pause_turn": "stop", "max_tokens": "length", "model_context_window_exceeded": "length",
	"tool_use": "tool_calls", "refusal": "content_filter",
}

func finishReason(stop string) string {
	if r, ok := reasons[stop]; ok {
		return r
	}
	return "stop"
}

type completion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []choice     `json:"choices"`
	Usage   *usageMember `json:"usage,omitempty"`
}

type choice struct {
	Index        int     `json:"index"`
	Message      *said   `json:"message,omitempty"`
	Delta        *said   `json:"delta,omitempty"`
	LogProbs     *int    `json:"logprobs"`
	FinishReason *string `json:"finish_reason"`
}

// said is a message or a piece of one.
type said struct {
	Role      string  `json:"role,omitempty"`
	Content   *string `json:"content,omitempty"`
	ToolCalls []call  `json:"tool_calls,omitempty"`
}

// MarshalJSON writes the members that clients expect of a message, null included.
func (s said) MarshalJSON() ([]byte, error) {
	type plain said
	if s.Role == "" || s.Content != nil {
		return json.Marshal(plain(s))
	}
	return json.Marshal(struct {
		Role      string  `json:"role"`
		Content   *string `json:"content"`
		ToolCalls []call  `json:"tool_calls,omitempty"`
	}{s.Role, nil, s.ToolCalls})
}

type call struct {
	Index    *int     `json:"index,omitempty"`
	ID       string   `json:"id,omitempty"`
	Type     string   `json:"type,omitempty"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type usageMember struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
}

func usageOf(s openai.Stated) *usageMember {
	if s.Input < 0 || s.Output < 0 {
		return nil
	}
	return &usageMember{s.Input, s.Output, s.Input + s.Output}
}

// Answer translates an answer; created is the time in Unix seconds. It returns
// openai.ErrMalformed or openai.ErrReported.
func Answer(data []byte, created int64) ([]byte, openai.Contents, error) {
	c := openai.Contents{Stated: openai.Nothing()}
	var a answer
	if json.Unmarshal(data, &a) != nil {
		return nil, c, openai.ErrMalformed
	}
	switch a.Type {
	case "message":
	case "error":
		return nil, c, openai.ErrReported
	default:
		return nil, c, openai.ErrMalformed
	}
	c.Stated, c.Choices = a.Usage.stated(), true
	message := said{Role: "assistant"}
	for _, b := range a.Content {
		switch b.Type {
		case "text":
			text := b.Text
			if message.Content != nil {
				text = *message.Content + text
			}
			message.Content = &text
			c.Text += int64(len(b.Text))
		case "tool_use":
			message.ToolCalls = append(message.ToolCalls, call{ID: b.ID, Type: "function", Function: function{b.Name, string(b.Input)}})
			c.Text += int64(len(b.Name) + len(b.Input))
		}
	}
	if message.Content == nil && len(message.ToolCalls) == 0 {
		message.Content = new(string)
	}
	reason := finishReason(a.StopReason)
	out, err := json.Marshal(completion{
		ID: a.ID, Object: "chat.completion", Created: created, Model: a.Model,
		Choices: []choice{{Message: &message, FinishReason: &reason}}, Usage: usageOf(c.Stated),
	})
	return out, c, err
}
