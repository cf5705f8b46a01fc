package webhook

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
)

// Rejected is an entry of the log of refused deliveries.
type Rejected struct {
	ID       uuid.UUID // UUIDv7
	Provider string    // as the sender spelled it, at most 50 characters of it
	Reason   Reason
	Address  netip.Addr  // invalid when unknown
	Header   http.Header // shortened, with whatever may be a secret redacted
	Size     int64       // bytes of the body; as announced where it was not read, -1 when unknown
	At       time.Time
}

const (
	// maxRejectedQueue is how many entries wait to be written; more are dropped.
	maxRejectedQueue = 512
	maxRejectedBatch = 128
	// rejectedPause is between two writes, so that a flood of refusals costs the
	// database no more than a few statements a second.
	rejectedPause = 250 * time.Millisecond
)

// rejectedLog writes refused deliveries in the background: whoever refuses never
// waits for it.
type rejectedLog struct {
	db      *db.DB
	queries dbsqlc.Queries
	logger  *slog.Logger
	keep    int           // rows for each provider, and for all unknown ones together
	age     time.Duration // older rows go
	timeout time.Duration // of one write
	now     func() time.Time
	dropped func(n int)

	entries chan Rejected
	closing chan struct{}
	closed  chan struct{}
	once    sync.Once
}

func newRejectedLog(o Options, dropped func(n int)) *rejectedLog {
	l := &rejectedLog{
		db: o.DB, logger: o.Logger, keep: o.RejectedKeep, age: o.RejectedAge, timeout: o.StoreTimeout, now: o.Now, dropped: dropped,
		entries: make(chan Rejected, maxRejectedQueue), closing: make(chan struct{}), closed: make(chan struct{}),
	}
	go l.run()
	return l
}

// add takes an entry, or drops it when too many wait.
func (l *rejectedLog) add(e Rejected) {
	select {
	case l.entries <- e:
	default:
		l.dropped(1)
	}
}

// close writes what waits, at most until ctx ends. What is added later is lost.
func (l *rejectedLog) close(ctx context.Context) error {
	l.once.Do(func() { close(l.closing) })
	select {
	case <-l.closed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *rejectedLog) run() {
	defer close(l.closed)
	for {
		select {
		case first := <-l.entries:
			l.write(first)
			select {
			case <-time.After(rejectedPause):
			case <-l.closing:
			}
		case <-l.closing:
			for len(l.entries) > 0 {
				l.write(<-l.entries)
			}
			return
		}
	}
}

// write stores first and what waits behind it, and cuts the log to its bounds.
func (l *rejectedLog) write(first Rejected) {
	batch := []Rejected{first}
	for len(batch) < maxRejectedBatch && len(l.entries) > 0 {
		batch = append(batch, <-l.entries)
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
	defer cancel()
	err := l.db.InTx(ctx, identity.Step(ctx, "webhook-rejected"), func(ctx context.Context, tx pgx.Tx) error {
		if err := l.queries.InsertRejectedWebhooks(ctx, tx, rejectedParams(batch)); err != nil {
			return err
		}
		return l.trim(ctx, tx, batch)
	})
	if err != nil {
		l.dropped(len(batch))
		l.logger.WarnContext(ctx, "refused webhook deliveries not logged", "count", len(batch), "error", err)
	}
}

func (l *rejectedLog) trim(ctx context.Context, tx pgx.Tx, batch []Rejected) error {
	providers, unknown := map[string]bool{}, false
	for _, e := range batch {
		if e.Reason == ReasonProvider {
			unknown = true
			continue
		}
		providers[e.Provider] = true
	}
	if unknown {
		if _, err := l.queries.TrimRejectedWebhooksUnknown(ctx, tx, int32(l.keep)); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(providers)) {
		if _, err := l.queries.TrimRejectedWebhooksOfProvider(ctx, tx, name, int32(l.keep)); err != nil {
			return err
		}
	}
	return nil
}

// trimByAge deletes what is too old and returns how much that was.
func (l *rejectedLog) trimByAge(ctx context.Context) (int, error) {
	var n int64
	err := l.db.InTx(ctx, identity.Step(ctx, "webhook-rejected"), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		n, err = l.queries.TrimRejectedWebhooksByAge(ctx, tx, l.now().Add(-l.age))
		return err
	})
	return int(n), err
}

func rejectedParams(batch []Rejected) dbsqlc.InsertRejectedWebhooksParams {
	var p dbsqlc.InsertRejectedWebhooksParams
	for _, e := range batch {
		headers, err := json.Marshal(e.Header)
		if err != nil {
			headers = []byte("{}") // strings always marshal
		}
		address := ""
		if e.Address.IsValid() {
			address = e.Address.WithZone("").String()
		}
		p.Ids = append(p.Ids, e.ID)
		p.Providers = append(p.Providers, e.Provider)
		p.Reasons = append(p.Reasons, string(e.Reason))
		p.Addresses = append(p.Addresses, address)
		p.Headers = append(p.Headers, string(headers))
		p.Sizes = append(p.Sizes, e.Size)
		p.CreatedAts = append(p.CreatedAts, e.At)
	}
	return p
}

// refuse counts and logs a delivery that is answered with err; size is its body's in bytes,
// as far as it is known. The registration is zero for an unknown provider. It never waits.
func (r *Receiver) refuse(ctx context.Context, p Registration, a Arrival, size int64, err error) {
	reason := reasonOf(err)
	if reason == "" || !r.enter() {
		return
	}
	defer r.working.Done()
	// One label for all unknown providers: they are the senders' to invent.
	r.metrics.rejected.WithLabelValues(p.Name, string(reason)).Inc()
	if reason == ReasonUnavailable || reason == ReasonCrowded {
		return
	}
	var secret []string
	if p.Verifier != nil {
		secret = p.Verifier.Headers()
	}
	id, err := uuid.NewV7()
	if err != nil {
		r.rejected.dropped(1)
		return
	}
	r.rejected.add(Rejected{
		ID: id, Provider: clean(a.Provider, 50), Reason: reason, Address: identity.FromContext(ctx).Address,
		Header: brief(a.Header, secret), Size: max(size, -1), At: r.o.Now().UTC().Truncate(time.Microsecond),
	})
}

// TrimRejected deletes entries of the log that are too old and returns how many.
func (w *Worker) TrimRejected(ctx context.Context) (int, error) { return w.rejected.trimByAge(ctx) }

// Bounds of an entry's headers: names, values of each, characters of a value.
const (
	maxRejectedHeaders = 32
	maxRejectedValues  = 2
	maxRejectedValue   = 256
)

// brief copies the first headers by name, without the values that could be used
// again.
func brief(h http.Header, secret []string) http.Header {
	out := http.Header{}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if len(out) == maxRejectedHeaders {
			break
		}
		hide := hidden(name, secret)
		values := []string{}
		for _, v := range h[name][:min(len(h[name]), maxRejectedValues)] {
			if hide {
				v = redacted
			}
			values = append(values, clean(v, maxRejectedValue))
		}
		out[clean(name, maxRejectedValue)] = values
	}
	return out
}

// clean makes text that PostgreSQL stores, of at most limit characters.
func clean(s string, limit int) string {
	s = storable(s[:min(len(s), 4*limit)])
	if r := []rune(s); len(r) > limit {
		return string(r[:limit])
	}
	return s
}
