package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"maps"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/idempotency"
	"github.com/waypost/waypost/internal/identity"
)

const (
	idempotencyHeader = "Idempotency-Key"
	replayedHeader    = "Idempotency-Replayed"
	maxIdempotencyKey = 255
)

var errIdempotencyKey = fault.Validation(map[string]string{"header." + idempotencyHeader: "Send one value of 1 to 255 visible ASCII characters, such as a UUID."})

// createsKey marks in an operation's metadata that it takes an Idempotency-Key; its value
// is a repeatable.
const createsKey = "waypost.creates"

// repeatable is how an operation that creates can be repeated.
type repeatable struct {
	// secret says that its answer has a secret, and is not kept.
	secret bool
}

// creates says that op creates something though its status is not 201.
func creates(op huma.Operation) huma.Operation {
	op.Metadata[createsKey] = repeatable{}
	return op
}

// describeIdempotency finds the operations that create for an account, and documents that
// they can be repeated. It comes before describeAnswers.
func describeIdempotency(_ *huma.OpenAPI, op *huma.Operation) {
	a, ok := op.Metadata[accessKey].(Access)
	if !ok || op.Method != http.MethodPost || a.scheme != schemeBearer || a.optional {
		return
	}
	if _, marked := op.Metadata[createsKey]; !marked && op.DefaultStatus != http.StatusCreated {
		return
	}
	r := repeatable{secret: a.people == credentials || a.people == fileBytes}
	op.Metadata[createsKey] = r
	failures, _ := op.Metadata[failuresKey].([]error)
	op.Metadata[failuresKey] = append(failures[:len(failures):len(failures)], idempotency.ErrReused, idempotency.ErrInFlight)
	said := "Makes retries safe: within 24 hours, the same key and request get the first answer again, and nothing is created twice. Use a new key, such as a UUID, for each new request."
	if r.secret {
		said = "Makes retries safe: within 24 hours, the same key creates nothing twice. The first answer has a secret and is not stored, so a retry is 409. Use a new key, such as a UUID, for each new request."
	}
	op.Parameters = append(op.Parameters, &huma.Param{
		// Without an example: UIs would send it with each attempt, of which all but the first
		// would be refused.
		Name: idempotencyHeader, In: "header", Description: said,
		Schema: &huma.Schema{Type: huma.TypeString, MinLength: new(1), MaxLength: new(maxIdempotencyKey), Pattern: "^[!-~]+$"},
	})
	if made := op.Responses[strconv.Itoa(op.DefaultStatus)]; made != nil && !r.secret {
		if made.Headers == nil {
			made.Headers = map[string]*huma.Header{}
		}
		made.Headers[replayedHeader] = &huma.Header{
			Description: "Sent when this is the stored answer to an earlier request with the same Idempotency-Key.",
			Schema:      &huma.Schema{Type: huma.TypeString, Enum: []any{"true"}, Examples: []any{"true"}},
		}
	}
}

// idempotent carries out requests with an Idempotency-Key once.
func idempotent(store *idempotency.Store) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		kind, creates := ctx.Operation().Metadata[createsKey].(repeatable)
		r, w := humachi.Unwrap(ctx)
		keys := r.Header.Values(idempotencyHeader)
		if !creates || len(keys) == 0 || store == nil {
			next(ctx)
			return
		}
		if len(keys) > 1 || !isIdempotencyKey(keys[0]) {
			httpedge.WriteError(w, r, errIdempotencyKey)
			return
		}
		once := &once{Attempt: store.Begin(identity.FromContext(ctx.Context()), ctx.Operation().OperationID, keys[0]), target: r.URL.RequestURI()}
		defer once.Close()
		c := ctx.Context()
		if ctx.Operation().Metadata[streamedKey] != nil {
			c = context.WithValue(c, onceKey{}, once) // its handler knows what is asked for when it has read it
		} else if err := once.find(ctx, r); err != nil {
			httpedge.WriteError(w, r, err)
			return
		} else if once.Repeated() != nil {
			once.replay(w)
			return
		} else {
			c = once.Context(c)
		}
		held := &ownAnswer{heldAnswer{ResponseWriter: w, status: http.StatusOK}, http.Header{}}
		next(huma.WithContext(humachi.NewContext(ctx.Operation(), r, held), c))
		once.finish(ctx.Context(), w, r, held, kind.secret)
	}
}

// isIdempotencyKey reports whether key has 1 to 255 visible ASCII characters.
func isIdempotencyKey(key string) bool {
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return false
		}
	}
	return key != "" && len(key) <= maxIdempotencyKey
}

// once is one request with a key.
type once struct {
	*idempotency.Attempt
	target string // path and query
	known  bool   // what is asked for
}

type onceKey struct{}

// find looks for an answer to a request whose body is JSON, or that has none.
func (o *once) find(ctx huma.Context, r *http.Request) error {
	var body []byte
	if takesJSON(ctx.Operation()) {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil { // readJSON has read it
			return err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	_, err := o.look(ctx.Context(), body)
	return err
}

// look looks for an answer to what is asked for.
func (o *once) look(ctx context.Context, request []byte) (*idempotency.Answer, error) {
	h := sha256.New()
	_, _ = io.WriteString(h, o.target+"\x00")
	_, _ = h.Write(request)
	o.known = true
	return o.Find(ctx, [sha256.Size]byte(h.Sum(nil)))
}

// settling returns what a handler that reads its own body calls before what it does becomes
// durable, with all that the request asks for; nil for a request without a key.
func settling(ctx context.Context, filename, contentType string) func(ctx context.Context, sum []byte) (context.Context, error) {
	o, _ := ctx.Value(onceKey{}).(*once)
	if o == nil {
		return nil
	}
	return func(ctx context.Context, sum []byte) (context.Context, error) {
		found, err := o.look(ctx, bytes.Join([][]byte{[]byte(filename), []byte(contentType), sum}, []byte{0}))
		if err == nil && found != nil {
			err = idempotency.ErrRepeated
		}
		return o.Context(ctx), err
	}
}

// finish keeps what the handler did with its answer, and sends it. A failure of the service,
// and an answer that says to try again, leave nothing behind.
func (o *once) finish(ctx context.Context, w http.ResponseWriter, r *http.Request, held *ownAnswer, secret bool) {
	again := held.status >= http.StatusInternalServerError || held.status == http.StatusTooManyRequests
	if o.known && o.Repeated() == nil && o.Refused() == nil && !again {
		a := idempotency.Answer{Status: held.status, Header: map[string]string{}, Body: held.body.Bytes()}
		for name := range held.header {
			a.Header[name] = held.header.Get(name)
		}
		if err := o.Keep(ctx, a, secret && held.status < http.StatusBadRequest); err != nil {
			httpedge.WriteError(w, r, err)
			return
		}
	}
	switch {
	case o.Repeated() != nil:
		o.replay(w)
	case o.Refused() != nil:
		httpedge.WriteError(w, r, o.Refused())
	default:
		maps.Copy(w.Header(), held.header)
		w.WriteHeader(held.status)
		_, _ = w.Write(held.body.Bytes()) // the client is gone when this fails
	}
}

// replay sends the stored answer.
func (o *once) replay(w http.ResponseWriter) {
	a := o.Repeated()
	for name, value := range a.Header {
		w.Header().Set(name, value)
	}
	w.Header().Set(replayedHeader, "true")
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // the client is gone when this fails
}

// ownAnswer is a heldAnswer with headers of its own.
type ownAnswer struct {
	heldAnswer
	header http.Header
}

// Header implements http.ResponseWriter.
func (h *ownAnswer) Header() http.Header { return h.header }
