package queue

import (
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Trace is the place in a trace at which a job goes on, as W3C Trace Context has it in
// the job's metadata; the zero value is none.
type Trace struct{ metadata []byte }

// TraceOf is the place of ctx, for a job that is inserted later, in another's
// transaction. A trace that nobody keeps is none.
func TraceOf(ctx context.Context) Trace {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return Trace{}
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	metadata, err := json.Marshal(carrier)
	if err != nil {
		return Trace{}
	}
	return Trace{metadata}
}

// Text is the place as ContinueTrace reads it, "" for none.
func (t Trace) Text() string { return string(t.metadata) }

// ContinueTrace returns a context in the trace that a job's metadata names, or ctx.
func ContinueTrace(ctx context.Context, metadata []byte) context.Context {
	var in struct {
		Parent string `json:"traceparent"`
		State  string `json:"tracestate"`
	}
	if json.Unmarshal(metadata, &in) != nil || in.Parent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": in.Parent, "tracestate": in.State})
}
