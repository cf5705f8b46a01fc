package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
)

// maxAnswers bounds what the calls of one POST answer together, in bytes. It is far more
// than an assistant can read.
const maxAnswers = 2 << 20

// Codes of results that no operation gives.
const (
	codeTooLarge = "answer_too_large"
	codeNoJSON   = "answer_not_json"
)

var (
	errTooLarge = fault.New(fault.TooLarge, codeTooLarge, "The answer is larger than 2 MiB. Ask for less, such as with a smaller limit, or call the operation over HTTP.")
	errNoJSON   = fault.New(fault.UnsupportedMedia, codeNoJSON, "The answer is not JSON. Call the operation over HTTP.")
)

// room is what calls may still answer.
type room struct {
	mu   sync.Mutex
	left int
}

func newRoom(n int) *room { return &room{left: n} }

// take reports whether n more bytes have room.
func (r *room) take(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left < n {
		return false
	}
	r.left -= n
	return true
}

// answer keeps what an operation answers. It implements http.ResponseWriter.
type answer struct {
	header   http.Header
	status   int
	body     []byte
	room     *room
	overflow bool
	full     context.CancelFunc // ends the request of an answer for which there is no room
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if !a.overflow && a.room.take(len(b)) {
		a.body = append(a.body, b...)
		return len(b), nil
	}
	if !a.overflow {
		a.overflow, a.body = true, nil
		a.full()
	}
	return len(b), nil // as from a client that reads on
}

// result makes the result of an operation's answer: the body as text, for clients that know
// nothing else, and as structured content, where that is promised. A failure is a result too:
// the assistant shall read what was wrong.
func (x *exchange) result(t *tool, a *answer) *sdk.CallToolResult {
	a.WriteHeader(http.StatusOK)
	media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	switch {
	case a.overflow:
		return x.failed(errTooLarge)
	case len(a.body) == 0 && a.status < http.StatusMultipleChoices:
		return &sdk.CallToolResult{Content: []sdk.Content{}, Meta: about(a.status, "")}
	case media != mediaJSON || !json.Valid(a.body), a.status >= http.StatusMultipleChoices && a.status < http.StatusBadRequest:
		return x.failed(errNoJSON)
	case a.status >= http.StatusBadRequest:
		return failure(a.body, a.status, a.header.Get("Retry-After"))
	}
	r := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(a.body)}}, Meta: about(a.status, "")}
	if t.listed.OutputSchema != nil {
		r.StructuredContent = json.RawMessage(a.body)
	}
	return r
}

// failed is the result of what came to no answer of an operation, with the same envelope.
func (x *exchange) failed(err error) *sdk.CallToolResult {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		httpedge.Record(x.outer.Context(), err)
	}
	e := httpedge.NewEnvelope(err, httpedge.RequestID(x.outer.Context()))
	body, mErr := json.Marshal(e)
	if mErr != nil {
		panic("mcp: an envelope that JSON can't carry: " + mErr.Error())
	}
	return failure(body, e.GetStatus(), e.GetHeaders().Get("Retry-After"))
}

func failure(envelope []byte, status int, retryAfter string) *sdk.CallToolResult {
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: string(envelope)}}, Meta: about(status, retryAfter)}
}

// about is what HTTP says beside the body.
func about(status int, retryAfter string) sdk.Meta {
	m := sdk.Meta{"waypost/status": status}
	if retryAfter != "" {
		m["waypost/retryAfter"] = retryAfter
	}
	return m
}
