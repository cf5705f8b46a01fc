package anthropic

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/waypost/waypost/internal/aigateway/openai"
	"github.com/waypost/waypost/internal/aigateway/sse"
)

// Stream translates a stream of events into chunks of a chat completion.
type Stream struct {
	events       *sse.Reader
	includeUsage bool
	created      int64
	id, model    string
	stated       openai.Stated
	begun, ended bool
	usageSent    bool
	tools        map[int]int // the numbers of calls by those of blocks
}

// NewStream reads from r. includeUsage adds the chunk that says what was used; created is
// the time in Unix seconds.
func NewStream(r io.Reader, includeUsage bool, created int64) *Stream {
	return &Stream{events: sse.NewReader(r), includeUsage: includeUsage, created: created, stated: openai.Nothing(), tools: map[int]int{}}
}

// More reports whether Next would not wait.
func (s *Stream) More() bool { return s.ended || s.events.More() }

type event struct {
	Type    string  `json:"type"`
	Message *answer `json:"message"`
	Index   int     `json:"index"`
	Block   *block  `json:"content_block"`
	Delta   struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
	Usage *tokens `json:"usage"`
}

// Next returns the next chunk, nil for one that is not for the client, and what is in it.
// At the end of a whole stream it returns io.EOF; otherwise openai.ErrMalformed,
// openai.ErrReported or an error of reading, io.ErrUnexpectedEOF too.
func (s *Stream) Next() ([]byte, openai.Contents, error) {
	c := openai.Contents{Stated: openai.Nothing()}
	if s.ended {
		if u := usageOf(s.stated); s.includeUsage && !s.usageSent && u != nil {
			s.usageSent = true
			chunk, err := s.chunk(nil, u)
			return chunk, c, err
		}
		return nil, c, io.EOF
	}
	raw, err := s.events.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, c, io.ErrUnexpectedEOF
	case errors.Is(err, sse.ErrTooLarge):
		return nil, c, openai.ErrMalformed
	case err != nil:
		return nil, c, err
	}
	var e event
	if json.Unmarshal(raw.Data, &e) != nil {
		return nil, c, openai.ErrMalformed
	}
	chunk, err := s.translate(e, &c)
	s.stated = s.stated.Merge(c.Stated)
	return chunk, c, err
}

func (s *Stream) translate(e event, c *openai.Contents) ([]byte, error) {
	switch e.Type {
	case "message_start":
		if e.Message == nil || s.begun {
			return nil, openai.ErrMalformed
		}
		s.begun = true
		s.id, s.model = e.Message.ID, e.Message.Model
		// What it says of output is of its beginning, and not the sum.
		c.Stated.Input = e.Message.Usage.stated().Input
		return s.say(&said{Role: "assistant", Content: new(string)})
	case "error":
		return nil, openai.ErrReported
	case "":
		return nil, openai.ErrMalformed
	}
	if !s.begun {
		if e.Type == "ping" {
			return nil, nil
		}
		return nil, openai.ErrMalformed
	}
	switch e.Type {
	case "content_block_start":
		return s.beginBlock(e, c)
	case "content_block_delta":
		return s.piece(e, c)
	case "message_delta":
		if e.Usage != nil {
			c.Stated = e.Usage.stated()
		}
		reason := finishReason(e.Delta.StopReason)
		if e.Delta.StopReason == "" {
			return nil, nil
		}
		return s.chunk([]choice{{Delta: &said{}, FinishReason: &reason}}, nil)
	case "message_stop":
		s.ended = true
	}
	return nil, nil
}

func (s *Stream) beginBlock(e event, c *openai.Contents) ([]byte, error) {
	switch {
	case e.Block == nil:
		return nil, openai.ErrMalformed
	case e.Block.Type == "tool_use":
		n := len(s.tools)
		s.tools[e.Index] = n
		c.Text = int64(len(e.Block.Name))
		return s.say(&said{ToolCalls: []call{{Index: &n, ID: e.Block.ID, Type: "function", Function: function{Name: e.Block.Name}}}})
	case e.Block.Type == "text" && e.Block.Text != "":
		c.Text = int64(len(e.Block.Text))
		return s.say(&said{Content: &e.Block.Text})
	}
	return nil, nil
}

func (s *Stream) piece(e event, c *openai.Contents) ([]byte, error) {
	switch e.Delta.Type {
	case "text_delta":
		c.Text = int64(len(e.Delta.Text))
		return s.say(&said{Content: &e.Delta.Text})
	case "input_json_delta":
		n, known := s.tools[e.Index]
		if !known {
			return nil, openai.ErrMalformed
		}
		if e.Delta.PartialJSON == "" {
			return nil, nil
		}
		c.Text = int64(len(e.Delta.PartialJSON))
		return s.say(&said{ToolCalls: []call{{Index: &n, Function: function{Arguments: e.Delta.PartialJSON}}}})
	}
	return nil, nil // thoughts and signatures, which OpenAI's clients don't know
}

func (s *Stream) say(delta *said) ([]byte, error) {
	return s.chunk([]choice{{Delta: delta}}, nil)
}

func (s *Stream) chunk(choices []choice, u *usageMember) ([]byte, error) {
	if choices == nil {
		choices = []choice{}
	}
	return json.Marshal(completion{ID: s.id, Object: "chat.completion.chunk", Created: s.created, Model: s.model, Choices: choices, Usage: u})
}
