package httpedge

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/waypost/waypost/internal/fault"
)

// Envelope is the body of every error answer. It also satisfies the interfaces
// by which Huma asks an error for its status, headers and content type.
type Envelope struct {
	Err    Problem `json:"error" doc:"What went wrong."`
	status int
	header http.Header
	openAI bool // whether it is written in OpenAI's shape
}

// Problem says what went wrong.
type Problem struct {
	Code    string            `json:"code" example:"validation_failed" doc:"A stable code in snake_case."`
	Message string            `json:"message" example:"The request has fields that break a rule; see details." doc:"A sentence for people."`
	Details map[string]string `json:"details,omitempty" doc:"Sentences by field path, where there is something to add."`
}

// statuses is the only table from a kind of failure to an HTTP status.
var statuses = map[fault.Kind]int{
	fault.Internal:         http.StatusInternalServerError,
	fault.Malformed:        http.StatusBadRequest,
	fault.Unauthenticated:  http.StatusUnauthorized,
	fault.Forbidden:        http.StatusForbidden,
	fault.NotFound:         http.StatusNotFound,
	fault.MethodNotAllowed: http.StatusMethodNotAllowed,
	fault.Timeout:          http.StatusRequestTimeout,
	fault.Conflict:         http.StatusConflict,
	fault.Gone:             http.StatusGone,
	fault.TooLarge:         http.StatusRequestEntityTooLarge,
	fault.UnsupportedMedia: http.StatusUnsupportedMediaType,
	fault.Invalid:          http.StatusUnprocessableEntity,
	fault.RateLimited:      http.StatusTooManyRequests,
	fault.Unavailable:      http.StatusServiceUnavailable,
	fault.OutOfRange:       http.StatusRequestedRangeNotSatisfiable,
	fault.Precondition:     http.StatusPreconditionFailed,
	fault.Upstream:         http.StatusBadGateway,
	fault.UpstreamTimeout:  http.StatusGatewayTimeout,
}

// KindOf is the reverse of the table: the kind that a bare status stands for,
// Internal for one that the table does not have.
func KindOf(status int) fault.Kind {
	for kind, s := range statuses {
		if s == status {
			return kind
		}
	}
	return fault.Internal
}

// errTooSlow answers a request whose time ran out before its work was done.
var errTooSlow = fault.New(fault.Unavailable, fault.CodeUnavailable, "The request took too long and was stopped.").After(time.Second)

// NewEnvelope translates err. An error that is not a fault becomes a 500 that
// says nothing but the request id; its text belongs in the log (see Record).
func NewEnvelope(err error, requestID string) *Envelope {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		f, ok = errTooSlow, true
	}
	if !ok || f.Kind == fault.Internal {
		return &Envelope{
			status: http.StatusInternalServerError, header: http.Header{},
			Err: Problem{
				Code:    fault.CodeInternal,
				Message: "Something went wrong on our side. Quote the request id when you report it.",
				Details: map[string]string{"request_id": requestID},
			},
		}
	}
	e := &Envelope{status: statuses[f.Kind], Err: Problem{Code: f.Code, Message: f.Message, Details: f.Details}, header: http.Header{}}
	if f.RetryAfter > 0 {
		e.header.Set("Retry-After", strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds()))))
	}
	return e
}

// Error implements error.
func (e *Envelope) Error() string { return e.Err.Code + ": " + e.Err.Message }

// GetStatus returns the HTTP status.
func (e *Envelope) GetStatus() int { return e.status }

// GetHeaders returns the headers that go with the status.
func (e *Envelope) GetHeaders() http.Header { return e.header }

// ContentType keeps errors at application/json whatever was negotiated.
func (e *Envelope) ContentType(string) string { return "application/json" }

// WriteError answers with err's envelope and keeps err for the log line.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	Record(r.Context(), err)
	e := NewEnvelope(err, RequestID(r.Context())).At(r.URL.Path)
	body, mErr := json.Marshal(e)
	if mErr != nil {
		panic("httpedge: an envelope that JSON can't carry: " + mErr.Error())
	}
	h := w.Header()
	for name, values := range e.header {
		h[name] = values
	}
	// What a half-made success had prepared does not describe this body.
	for _, name := range []string{"Content-Encoding", "Content-Length", "Content-Disposition", "ETag", "Last-Modified"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(e.status)
	_, _ = w.Write(append(body, '\n')) // the client is gone when this fails
}
