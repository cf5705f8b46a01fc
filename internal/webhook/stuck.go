package webhook

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// stuckMost is how many runs of one binding's handler may have overrun their time
	// without an end: no more are started then.
	stuckMost = 16
	// stuckWait is how long an event waits that finds as many.
	stuckWait = time.Minute
)

// stuck counts the runs of handlers that ignore the end of their time. Nothing can end
// them; what they hold is bounded by how many there are.
type stuck struct {
	mu    sync.Mutex
	runs  map[bindingKey]int
	total int
}

func newStuck(to prometheus.Registerer) (*stuck, error) {
	s := &stuck{runs: map[bindingKey]int{}}
	if to == nil {
		return s, nil
	}
	return s, to.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "waypost", Subsystem: "webhook", Name: "stuck_handlers",
		Help: "Runs of handlers that overran their time budget and go on all the same. Only a restart ends them.",
	}, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(s.total)
	}))
}

func (s *stuck) add(k bindingKey, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[k] += n
	s.total += n
}

func (s *stuck) full(k bindingKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[k] >= stuckMost
}

// ends waits a little for a handler whose time is over. A run that does not end is counted
// and left to itself: the caller must let go of all that it has of it.
func (r *core) ends(ctx context.Context, c claim, e *execution) bool {
	grace := time.NewTimer(r.o.Grace)
	defer grace.Stop()
	select {
	case <-e.finished:
		return true
	case <-grace.C:
	}
	b, _ := r.o.Registry.binding(c.event.Provider, c.event.Type)
	key := bindingKey{b.Provider, b.EventType}
	r.stuck.add(key, 1)
	r.o.Logger.ErrorContext(ctx, "webhook handler ignores the end of its time budget; its transaction is cut, its goroutine goes on until it returns",
		"event", c.event.ID, "provider", c.event.Provider, "event_type", c.event.Type, "budget", r.o.Budget)
	go func() {
		<-e.finished
		r.stuck.add(key, -1)
	}()
	return false
}
