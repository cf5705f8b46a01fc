package telemetry

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/waypost/waypost/db/dbtest"
)

var oneSpan = []*tracev1.ResourceSpans{{ScopeSpans: []*tracev1.ScopeSpans{{Spans: []*tracev1.Span{{Name: "one"}}}}}}

func TestSpansAreSentAgainWhenThatMayHelpAndElseDroppedAndCounted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers       []int
		asked         int32
		sent, dropped float64
	}{
		"taken":          {[]int{200}, 1, 1, 0},
		"busy at first":  {[]int{503, 200}, 2, 1, 0},
		"never":          {[]int{429, 502, 504}, 3, 0, 1},
		"refused":        {[]int{400}, 1, 0, 1},
		"sent elsewhere": {[]int{307}, 1, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.answers[asked.Add(1)-1])
			}))
			t.Cleanup(server.Close)
			var log bytes.Buffer
			to, err := newCollector(TracingOptions{Endpoint: server.URL + "?key=secret", Headers: map[string]string{"X-Key": "a secret"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			if err := to.UploadTraces(t.Context(), oneSpan); err != nil {
				t.Error(err)
			}
			if asked.Load() != c.asked || testutil.ToFloat64(to.sent) != c.sent || testutil.ToFloat64(to.dropped) != c.dropped {
				t.Errorf("asked %d times, %v sent, %v dropped", asked.Load(), testutil.ToFloat64(to.sent), testutil.ToFloat64(to.dropped))
			}
			if strings.Contains(log.String(), "secret") || (c.dropped > 0) != strings.Contains(log.String(), "level=WARN") {
				t.Errorf("log: %s", &log)
			}
		})
	}
}

func TestAReceiverThatIsAwayOrHangsHoldsUpNobody(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	t.Cleanup(hanging.Close)
	t.Cleanup(func() { close(over) })
	for _, endpoint := range []string{hanging.URL, "http://127.0.0.1:1"} {
		tracing, err := NewTracing(TracingOptions{Endpoint: endpoint, Ratio: 1, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 * maxSpans { // more than there is room for
			_, span := tracing.Tracer().Start(t.Context(), "x")
			span.End()
		}
		limit, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := tracing.Close(limit); err != nil {
			t.Error(err)
		}
	}
}

func TestSpansOfStatementsHaveTheirNamesAndNeitherTextNorValues(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	urls := dbtest.NewURL(t)
	config, err := pgx.ParseConfig(urls.App)
	if err != nil {
		t.Fatal(err)
	}
	config.Tracer = &Statements{provider.Tracer("test")}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	run := func(ctx context.Context) {
		_, _ = conn.Exec(ctx, "-- name: FindThing :one\nselect $1::text where 'literal' <> ''", "value")
		_, _ = conn.Exec(ctx, "select ('wrong-value')::integer")
		_, _ = conn.Exec(ctx, ";")
		var b pgx.Batch
		b.Queue("select 1")
		b.Queue("-- name: StoreThing :exec\nselect 'literal'")
		_ = conn.SendBatch(ctx, &b).Close()
	}
	run(t.Context())
	if n := len(recorder.Ended()); n != 0 {
		t.Errorf("%d spans of what is no trace", n)
	}
	ctx, parent := provider.Tracer("test").Start(t.Context(), "request")
	run(ctx)
	parent.End()
	var names []string
	for _, s := range recorder.Ended() {
		names = append(names, s.Name())
		for _, a := range s.Attributes() {
			if v := a.Value.String(); strings.Contains(v, "value") || strings.Contains(v, "literal") {
				t.Errorf("%s: %s is %s", s.Name(), a.Key, v)
			}
		}
		if strings.Contains(s.Status().Description, "value") || len(s.Events()) > 0 {
			t.Errorf("%s: %+v %+v", s.Name(), s.Status(), s.Events())
		}
		if s.Name() != "request" && s.Parent().SpanID() != parent.SpanContext().SpanID() {
			t.Errorf("%s is no child of the request", s.Name())
		}
	}
	if got := strings.Join(names, " "); got != "FindThing select statement StoreThing request" {
		t.Errorf("spans: %s", got)
	}
	if got := recorder.Ended()[1].Status().Description; got != "22P02" {
		t.Errorf("a failure is told as %q", got)
	}
}

func TestATraceIsTakenOverAndWhatIsNoneIsNot(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	long := strings.Repeat("v", 250)
	for name, c := range map[string]struct {
		header       http.Header
		trace, state string
	}{
		"none":           {http.Header{}, "", ""},
		"a trace":        {http.Header{"Traceparent": {parent}, "Tracestate": {"v=1"}}, "0af7651916cd43dd8448eb211c80319c", "v=1"},
		"two of them":    {http.Header{"Traceparent": {parent, parent}}, "", ""},
		"no hexadecimal": {http.Header{"Traceparent": {strings.ToUpper(parent)}}, "", ""},
		"zeros":          {http.Header{"Traceparent": {"00-00000000000000000000000000000000-b7ad6b7169203331-01"}}, "", ""},
		"a long state":   {http.Header{"Traceparent": {parent}, "Tracestate": {"a=" + long + ",b=" + long + ",c=" + long}}, "0af7651916cd43dd8448eb211c80319c", ""},
	} {
		ctx := Continue(t.Context(), c.header)
		if got := TraceID(ctx); got != c.trace {
			t.Errorf("%s: trace %q", name, got)
		}
		if got := trace.SpanContextFromContext(ctx).TraceState().String(); got != c.state {
			t.Errorf("%s: state %q", name, got)
		}
	}
}
