package telemetry

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// maxState bounds the vendors' part of a trace context that is handed on, in bytes: the
// least that W3C Trace Context asks for (section 3.3.1.5).
const maxState = 512

var headers propagation.TraceContext

// Continue returns a context in the trace that a request's headers name (W3C Trace
// Context), or ctx if they name none.
func Continue(ctx context.Context, h http.Header) context.Context {
	if len(h["Traceparent"]) != 1 {
		return ctx
	}
	ctx = headers.Extract(ctx, propagation.HeaderCarrier(h))
	if c := trace.SpanContextFromContext(ctx); len(c.TraceState().String()) > maxState {
		ctx = trace.ContextWithRemoteSpanContext(ctx, c.WithTraceState(trace.TraceState{}))
	}
	return ctx
}

// TraceID is the trace that ctx belongs to, "" for none.
func TraceID(ctx context.Context) string {
	if c := trace.SpanContextFromContext(ctx); c.HasTraceID() {
		return c.TraceID().String()
	}
	return ""
}

// Outgoing makes a span of each request that is part of a trace, and hands the trace
// on in its headers. Of the target it tells the host alone.
func Outgoing(next http.RoundTripper) http.RoundTripper { return outgoing{next} }

type outgoing struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o outgoing) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return o.next.RoundTrip(r)
	}
	// The span ends with the answer's headers.
	ctx, span := trace.SpanFromContext(ctx).TracerProvider().Tracer("waypost").Start(ctx, r.Method,
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("http.request.method", r.Method), attribute.String("server.address", r.URL.Hostname())))
	defer span.End()
	r = r.Clone(ctx)
	headers.Inject(ctx, propagation.HeaderCarrier(r.Header))
	res, err := o.next.RoundTrip(r)
	if err != nil {
		span.SetAttributes(attribute.String("error.type", "no answer"))
		span.SetStatus(codes.Error, "no answer")
		return res, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", res.StatusCode))
	if res.StatusCode >= 400 {
		span.SetStatus(codes.Error, "")
	}
	return res, nil
}
