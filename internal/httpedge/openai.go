package httpedge

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/waypost/waypost/internal/fault"
)

// openAIPaths is where errors have the shape that OpenAI's clients read.
const openAIPaths = "/api/ai/v1"

// HasOpenAIErrors reports whether errors at that path have OpenAI's shape.
func HasOpenAIErrors(path string) bool {
	rest, ok := strings.CutPrefix(path, openAIPaths)
	return ok && (rest == "" || rest[0] == '/')
}

// OpenAIEnvelope is the body of an error answer in OpenAI's shape.
type OpenAIEnvelope struct {
	Err OpenAIProblem `json:"error" doc:"What went wrong."`
}

// OpenAIProblem says what went wrong.
type OpenAIProblem struct {
	Message string  `json:"message" example:"There is no such model." doc:"A sentence for people."`
	Type    string  `json:"type" example:"invalid_request_error" doc:"What sort of error it is."`
	Param   *string `json:"param" nullable:"true" example:"model" doc:"The member of the request that is wrong; null where none is."`
	Code    string  `json:"code" example:"model_not_found" doc:"A stable code in snake_case."`
}

// openAITypes are OpenAI's sorts of errors; others are bad requests.
var openAITypes = map[fault.Kind]string{
	fault.Forbidden: "permission_error", fault.RateLimited: "rate_limit_error", fault.Internal: "server_error",
	fault.Unavailable: "server_error", fault.Upstream: "server_error", fault.UpstreamTimeout: "server_error",
}

// openAICodes are those that have other names there.
var openAICodes = map[string]string{
	fault.CodeUnauthenticated: "invalid_api_key", fault.CodeForbidden: "insufficient_scope", fault.CodeRateLimited: "rate_limit_exceeded",
}

// OpenAI is e in OpenAI's shape.
func (e *Envelope) OpenAI() OpenAIEnvelope {
	kind := KindOf(e.status)
	p := OpenAIProblem{Message: e.Err.Message, Type: openAITypes[kind], Code: e.Err.Code}
	if p.Type == "" {
		p.Type = "invalid_request_error"
	}
	if kind == fault.Unauthenticated {
		p.Code = openAICodes[fault.CodeUnauthenticated]
	} else if code := openAICodes[p.Code]; code != "" {
		p.Code = code
	}
	if id := e.Err.Details["request_id"]; id != "" && kind == fault.Internal {
		p.Message += " It is " + id + "."
		return OpenAIEnvelope{p}
	}
	if names := slices.Sorted(maps.Keys(e.Err.Details)); len(names) > 0 {
		p.Message = e.Err.Details[names[0]]
		if name := strings.TrimPrefix(names[0], "body."); name != "" {
			p.Param = &name
		}
	}
	return OpenAIEnvelope{p}
}

// MarshalJSON writes the shape that the path has.
func (e *Envelope) MarshalJSON() ([]byte, error) {
	if e.openAI {
		return json.Marshal(e.OpenAI())
	}
	return json.Marshal(struct {
		Err Problem `json:"error"`
	}{e.Err})
}

// At gives e the shape that errors have at that path. OpenAI's clients try again unless
// they are told not to, where nothing will be better in a moment.
func (e *Envelope) At(path string) *Envelope {
	if !HasOpenAIErrors(path) {
		return e
	}
	e.openAI = true
	if e.Err.Code == "budget_exceeded" {
		e.header.Set("X-Should-Retry", "false")
	}
	return e
}

// Said is the code and the sentence that a client reads.
func (e *Envelope) Said() (code, message string) {
	if e.openAI {
		p := e.OpenAI().Err
		return p.Code, p.Message
	}
	return e.Err.Code, e.Err.Message
}
