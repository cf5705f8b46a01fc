package app

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/telemetry"
)

// NewLogger makes the logger that c asks for, writing to w.
func NewLogger(c config.Config, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		level = slog.LevelInfo // c was validated, so this is a Config made by hand
	}
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: redact}
	if c.LogFormat == "text" {
		return slog.New(correlated{slog.NewTextHandler(w, o)})
	}
	return slog.New(correlated{slog.NewJSONHandler(w, o)})
}

// QuietLogger is for commands, whose errors are their answer.
func QuietLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// correlated adds the ids of the request and of the trace that a line belongs to.
type correlated struct{ slog.Handler }

// Handle implements slog.Handler.
func (h correlated) Handle(ctx context.Context, r slog.Record) error {
	id := cmp.Or(httpedge.RequestID(ctx), identity.FromContext(ctx).RequestID)
	said := id == ""
	r.Attrs(func(a slog.Attr) bool {
		said = said || a.Key == "request_id"
		return !said
	})
	traced := telemetry.TraceID(ctx)
	if said && traced == "" {
		return h.Handler.Handle(ctx, r)
	}
	r = r.Clone()
	if !said {
		r.AddAttrs(slog.String("request_id", id))
	}
	if traced != "" {
		r.AddAttrs(slog.String("trace_id", traced))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h correlated) WithAttrs(attrs []slog.Attr) slog.Handler {
	return correlated{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h correlated) WithGroup(name string) slog.Handler { return correlated{h.Handler.WithGroup(name)} }

// secrets are names of fields whose values no line shows, whoever wrote it.
var secrets = []string{"password", "secret", "token", "authorization", "cookie", "set-cookie", "api_key", "refresh_token", "access_token"}

// redact blanks secrets, which nobody logs on purpose; this is for mistakes. It gives
// lengths of time their unit.
func redact(_ []string, a slog.Attr) slog.Attr {
	if slices.Contains(secrets, strings.ToLower(a.Key)) {
		return slog.String(a.Key, "[redacted]")
	}
	if a.Value.Kind() == slog.KindDuration { // in JSON a bare number of nanoseconds otherwise
		return slog.String(a.Key, a.Value.Duration().String())
	}
	return a
}
