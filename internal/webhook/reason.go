package webhook

import (
	"errors"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/groupcommit"
	"github.com/waypost/waypost/internal/webhook/signature"
)

// Reason says why a delivery was refused: for administrators, never for senders.
type Reason string

// The reasons.
const (
	ReasonProvider   Reason = "unknown_provider"
	ReasonNoSecret   Reason = "no_secret"
	ReasonBadSecret  Reason = "bad_secret" // set, but no key of the provider's scheme
	ReasonMissing    Reason = "signature_missing"
	ReasonRepeated   Reason = "signature_repeated"
	ReasonMalformed  Reason = "signature_malformed"
	ReasonTooOld     Reason = "signature_too_old"
	ReasonTooNew     Reason = "signature_too_new"
	ReasonMismatch   Reason = "signature_mismatch"
	ReasonVerifier   Reason = "verifier_refused" // a verifier that is a function
	ReasonChallenge  Reason = "challenge_refused"
	ReasonTooLarge   Reason = "body_too_large"
	ReasonSlow       Reason = "body_too_slow"
	ReasonIncomplete Reason = "body_incomplete"
	ReasonBody       Reason = "body_invalid"
	ReasonField      Reason = "field_invalid"
	ReasonExtractor  Reason = "extractor_failed"
	// Counted, but not logged: there is nowhere to, or no time.
	ReasonCrowded     Reason = "crowded"
	ReasonUnavailable Reason = "storage_unavailable"
)

// Reasons returns the reasons that a refused delivery is logged with.
func Reasons() []Reason {
	return []Reason{
		ReasonProvider, ReasonNoSecret, ReasonBadSecret, ReasonMissing, ReasonRepeated, ReasonMalformed, ReasonTooOld, ReasonTooNew, ReasonMismatch,
		ReasonVerifier, ReasonChallenge, ReasonTooLarge, ReasonSlow, ReasonIncomplete, ReasonBody, ReasonField, ReasonExtractor,
	}
}

// ofSignature reports whether a delivery that was refused for r was answered 401.
func (r Reason) ofSignature() bool {
	switch r {
	case ReasonNoSecret, ReasonBadSecret, ReasonMissing, ReasonRepeated, ReasonMalformed, ReasonTooOld, ReasonTooNew, ReasonMismatch, ReasonVerifier:
		return true
	}
	return false
}

// ErrIncomplete marks the cause of a body that ended before its announced length.
var ErrIncomplete = errors.New("webhook: the body is incomplete")

var reasons = []struct {
	err    error
	reason Reason
}{
	{ErrProvider, ReasonProvider},
	{ErrChallenge, ReasonChallenge},
	{signature.ErrNoSecret, ReasonNoSecret},
	{signature.ErrBadSecret, ReasonBadSecret},
	{signature.ErrMissing, ReasonMissing},
	{signature.ErrRepeated, ReasonRepeated},
	{signature.ErrMalformed, ReasonMalformed},
	{signature.ErrTooOld, ReasonTooOld},
	{signature.ErrTooNew, ReasonTooNew},
	{signature.ErrMismatch, ReasonMismatch},
	{ErrSignature, ReasonVerifier},
	{ErrIncomplete, ReasonIncomplete},
	{errCrowded, ReasonCrowded},
	{groupcommit.ErrFull, ReasonCrowded},
	{ErrStorage, ReasonUnavailable},
}

// reasonOf classifies the error that a delivery ended in; "" when it was not
// refused.
func reasonOf(err error) Reason {
	if err == nil {
		return ""
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.reason
		}
	}
	f, isField := errors.AsType[*FieldError](err)
	switch {
	case isField && f.Field == "body":
		return ReasonBody
	case isField:
		return ReasonField
	case errors.Is(err, ErrPayload):
		return ReasonExtractor
	case fault.KindOf(err) == fault.TooLarge:
		return ReasonTooLarge
	case fault.KindOf(err) == fault.Timeout:
		return ReasonSlow
	}
	return ""
}
