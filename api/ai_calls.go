package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"golang.org/x/sync/semaphore"

	"encoding/json"

	"github.com/waypost/waypost/internal/aigateway"
	"github.com/waypost/waypost/internal/fairqueue"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
)

// AICalls makes calls of the principal of ctx, whose context ends when the client goes
// away; see aigateway.Service.
type AICalls interface {
	Chat(ctx context.Context, body []byte, client aigateway.Client) error
	Embeddings(ctx context.Context, body []byte, client aigateway.Client) error
	Models(p identity.Principal) []string
	Allowance(ctx context.Context, p identity.Principal) (aigateway.Allowance, error)
}

const (
	// maxAIBody is the size of a request, in bytes: images are in it.
	maxAIBody = 20 << 20
	// largeBody is the size from which bodies are counted, and largeBodies how many bytes
	// of such may be in memory at any moment.
	largeBody, largeBodies = 256 << 10, 160 << 20
	// aiStall is how long a client may take nothing of an answer.
	aiStall = 30 * time.Second
)

// aiBodies bounds the memory that large bodies take. It implements bodyHost.
type aiBodies struct {
	bytes *semaphore.Weighted
	s     AICalls
}

func newAIBodies(s AICalls) aiBodies { return aiBodies{semaphore.NewWeighted(largeBodies), s} }

// admit waits for nobody: it returns fairqueue.ErrBusy when there is no room. The body's
// memory is kept until the call is over.
func (b aiBodies) admit(r *http.Request) (leave func(), err error) {
	n := r.ContentLength
	if n < 0 {
		n = maxAIBody
	}
	if n <= largeBody || n > maxAIBody { // the latter are refused unread
		return func() {}, nil
	}
	if !b.bytes.TryAcquire(n) {
		return nil, fairqueue.ErrBusy
	}
	return func() { b.bytes.Release(n) }, nil
}

// refuse tells how the caller stands, as every answer does.
func (b aiBodies) refuse(ctx context.Context, h http.Header) {
	if a, err := b.s.Allowance(ctx, identity.FromContext(ctx)); err == nil {
		setAllowance(h, a)
	}
}

// aiFailures are those of calls.
func aiFailures(more ...error) []error {
	return append([]error{
		aigateway.ErrRequest, aigateway.ErrRefused, aigateway.ErrNoModel, aigateway.ErrModelRole, aigateway.ErrBudget.After(time.Hour), aigateway.ErrRate.After(time.Minute),
		aigateway.ErrUpstream, aigateway.ErrUpstreamTimeout,
	}, more...)
}

// aiAccess is that of calls: scope ai, whatever the method is.
func aiAccess() Access { return signedIn().byScope(identity.AI).ofOneself() }

func registerAICalls(a huma.API, s AICalls) {
	var bodies bodyHost = newAIBodies(s)
	huma.Register(a, passedOn(access(huma.Operation{
		OperationID: "create-chat-completion",
		Method:      http.MethodPost,
		Path:        "/api/ai/v1/chat/completions",
		Summary:     "Create a chat completion",
		Description: "Like OpenAI's `POST /v1/chat/completions`, with JSON or, with `stream`, server-sent events. Tools, images and unknown members are passed on. The model's " +
			"`max_output` limits the answer, whatever the request says. A failing stream ends with `data: {\"error\": ...}` and without `data: [DONE]`.",
		MaxBodyBytes: maxAIBody,
		Metadata:     map[string]any{bodyHostKey: bodies},
		Responses: map[string]*huma.Response{"200": {Description: "The answer.", Headers: streamHeaders(), Content: map[string]*huma.MediaType{
			"application/json":  {Schema: openObject(map[string]string{"id": "The call's id at the upstream.", "object": "Always chat.completion.", "choices": "The answer, as the only choice."}), Example: json.RawMessage(chatExample)},
			"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString, Description: "Chunks, each a line `data: {...}`, and `data: [DONE]` at the end."}, Example: chatStreamExample},
		}}},
	}, aiAccess(), aiFailures()...), chatBody()), func(context.Context, *struct{}) (*huma.StreamResponse, error) {
		return call(s.Chat), nil
	})
	huma.Register(a, passedOn(access(huma.Operation{
		OperationID:  "create-embeddings",
		Method:       http.MethodPost,
		Path:         "/api/ai/v1/embeddings",
		Summary:      "Create embeddings",
		Description:  "Like OpenAI's `POST /v1/embeddings`. Anthropic's models have none.",
		MaxBodyBytes: maxAIBody,
		Metadata:     map[string]any{bodyHostKey: bodies},
		Responses: map[string]*huma.Response{"200": {Description: "The embeddings.", Headers: aiHeaders(), Content: map[string]*huma.MediaType{
			"application/json": {Schema: openObject(map[string]string{"object": "Always list.", "data": "A vector for each input, in their order."}), Example: json.RawMessage(embeddingsExample)},
		}}},
	}, aiAccess(), aiFailures()...), embeddingsBody()), func(context.Context, *struct{}) (*huma.StreamResponse, error) {
		return call(s.Embeddings), nil
	})
}

