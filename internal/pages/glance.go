package pages

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/waypost/waypost/internal/identity"
)

const (
	// pageWait is how long a page waits for one thing that it shows, and briefly where it
	// has what was read less than recently ago: a page that renews itself every five
	// seconds then is at most one renewal behind.
	pageWait = 400 * time.Millisecond
	briefly  = 20 * time.Millisecond
	recently = 8 * time.Second
	// keptFor is how long what was read is shown while newer is being read.
	keptFor = 2 * time.Minute
)

// errLate says that something was not read within pageWait.
var errLate = errors.New("pages: it was not read in time")

// glance reads one thing for all who look at a page, however many: one at a time reads,
// and the others share what that finds. It holds one value and at most one goroutine, also
// where what it reads never returns.
type glance[T any] struct {
	name string
	read func(ctx context.Context) (T, error)
	// fresh is how long what was read, or that it failed, is good for; limit bounds the
	// reading.
	fresh, limit time.Duration
	now          func() time.Time
	logger       *slog.Logger
	// places bounds how many glances read at once; nil where nothing is shared.
	places chan struct{}

	mu     sync.Mutex
	seen   seen[T]
	tried  time.Time     // when the last reading ended
	began  time.Time     // of the reading that is under way
	asking chan struct{} // closed at its end; nil when none is
}

// seen is what was read, and when.
type seen[T any] struct {
	value T
	at    time.Time
	err   error
}

// look returns what was read last, if that is fresh, and else waits for newer as
// long as pageWait says. Then it returns what there is, and errLate where that is nothing.
func (g *glance[T]) look(ctx context.Context) seen[T] {
	g.mu.Lock()
	now := g.now()
	if g.asking == nil && (g.tried.IsZero() || now.Sub(g.tried).Abs() >= g.fresh) {
		g.asking, g.began = make(chan struct{}), now
		go g.ask(g.asking)
	}
	asking, left := g.asking, pageWait-now.Sub(g.began)
	if g.seen.err == nil && !g.seen.at.IsZero() && now.Sub(g.seen.at).Abs() < max(recently, g.fresh+recently/2) {
		left -= pageWait - briefly
	}
	g.mu.Unlock()
	if asking != nil && left > 0 {
		late := time.NewTimer(min(left, pageWait))
		defer late.Stop()
		select {
		case <-asking:
		case <-late.C:
		case <-ctx.Done():
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.seen
	if g.asking != nil && (s.at.IsZero() || s.err != nil || g.now().Sub(s.at).Abs() > keptFor) {
		return seen[T]{err: errLate}
	}
	return s
}

// ask reads once. Nobody who looks may end it, since others look too.
func (g *glance[T]) ask(done chan struct{}) {
	ctx, cancel := context.WithTimeout(identity.NewContext(context.Background(), identity.System("overview")), g.limit)
	defer cancel()
	value, err := g.attempt(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil && g.seen.err == nil { // once, not each time
		g.logger.WarnContext(ctx, "a part of the overview could not be read", "part", g.name, "error", err)
	}
	g.tried = g.now()
	g.seen, g.asking = seen[T]{value, g.tried, err}, nil
	close(done)
}

func (g *glance[T]) attempt(ctx context.Context) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("pages: panic: %v", p)
		}
	}()
	if g.places != nil {
		select {
		case g.places <- struct{}{}:
			defer func() { <-g.places }()
		case <-ctx.Done():
			return value, ctx.Err()
		}
	}
	return g.read(ctx)
}
