package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
)

// bodyTimeout is how long a client may take to send a body.
const bodyTimeout = 10 * time.Second

var (
	errMediaType = fault.New(fault.UnsupportedMedia, fault.CodeUnsupportedMedia, "Send the body as application/json.")
	errBodySize  = fault.New(fault.TooLarge, fault.CodePayloadTooLarge, "The body is larger than this operation takes.")
	errBodySlow  = fault.New(fault.Timeout, fault.CodeRequestTimeout, "The body did not arrive in time.")
	errBodyCut   = fault.New(fault.Malformed, fault.CodeInvalidJSON, "The body ended before its announced length.")
	errNotJSON   = fault.New(fault.Malformed, fault.CodeInvalidJSON, "The body is not well-formed JSON.")
	errNoBody    = fault.New(fault.Malformed, fault.CodeInvalidJSON, "A JSON body is required.")
)

// readJSON reads the body of an operation that takes one, before Huma does, so
// that its limits and its syntax have answers of their own. What the fields hold
// is judged by the model's rules.
func readJSON(ctx huma.Context, next func(huma.Context)) {
	if !takesJSON(ctx.Operation()) {
		next(ctx)
		return
	}
	r, w := humachi.Unwrap(ctx)
	host, hosted := ctx.Operation().Metadata[bodyHostKey].(bodyHost)
	var body []byte
	var err error
	if hosted {
		var leave func()
		if leave, err = host.admit(r); err == nil {
			defer leave()
		}
	}
	if err == nil {
		body, err = readBody(w, r, ctx.Operation().MaxBodyBytes, errMediaType, "application/json")
	}
	if err == nil {
		err = checkJSON(body)
	}
	if err != nil {
		if hosted {
			host.refuse(ctx.Context(), w.Header())
		}
		httpedge.WriteError(w, r, err)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	next(ctx)
}

// bodyHostKey holds in an operation's metadata the bodyHost of its bodies.
const bodyHostKey = "waypost.body-host"

// bodyHost has room for bodies of an operation.
type bodyHost interface {
	// admit makes room for a body that was not read yet, until leave is called.
	admit(r *http.Request) (leave func(), err error)
	// refuse adds headers to the answer for a body that is refused.
	refuse(ctx context.Context, h http.Header)
}

// takesJSON reports whether an operation's body is JSON; others read theirs by themselves.
func takesJSON(op *huma.Operation) bool {
	return op.RequestBody != nil && op.RequestBody.Content["application/json"] != nil
}

// readBody reads at most limit bytes. A body may leave its media type out, but
// one that is none of media is refused with wrongMedia.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, wrongMedia error, media ...string) ([]byte, error) {
	if t := r.Header.Get("Content-Type"); t != "" {
		if sent, _, err := mime.ParseMediaType(t); err != nil || !slices.Contains(media, sent) {
			return nil, wrongMedia
		}
	}
	if r.ContentLength > limit {
		return nil, errBodySize
	}
	body, err := inTime(w, func() ([]byte, error) { return io.ReadAll(http.MaxBytesReader(w, r.Body, limit)) })
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, errBodySize.Because(err)
	}
	if err != nil && !errors.Is(err, errBodySlow) {
		return nil, errBodyCut.Because(err)
	}
	return body, err
}

// inTime gives the client bodyTimeout for what read reads, or returns errBodySlow.
func inTime(w http.ResponseWriter, read func() ([]byte, error)) ([]byte, error) {
	rc := http.NewResponseController(w)
	// A writer without deadlines (a test's recorder) has no slow clients either.
	if err := rc.SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	body, err := read()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errBodySlow.Because(err)
	case err != nil:
		return nil, err
	}
	_ = rc.SetReadDeadline(time.Time{})
	return body, nil
}

func checkJSON(body []byte) error {
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return errNoBody
	case !utf8.Valid(body) || !json.Valid(body):
		return errNotJSON
	}
	return nil
}
