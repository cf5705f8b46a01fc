package anthropic_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/aigateway/anthropic"
	"github.com/waypost/waypost/internal/aigateway/openai"
)

func generic(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err, text)
	}
	return v
}

func TestAConversationIsTranslated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"plain": {`{"model":"a","messages":[{"role":"system","content":"Be brief."},{"role":"developer","content":[{"type":"text","text":"Be kind."}]},{"role":"user","content":"Hi"}],"temperature":1.7,"top_p":0.5,"stop":"x","user":"u","seed":1,"max_tokens":5}`,
			`{"model":"m","max_tokens":9,"system":"Be brief.\n\nBe kind.","messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"temperature":1,"top_p":0.5,"stop_sequences":["x"],"metadata":{"user_id":"u"}}`},
		"images": {`{"model":"a","messages":[{"role":"user","content":[{"type":"text","text":"?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}]}`,
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},{"type":"image","source":{"type":"url","url":"https://x/y.png"}}]}]}`},
		"tools": {`{"model":"a","messages":[{"role":"user","content":"?"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"2","type":"function","function":{"name":"g","arguments":""}}]},{"role":"tool","tool_call_id":"1","content":"one"},{"role":"tool","tool_call_id":"2","content":""},{"role":"user","content":"So?"}],"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}},{"type":"function","function":{"name":"g"}}],"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false}`,
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"?"}]},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"a":1}},{"type":"tool_use","id":"2","name":"g","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"one"}]},{"type":"tool_result","tool_use_id":"2"},{"type":"text","text":"So?"}]}],"tools":[{"name":"f","description":"d","input_schema":{"type":"object"}},{"name":"g","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}}`},
		"its own members": {`{"model":"a","messages":[{"role":"user","content":"Hi"}],"top_k":3,"thinking":{"type":"enabled"},"stream":true,"stream_options":{"include_usage":true},"response_format":{"type":"text"}}`,
			`{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"top_k":3,"thinking":{"type":"enabled"}}`},
	} {
		r, err := openai.ParseChat([]byte(c.in))
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := anthropic.Request(r, "m", 9)
		if err != nil {
			t.Fatal(name, err)
		}
		if diff := cmp.Diff(generic(t, c.want), generic(t, string(got))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestAnswersAreTranslatedWithTheirReasons(t *testing.T) {
	t.Parallel()
	for stop, want := range map[string]string{"end_turn": "stop", "max_tokens": "length", "stop_sequence": "stop", "tool_use": "tool_calls", "refusal": "content_filter", "something new": "stop"} {
		out, c, err := anthropic.Answer([]byte(`{"type":"message","id":"1","model":"m","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"},{"type":"text","text":"b"}],"stop_reason":"`+stop+`","usage":{"input_tokens":3,"cache_creation_input_tokens":4,"output_tokens":2}}`), 7)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Choices []struct {
				Message struct{ Content string }
				Reason  string `json:"finish_reason"`
			}
			Usage map[string]int
		}
		if err := json.Unmarshal(out, &got); err != nil || got.Choices[0].Reason != want || got.Choices[0].Message.Content != "ab" || got.Usage["total_tokens"] != 9 || c.Stated.Input != 7 || c.Stated.Output != 2 {
			t.Errorf("%s: %s, %+v, %v", stop, out, c, err)
		}
	}
	for in, want := range map[string]error{`{"type":"error","error":{}}`: openai.ErrReported, `{}`: openai.ErrMalformed, `{"type":"message"`: openai.ErrMalformed} {
		if _, _, err := anthropic.Answer([]byte(in), 0); !errors.Is(err, want) {
			t.Errorf("%s: %v", in, err)
		}
	}
}

// FuzzRequest: whatever a client sends, the translation is JSON with the limit that was
// set, or the client is told which member is wrong.
func FuzzRequest(f *testing.F) {
	f.Add(`{"model":"a","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]}],"tools":[{"type":"function","function":{"name":"f"}}]}`)
	f.Add(`{"model":"a","messages":[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]}],"max_tokens":7,"MAX_TOKENS":1000000}`)
	f.Add(`{"model":"a","messages":[{"role":"tool","content":"x"}],"stop":["a"],"system":"b"}`)
	f.Fuzz(func(t *testing.T, in string) {
		r, err := openai.ParseChat([]byte(in))
		if err != nil {
			return
		}
		for _, out := range [][]byte{r.Chat("m", 9, false), r.Chat("m", 9, true)} {
			again, err := openai.ParseChat(out)
			if err != nil || again.Model != "m" || again.MaxOutput != 9 || again.Stream != r.Stream || r.Stream && !again.IncludeUsage {
				t.Fatalf("%s became %s: %v", in, out, err)
			}
		}
		out, err := anthropic.Request(r, "m", 9)
		if err != nil {
			if _, ok := errors.AsType[*openai.RequestError](err); !ok {
				t.Fatal(err)
			}
			return
		}
		var got struct {
			Model     string            `json:"model"`
			MaxTokens int64             `json:"max_tokens"`
			Messages  []json.RawMessage `json:"messages"`
		}
		if err := json.Unmarshal(out, &got); err != nil || got.Model != "m" || got.MaxTokens != 9 || len(got.Messages) == 0 {
			t.Fatalf("%s became %s: %v", in, out, err)
		}
	})
}

// FuzzStream: whatever an upstream sends, each chunk is JSON, and only a stream that it
// ended itself is whole.
func FuzzStream(f *testing.F) {
	f.Add("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"1\",\"usage\":{\"input_tokens\":1}}}\n\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n")
	f.Add("data: {\"type\":\"ping\"}\n\ndata: {\"type\":\"error\"}\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		s := anthropic.NewStream(strings.NewReader(in), true, 1)
		for {
			chunk, _, err := s.Next()
			if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				if !strings.Contains(in, "message") {
					t.Fatalf("%q is whole", in)
				}
				return
			}
			if err != nil {
				return
			}
			if chunk != nil && !json.Valid(chunk) {
				t.Fatalf("%q gave %s", in, chunk)
			}
		}
	})
}
