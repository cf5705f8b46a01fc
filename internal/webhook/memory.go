package webhook

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	defaultBodyMemory = 64 << 20
	// smallBody is the largest body in bytes that is not hindered by larger ones.
	smallBody = 64 << 10
	// firstBuffer is what a sender is given in bytes before it has sent anything.
	firstBuffer = 4 << 10
	// A body that is arriving must bring leastBytes, or its end, in each leastSpan. While
	// memory is short, one that doesn't is cut off.
	leastBytes = 32 << 10
	leastSpan  = 500 * time.Millisecond
	// roomWait is how long a body waits for memory that others may give back.
	roomWait = time.Second
	// leavingSpan is about how long a body takes to give back what it was told to.
	leavingSpan = 10 * time.Millisecond
	// refused stands for what a body wants that waits no longer, and gets nothing.
	refused = -1
)

var errCrowded = errors.New("webhook: too many bytes of bodies are in memory")

// bodyMemory bounds the bytes of bodies that are in memory at any moment. Large and small
// ones may each take three quarters of it, so that neither keeps the other out, and those
// that are arriving from one network half. What arrives too slowly gives way to others.
type bodyMemory struct {
	size int64 // bytes, as all below
	now  func() time.Time

	mu       sync.Mutex
	held     int64
	classes  [2]int64
	networks map[netip.Prefix]int64 // of bodies that are arriving
	arriving map[*body]struct{}
	storing  int     // bodies that have arrived and that no handler has
	waiting  []*body // for memory, by how much they want
}

// The classes of bodies.
const (
	small = iota // announced as small, or of unknown length and small up to now
	large
)

// share is what bodies of one class may take of n bytes.
func share(n int64) int64 { return n / 4 * 3 }

func newBodyMemory(n int64, now func() time.Time) *bodyMemory {
	return &bodyMemory{size: n, now: now, networks: map[netip.Prefix]int64{}, arriving: map[*body]struct{}{}}
}

// defaultMemory is the receiver's memory for bodies, when none is configured: room
// for the largest one and as much again beside it.
func (r *Registry) defaultMemory() int64 {
	most := int64(defaultBodyMemory)
	for _, p := range r.providers {
		most = max(most, 2*p.BodyLimit)
	}
	return most
}

// checkMemory returns an error that names a provider whose largest body would
// never find room.
func (r *Registry) checkMemory(n int64) error {
	for _, p := range r.Providers() {
		if p.BodyLimit > share(n) {
			return fmt.Errorf("webhook: provider %q: bodies may take %d bytes of memory in all, too little for one of its body limit of %d bytes", p.Name, n, p.BodyLimit)
		}
	}
	return nil
}

// networkOf is what shares the memory of one sender: an IPv4 address, or an IPv6 /64.
func networkOf(a netip.Addr) netip.Prefix {
	a = a.Unmap()
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // no address: all of these are one
	}
	return p
}

// bytes is how much is held.
func (m *bodyMemory) bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// admit takes n bytes for a body before it arrives, and keeps what it gets to begin with.
func (m *bodyMemory) admit(b *body, n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.arriving[b] = struct{}{}
	if err := m.book(b, n); err != nil {
		return err
	}
	m.keep(b, firstBuffer)
	return nil
}

// take makes the memory of a body that is arriving n bytes.
func (m *bodyMemory) take(b *body, n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.book(b, n)
}

// book is take. It waits for a moment where others may give some back, and returns
// ErrStorage when they don't. m.mu is held, but not while it waits.
func (m *bodyMemory) book(b *body, n int64) error {
	l := m.short(b, n)
	if l == nil {
		m.give(b, n)
		return nil
	}
	deadline := time.NewTimer(roomWait)
	defer deadline.Stop()
	m.queue(b, n)
	defer func() { b.mark = m.now() }()
	for over := false; ; {
		cut, next := m.slowest(b, l)
		if len(cut) == 0 && next < 0 && m.refuseLargest(b, l) {
			next = leavingSpan
		}
		if over || b.want < 0 || len(cut) == 0 && next < 0 {
			m.unqueue(b)
			return ErrStorage.Because(errCrowded)
		}
		m.mu.Unlock()
		for _, other := range cut {
			other.cut()
		}
		over = waitFor(b.given, deadline.C, next)
		m.mu.Lock()
		switch b.want {
		case 0:
			return nil
		case refused:
			m.unqueue(b)
			return ErrStorage.Because(errCrowded)
		}
		if l = m.short(b, n); l == nil {
			m.wake() // others that want less come first, and it comes after them
			if b.want == 0 {
				return nil
			}
			l = m.short(b, n)
		}
	}
}

// waitFor returns once memory was given or next is over; it reports whether the deadline
// came first.
func waitFor(given <-chan struct{}, deadline <-chan time.Time, next time.Duration) bool {
	timer := time.NewTimer(max(next, time.Millisecond))
	defer timer.Stop()
	select {
	case <-given:
		return false
	case <-timer.C:
		return false
	case <-deadline:
		return true
	}
}

