package webhook

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/waypost/waypost/internal/identity"
)

// Inbound is a delivery whose body is at hand.
type Inbound struct {
	Provider string
	Header   http.Header
	Body     []byte
}

// Intake is the memory of one delivery's body.
type Intake struct{ b *body }

var senderCount atomic.Uint32

// Admit lets a delivery in, before any of its body is read.
func (r *Receiver) Admit(provider string, announced int64) (Intake, error) {
	p, err := r.o.Registry.Provider(provider)
	if err != nil {
		return Intake{}, err
	}
	// Each is another sender's.
	n := senderCount.Add(1)
	b, err := r.admit(from(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})), p, Arrival{Length: announced})
	return Intake{b}, err
}

func from(a netip.Addr) context.Context {
	return identity.NewContext(context.Background(), identity.Principal{Address: a})
}

// AdmitFrom is Admit for the sender of an address.
func (r *Receiver) AdmitFrom(address netip.Addr, announced int64) (Intake, error) {
	b, err := r.admit(from(address), Registration{Name: "payment", BodyLimit: defaultBodyLimit}, Arrival{Length: announced})
	return Intake{b}, err
}

// Read reads the body.
func (in Intake) Read(from io.Reader) ([]byte, error) {
	err := in.b.read(from)
	in.b.hold() // as a handler does
	in.b.release()
	return in.b.bytes, err
}

// Release gives the memory back.
func (in Intake) Release() { in.b.release() }

// Refusal is a delivery that was refused for a reason that takes long to bring about.
type Refusal struct {
	Provider string
	Header   http.Header
	Size     int64
	Err      error
}

// Refuse counts and logs it.
func (r *Receiver) Refuse(ctx context.Context, f Refusal) {
	p, err := r.o.Registry.Provider(f.Provider)
	if err != nil {
		p = Registration{}
	}
	r.refuse(ctx, p, Arrival{Provider: f.Provider, Header: f.Header}, f.Size, f.Err)
}

// Redact is what stored headers go through.
func Redact(h http.Header, secret []string) http.Header { return redact(h, secret) }

// OpenHeaders opens an event's sealed headers.
func (w *Worker) OpenHeaders(id uuid.UUID, sealed []byte) (http.Header, error) {
	return w.openHeaders(id, sealed)
}

// ForwardDue makes the attempts that are due, one round after the other, and returns how
// many those were. It is for a Worker that was not started.
func (w *Worker) ForwardDue(ctx context.Context) (int, error) {
	if err := w.announceTargets(ctx); err != nil {
		return 0, err
	}
	w.sending.heat()
	for total := 0; ; {
		n, more, err := w.sending.claim(ctx)
		w.sending.posts.Wait()
		if total += n; err != nil || !more {
			return total, err
		}
		if n > 0 {
			w.sending.heat()
		}
	}
}

// Pace returns a limit of so many a second: it says how many of those wanted may begin.
func Pace(rate float64) func(n int, now time.Time) int {
	p := pace{rate: rate}
	return func(n int, now time.Time) int {
		n = p.allow(n, now)
		p.spend(n)
		return n
	}
}
