package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/apidoc"
	"github.com/waypost/waypost/internal/fairqueue"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
)

// failuresKey holds in an operation's metadata the failures that it can end in:
// the very values that the handler or the guard returns, from which come the
// documented statuses, codes and examples.
const failuresKey = "waypost.failures"

// streamedKey holds in an operation's metadata the body that its handler reads by
// itself. Huma, which would read a body that it knows of into memory, must not see it
// before the operation is registered.
const streamedKey = "waypost.streamed"

// streamed says that op's handler reads body by itself.
func streamed(op huma.Operation, body *huma.RequestBody) huma.Operation {
	op.Metadata[streamedKey] = body
	return op
}

// passedOnKey holds in an operation's metadata the body that its handler passes on as it
// is, once readJSON has read it.
const passedOnKey = "waypost.passed-on"

// passedOn says that op's handler passes body on.
func passedOn(op huma.Operation, body *huma.RequestBody) huma.Operation {
	op.Metadata[passedOnKey] = body
	return op
}

// Failures that any work can end in.
var (
	errUnexpected = errors.New("a defect, which clients see as internal_error")
	errSlow       = context.DeadlineExceeded // the request's own time limit
)

// bodyFailures are what readJSON answers.
func bodyFailures() []error {
	return []error{errNotJSON, errBodySlow, errBodySize, errMediaType}
}

// describeAnswers documents everything that op can answer, once Huma has read its
// types.
func describeAnswers(oapi *huma.OpenAPI, op *huma.Operation) {
	if streamed, ok := op.Metadata[streamedKey].(*huma.RequestBody); ok {
		op.RequestBody = streamed
	}
	if body, ok := op.Metadata[passedOnKey].(*huma.RequestBody); ok {
		op.RequestBody = body
	}
	failures, _ := op.Metadata[failuresKey].([]error)
	failures = append(slices.Clone(failures), fault.Validation(invalidExample(op)), errUnexpected)
	if takesJSON(op) {
		failures = append(failures, bodyFailures()...)
	}
	// What reads nothing and asks nobody is never slow.
	if op.RequestBody != nil || len(op.Parameters) > 0 || len(op.Security) > 0 {
		failures = append(failures, errSlow)
	}
	// What asks the database may find it with too much to do.
	if len(op.Security) > 0 || op.RequestBody != nil {
		failures = append(failures, fairqueue.ErrBusy)
	}
	shape := envelopeType
	if httpedge.HasOpenAIErrors(op.Path) {
		shape = openAIEnvelopeType
	}
	schema := oapi.Components.Schemas.Schema(shape, true, "")
	for status, r := range op.Responses {
		if n, err := strconv.Atoi(status); err != nil || n >= http.StatusBadRequest {
			delete(op.Responses, status)
			continue
		}
		if r.Headers == nil {
			r.Headers = map[string]*huma.Header{}
		}
		r.Headers[requestIDHeader] = headerReference(requestIDHeader)
		describeSite(op, status, r)
	}
	for status, a := range answersOf(op.Path, failures) {
		examples := map[string]*huma.Example{}
		for code, e := range a.examples {
			examples[code] = &huma.Example{Value: e}
		}
		r := &huma.Response{Description: a.description(), Headers: map[string]*huma.Header{},
			Content: map[string]*huma.MediaType{"application/json": {Schema: schema, Examples: examples}}}
		for _, name := range a.headers {
			r.Headers[name] = headerReference(name)
		}
		if a, ok := op.Metadata[accessKey].(Access); ok && a.scheme == schemeBearer && status == http.StatusUnauthorized {
			r.Headers[challengeHeader] = headerReference(challengeHeader)
		}
		if _, called := op.Metadata[bodyHostKey].(aiBodies); called && status != http.StatusUnauthorized && status != http.StatusUnprocessableEntity {
			maps.Copy(r.Headers, aiHeaders())
			if status == http.StatusTooManyRequests {
				r.Headers[shouldRetry] = &huma.Header{Schema: &huma.Schema{Type: huma.TypeString, Description: "false where the next try would fare no better.", Examples: []any{"false"}}}
			}
		}
		if status == http.StatusRequestedRangeNotSatisfiable {
			r.Headers[contentRangeHeader] = &huma.Header{Schema: &huma.Schema{Type: huma.TypeString, Description: "How many bytes there are.", Examples: []any{"bytes */48213"}}}
		}
		op.Responses[strconv.Itoa(status)] = r
		describeSite(op, strconv.Itoa(status), r)
	}
}

// withFailures documents on a plain route what it can answer besides its results.
func withFailures(o *apidoc.Operation, failures ...error) *apidoc.Operation {
	answers := answersOf("", append(failures, errUnexpected))
	for _, status := range slices.Sorted(maps.Keys(answers)) {
		a := answers[status]
		o.Response(status, httpedge.Envelope{}, a.description())
		for code, e := range a.examples {
			o.ResponseExample(status, code, e)
		}
		for _, name := range a.headers {
			o.ResponseHeader(status, name, headerReference(name), "")
		}
	}
	return o
}

// failureAnswer is what one status can mean.
type failureAnswer struct {
	status   int
	codes    []string // in the order in which they were named
	examples map[string]*httpedge.Envelope
	headers  []string
}

// answersOf groups failures by the status that httpedge gives them, in the shape that
// they have at that path.
func answersOf(path string, failures []error) map[int]*failureAnswer {
	answers := map[int]*failureAnswer{}
	for _, err := range failures {
		e := httpedge.NewEnvelope(err, "5YQ2VJ6X7M3K4N5P6Q7R8S9T2U").At(path)
		code, _ := e.Said()
		a := answers[e.GetStatus()]
		if a == nil {
			a = &failureAnswer{status: e.GetStatus(), examples: map[string]*httpedge.Envelope{}, headers: []string{requestIDHeader}}
			answers[a.status] = a
		}
		a.headers = slices.AppendSeq(a.headers, maps.Keys(e.GetHeaders()))
		slices.Sort(a.headers)
		a.headers = slices.Compact(a.headers)
		if a.examples[code] == nil {
			a.codes = append(a.codes, code)
			a.examples[code] = e
		}
	}
	return answers
}

func (a *failureAnswer) description() string {
	meanings := make([]string, len(a.codes))
	for i, code := range a.codes {
		_, message := a.examples[code].Said()
		meanings[i] = fmt.Sprintf("`%s`: %s", code, message)
	}
	return strings.Join(meanings, "\n\n")
}

// invalidExample names a field that op has.
func invalidExample(op *huma.Operation) map[string]string {
	for _, p := range op.Parameters {
		if p.In == "query" {
			return map[string]string{"query." + p.Name: "Has a value that the parameter does not allow."}
		}
	}
	if op.RequestBody != nil {
		return map[string]string{"body.unknown": "Is not a field of this request; names are case-sensitive."}
	}
	return map[string]string{"query": "Not a well-formed query string: check its percent-encoding and separators."}
}
