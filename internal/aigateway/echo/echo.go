// Package echo is a language model that needs no service: it answers with the last
// message of the user, and counts words as tokens. It speaks OpenAI's API.
package echo

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"
)

// dimensions are those of an embedding.
const dimensions = 32

// Transport answers requests in this process.
type Transport struct {
	Now func() time.Time // the clock; mandatory
}

type request struct {
	Model     string          `json:"model"`
	Stream    bool            `json:"stream"`
	MaxTokens *int            `json:"max_tokens"`
	Messages  []message       `json:"messages"`
	Input     json.RawMessage `json:"input"`
	Encoding  string          `json:"encoding_format"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// text is that of a content: a string, or parts of which some are text.
func (m message) text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(m.Content, &parts) // other contents have no text
	var texts []string
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, " ")
}

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	defer func() { _ = r.Body.Close() }()
	var in request
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return answer(r, http.StatusBadRequest, "application/json", []byte(`{"error":{"message":"unreadable"}}`)), nil
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/embeddings"):
		return embed(r, in)
	case in.Stream:
		return answer(r, http.StatusOK, "text/event-stream", t.stream(in)), nil
	}
	said, reason, used := in.reply()
	body, err := json.Marshal(map[string]any{
		"id": "echo", "object": "chat.completion", "created": t.Now().Unix(), "model": in.Model, "usage": used,
		"choices": []any{map[string]any{"index": 0, "message": map[string]any{"role": "assistant", "content": strings.Join(said, "")}, "logprobs": nil, "finish_reason": reason}},
	})
	return answer(r, http.StatusOK, "application/json", body), err
}

func answer(r *http.Request, status int, contentType string, body []byte) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(bytes.NewReader(body)),
	}
}

// reply is the answer, word by word, why it ends, and what it used.
func (in request) reply() (words []string, reason string, used map[string]int) {
	prompt, last := 0, ""
	for _, m := range in.Messages {
		text := m.text()
		prompt += len(strings.Fields(text))
		if m.Role == "user" {
			last = text
		}
	}
	words, reason = split(last), "stop"
	if in.MaxTokens != nil && len(words) > *in.MaxTokens {
		words, reason = words[:*in.MaxTokens], "length"
	}
	return words, reason, map[string]int{"prompt_tokens": prompt, "completion_tokens": len(words), "total_tokens": prompt + len(words)}
}

// split cuts a text into its words, each with the space before it; nothing is lost.
func split(text string) []string {
	var words []string
	rest := text
	for rest != "" {
		word := strings.TrimLeft(rest, " \t\r\n")
		end := len(rest) - len(word)
		if i := strings.IndexAny(word, " \t\r\n"); i >= 0 {
			end += i
		} else {
			end = len(rest)
		}
		words, rest = append(words, rest[:end]), rest[end:]
	}
	return words
}

func (t Transport) stream(in request) []byte {
	var b bytes.Buffer
	words, reason, used := in.reply()
	chunk := func(delta map[string]any, reason any) {
		choices := []any{map[string]any{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": reason}}
		t.write(&b, in.Model, choices, nil)
	}
	chunk(map[string]any{"role": "assistant", "content": ""}, nil)
	for _, w := range words {
		chunk(map[string]any{"content": w}, nil)
	}
	chunk(map[string]any{}, reason)
	t.write(&b, in.Model, []any{}, used)
	b.WriteString("data: [DONE]\n\n")
	return b.Bytes()
}

func (t Transport) write(b *bytes.Buffer, model string, choices []any, used map[string]int) {
	chunk := map[string]any{"id": "echo", "object": "chat.completion.chunk", "created": t.Now().Unix(), "model": model, "choices": choices}
	if used != nil {
		chunk["usage"] = used
	}
	data, _ := json.Marshal(chunk) // strings and numbers
	fmt.Fprintf(b, "data: %s\n\n", data)
}

// embed answers with a vector of length 1 for each text, the same for the same text.
func embed(r *http.Request, in request) (*http.Response, error) {
	var texts []string
	var one string
	if json.Unmarshal(in.Input, &one) == nil {
		texts = []string{one}
	} else if json.Unmarshal(in.Input, &texts) != nil {
		texts = []string{string(in.Input)} // tokens
	}
	used, data := 0, make([]any, len(texts))
	for i, text := range texts {
		used += len(strings.Fields(text))
		vector := vectorOf(text)
		var embedding any = vector
		if in.Encoding == "base64" {
			raw := make([]byte, 0, 4*dimensions)
			for _, f := range vector {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(f))
			}
			embedding = base64.StdEncoding.EncodeToString(raw)
		}
		data[i] = map[string]any{"object": "embedding", "index": i, "embedding": embedding}
	}
	body, err := json.Marshal(map[string]any{"object": "list", "model": in.Model, "data": data, "usage": map[string]int{"prompt_tokens": used, "total_tokens": used}})
	return answer(r, http.StatusOK, "application/json", body), err
}

func vectorOf(text string) []float32 {
	digest := sha256.Sum256([]byte(text))
	vector, square := make([]float32, dimensions), 0.0
	for i, b := range digest {
		vector[i] = float32(b) - 127.5
		square += float64(vector[i]) * float64(vector[i])
	}
	for i := range vector {
		vector[i] /= float32(math.Sqrt(square))
	}
	return vector
}
