package mail

import (
	"context"
	"errors"
	"log/slog"
)

// LogOptions configure NewLog. Logger is mandatory.
type LogOptions struct {
	Logger *slog.Logger
	// ShowLinks writes the secret links too, so that a developer can follow them.
	// Never in production: who reads the log could take over accounts.
	ShowLinks bool
}

// Log is a Transport that sends nothing and writes a line instead.
type Log struct{ o LogOptions }

// NewLog makes a Log.
func NewLog(o LogOptions) (*Log, error) {
	if o.Logger == nil {
		return nil, errors.New("mail: LogOptions.Logger is missing")
	}
	return &Log{o}, nil
}

// logged are the names of kinds that the log had before there were templates; people
// look for them.
var logged = map[Kind]string{VerifyEmail: "verify_email", ResetPassword: "reset_password"}

// Deliver implements Transport.
func (l *Log) Deliver(ctx context.Context, e Envelope) error {
	kind := logged[e.Kind]
	if kind == "" {
		kind = string(e.Kind)
	}
	attrs := []slog.Attr{slog.String("kind", kind), slog.String("to", e.To), slog.String("subject", e.Subject)}
	if l.o.ShowLinks && e.Link != "" {
		attrs = append(attrs, slog.String("link", e.Link))
	}
	l.o.Logger.LogAttrs(ctx, slog.LevelInfo, "mail", attrs...)
	return nil
}
