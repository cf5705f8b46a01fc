package jobs

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// calmTime is how long a warning or error of River's is not said again.
const calmTime = time.Minute

// calm is River's log: while the database is away, each part of River says so several times a
// second. Once a minute is enough, with how often it was not said. What is about a single job
// is always said.
type calm struct {
	slog.Handler
	repeated *repeated
}

// repeated are the messages of the last minute. River's are constants, a few dozen.
type repeated struct {
	mu   sync.Mutex
	said map[string]*saying
}

type saying struct {
	at   time.Time
	more int // since
}

// Handle implements slog.Handler.
func (c calm) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn || strings.Contains(r.Message, "JobExecutor") {
		return c.Handler.Handle(ctx, r)
	}
	more, say := c.repeated.say(r.Message, r.Time)
	if !say {
		return nil
	}
	if more > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("not_said_again", more))
	}
	return c.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (c calm) WithAttrs(list []slog.Attr) slog.Handler {
	return calm{c.Handler.WithAttrs(list), c.repeated}
}

// WithGroup implements slog.Handler.
func (c calm) WithGroup(name string) slog.Handler {
	return calm{c.Handler.WithGroup(name), c.repeated}
}

// say reports whether message is to be said at a time, and how often it was not since the
// last time.
func (r *repeated) say(message string, at time.Time) (more int, say bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.said == nil {
		r.said = map[string]*saying{}
	}
	s := r.said[message]
	switch {
	case s == nil:
		r.said[message] = &saying{at: at}
		return 0, true
	case at.Sub(s.at) < calmTime:
		s.more++
		return 0, false
	}
	more = s.more
	s.at, s.more = at, 0
	return more, true
}