// call answers with what the service does.
func call(do func(context.Context, []byte, aigateway.Client) error) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		r, w := humachi.Unwrap(hctx)
		ctx, cancel := httpedge.Untimed(hctx.Context())
		defer cancel()
		c := &aiClient{w: w, r: r, control: http.NewResponseController(w)}
		// The server's limits for reading and writing are of the whole request.
		_ = c.control.SetReadDeadline(time.Time{})
		_ = c.control.SetWriteDeadline(time.Time{})
		body, err := io.ReadAll(r.Body) // which readJSON has read
		if err == nil {
			err = do(ctx, body, c)
		}
		if err != nil {
			c.fail(err)
		}
	}}
}

// aiClient is a client at the other end of a connection. It implements aigateway.Client.
type aiClient struct {
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	begun   bool
	pieces  []byte // of a stream, not written yet
}

// Allow implements aigateway.Client.
func (c *aiClient) Allow(a aigateway.Allowance) { setAllowance(c.w.Header(), a) }

// setAllowance tells an allowance in OpenAI's six headers.
func setAllowance(h http.Header, a aigateway.Allowance) {
	reset := resetOf(a)
	for name, value := range map[string]string{
		limitRequests: strconv.FormatInt(int64(a.Requests), 10), limitTokens: strconv.FormatInt(a.Tokens, 10),
		remainingRequests: strconv.FormatInt(int64(a.RemainingRequests), 10), remainingTokens: strconv.FormatInt(a.RemainingTokens, 10),
		resetRequests: reset, resetTokens: reset,
	} {
		h.Set(name, value)
	}
}

// resetOf is a time as OpenAI writes it: 1m30.5s.
func resetOf(a aigateway.Allowance) string { return a.Reset.Round(time.Millisecond).String() }

// Answer implements aigateway.Client.
func (c *aiClient) Answer(body []byte) error {
	c.begun = true
	_ = c.control.SetWriteDeadline(time.Now().Add(aiStall))
	c.w.Header().Set("Content-Type", "application/json")
	_, err := c.w.Write(body)
	return err
}

// Begin implements aigateway.Client. A stream is not compressed: that would keep pieces
// back.
func (c *aiClient) Begin() error {
	c.begun = true
	plain := httpedge.Uncompressed(c.w)
	maps.Copy(plain.Header(), c.w.Header())
	c.w, c.control = plain, http.NewResponseController(plain)
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.w.Header().Set(accelBuffering, "no")
	c.w.WriteHeader(http.StatusOK)
	return c.flush()
}

// flush sends what waits in one write: net/http would make several of small ones.
func (c *aiClient) flush() error {
	_ = c.control.SetWriteDeadline(time.Now().Add(aiStall))
	_, err := c.w.Write(c.pieces)
	c.pieces = c.pieces[:0]
	if err != nil {
		return err
	}
	return c.control.Flush()
}

// enoughPieces is how many bytes of a stream are written though more lies ready.
const enoughPieces = 32 << 10

// Piece implements aigateway.Client.
func (c *aiClient) Piece(data []byte, flush bool) error {
	if bytes.IndexByte(data, '\n') >= 0 {
		data = bytes.ReplaceAll(data, []byte("\n"), []byte("\ndata: "))
	}
	c.pieces = append(append(append(c.pieces, "data: "...), data...), "\n\n"...)
	if !flush && len(c.pieces) < enoughPieces {
		return nil
	}
	return c.flush()
}

// fail tells the client what went wrong, if it is still there.
func (c *aiClient) fail(err error) {
	if errors.Is(err, aigateway.ErrGone) { // nobody reads what would be said
		httpedge.Record(c.r.Context(), err)
		return
	}
	if !c.begun {
		_ = c.control.SetWriteDeadline(time.Now().Add(aiStall))
		httpedge.WriteError(c.w, c.r, err)
		return
	}
	httpedge.Record(c.r.Context(), err)
	problem, mErr := json.Marshal(httpedge.NewEnvelope(err, httpedge.RequestID(c.r.Context())).At(c.r.URL.Path))
	if mErr == nil {
		_ = c.Piece(problem, true) // the client is gone when this fails
	}
}

