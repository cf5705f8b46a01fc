package api

import (
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
)

// Huma keeps its error constructors in package variables, so they are set once
// for the process, before any API exists.
func init() {
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return httpedge.NewEnvelope(toFault(status, message, errs), "")
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		err := toFault(status, message, errs)
		httpedge.Record(ctx.Context(), err)
		u := ctx.URL()
		e := httpedge.NewEnvelope(err, httpedge.RequestID(ctx.Context())).At(u.Path)
		for name, values := range e.GetHeaders() {
			ctx.SetHeader(name, values[0])
		}
		ctx.SetHeader("Cache-Control", "no-store")
		return e
	}
	// Member names are case-sensitive; Huma's default is not.
	huma.ValidateStrictCasing = true
}

// toFault reads what Huma has to say. A handler's own error arrives as the only
// one of errs under status 500; its text is public only when it is a fault.
func toFault(status int, message string, errs []error) error {
	if details := fieldErrors(errs); details != nil && status < http.StatusInternalServerError {
		if status == http.StatusUnsupportedMediaType {
			return errMediaType
		}
		return fault.Validation(details)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	kind := httpedge.KindOf(status)
	if kind == fault.Internal {
		return errors.New(message)
	}
	return fault.New(kind, codes[kind], sentence(message))
}

// codes are those of answers that Huma gives by itself.
var codes = map[fault.Kind]string{
	fault.Malformed:        fault.CodeInvalidJSON,
	fault.Unauthenticated:  fault.CodeUnauthenticated,
	fault.Forbidden:        fault.CodeForbidden,
	fault.NotFound:         fault.CodeNotFound,
	fault.MethodNotAllowed: fault.CodeMethodNotAllowed,
	fault.Timeout:          fault.CodeRequestTimeout,
	fault.TooLarge:         fault.CodePayloadTooLarge,
	fault.UnsupportedMedia: fault.CodeUnsupportedMedia,
	fault.Invalid:          fault.CodeValidation,
	fault.RateLimited:      fault.CodeRateLimited,
	fault.Unavailable:      fault.CodeUnavailable,
}

// fieldErrors maps field paths to sentences, nil when errs are not Huma's
// validation errors. The offending value is left out: it may be a password.
func fieldErrors(errs []error) map[string]string {
	var details map[string]string
	for _, err := range errs {
		d, ok := errors.AsType[*huma.ErrorDetail](err)
		if !ok {
			continue
		}
		if details == nil {
			details = make(map[string]string, len(errs))
		}
		location := d.Location
		if location == "" {
			location = "request"
		}
		if _, said := details[location]; !said {
			details[location] = sentence(d.Message)
		}
	}
	return details
}

// sentence gives a library's lower-case fragment a capital and a full stop.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return s
	}
	s = strings.ToUpper(s[:1]) + s[1:]
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}
