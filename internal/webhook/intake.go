package webhook

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

const (
	defaultBodyMemory = 64 << 20
	// smallBody is the largest body in bytes that is not hindered by larger ones.
	smallBody = 64 << 10
	// firstBuffer is what a sender is given in bytes before it has sent anything.
	firstBuffer = 4 << 10
)

var errCrowded = errors.New("webhook: too many bytes of bodies are in memory")

// bodyMemory bounds the bytes of bodies that are in memory at any moment. Large
// and small ones may each take three quarters of it, so that neither keeps the
// other out.
type bodyMemory struct {
	all, large, small *semaphore.Weighted
	held              atomic.Int64 // bytes, for the metrics
}

// share is what bodies of one size may take of n bytes.
func share(n int64) int64 { return n / 4 * 3 }

func newBodyMemory(n int64) *bodyMemory {
	return &bodyMemory{all: semaphore.NewWeighted(n), large: semaphore.NewWeighted(share(n)), small: semaphore.NewWeighted(share(n))}
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

// Intake is the memory of one delivery's body. What a sender announces it need
// not send, so it is taken as the bytes arrive: slow senders hold little.
type Intake struct {
	memory    *bodyMemory
	class     *semaphore.Weighted
	announced int64 // bytes, -1 when unknown
	limit     int64

	mu    sync.Mutex
	taken int64 // bytes
}

// Admit lets a delivery to the provider in whose body has the announced length in
// bytes, -1 when that is unknown, before any of it is read. Release ends what it
// returns. It returns ErrProvider, ErrTooLarge, or ErrStorage: when there is no
// room for the body now, or when it could not be stored soon enough.
func (r *Receiver) Admit(provider string, announced int64) (*Intake, error) {
	p, err := r.o.Registry.Provider(provider)
	if err != nil {
		return nil, err
	}
	if announced > p.BodyLimit {
		return nil, ErrTooLarge
	}
	if err := r.arrivals.Accepts(int(max(announced, 0))); err != nil {
		return nil, ErrStorage.Because(err)
	}
	in := &Intake{memory: r.memory, class: r.memory.large, announced: announced, limit: p.BodyLimit}
	if announced >= 0 && announced <= smallBody {
		in.class = r.memory.small
	}
	if err := in.take(max(announced, firstBuffer)); err != nil {
		return nil, err
	}
	in.keep(firstBuffer)
	return in, nil
}

// Read reads a body to its end. It returns ErrTooLarge, ErrStorage when there is
// no room for it any more, or from's error; io.ErrUnexpectedEOF for one that is
// shorter than announced.
func (in *Intake) Read(from io.Reader) ([]byte, error) {
	size := int64(firstBuffer)
	if in.announced >= 0 {
		size = min(size, in.announced)
	}
	body := make([]byte, 0, size)
	for {
		if len(body) == cap(body) {
			if int64(len(body)) == in.announced {
				return body, nil
			}
			larger, err := in.larger(int64(len(body)))
			if err != nil {
				return nil, err
			}
			body = append(make([]byte, 0, larger), body...)
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > in.limit:
			return nil, ErrTooLarge
		case err == nil:
		case errors.Is(err, io.EOF) && (in.announced < 0 || int64(len(body)) == in.announced):
			return body, nil
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// larger takes the memory of the next buffer and returns its size.
func (in *Intake) larger(have int64) (int64, error) {
	// One byte above the limit shows that a body is too large.
	size := min(2*max(have, firstBuffer), in.limit+1)
	if in.announced >= 0 {
		size = min(size, in.announced)
	}
	return size, in.take(size)
}

// take makes the intake's memory n bytes.
func (in *Intake) take(n int64) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	more := n - in.taken
	if more <= 0 {
		return nil
	}
	if !in.class.TryAcquire(more) {
		return ErrStorage.Because(errCrowded)
	}
	if !in.memory.all.TryAcquire(more) {
		in.class.Release(more)
		return ErrStorage.Because(errCrowded)
	}
	in.taken = n
	in.memory.held.Add(more)
	return nil
}

// keep gives back all but n bytes.
func (in *Intake) keep(n int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	less := in.taken - n
	if less <= 0 {
		return
	}
	in.taken = n
	in.class.Release(less)
	in.memory.all.Release(less)
	in.memory.held.Add(-less)
}

// Release gives the memory back: the body is referred to no more. Further calls do
// nothing.
func (in *Intake) Release() { in.keep(0) }

// hold is the duty to release a body: Receive's, until a handler takes it over.
type hold struct{ release func() }

func (h *hold) take() func() {
	release := h.release
	h.release = nil
	return release
}

func (h *hold) end() {
	if h.release != nil {
		h.release()
	}
}
