package truth_test

import (
	"context"
	"log/slog"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/e2e/outside"
)

// journal is a service's log: what it mails, and what went wrong.
type journal struct {
	mu      sync.Mutex
	links   map[string][]string // by address, oldest first
	errors  string
	changed chan struct{} // closed at the next mail
}

func newJournal() *journal {
	return &journal{links: map[string][]string{}, changed: make(chan struct{})}
}

// Enabled implements slog.Handler.
func (*journal) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// WithAttrs implements slog.Handler; a mail's own attributes are enough.
func (j *journal) WithAttrs([]slog.Attr) slog.Handler { return j }

// WithGroup implements slog.Handler.
func (j *journal) WithGroup(string) slog.Handler { return j }

// Handle implements slog.Handler.
func (j *journal) Handle(_ context.Context, r slog.Record) error {
	values, all := map[string]string{}, r.Message
	r.Attrs(func(a slog.Attr) bool {
		values[a.Key] = a.Value.String()
		all += " " + a.String()
		return true
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	if r.Level >= slog.LevelError {
		j.errors = all
	}
	if link := values["link"]; r.Message == "mail" && link != "" {
		j.links[values["to"]] = append(j.links[values["to"]], link)
		close(j.changed)
		j.changed = make(chan struct{})
	}
	return nil
}

func (j *journal) lastError() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.errors
}

// code waits for the n-th mail with a link to an address, counted from 1, and
// returns the link's code.
func (j *journal) code(t *testing.T, to string, n int) string {
	t.Helper()
	deadline := time.After(outside.Patience)
	for {
		j.mu.Lock()
		links, changed := j.links[to], j.changed
		j.mu.Unlock()
		if len(links) >= n {
			u, err := url.Parse(links[n-1])
			if err != nil || u.Query().Get("token") == "" {
				t.Fatalf("the mail to %s has the link %q", to, links[n-1])
			}
			return u.Query().Get("token")
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("mail number %d to %s never came", n, to)
		}
	}
}