// The headers of OpenAI's that tell limits.
const (
	limitRequests     = "X-Ratelimit-Limit-Requests"
	limitTokens       = "X-Ratelimit-Limit-Tokens"
	remainingRequests = "X-Ratelimit-Remaining-Requests"
	remainingTokens   = "X-Ratelimit-Remaining-Tokens"
	resetRequests     = "X-Ratelimit-Reset-Requests"
	resetTokens       = "X-Ratelimit-Reset-Tokens"

	shouldRetry = "X-Should-Retry"
	// accelBuffering asks a proxy in front of us to hand on pieces of a stream at once.
	accelBuffering = "X-Accel-Buffering"
)

func streamHeaders() map[string]*huma.Header {
	h := aiHeaders()
	h[accelBuffering] = &huma.Header{Schema: &huma.Schema{Type: huma.TypeString, Description: "On streams: a proxy is not to keep pieces back.", Examples: []any{"no"}}}
	return h
}

func aiHeaders() map[string]*huma.Header {
	h := map[string]*huma.Header{}
	for name, what := range map[string]string{
		limitRequests: "Calls that you may make in a minute.", limitTokens: "Tokens that you may use in a minute.",
		remainingRequests: "Calls left in this minute.", remainingTokens: "Tokens left in this minute, less the most that calls still running may use.",
	} {
		h[name] = &huma.Header{Schema: &huma.Schema{Type: huma.TypeInteger, Description: what, Examples: []any{60}}}
	}
	for _, name := range []string{resetRequests, resetTokens} {
		h[name] = &huma.Header{Schema: &huma.Schema{Type: huma.TypeString, Description: "How long until the minute is over.", Examples: []any{"37.5s"}}}
	}
	return h
}

type aiModelsOutput struct {
	LimitRequests     int64  `header:"X-Ratelimit-Limit-Requests" example:"60" doc:"Calls that you may make in a minute."`
	LimitTokens       int64  `header:"X-Ratelimit-Limit-Tokens" example:"100000" doc:"Tokens that you may use in a minute."`
	RemainingRequests int64  `header:"X-Ratelimit-Remaining-Requests" example:"59" doc:"Calls left in this minute."`
	RemainingTokens   int64  `header:"X-Ratelimit-Remaining-Tokens" example:"98000" doc:"Tokens left in this minute, less the most that calls still running may use."`
	ResetRequests     string `header:"X-Ratelimit-Reset-Requests" example:"37.5s" doc:"How long until the minute is over."`
	ResetTokens       string `header:"X-Ratelimit-Reset-Tokens" example:"37.5s" doc:"How long until the minute is over."`
	Body              AIModels
}

func registerAIModels(a huma.API, s AICalls) {
	huma.Register(a, access(huma.Operation{
		OperationID: "get-ai-models",
		Method:      http.MethodGet,
		Path:        "/api/ai/v1/models",
		Summary:     "List language models",
		Description: "The models your role may use, like OpenAI's `GET /v1/models`.",
	}, aiAccess()), func(ctx context.Context, _ *struct{}) (*aiModelsOutput, error) {
		p := identity.FromContext(ctx)
		allowance, err := s.Allowance(ctx, p)
		if err != nil {
			return nil, err
		}
		reset := resetOf(allowance)
		out := &aiModelsOutput{
			LimitRequests: int64(allowance.Requests), LimitTokens: allowance.Tokens,
			RemainingRequests: int64(allowance.RemainingRequests), RemainingTokens: allowance.RemainingTokens,
			ResetRequests: reset, ResetTokens: reset, Body: AIModels{Object: "list", Data: []AIModel{}},
		}
		for _, name := range s.Models(p) {
			out.Body.Data = append(out.Body.Data, AIModel{ID: name, Object: "model", OwnedBy: "waypost"})
		}
		return out, nil
	})
}

// openObject is an object with these members, of which it says what they are, and any
// others.
func openObject(required map[string]string) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true, Required: slices.Sorted(maps.Keys(required)), Properties: map[string]*huma.Schema{}}
	for name, what := range required {
		s.Properties[name] = &huma.Schema{Description: what}
	}
	return s
}
