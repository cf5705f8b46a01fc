package telemetry

import (
	"errors"
	"maps"
	"sync"
	"time"
)

const (
	// settledAfter is how long after a step's end no process stores anything more of it:
	// what waited for the database was given up by then.
	settledAfter = (maxWaiting + 5) * time.Minute
	// maxSettled bounds the steps that are kept: those of a day and of six hours are some
	// 160, of a few KiB each.
	maxSettled = 400
)

// stepKey names a step of a Question, by its beginning in Unix seconds.
type stepKey struct {
	began int64
	step  time.Duration
}

// settled are the sums over all processes of steps that nothing is added to any more: a
// page that looks at a day reads its last hour from the database alone. Its zero value is
// ready, and it is safe for concurrent use.
type settled[T any] struct {
	mu    sync.Mutex
	steps map[stepKey]T
}

// firstOf returns the sums of the first steps of q, as far as they are known.
func (s *settled[T]) firstOf(q Question) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []T
	for at := q.Since; at.Before(q.Until); at = at.Add(q.Step) {
		sum, ok := s.steps[stepKey{at.Unix(), q.Step}]
		if !ok {
			break
		}
		list = append(list, sum)
	}
	return list
}

// settledSteps is how many whole steps from then on are settled, up to until.
func settledSteps(from, until time.Time, step time.Duration, now time.Time) int {
	return min(max(0, int(now.Add(-settledAfter).Sub(from)/step)), int(until.Sub(from)/step))
}

// keep keeps the sums of consecutive steps from the one that began then, and forgets those
// that are older than a day.
func (s *settled[T]) keep(began time.Time, step time.Duration, sums []T, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := now.Add(-Kept - time.Hour).Unix()
	maps.DeleteFunc(s.steps, func(k stepKey, _ T) bool { return k.began < oldest })
	if s.steps == nil {
		s.steps = map[stepKey]T{}
	}
	for i, sum := range sums {
		if len(s.steps) < maxSettled {
			s.steps[stepKey{began.Add(time.Duration(i) * step).Unix(), step}] = sum
		}
	}
}

// merger sums what was packed by route, step after step.
type merger struct {
	sums   [][]byte
	routes map[string]*course
}

// add adds counts to the step that is not ended yet.
func (m *merger) add(packed []byte) error {
	return unpack(packed, func(p *packedRoute) {
		r := m.routes[string(p.name)]
		if r == nil {
			r = &course{method: string(p.method), route: string(p.route)}
			m.routes[string(p.name)] = r
		}
		r.add(p)
	})
}

// endUntil ends steps until there are n.
func (m *merger) endUntil(n int) {
	for len(m.sums) < n {
		counts := make([]RouteCounts, 0, len(m.routes))
		for _, r := range m.routes {
			counts = append(counts, RouteCounts{Method: r.method, Route: r.route, Classes: r.classes, Durations: r.durations})
		}
		m.sums = append(m.sums, pack(counts))
		m.routes = map[string]*course{}
	}
}

// counting sums the answer to a Question.
type counting struct {
	q      Question
	points []tally
	routes map[string]*course
}

// take adds what was packed of the step i. What another version packed is left out.
func (c *counting) take(i int, packed []byte) error {
	err := unpack(packed, func(p *packedRoute) {
		if c.q.Route != "" && (string(p.route) != c.q.Route || string(p.method) != c.q.Method) {
			return
		}
		r := c.routes[string(p.name)]
		if r == nil {
			r = &course{method: string(p.method), route: string(p.route), requests: make([]uint64, len(c.points)), failed: make([]uint64, len(c.points)), refused: make([]uint64, len(c.points))}
			c.routes[string(p.name)] = r
		}
		c.points[i].add(p)
		r.add(p)
		r.requests[i] += p.requests()
		r.failed[i] += p.classes[5]
		r.refused[i] += p.classes[4]
	})
	if errors.Is(err, errOtherVersion) {
		return nil
	}
	return err
}
