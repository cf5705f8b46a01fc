package httpedge

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"regexp"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/telemetry"
)

// unseen are asked for every few seconds by machines: their spans would hide the rest.
var unseen = map[string]bool{"/healthz": true, "/readyz": true, "/metrics": true}

// observe counts each request, makes its span, and writes its line into the log. The
// query string stays out of all of them, since clients put secrets there; out of counts
// and spans the path and the client's address, too.
func observe(o Options) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			start := o.Now()
			ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
			var span trace.Span
			if o.Tracer != nil && !unseen[r.URL.Path] {
				var ctx context.Context
				ctx, span = o.Tracer.Start(telemetry.Continue(r.Context(), r.Header), telemetry.MethodName(r.Method), trace.WithSpanKind(trace.SpanKindServer))
				r = r.WithContext(ctx)
			}
			if o.Requests != nil {
				o.Requests.Begin()
				defer o.Requests.End()
			}
			whole := false
			defer func() {
				q := o.answered(r, ww, whole)
				q.At, q.Took = start, o.Now().Sub(start)
				if o.Requests != nil {
					o.Requests.Observe(q)
				}
				if span != nil {
					endSpan(span, q)
				}
				logRequest(o.Logger, r, ww, q)
			}()
			next.ServeHTTP(ww, r)
			whole = true
		})
	}
}

var expression = regexp.MustCompile(`(\{[^{}:]+):(?:[^{}]|\{[^{}]*\})*\}`)

// withoutExpressions is a route whose parameters are only named, as in /a/{b}: which values
// they take is no part of its name.
func withoutExpressions(route string) string {
	if !strings.Contains(route, ":") {
		return route
	}
	return expression.ReplaceAllString(route, "$1}")
}

// answered describes the request whose answer is written. One that broke off, which
// clients see as a connection that ends, counts as 500, whatever its status was.
func (o Options) answered(r *http.Request, ww middleware.WrapResponseWriter, whole bool) telemetry.Request {
	q := telemetry.Request{Method: r.Method, Route: o.Route, Status: ww.Status(), ID: RequestID(r.Context()), Trace: telemetry.TraceID(r.Context())}
	if rc := chi.RouteContext(r.Context()); rc != nil {
		q.Route = withoutExpressions(rc.RoutePattern())
	}
	switch {
	case !whole:
		q.Status, q.Code = http.StatusInternalServerError, "broken_off"
	case q.Status == 0: // net/http says 200 for a handler that says nothing
		q.Status = http.StatusOK
	case q.Status >= http.StatusInternalServerError:
		q.Code = fault.CodeInternal
		if f, ok := errors.AsType[*fault.Error](recorded(r.Context())); ok && f.Kind != fault.Internal {
			q.Code = f.Code
		}
	}
	return q
}

// recorded is the error of the request that ctx belongs to, nil for none.
func recorded(ctx context.Context) error {
	_, _, err := remembered(ctx)
	return err
}

// remembered is who makes the request that ctx belongs to, and its error, nil for none.
func remembered(ctx context.Context) (client netip.Addr, by actor, err error) {
	e, ok := ctx.Value(exchangeKey{}).(*exchange)
	if !ok {
		return netip.Addr{}, actor{}, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.client, e.by, e.err
}

// ofVisitors tells the paths of a site's visitors, whose addresses are kept nowhere.
func ofVisitors(path string) bool { return path == "/api/collect" || path == "/stats.js" }

func endSpan(span trace.Span, q telemetry.Request) {
	route := q.Route
	if route == "" {
		route = telemetry.Unmatched
	}
	method := telemetry.MethodName(q.Method)
	span.SetName(method + " " + route)
	span.SetAttributes(
		attribute.String("http.request.method", method), attribute.String("http.route", q.Route),
		attribute.Int("http.response.status_code", q.Status), attribute.String("waypost.request_id", q.ID),
	)
	if q.Status >= http.StatusInternalServerError {
		span.SetAttributes(attribute.String("error.type", q.Code))
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

func logRequest(logger *slog.Logger, r *http.Request, ww middleware.WrapResponseWriter, q telemetry.Request) {
	level := slog.LevelInfo
	switch status := ww.Status(); {
	case status == http.StatusServiceUnavailable: // said on purpose, and often when it is
		level = slog.LevelWarn
	case status >= http.StatusInternalServerError:
		level = slog.LevelError
	}
	if !logger.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", r.Method),
		slog.String("path", r.URL.Path),
		slog.Int("status", ww.Status()),
		slog.Int("bytes", ww.BytesWritten()),
		slog.Duration("took", q.Took),
		slog.String("request_id", q.ID),
		slog.String("route", q.Route),
	}
	client, by, err := remembered(r.Context())
	if client.IsValid() && !ofVisitors(r.URL.Path) {
		attrs = append(attrs, slog.String("client", client.String()))
	}
	if by.id != "" {
		attrs = append(attrs, slog.String("by", string(by.kind)+" "+by.id))
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	logger.LogAttrs(r.Context(), level, "request", attrs...)
}
