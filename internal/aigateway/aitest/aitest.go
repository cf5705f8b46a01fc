// Package aitest is an upstream of language models for tests: OpenAI's and Anthropic's
// API, with the misfortunes that such services have. The model's name chooses which.
package aitest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// Models are misfortunes. Any other name is answered as it should be.
const (
	Slow      = "slow"      // the first byte takes SlowTime
	Silent    = "silent"    // it takes for ever
	Hangs     = "hangs"     // it sends a piece, and then nothing more
	Cut       = "cut"       // the connection ends in the middle
	Busy      = "busy"      // 429
	Broken    = "broken"    // 500
	Flaky     = "flaky"     // 500 once, then it answers
	Malformed = "malformed" // the second chunk, or the answer, is no JSON
	NoUsage   = "no-usage"  // it doesn't say what was used
	Quoting   = "quoting"   // 401, and the error quotes the key
	Reporting = "reporting" // an error, which quotes the key, in place of the answer
	Refusing  = "refusing"  // 400, and the error quotes prompt and key
	Redirects = "redirects" // 307 to itself
	Endless   = "endless"   // a stream that goes on until the client goes
	Tool      = "tool"      // the answer calls a tool
)

// SlowTime is how long Slow takes.
const SlowTime = 300 * time.Millisecond

// Words are the answer; each is a piece of a stream, and a token.
var Words = []string{"The ", "engine ", "weaves ", "algebraic ", "patterns."}

// PromptTokens is what it says a prompt has.
const PromptTokens = 7

// Call is a request as it came.
type Call struct {
	Path   string
	Header http.Header
	Body   map[string]any
	Raw    []byte
}

// Server is an upstream.
type Server struct {
	// URL is without a path: OpenAI's API is under URL + "/v1", Anthropic's under URL.
	URL string
	// Pace is the wait before each piece of a stream.
	Pace time.Duration

	mu      sync.Mutex
	calls   []Call
	input   int64
	output  int64
	whole   int
	aborted int
	began   int
}

// Handler answers requests.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	mux.HandleFunc("POST /v1/embeddings", s.embeddings)
	mux.HandleFunc("POST /v1/messages", s.messages)
	return mux
}

// New starts one; close ends it.
func New() (s *Server, closeServer func()) {
	s = &Server{}
	h := httptest.NewServer(s.Handler())
	s.URL = h.URL
	return s, func() { h.CloseClientConnections(); h.Close() }
}

// Calls are all requests that came.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls...)
}

// Served are the tokens of answers that went out whole, and how many those were.
func (s *Server) Served() (input, output int64, answers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.input, s.output, s.whole
}

// Aborted is how many streams ended because the client went away, Began how many began.
func (s *Server) Aborted() int { s.mu.Lock(); defer s.mu.Unlock(); return s.aborted }

// Began is how many streams began.
func (s *Server) Began() int { s.mu.Lock(); defer s.mu.Unlock(); return s.began }

func (s *Server) read(r *http.Request) (map[string]any, string) {
	raw, _ := io.ReadAll(r.Body)
	var body map[string]any
	_ = json.Unmarshal(raw, &body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, Call{r.URL.Path, r.Header.Clone(), body, raw})
	model, _ := body["model"].(string)
	if model == Flaky {
		model = Broken
		n := 0
		for _, c := range s.calls {
			if c.Body["model"] == Flaky {
				n++
			}
		}
		if n > 1 {
			model = "fine"
		}
	}
	return body, model
}

func (s *Server) serve(input, output int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.input, s.output, s.whole = s.input+input, s.output+output, s.whole+1
}

// fails answers for models that don't, and reports whether it did.
func (s *Server) fails(w http.ResponseWriter, r *http.Request, model string) bool {
	key := r.Header.Get("Authorization") + r.Header.Get("X-Api-Key")
	quoting := fmt.Sprintf(`{"type":"error","error":{"message":"bad key %s","type":"invalid"}}`, key)
	switch model {
	case Slow:
		time.Sleep(SlowTime)
		return false
	case Silent:
		<-r.Context().Done()
		s.abort()
	case Busy:
		answer(w, http.StatusTooManyRequests, quoting)
	case Broken:
		answer(w, http.StatusInternalServerError, quoting)
	case Quoting:
		answer(w, http.StatusUnauthorized, quoting)
	case Reporting:
		answer(w, http.StatusOK, quoting)
	case Refusing:
		answer(w, http.StatusBadRequest, quoting)
	case Redirects:
		w.Header().Set("Location", r.URL.Path)
		w.WriteHeader(http.StatusTemporaryRedirect)
	default:
		return false
	}
	return true
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// output is how many tokens an answer may have.
func output(body map[string]any) int {
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		if n, ok := body[name].(float64); ok {
			return min(len(Words), int(n))
		}
	}
	return len(Words)
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	body, model := s.read(r)
	if s.fails(w, r, model) {
		return
	}
	n := output(body)
	if body["stream"] == true {
		options, _ := body["stream_options"].(map[string]any)
		s.stream(w, r, model, s.openaiEvents(model, n, options["include_usage"] == true), n)
		return
	}
	message := map[string]any{"role": "assistant", "content": strings.Join(Words[:n], "")}
	if model == Tool {
		message = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"id": "call_1", "type": "function", "function": map[string]any{"name": "weather", "arguments": `{"city":"Paris"}`}}}}
	}
	out := map[string]any{"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model, "choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": "stop"}}}
	if model != NoUsage {
		out["usage"] = map[string]any{"prompt_tokens": PromptTokens, "completion_tokens": n, "total_tokens": PromptTokens + n}
	}
	s.send(w, model, out, n)
}

