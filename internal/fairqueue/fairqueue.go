// Package fairqueue admits callers to a few places and shares the places fairly
// between those who ask: by site, by account, by network address. Who uses much
// waits for who uses little, so that one caller's flood delays that caller.
package fairqueue

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/waypost/waypost/internal/fault"
)

// ErrBusy refuses a caller for whom there is no place in time; kind Unavailable.
var ErrBusy = fault.New(fault.Unavailable, fault.CodeBusy, "Too many requests of this kind at once. Try again shortly.").After(time.Second)

// Options configure New.
type Options struct {
	// Places is how many callers are admitted at the same time; mandatory.
	Places int
	// PerKey is how many places one key has at most; default all. With fewer, there is
	// a place for others while one key's callers stay long.
	PerKey int
	// MaxWaiting is how many callers wait for a place; default 16 for each place.
	// One more makes the greediest be refused: the latest to come of those who have
	// the most places and have the most callers waiting.
	MaxWaiting int
	// MaxWait is the longest wait; default 1 s.
	MaxWait time.Duration
	// HalfLife is the time in which half of what a key has used is forgotten;
	// default 10 s.
	HalfLife time.Duration
	// Now is the clock; default time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	o.PerKey = cmp.Or(o.PerKey, o.Places)
	o.MaxWaiting = cmp.Or(o.MaxWaiting, 16*o.Places)
	o.MaxWait = cmp.Or(o.MaxWait, time.Second)
	o.HalfLife = cmp.Or(o.HalfLife, 10*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Queue is a bounded queue in front of a bounded number of places.
type Queue struct {
	o Options

	mu      sync.Mutex
	free    int
	waiting []*caller // in order of arrival
	shares  map[string]*share
	sweepAt int // sweep when there are more shares than this
}

// share is what one key has.
type share struct {
	admitted, waiting int
	used              float64 // seconds in places, halved every HalfLife; as of at
	at                time.Time
}

type caller struct {
	keys    []string
	since   time.Time    // of being admitted
	decided chan verdict // holds one
}

type verdict bool

// New makes a queue, or says what its options lack.
func New(o Options) (*Queue, error) {
	if o.Places < 1 || o.PerKey < 0 || o.MaxWaiting < 0 || o.MaxWait < 0 || o.HalfLife < 0 {
		return nil, errors.New("fairqueue: Options need a place or more, and nothing negative")
	}
	o = o.withDefaults()
	return &Queue{o: o, free: o.Places, shares: map[string]*share{}, sweepAt: 1024}, nil
}

// Enter waits for a place, and returns what gives it back, which must be called
// once. keys are whom the place is charged to; a caller with several ranks as its
// busiest key. A free place goes to the caller whose keys have the fewest places,
// then to the one whose keys have used the least lately, then to the first to come.
// It returns ErrBusy when too many wait or the wait was too long, or ctx's error.
func (q *Queue) Enter(ctx context.Context, keys ...string) (func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := q.enqueue(keys)
	limit := time.NewTimer(q.o.MaxWait)
	defer limit.Stop()
	admitted := verdict(false)
	err := error(ErrBusy)
	select {
	case admitted = <-c.decided:
	case <-limit.C:
		admitted = q.withdraw(c)
	case <-ctx.Done():
		if q.withdraw(c) {
			q.leave(c)
		}
		err = ctx.Err()
	}
	if !admitted {
		return nil, err
	}
	return sync.OnceFunc(func() { q.leave(c) }), nil
}

func (q *Queue) enqueue(keys []string) *caller {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := &caller{keys: slices.Compact(slices.Sorted(slices.Values(keys))), decided: make(chan verdict, 1)}
	q.sweep()
	for _, k := range c.keys {
		if q.shares[k] == nil {
			q.shares[k] = &share{at: q.o.Now()}
		}
		q.shares[k].waiting++
	}
	q.waiting = append(q.waiting, c)
	q.admit()
	if len(q.waiting) > q.o.MaxWaiting {
		q.decide(q.greediest(), false)
	}
	return c
}

// withdraw takes back a caller that waits, and reports whether it was admitted
// meanwhile.
func (q *Queue) withdraw(c *caller) verdict {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, c); i >= 0 {
		q.decide(i, false)
	}
	return <-c.decided
}

func (q *Queue) leave(c *caller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.o.Now()
	for _, k := range c.keys {
		s := q.shares[k]
		s.admitted--
		s.used, s.at = q.used(s, now)+now.Sub(c.since).Seconds(), now
	}
	q.free++
	q.admit()
}

// admit gives the free places away.
func (q *Queue) admit() {
	for q.free > 0 {
		now := q.o.Now()
		next, least := -1, rank{admitted: q.o.PerKey}
		for i, c := range q.waiting {
			// Those who came earlier win what is equal.
			if r := q.rank(c, now); r.admitted < q.o.PerKey && r.compare(least) < 0 {
				next, least = i, r
			}
		}
		if next < 0 {
			return
		}
		q.decide(next, true)
	}
}

// decide ends the wait of the caller at place i of those who wait.
func (q *Queue) decide(i int, v verdict) {
	c := q.waiting[i]
	q.waiting = slices.Delete(q.waiting, i, i+1)
	for _, k := range c.keys {
		q.shares[k].waiting--
		if v {
			q.shares[k].admitted++
		}
	}
	if v {
		q.free--
		c.since = q.o.Now()
	}
	c.decided <- v
}

// rank is how much a caller's busiest key has.
type rank struct {
	admitted int
	used     float64
}

func (r rank) compare(o rank) int {
	return cmp.Or(cmp.Compare(r.admitted, o.admitted), cmp.Compare(r.used, o.used))
}

func (q *Queue) rank(c *caller, now time.Time) rank {
	var most rank
	for _, k := range c.keys {
		s := q.shares[k]
		if r := (rank{s.admitted, q.used(s, now)}); r.compare(most) > 0 {
			most = r
		}
	}
	return most
}

// greediest is the place of the caller that is refused when too many wait.
func (q *Queue) greediest() int {
	now := q.o.Now()
	worst, most := 0, rank{admitted: -1}
	for i, c := range q.waiting {
		r := q.rank(c, now)
		for _, k := range c.keys {
			r.admitted = max(r.admitted, q.shares[k].admitted+q.shares[k].waiting)
		}
		if r.compare(most) >= 0 {
			worst, most = i, r
		}
	}
	return worst
}

// used is what a key has used as it counts now.
func (q *Queue) used(s *share, now time.Time) float64 {
	return s.used * math.Exp2(-now.Sub(s.at).Seconds()/q.o.HalfLife.Seconds())
}

// sweep forgets the keys that have no share worth remembering, so that their
// number follows the number of callers of late.
func (q *Queue) sweep() {
	if len(q.shares) < q.sweepAt {
		return
	}
	const negligible = 0.001 // seconds
	now := q.o.Now()
	for k, s := range q.shares {
		if s.admitted == 0 && s.waiting == 0 && q.used(s, now) < negligible {
			delete(q.shares, k)
		}
	}
	q.sweepAt = 2*len(q.shares) + 1024
}
