package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/telemetry"
)

// observation is what measures a server. It is made first, so that connections to
// the database can be part of traces, and closed last.
type observation struct {
	metrics  *telemetry.Metrics
	requests *telemetry.Requests
	tracing  *telemetry.Tracing // nil without a receiver of traces
	listener net.Listener       // of metrics; nil without an address for them
}

// tracingEnd bounds the sending of the last spans.
const tracingEnd = 5 * time.Second

// observe makes a server's observation, and takes the address of metrics. What it opened
// is closed by cleanup.
func observe(ctx context.Context, c config.Config, logger *slog.Logger, cleanup *closers) (*observation, error) {
	o := &observation{metrics: telemetry.New(), requests: telemetry.NewRequests()}
	for _, c := range []prometheus.Collector{o.requests, ThisBuild().gauge()} {
		if err := o.metrics.Registerer().Register(c); err != nil {
			return nil, err
		}
	}
	if c.Telemetry.MetricsAddr != "" {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", c.Telemetry.MetricsAddr)
		if err != nil {
			return nil, fmt.Errorf("WAYPOST_METRICS_ADDR: cannot listen on %s: %w", c.Telemetry.MetricsAddr, err)
		}
		cleanup.add("listener of metrics", func() error { return ignoreClosed(l.Close()) })
		o.listener = l
		logger.InfoContext(ctx, "metrics", "address", localURL(l)+"/metrics")
	}
	if c.Telemetry.OTLPEndpoint == "" {
		return o, nil
	}
	headers, err := c.Telemetry.Headers()
	if err != nil {
		return nil, err
	}
	o.tracing, err = telemetry.NewTracing(telemetry.TracingOptions{
		Endpoint: c.Telemetry.OTLPEndpoint, Headers: headers, Service: c.Telemetry.ServiceName, Version: api.Version,
		Ratio: c.Telemetry.TraceRatio, Metrics: o.metrics.Registerer(), Logger: logger,
	})
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	cleanup.add("tracing", within(tracingEnd, o.tracing.Close))
	return o, nil
}

// tracer makes spans, nil without a receiver of them.
func (o *observation) tracer() trace.Tracer {
	if o.tracing == nil {
		return nil
	}
	return o.tracing.Tracer()
}

// statements are told of each statement, nil without a receiver of traces.
func (o *observation) statements() pgx.QueryTracer {
	if o.tracing == nil {
		return nil
	}
	return o.tracing.Statements()
}

var errOnlyMetrics = fault.New(fault.NotFound, fault.CodeNotFound, "Only GET /metrics is answered at this address.")

// serveMetrics answers scrapes at the address of their own until ctx ends. It asks for
// the token where there is one.
func (o *observation) serveMetrics(ctx context.Context, c config.Config, logger *slog.Logger) error {
	metrics := o.metrics.Handler()
	if c.Telemetry.MetricsToken != "" {
		metrics = requireToken(c.Telemetry.MetricsToken, metrics)
	}
	h, err := httpedge.Fixed(httpedge.Options{Logger: quieter(logger)}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" || r.Method != http.MethodGet && r.Method != http.MethodHead {
			httpedge.WriteError(w, r, errOnlyMetrics)
			return
		}
		metrics.ServeHTTP(w, r)
	}))
	if err != nil {
		return err
	}
	return serveHTTP(ctx, o.listener, h, scrapeTimeout, ending{Begun: new(atomic.Bool), Grace: scrapeTimeout}, logger)
}

// scrapeTimeout bounds one scrape.
const scrapeTimeout = 10 * time.Second
