package httpedge

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"go.opentelemetry.io/otel/trace"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/telemetry"
)

// Options configure the stack that every request passes.
type Options struct {
	Logger *slog.Logger // mandatory
	// TrustedProxies are the peers whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	// Forwarding is told of peers whose X-Forwarded-For says nothing; nil for nobody.
	Forwarding *Forwarding
	// HTTPS adds Strict-Transport-Security: the service's own URL is https.
	HTTPS bool
	// Timeout bounds a request's context; default 30 s.
	Timeout time.Duration
	// NewRequestID makes an id; default 26 random base-32 characters.
	NewRequestID func() string
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Requests counts every request; nil for nobody.
	Requests *telemetry.Requests
	// Tracer makes a span of each request; nil for none.
	Tracer trace.Tracer
	// Fail answers what is refused before a handler is reached, and what panics; nil for
	// WriteError. It may hand requests on to that.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
	// Route is the route of all requests behind Fixed, where no router says it.
	Route string
}

func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	if o.NewRequestID == nil {
		o.NewRequestID = rand.Text
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Fail == nil {
		o.Fail = WriteError
	}
	return o
}

// Use installs the stack and the answers for unknown paths and methods on r. It
// comes before the routes.
func Use(r chi.Router, o Options) error {
	if o.Logger == nil {
		return errors.New("httpedge: no logger")
	}
	o = o.withDefaults()
	compress, err := compress()
	if err != nil {
		return err
	}
	r.Use(identify(o.NewRequestID), observe(o))
	r.Use(anonymous(&clients{trusted: o.TrustedProxies, logger: o.Logger, seen: o.Forwarding}), secure(o.HTTPS), compress, recoverPanics(o), limitTime(o.Timeout), middleware.GetHead)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) { o.Fail(w, r, errNoRoute) })
	r.MethodNotAllowed(methodNotAllowed(r, o.Fail))
	return nil
}

// Fixed is the stack for answers that lie ready, in every coding: it leaves out
// what they have no use for, which is a principal, a time limit of their own and
// compression. They are asked for often, and the rest costs as much as they do.
func Fixed(o Options, next http.Handler) (http.Handler, error) {
	if o.Logger == nil {
		return nil, errors.New("httpedge: no logger")
	}
	o = o.withDefaults()
	return chi.Chain(identify(o.NewRequestID), observe(o), secure(o.HTTPS), recoverPanics(o)).Handler(next), nil
}

var errNoRoute = fault.New(fault.NotFound, fault.CodeNotFound, "Nothing is served at this path. GET / lists the entry points.")

// methodNotAllowed lists the methods that the path does have: chi hands them only
// to its own handler. A method that chi doesn't know ends here for every path.
func methodNotAllowed(routes chi.Routes, fail func(http.ResponseWriter, *http.Request, error)) http.HandlerFunc {
	candidates := []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
		http.MethodPatch, http.MethodDelete, http.MethodOptions,
	}
	return func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.RawPath
		if path == "" {
			path = r.URL.Path
		}
		var allowed []string
		for _, m := range candidates {
			if routes.Match(chi.NewRouteContext(), m, path) || m == http.MethodHead && routes.Match(chi.NewRouteContext(), http.MethodGet, path) {
				allowed = append(allowed, m)
			}
		}
		if len(allowed) == 0 {
			fail(w, r, errNoRoute)
			return
		}
		list := strings.Join(allowed, ", ")
		w.Header().Set("Allow", list)
		fail(w, r, fault.Newf(fault.MethodNotAllowed, fault.CodeMethodNotAllowed, "This path answers %s.", list))
	}
}

// secure sets the headers that every answer carries; a page loosens its own CSP.
func secure(https bool) func(http.Handler) http.Handler {
	set := http.Header{
		"X-Content-Type-Options":     {"nosniff"},
		"X-Frame-Options":            {"DENY"},
		"Referrer-Policy":            {"no-referrer"},
		"Cross-Origin-Opener-Policy": {"same-origin"},
		"Content-Security-Policy":    {"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
	}
	if https {
		set.Set("Strict-Transport-Security", "max-age=31536000; includeSubDomains")
	}
	// A list, which is passed through in less time than a map. The values are shared by all
	// answers: whoever changes a header sets another slice, and so does an Add.
	type field struct {
		name   string
		values []string
	}
	var fields []field
	for name, values := range set {
		fields = append(fields, field{name, slices.Clip(values)})
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			for _, f := range fields {
				h[f.name] = f.values
			}
			next.ServeHTTP(w, r)
		})
	}
}

func limitTime(d time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), untimedKey{}, r.Context()), d)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

type untimedKey struct{}

// Untimed is the context of a request without its time limit: it ends with cancel, or when
// the client goes away.
func Untimed(ctx context.Context) (out context.Context, cancel context.CancelFunc) {
	out, end := context.WithCancel(context.WithoutCancel(ctx))
	whole, ok := ctx.Value(untimedKey{}).(context.Context)
	if !ok {
		whole = ctx // without the stack there is no limit
	}
	stop := context.AfterFunc(whole, end)
	return out, func() { stop(); end() }
}

// recoverPanics answers a panic with a bare 500. Once bytes have left, nothing
// true can be said any more, so the connection is cut instead.
func recoverPanics(o Options) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sent, ok := w.(middleware.WrapResponseWriter)
			if !ok {
				sent = middleware.NewWrapResponseWriter(w, r.ProtoMajor)
			}
			defer func() {
				v := recover()
				if v == nil {
					return
				}
				if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(v)
				}
				o.Logger.ErrorContext(r.Context(), "panic", "request_id", RequestID(r.Context()), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
				if sent.Status() != 0 {
					panic(http.ErrAbortHandler)
				}
				o.Fail(sent, r, fmt.Errorf("panic: %v", v))
			}()
			next.ServeHTTP(sent, r)
		})
	}
}

// CheckQuery refuses a query string that can't be parsed, which net/http and
// routers silently drop.
func CheckQuery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
			WriteError(w, r, fault.Validation(map[string]string{"query": "Not a well-formed query string: check its percent-encoding and separators."}))
			return
		}
		next.ServeHTTP(w, r)
	})
}