// send sends an answer that is no stream.
func (s *Server) send(w http.ResponseWriter, model string, out map[string]any, n int) {
	raw, _ := json.Marshal(out)
	w.Header().Set("Content-Type", "application/json")
	switch model {
	case Malformed:
		raw = raw[:len(raw)-2]
	case Cut, Hangs:
		w.Header().Set("Content-Length", fmt.Sprint(len(raw)))
		_, _ = w.Write(raw[:len(raw)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	s.serve(PromptTokens, int64(n))
	_, _ = w.Write(raw)
}

func (s *Server) openaiEvents(model string, n int, usage bool) []string {
	chunk := func(delta string, reason string) string {
		return fmt.Sprintf(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":%q,"choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`, model, delta, reason)
	}
	events := []string{chunk(`{"role":"assistant","content":""}`, "null")}
	if model == Tool {
		events = append(events, chunk(`{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":""}}]}`, "null"),
			chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":\"Paris\"}"}}]}`, "null"))
	} else {
		for _, w := range Words[:n] {
			text, _ := json.Marshal(w)
			events = append(events, chunk(`{"content":`+string(text)+`}`, "null"))
		}
	}
	events = append(events, chunk(`{}`, `"stop"`))
	if usage && model != NoUsage {
		events = append(events, fmt.Sprintf(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":%q,"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, model, PromptTokens, n, PromptTokens+n))
	}
	return append(events, "data: [DONE]")
}

// stream sends events, each with the wait of Pace before it.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, model string, events []string, n int) {
	w.Header().Set("Content-Type", "text/event-stream")
	s.mu.Lock()
	s.began++
	s.mu.Unlock()
	for i := 0; i < len(events); i++ {
		select {
		case <-time.After(s.Pace):
		case <-r.Context().Done():
			s.abort()
			return
		}
		switch {
		case model == Malformed && i == 2:
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":\n\n")
			continue
		case model == Cut && i == 3:
			panic(http.ErrAbortHandler)
		case model == Hangs && i == 3:
			<-r.Context().Done()
			s.abort()
			return
		case model == Endless && i == 4:
			i = 3
			time.Sleep(5 * time.Millisecond)
		}
		_, err := io.WriteString(w, events[i]+"\n\n")
		if err == nil {
			err = http.NewResponseController(w).Flush()
		}
		if err != nil {
			s.abort()
			return
		}
	}
	s.serve(PromptTokens, int64(n))
}

// abort counts a client that went away.
func (s *Server) abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aborted++
}

func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	_, model := s.read(r)
	if s.fails(w, r, model) {
		return
	}
	s.send(w, model, map[string]any{"object": "list", "model": model, "data": []any{map[string]any{"object": "embedding", "index": 0, "embedding": []float64{0.5, -0.5}}},
		"usage": map[string]any{"prompt_tokens": PromptTokens, "total_tokens": PromptTokens}}, 0)
}

func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	body, model := s.read(r)
	if s.fails(w, r, model) {
		return
	}
	n := output(body)
	usage := fmt.Sprintf(`{"input_tokens":%d,"cache_read_input_tokens":2,"output_tokens":%d}`, PromptTokens-2, n)
	if body["stream"] == true {
		s.stream(w, r, model, anthropicEvents(model, n), n)
		return
	}
	content := []any{map[string]any{"type": "text", "text": strings.Join(Words[:n], "")}}
	reason := "end_turn"
	if model == Tool {
		content, reason = append(content[:0], map[string]any{"type": "tool_use", "id": "call_1", "name": "weather", "input": map[string]any{"city": "Paris"}}), "tool_use"
	}
	out := map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": content, "stop_reason": reason}
	if model != NoUsage {
		out["usage"] = json.RawMessage(usage)
	}
	s.send(w, model, out, n)
}

func anthropicEvents(model string, n int) []string {
	event := func(name, data string) string {
		return "event: " + name + "\ndata: {\"type\":\"" + name + "\"" + data + "}"
	}
	usage, used := fmt.Sprintf(`,"usage":{"input_tokens":%d,"cache_read_input_tokens":2,"output_tokens":1}`, PromptTokens-2), fmt.Sprintf(`,"usage":{"output_tokens":%d}`, n)
	if model == NoUsage {
		usage, used = "", ""
	}
	events := []string{event("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"`+model+`","content":[]`+usage+`}`)}
	reason := "end_turn"
	if model == Tool {
		reason = "tool_use"
		events = append(events, event("content_block_start", `,"index":0,"content_block":{"type":"tool_use","id":"call_1","name":"weather","input":{}}`),
			event("content_block_delta", `,"index":0,"delta":{"type":"input_json_delta","partial_json":"{\"city\":"}`),
			event("content_block_delta", `,"index":0,"delta":{"type":"input_json_delta","partial_json":"\"Paris\"}"}`))
	} else {
		events = append(events, event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`))
		for _, w := range Words[:n] {
			text, _ := json.Marshal(w)
			events = append(events, event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":`+string(text)+`}`))
		}
	}
	return append(events, event("content_block_stop", `,"index":0`), event("ping", ""),
		event("message_delta", `,"delta":{"stop_reason":"`+reason+`"}`+used), event("message_stop", ""))
}
