// Package fault is the vocabulary of failure: a small set of kinds, each with a
// stable code and a public sentence.
//
// A service returns a *fault.Error when a client can act on what went wrong.
// Everything else (driver errors, programming mistakes) stays an ordinary error
// and becomes a bare 500 whose text never leaves the process. Wrapping a fault
// with fmt.Errorf("...: %w", err) keeps the kind, but only the fault's own
// Message and Details reach a client. The one table from Kind to an HTTP status
// is in internal/httpedge.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Kind says what sort of failure happened, independent of any protocol.
type Kind uint8

// The kinds. Internal is the zero value, so that an unclassified error is one.
const (
	Internal         Kind = iota // a defect or an unexpected condition
	Malformed                    // the input cannot be read at all
	Unauthenticated              // who is asking is unknown
	Forbidden                    // known, but not allowed
	NotFound                     // no such thing, or none that the caller may know of
	MethodNotAllowed             // the thing exists, the verb does not
	Timeout                      // the client was too slow
	Conflict                     // the state of the thing forbids it
	Gone                         // it existed and was emptied on purpose
	TooLarge                     // over a size limit
	UnsupportedMedia             // not a media type that is understood
	Invalid                      // readable, but breaks a rule
	RateLimited                  // too many; Error.RetryAfter says when to return
	Unavailable                  // a dependency is away; Error.RetryAfter says when to return
	OutOfRange                   // no part of the thing is where it was asked for
	Precondition                 // the thing is not in the state that the client made a condition
	Upstream                     // a service that was asked on the client's behalf failed or answered nonsense
	UpstreamTimeout              // it did not answer in time
)

// Codes that several packages share. A domain adds its own beside its errors.
const (
	CodeInternal         = "internal_error"
	CodeInvalidJSON      = "invalid_json"
	CodeUnauthenticated  = "unauthenticated"
	CodeForbidden        = "forbidden"
	CodeNotFound         = "not_found"
	CodeMethodNotAllowed = "method_not_allowed"
	CodeRequestTimeout   = "request_timeout"
	CodePayloadTooLarge  = "payload_too_large"
	CodeUnsupportedMedia = "unsupported_media_type"
	CodeValidation       = "validation_failed"
	CodeRateLimited      = "rate_limited"
	CodeUnavailable      = "unavailable"
	CodeBusy             = "busy"
)

// Error is a failure that a client may be told of.
type Error struct {
	Kind    Kind
	Code    string            // snake_case, stable, part of the API
	Message string            // one public sentence
	Details map[string]string // field path to sentence; nil when there is nothing to add
	// RetryAfter tells the client when to try again; 0 leaves it out.
	RetryAfter time.Duration
	cause      error
}

// New makes a fault with a stable code and a public sentence.
func New(kind Kind, code, message string) *Error {
	return &Error{Kind: kind, Code: code, Message: message}
}

// Newf is New with a formatted sentence. Nothing secret or internal belongs in it.
func Newf(kind Kind, code, format string, args ...any) *Error {
	return New(kind, code, fmt.Sprintf(format, args...))
}

// Missing says that there is no such thing: kind NotFound, code not_found.
func Missing(thing string) *Error {
	return Newf(NotFound, CodeNotFound, "There is no such %s.", thing)
}

// Validation is the 422 of a request whose fields break a rule; details maps a
// field path ("body.title", "query.limit") to a sentence.
func Validation(details map[string]string) *Error {
	return &Error{Kind: Invalid, Code: CodeValidation, Message: "The request has fields that break a rule; see details.", Details: details}
}

// Because returns a copy that carries err for the log. The client never sees err.
func (e *Error) Because(err error) *Error {
	c := *e
	c.cause = err
	return &c
}

// With returns a copy that carries details.
func (e *Error) With(details map[string]string) *Error {
	c := *e
	c.Details = details
	return &c
}

// After returns a copy that asks the client to come back after d.
func (e *Error) After(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d
	return &c
}

// Error implements error; it includes the cause and so is for logs only.
func (e *Error) Error() string {
	if e.cause != nil {
		return e.Code + ": " + e.Message + ": " + e.cause.Error()
	}
	return e.Code + ": " + e.Message
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.cause }

// Is makes two faults equal for errors.Is when their kinds and codes are equal,
// so that a sentinel matches its copies with details or a cause.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind && t.Code == e.Code
}

// KindOf returns the kind of the first fault in err's chain, Internal when there
// is none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}
