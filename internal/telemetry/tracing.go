package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// maxSpans is how many spans wait to be sent; more are dropped.
	maxSpans = 4096
	// spansTogether is how many travel in one request.
	spansTogether = 512
	// sendEvery is how long a span waits for others at most.
	sendEvery = 2 * time.Second
	// sendTimeout bounds one export with all its tries.
	sendTimeout = 10 * time.Second
)

// TracingOptions configure NewTracing. Endpoint and Logger are mandatory.
type TracingOptions struct {
	// Endpoint is the base URL of an OTLP receiver that speaks HTTP; spans go to its
	// path /v1/traces.
	Endpoint string
	// Headers go with each request: a receiver's key, for instance.
	Headers map[string]string
	// Service is service.name in the traces, Version service.version.
	Service, Version string
	// Instance is service.instance.id; by default the host and the process's number.
	Instance string
	// Ratio is the share, 0 to 1, of traces that begin here and are kept. A trace that
	// began elsewhere is kept if it is kept there.
	Ratio float64
	// Metrics takes what is counted about spans; nil for nobody.
	Metrics prometheus.Registerer
	Logger  *slog.Logger
	// Client sends; nil for one of its own.
	Client *http.Client
}

// Tracing makes spans and sends them to a receiver. What can't be sent is dropped and
// counted; nobody waits for it.
type Tracing struct {
	provider *sdktrace.TracerProvider
}

// NewTracing starts to take spans. Nothing is sent yet, so that a receiver that is away
// is no error.
func NewTracing(o TracingOptions) (*Tracing, error) {
	if o.Endpoint == "" || o.Logger == nil {
		return nil, errors.New("telemetry: TracingOptions lack Endpoint or Logger")
	}
	client, err := newCollector(o)
	if err != nil {
		return nil, err
	}
	exporter := otlptrace.NewUnstarted(client)
	return &Tracing{sdktrace.NewTracerProvider(
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", cmp.Or(o.Service, "waypost")),
			attribute.String("service.version", o.Version),
			attribute.String("service.instance.id", cmp.Or(o.Instance, instanceName())),
		)),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.Ratio))),
		sdktrace.WithBatcher(exporter, sdktrace.WithMaxQueueSize(maxSpans), sdktrace.WithMaxExportBatchSize(spansTogether),
			sdktrace.WithBatchTimeout(sendEvery), sdktrace.WithExportTimeout(sendTimeout)),
	)}, nil
}

// Tracer makes the spans of this program.
func (t *Tracing) Tracer() trace.Tracer { return t.provider.Tracer("waypost") }

// Close sends what waits, unless ctx ends first.
func (t *Tracing) Close(ctx context.Context) error {
	if err := t.provider.Shutdown(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("telemetry: end of tracing: %w", err)
	}
	return nil // a receiver that is away keeps nobody from stopping
}
