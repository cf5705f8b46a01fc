// Package webhook receives deliveries from external providers. Each delivery is
// verified, stored before it is acknowledged, and handled with exactly one database
// effect, even if the process crashes at any point.
//
// Receiver.Receive takes a delivery through four steps: verify, extract, store (in
// groups, see package groupcommit) and dispatch. The sweep, which takes up events
// that a crash interrupted, and the replay by an administrator start at dispatch, in
// the same function.
package webhook

import (
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/fault"
)

// Limits, in characters, of the type and the id that an extractor finds.
const (
	maxEventType  = 100
	maxExternalID = 255
)

// Event is one stored delivery as its handler sees it.
type Event struct {
	ID         uuid.UUID
	Provider   string
	Type       string // "" when the delivery names none
	ExternalID string // the provider's own id; "" when the delivery names none
	// Body holds exactly the bytes that were sent: well-formed JSON in UTF-8, or a form of
	// a provider that sends forms. It is the event's own copy, which the handler may keep.
	Body []byte
	// Header holds the delivery's headers with secrets replaced by "[redacted]".
	Header http.Header
	// RetryCount is the number of replays, this one included.
	RetryCount int
	CreatedAt  time.Time
}

// Status is the state of a delivery.
type Status string

// The statuses. Skipped is an answer to a duplicate and never stored.
const (
	Pending   Status = "pending"
	Processed Status = "processed"
	Failed    Status = "failed"
	Skipped   Status = "skipped"
)

// Receipt is the answer to a delivery that is durable, or that is no event.
type Receipt struct {
	// Challenge is what a provider wants back that asked with this delivery whether the
	// address takes its events. Then nothing was stored, and all else is empty.
	Challenge  string
	Status     Status
	ID         uuid.UUID // of the stored event; with Skipped, of the earlier one
	EventType  string
	ExternalID string
}

// Record is one stored event as an administrator sees it.
type Record struct {
	ID           uuid.UUID
	Provider     string
	EventType    string
	ExternalID   string
	Status       Status
	HandlerError string // "" when there is none
	RetryCount   int
	ProcessedAt  *time.Time
	CreatedAt    time.Time
	// Body is nil in a list when it has MaxInlineBody bytes or more, and everywhere
	// when it is Emptied.
	Body       []byte
	BodySize   int // bytes
	BodySHA256 []byte
	Emptied    bool // the body's retention is over
	// RepeatedBodyOf is the provider's earliest event with an equal body, if that event
	// is older than this one. The two have different external ids, or one of them has
	// none. Nil when there is no such event.
	RepeatedBodyOf *uuid.UUID
	// Targets are those that it goes or went to, by name.
	Targets []TargetOutcome
}

// TargetOutcome is what became of an event at one of its targets.
type TargetOutcome struct {
	Name     string
	Status   Status
	Attempts int
	// NextAttemptAt is nil while an attempt is on, and when none is to come. A breaker or
	// a pause may put it off.
	NextAttemptAt *time.Time
	Error         string // of the latest attempt that failed; "" when there is none
	// HeadersGone says that the target was to get the provider's own headers, which had
	// been erased before.
	HeadersGone bool
}

// MaxInlineBody is the size in bytes at which lists begin to leave a body out.
const MaxInlineBody = 16 << 10

// Faults of the receiver and of the administration of events.
var (
	ErrProvider  = fault.New(fault.NotFound, "provider_not_found", "No webhook provider is registered under this name.")
	ErrSignature = fault.New(fault.Unauthenticated, "invalid_signature", "The delivery's signature is missing or not valid.")
	ErrTooLarge  = fault.New(fault.TooLarge, fault.CodePayloadTooLarge, "The delivery's body is larger than its provider may send.")
	ErrSlow      = fault.New(fault.Timeout, fault.CodeRequestTimeout, "The body did not arrive in time.")
	ErrPayload   = fault.New(fault.Malformed, "invalid_payload", "The delivery cannot be read; see details.")
	ErrStorage   = fault.New(fault.Unavailable, "storage_unavailable", "The delivery could not be stored. Send it again shortly.").After(5 * time.Second)

	errCut = ErrPayload.With(map[string]string{"body": "It ended before its announced length."})

	ErrEvent         = fault.Missing("webhook event")
	ErrEmptied       = fault.New(fault.Gone, "payload_emptied", "The event's payload was deleted at the end of its retention.")
	ErrInFlight      = fault.New(fault.Conflict, "in_flight", "The event is being handled right now.")
	ErrNotReplayable = fault.New(fault.Conflict, "not_replayable", "The event was processed. Use force=true to make its effect happen again.")
)
