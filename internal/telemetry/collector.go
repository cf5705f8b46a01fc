package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector is an OTLP receiver, spoken to by HTTP with binary bodies (OTLP 1.x,
// "OTLP/HTTP"). The project's own client would bring gRPC, for nothing that we use.
type collector struct {
	url     string
	headers map[string]string
	client  *http.Client
	logger  *slog.Logger
	sent    prometheus.Counter
	dropped prometheus.Counter
	failing atomic.Bool
}

func newCollector(o TracingOptions) (*collector, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("telemetry: the OTLP endpoint is no absolute http(s) URL")
	}
	u = u.JoinPath("v1", "traces")
	c := &collector{url: u.String(), headers: o.Headers, client: o.Client, logger: o.Logger,
		sent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waypost_trace_spans_sent_total", Help: "Spans that the OTLP receiver took.",
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waypost_trace_spans_dropped_total", Help: "Spans that the OTLP receiver did not take, after all tries.",
		}),
	}
	if c.client == nil {
		c.client = &http.Client{
			Timeout: sendTimeout,
			// A redirect would take the headers to where nobody sent them.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true},
		}
	}
	if o.Metrics != nil {
		for _, m := range []prometheus.Collector{c.sent, c.dropped} {
			if err := o.Metrics.Register(m); err != nil {
				return nil, fmt.Errorf("telemetry: metrics: %w", err)
			}
		}
	}
	return c, nil
}

// Start implements otlptrace.Client.
func (c *collector) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *collector) Stop(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. It returns no error: what it could not send
// is counted and told here, once until it works again.
func (c *collector) UploadTraces(ctx context.Context, spans []*tracev1.ResourceSpans) error {
	n := 0
	for _, r := range spans {
		for _, s := range r.ScopeSpans {
			n += len(s.Spans)
		}
	}
	if err := c.upload(ctx, spans); err != nil {
		c.dropped.Add(float64(n))
		if !c.failing.Swap(true) {
			c.logger.WarnContext(ctx, "traces are lost: the OTLP receiver does not take them", "error", err)
		}
		return nil
	}
	c.sent.Add(float64(n))
	if c.failing.Swap(false) {
		c.logger.InfoContext(ctx, "the OTLP receiver takes traces again")
	}
	return nil
}

// tries is how often a batch is sent. What fails for longer is dropped: spans wait in
// memory.
const tries = 3

func (c *collector) upload(ctx context.Context, spans []*tracev1.ResourceSpans) error {
	// TracesData has the same bytes as ExportTraceServiceRequest, and is in a package
	// without gRPC.
	raw, err := proto.Marshal(&tracev1.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	var body bytes.Buffer
	z := gzip.NewWriter(&body)
	_, _ = z.Write(raw) // into memory
	_ = z.Close()
	wait := time.Second
	for try := 1; ; try++ {
		again, after, err := c.post(ctx, body.Bytes())
		if err == nil || !again || try == tries {
			return err
		}
		select {
		case <-time.After(max(wait, after)):
			wait *= 2
		case <-ctx.Done():
			return err
		}
	}
}

// post sends one request, and says whether and when to send it again.
func (c *collector) post(ctx context.Context, body []byte) (again bool, after time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return false, 0, fmt.Errorf("telemetry: the OTLP endpoint: %w", withoutURL(err))
	}
	for name, value := range c.headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("Content-Encoding", "gzip")
	r.Header.Set("User-Agent", "Waypost")
	res, err := c.client.Do(r)
	if err != nil {
		return true, 0, withoutURL(err)
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection can be used again
	if res.StatusCode/100 == 2 {
		return false, 0, nil
	}
	if seconds, err := strconv.Atoi(strings.TrimSpace(res.Header.Get("Retry-After"))); err == nil && seconds > 0 {
		after = time.Duration(seconds) * time.Second
	}
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	return again, after, fmt.Errorf("it answered %d", res.StatusCode)
}

// withoutURL drops the URL from an error: it may hold a key.
func withoutURL(err error) error {
	if u, ok := err.(*url.Error); ok {
		return u.Err
	}
	return err
}