// queue makes b wait for n bytes. m.mu is held, as for all that follow.
func (m *bodyMemory) queue(b *body, n int64) {
	b.want, b.given = n, make(chan struct{})
	at, _ := slices.BinarySearchFunc(m.waiting, n+1, func(o *body, n int64) int { return cmp.Compare(o.want, n) })
	m.waiting = slices.Insert(m.waiting, at, b)
}

func (m *bodyMemory) unqueue(b *body) {
	b.want = 0
	m.waiting = slices.DeleteFunc(m.waiting, func(o *body) bool { return o == b })
}

// refuseLargest ends the wait of the body that wants the most, where all wait for each
// other; it reports whether there was one that wants no less than b and has memory to give
// back.
func (m *bodyMemory) refuseLargest(b *body, l *lack) bool {
	for _, o := range slices.Backward(m.waiting) {
		if o.want < b.want {
			return false
		}
		if o.taken == 0 || !l.among(o) {
			continue
		}
		m.unqueue(o)
		o.want, o.leaving = refused, true
		close(o.given)
		return true
	}
	return false
}

// wake gives memory to those that wait for it: who wants least comes first, so that whoever
// fills the memory with large bodies delays large bodies.
func (m *bodyMemory) wake() {
	m.waiting = slices.DeleteFunc(m.waiting, func(o *body) bool {
		if m.short(o, o.want) != nil {
			return false
		}
		m.give(o, o.want)
		o.want = 0
		close(o.given)
		return true
	})
}

// lack is memory that a body doesn't find.
type lack struct {
	bytes int64
	among func(*body) bool // whose memory it could be
}

// short returns what b lacks for n bytes in all; nil when it can have them.
func (m *bodyMemory) short(b *body, n int64) *lack {
	more, inClass, class := n-b.taken, n-b.taken, b.classFor(n)
	if class != b.class {
		inClass = n
	}
	if more <= 0 {
		return nil
	}
	if over := m.networks[b.network] + more - m.size/2; over > 0 && m.networks[b.network] > b.taken {
		return &lack{over, func(o *body) bool { return o.network == b.network }}
	}
	if over := m.classes[class] + inClass - share(m.size); over > 0 {
		return &lack{over, func(o *body) bool { return o.class == class }}
	}
	if over := m.held + more - m.size; over > 0 {
		return &lack{over, func(*body) bool { return true }}
	}
	return nil
}

// slowest returns the bodies that arrive too slowly and take what is lacking, and after what
// time others may turn out to be; that is negative when there are none that could give
// anything back soon.
func (m *bodyMemory) slowest(b *body, l *lack) ([]*body, time.Duration) {
	now := m.now()
	next := time.Duration(-1)
	var slow []*body
	for o := range m.arriving {
		if o == b || o.want > 0 || o.taken == 0 || !l.among(o) {
			continue
		}
		left := leastSpan - now.Sub(o.mark)
		if left <= 0 && !o.leaving && o.deadline != nil {
			slow = append(slow, o)
			continue
		}
		left = max(left, leavingSpan)
		if next < 0 || left < next {
			next = left
		}
	}
	slices.SortFunc(slow, func(a, b *body) int { return cmp.Compare(b.taken, a.taken) })
	lacking := l.bytes
	if next < 0 && m.storing > 0 {
		next = leastSpan
	}
	for i, o := range slow {
		if lacking <= 0 {
			return slow[:i], next
		}
		o.leaving = true
		lacking -= o.taken
	}
	return slow, next
}

// give makes b's memory n bytes.
func (m *bodyMemory) give(b *body, n int64) {
	more := n - b.taken
	if more <= 0 {
		return
	}
	class := b.classFor(n)
	m.classes[b.class] -= b.taken
	b.class, b.taken = class, n
	m.classes[class] += n
	m.held += more
	m.networks[b.network] += more
}

// keep takes all but n bytes back from b.
func (m *bodyMemory) keep(b *body, n int64) {
	less := b.taken - n
	if less <= 0 {
		return
	}
	b.taken = n
	m.classes[b.class] -= less
	m.held -= less
	if _, arriving := m.arriving[b]; arriving {
		m.leave(b.network, less)
	}
	m.wake()
}

// arrive takes b out of those that are arriving; it reports whether it was.
func (m *bodyMemory) arrive(b *body) bool {
	if _, arriving := m.arriving[b]; !arriving {
		return false
	}
	delete(m.arriving, b)
	m.leave(b.network, b.taken)
	m.wake()
	return true
}

// leave takes bytes off a network's.
func (m *bodyMemory) leave(network netip.Prefix, n int64) {
	if m.networks[network] -= n; m.networks[network] == 0 {
		delete(m.networks, network)
	}
}
