package app

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/identity"
)

func TestALineHasTheIdsOfItsRequestAndTraceAndNoSecret(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	logger := NewLogger(config.Config{LogLevel: "info", LogFormat: "json"}, &log).With("part", "test")
	ctx := identity.NewContext(t.Context(), identity.Principal{RequestID: "r-1"})
	ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{15: 1}, SpanID: trace.SpanID{7: 1}}))
	logger.WarnContext(ctx, "a line\nwith a break", "Password", "p", slog.Group("header", "authorization", "Bearer x", "accept", "*/*"), "token", []byte("t"))
	logger.InfoContext(ctx, "with an id of its own", "request_id", "r-2")
	logger.Info("outside")
	var lines []map[string]any
	for d := json.NewDecoder(&log); d.More(); {
		var line map[string]any
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		delete(line, "time")
		lines = append(lines, line)
	}
	const id = "00000000000000000000000000000001"
	want := []map[string]any{
		{"level": "WARN", "msg": "a line\nwith a break", "part": "test", "Password": "[redacted]", "header": map[string]any{"authorization": "[redacted]", "accept": "*/*"}, "token": "[redacted]", "request_id": "r-1", "trace_id": id},
		{"level": "INFO", "msg": "with an id of its own", "part": "test", "request_id": "r-2", "trace_id": id},
		{"level": "INFO", "msg": "outside", "part": "test"},
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}
