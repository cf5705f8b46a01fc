package mail

import (
	"context"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5"
)

// LogOptions configure NewLog. Logger is mandatory.
type LogOptions struct {
	Logger *slog.Logger
	// ShowLinks writes the secret links too, so that a developer can follow them.
	// Never in production: who reads the log could take over accounts.
	ShowLinks bool
}

// Log is a Sender that sends nothing and writes a line instead.
type Log struct{ o LogOptions }

// NewLog makes a Log.
func NewLog(o LogOptions) (*Log, error) {
	if o.Logger == nil {
		return nil, errors.New("mail: LogOptions.Logger is missing")
	}
	return &Log{o}, nil
}

// Send implements Sender.
func (l *Log) Send(ctx context.Context, _ pgx.Tx, m Message) error {
	subject, _, err := Compose(m)
	if err != nil {
		return err
	}
	attrs := []slog.Attr{slog.String("kind", string(m.Kind)), slog.String("to", m.To), slog.String("subject", subject)}
	if l.o.ShowLinks && m.Link != "" {
		attrs = append(attrs, slog.String("link", m.Link))
	}
	l.o.Logger.LogAttrs(ctx, slog.LevelInfo, "mail", attrs...)
	return nil
}
