package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waypost/waypost/internal/identity"
)

// bodyTimeout is how long a sender may take to send a body.
const bodyTimeout = 10 * time.Second

// Arrival is a delivery whose body has yet to be read.
type Arrival struct {
	Provider string // as the sender spelled it
	Header   http.Header
	Length   int64 // of the body in bytes, as announced; -1 when unknown
	Body     io.Reader
	// Deadline sets until when reads of Body may take; a read that is on then ends with
	// os.ErrDeadlineExceeded. Nil where senders are never slow.
	Deadline func(time.Time) error
}

// body is a delivery's body and the memory that it takes, from its admission until nobody
// holds it any more. What a sender announces it need not send, so memory is taken as the
// bytes arrive: slow senders hold little.
type body struct {
	bytes     []byte // once it has been read
	announced int64  // bytes, -1 when unknown
	limit     int64
	network   netip.Prefix
	memory    *bodyMemory
	holders   atomic.Int32

	// Under memory.mu.
	taken   int64
	class   int
	mark    time.Time // when the latest leastBytes began to arrive
	want    int64     // the bytes that it waits for; 0 when it doesn't, refused when in vain
	given   chan struct{}
	leaving bool // it arrived too slowly, and others need its memory
	storing bool // it has arrived, and no handler has it

	deadline func(time.Time) error // nil when it can't be cut off
	end      sync.Mutex            // makes its end and its being cut off one decision
	ended    bool
	isCut    bool
}

// admit lets a delivery's body in before any of it is read. release ends what it returns.
// It returns ErrTooLarge, or ErrStorage: when there is no room for the body now, or when it
// could not be stored soon enough.
func (r *Receiver) admit(ctx context.Context, p Registration, a Arrival) (*body, error) {
	if a.Length > p.BodyLimit {
		return nil, ErrTooLarge
	}
	if err := r.accepts(p, int(max(a.Length, 0))); err != nil {
		return nil, ErrStorage.Because(err)
	}
	b := &body{announced: a.Length, limit: p.BodyLimit, network: networkOf(identity.FromContext(ctx).Address), memory: r.memory, deadline: a.Deadline, mark: r.o.Now()}
	b.holders.Store(1)
	b.class = b.classFor(a.Length)
	if err := r.memory.admit(b, max(a.Length, firstBuffer)); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

// accepts returns why a delivery of n bytes would not be stored soon enough, whatever its
// type.
func (r *Receiver) accepts(p Registration, n int) error {
	arrivals, forwards := r.arrivals.Accepts(n), r.forwards.Accepts(n)
	if arrivals == nil && forwards == nil {
		return nil
	}
	switch byJob, direct := r.o.Registry.paths(p.Name); {
	case !byJob:
		return arrivals
	case !direct:
		return forwards
	case arrivals == nil || forwards == nil:
		return nil
	}
	return arrivals
}

// classFor is the class of the body with n bytes.
func (b *body) classFor(n int64) int {
	if n > smallBody || b.announced > smallBody {
		return large
	}
	return small
}

// read reads the body to its end, in time. It returns ErrTooLarge, ErrStorage when there is
// no room for it any more, ErrSlow, or ErrPayload for one that is shorter than announced or
// was broken off.
func (b *body) read(from io.Reader) error {
	err := b.begin()
	if err == nil {
		err = b.readAll(from)
	}
	wasCut := b.arrived(err == nil)
	switch {
	case err == nil, errors.Is(err, ErrTooLarge), errors.Is(err, ErrStorage):
		return err
	case wasCut:
		return ErrStorage.Because(errCrowded)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrSlow.Because(err)
	}
	return errCut.Because(fmt.Errorf("%w: %w", ErrIncomplete, err))
}

// begin gives the sender its time.
func (b *body) begin() error {
	b.end.Lock()
	defer b.end.Unlock()
	if b.deadline == nil || b.isCut {
		return nil // if it was cut off, that is seen at the first read
	}
	err := b.deadline(time.Now().Add(bodyTimeout))
	if errors.Is(err, http.ErrNotSupported) { // a test's recorder has no slow clients
		return nil
	}
	return err
}

func (b *body) readAll(from io.Reader) error {
	size := int64(firstBuffer)
	if b.announced >= 0 {
		size = min(size, b.announced)
	}
	b.bytes = make([]byte, 0, size)
	came := 0 // since the mark
	for {
		have := len(b.bytes)
		if have == cap(b.bytes) {
			if int64(have) == b.announced {
				return nil
			}
			larger, err := b.larger(int64(have))
			if err != nil {
				return err
			}
			b.bytes, came = append(make([]byte, 0, larger), b.bytes...), 0
		}
		n, err := from.Read(b.bytes[have:cap(b.bytes)])
		b.bytes = b.bytes[:have+n]
		if came += n; came >= leastBytes {
			came = 0
			b.progress()
		}
		switch {
		case int64(len(b.bytes)) > b.limit:
			return ErrTooLarge
		case err == nil:
		case errors.Is(err, io.EOF) && (b.announced < 0 || int64(len(b.bytes)) == b.announced):
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		default:
			return err
		}
	}
}

// larger takes the memory of the next buffer and returns its size.
func (b *body) larger(have int64) (int64, error) {
	// One byte above the limit shows that a body is too large.
	size := min(2*max(have, firstBuffer), b.limit+1)
	if b.announced >= 0 {
		size = min(size, b.announced)
	}
	return size, b.memory.take(b, size)
}

// progress notes that enough bytes have come.
func (b *body) progress() {
	now := b.memory.now()
	b.memory.mu.Lock()
	b.mark = now
	b.memory.mu.Unlock()
}

// arrived notes that no more of the body is read, and reports whether it was cut off. The
// deadline is taken off the connection once all of it was read.
func (b *body) arrived(whole bool) bool {
	m := b.memory
	m.mu.Lock()
	if m.arrive(b) && whole {
		b.storing = true
		m.storing++
	}
	m.mu.Unlock()
	b.end.Lock()
	defer b.end.Unlock()
	b.ended = true
	if b.deadline != nil && whole {
		_ = b.deadline(time.Time{})
	}
	return b.isCut && !whole
}

// cut ends the reading of a body that arrives too slowly.
func (b *body) cut() {
	b.end.Lock()
	defer b.end.Unlock()
	if !b.ended {
		b.isCut = true
		_ = b.deadline(time.Unix(1, 0)) // a connection that fails has ended as well
	}
}

// hold makes a handler another holder of the body. Both methods do nothing for nil: what
// was read from the database takes none of this memory.
func (b *body) hold() {
	if b == nil {
		return
	}
	b.holders.Add(1)
	b.memory.mu.Lock()
	defer b.memory.mu.Unlock()
	b.stored()
}

// release gives the memory back when the caller was the last holder.
func (b *body) release() {
	if b == nil || b.holders.Add(-1) > 0 {
		return
	}
	m := b.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	b.stored()
	m.arrive(b)
	m.keep(b, 0)
}

// stored notes that the body's memory is no longer given back soon. b.memory.mu is held.
func (b *body) stored() {
	if b.storing {
		b.storing = false
		b.memory.storing--
	}
}
