package app

import (
	"io"
	"log/slog"

	"github.com/waypost/waypost/internal/config"
)

// NewLogger makes the logger that c asks for, writing to w.
func NewLogger(c config.Config, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		level = slog.LevelInfo // c was validated, so this is a Config made by hand
	}
	o := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

// QuietLogger is for commands, whose errors are their answer.
func QuietLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }
