// Package groupcommit lets concurrent writers share transactions: what waits
// while one batch is being committed becomes the next batch, and each caller is
// answered only after its batch's COMMIT. A lone caller waits for nobody.
package groupcommit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/waypost/waypost/internal/fault"
)

// What Submit returns instead of waiting; both are of kind Unavailable.
var (
	ErrFull   = fault.New(fault.Unavailable, fault.CodeBusy, "Too much is waiting to be stored. Try again shortly.").After(time.Second)
	ErrClosed = fault.New(fault.Unavailable, fault.CodeUnavailable, "The service is stopping. Try again shortly.").After(2 * time.Second)
)

// Flush commits items in one transaction and returns one result for each, in
// their order. An error means that nothing of items was committed, or, when it
// is of kind Unavailable, that this is unknown.
type Flush[T, R any] func(ctx context.Context, items []T) ([]R, error)

// Options configure a Group. The zero value is usable.
type Options[T any] struct {
	// Flushers is the number of batches committed at the same time; default 2.
	// More make smaller batches.
	Flushers int
	// MaxBatch is the number of items in one batch; default 128.
	MaxBatch int
	// MaxQueued is the number of items that may wait for a flusher; default 1024.
	MaxQueued int
	// Key tells apart what may not share a batch, by a comparable value; items of which it
	// returns nil share theirs. What has waited longest goes first, with others of its key.
	// Without Key all items share.
	Key func(T) any
	// Size gives an item's memory in bytes; nil leaves the two limits below off.
	Size func(T) int
	// MaxBatchBytes and MaxQueuedBytes bound the sums of Size; defaults 8 MiB and
	// 64 MiB. An item above a limit goes alone.
	MaxBatchBytes, MaxQueuedBytes int
	// Gap is the least time between the starts of two batches of a key, unless GapBatch
	// items wait, of whatever keys: so that under load more of them share a transaction,
	// which leaves more of the processors to others. Who comes after a pause waits for nobody. 0 leaves it
	// off.
	Gap time.Duration
	// GapBatch is the number of items that end a gap; default 16.
	GapBatch int
	// FlushTimeout bounds one call of Flush; default 5 s.
	FlushTimeout time.Duration
	// MaxWait refuses new items while the oldest that waits has done so for longer:
	// what can't be committed in time is better refused at once. 0 leaves it off.
	MaxWait time.Duration
	// Now is the clock of MaxWait; default time.Now.
	Now func() time.Time
	// Isolate reports whether err may be the fault of single items, so that the
	// batch is tried again by halves and only the faulty items fail. The default
	// is true for all but kind Unavailable and an ended context.
	Isolate func(err error) bool
}

func (o Options[T]) withDefaults() Options[T] {
	o.Flushers = cmp.Or(max(o.Flushers, 0), 2)
	o.MaxBatch = cmp.Or(max(o.MaxBatch, 0), 128)
	o.MaxQueued = cmp.Or(max(o.MaxQueued, 0), 1024)
	o.GapBatch = cmp.Or(max(o.GapBatch, 0), 16)
	o.MaxBatchBytes = cmp.Or(max(o.MaxBatchBytes, 0), 8<<20)
	o.MaxQueuedBytes = cmp.Or(max(o.MaxQueuedBytes, 0), 64<<20)
	if o.Size == nil {
		o.Size = func(T) int { return 0 }
	}
	o.FlushTimeout = cmp.Or(max(o.FlushTimeout, 0), 5*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Isolate == nil {
		o.Isolate = func(err error) bool {
			return fault.KindOf(err) != fault.Unavailable &&
				!errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
		}
	}
	return o
}

// Group is a bounded queue and its flushers.
type Group[T, R any] struct {
	o     Options[T]
	flush Flush[T, R]

	ctx      context.Context // ends when Close gives up waiting
	cancel   context.CancelFunc
	flushers sync.WaitGroup

	mu      sync.Mutex
	arrived *sync.Cond // queue or closed changed
	queue   []*entry[T, R]
	bytes   int // sum of the queued entries' sizes
	closed  bool
	next    time.Time         // when the next batch without a key may start
	keyed   map[any]time.Time // when a key's next batch may start
}

type entry[T, R any] struct {
	item   T
	key    any
	size   int
	at     time.Time       // when it began to wait
	span   trace.Span      // of the caller
	result chan outcome[R] // holds one, so that a flusher never waits for a caller
}

type outcome[R any] struct {
	value R
	err   error
}

// New starts a group. Close ends it.
func New[T, R any](o Options[T], flush Flush[T, R]) *Group[T, R] {
	g := &Group[T, R]{o: o.withDefaults(), flush: flush, keyed: make(map[any]time.Time)}
	g.arrived = sync.NewCond(&g.mu)
	g.ctx, g.cancel = context.WithCancel(context.Background())
	for range g.o.Flushers {
		g.flushers.Go(g.run)
	}
	return g
}

// Submit hands item to a flusher and waits for its batch. It returns the item's
// result after COMMIT, ErrFull or ErrClosed at once, or Flush's error. When ctx
// ends first it returns ctx's error, and an item already with a flusher may yet
// be committed.
func (g *Group[T, R]) Submit(ctx context.Context, item T) (R, error) {
	var none R
	if err := ctx.Err(); err != nil {
		return none, err
	}
	e := &entry[T, R]{item: item, key: g.keyOf(item), size: g.o.Size(item), at: g.o.Now(), span: trace.SpanFromContext(ctx), result: make(chan outcome[R], 1)}
	if err := g.enqueue(e); err != nil {
		return none, err
	}
	select {
	case out := <-e.result:
		return out.value, out.err
	case <-ctx.Done():
		g.withdraw(e)
		return none, ctx.Err()
	}
}

func (g *Group[T, R]) keyOf(item T) any {
	if g.o.Key == nil {
		return nil
	}
	return g.o.Key(item)
}

// Close refuses new items, waits until the waiting ones are committed and the
// flushers have ended. When ctx ends first it cancels the flushes under way and
// returns ctx's error after they have returned; no caller is left waiting.
func (g *Group[T, R]) Close(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	g.arrived.Broadcast()
	g.mu.Unlock()
	defer g.cancel()
	stop := context.AfterFunc(ctx, g.cancel)
	g.flushers.Wait()
	if !stop() {
		return ctx.Err()
	}
	return nil
}

// Waiting is the number of items that wait for a flusher.
func (g *Group[T, R]) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.queue)
}

// Accepts returns what Submit would return at once for an item of size bytes, nil
// when that would be queued: a caller can ask before it does costly work.
func (g *Group[T, R]) Accepts(size int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.accepts(size, g.o.Now())
}

func (g *Group[T, R]) accepts(size int, now time.Time) error {
	switch waiting := len(g.queue); {
	case g.closed:
		return ErrClosed
	case waiting == 0:
		return nil
	case waiting >= g.o.MaxQueued, g.bytes+size > g.o.MaxQueuedBytes, g.o.MaxWait > 0 && now.Sub(g.queue[0].at) > g.o.MaxWait:
		return ErrFull
	}
	return nil
}

func (g *Group[T, R]) enqueue(e *entry[T, R]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.accepts(e.size, e.at); err != nil {
		return err
	}
	g.queue = append(g.queue, e)
	g.bytes += e.size
	g.arrived.Signal()
	return nil
}

// withdraw removes an entry whose caller has gone, if no flusher has it yet.
func (g *Group[T, R]) withdraw(e *entry[T, R]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.queue, e); i >= 0 {
		g.queue = slices.Delete(g.queue, i, i+1)
		g.bytes -= e.size
	}
}

func (g *Group[T, R]) run() {
	for {
		batch := g.take()
		if len(batch) == 0 {
			return
		}
		g.commit(batch)
	}
}

// take waits for entries and returns the next batch, empty once closed and drained.
func (g *Group[T, R]) take() []*entry[T, R] {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		for len(g.queue) == 0 && !g.closed {
			g.arrived.Wait()
		}
		first, wait := g.ready(g.o.Now())
		if wait <= 0 || g.closed || len(g.queue) >= g.o.GapBatch {
			return g.cut(first)
		}
		// Meanwhile the other flushers may take what waits.
		g.mu.Unlock()
		time.Sleep(wait)
		g.mu.Lock()
	}
}

// ready returns the place of the oldest entry whose gap is over, or that of the oldest
// entry and how long none is.
func (g *Group[T, R]) ready(now time.Time) (int, time.Duration) {
	if len(g.queue) == 0 || g.queue[0].key == nil && len(g.keyed) == 0 {
		return 0, g.next.Sub(now)
	}
	least := g.o.Gap
	for i, e := range g.queue[:min(len(g.queue), g.o.GapBatch)] {
		wait := g.nextOf(e.key).Sub(now)
		if wait <= 0 {
			return i, 0
		}
		least = min(least, wait)
	}
	return 0, least
}

func (g *Group[T, R]) nextOf(key any) time.Time {
	if key == nil {
		return g.next
	}
	return g.keyed[key]
}

// cut takes the entry at first out of the queue, and those behind it that have its key, as
// far as they make one batch.
func (g *Group[T, R]) cut(first int) []*entry[T, R] {
	if first == len(g.queue) {
		return nil
	}
	key := g.queue[first].key
	g.beginGap(key)
	if g.o.Key == nil {
		return g.cutAhead()
	}
	var batch []*entry[T, R]
	bytes, kept := 0, first
	for i, e := range g.queue[first:] {
		if e.key != key {
			g.queue[kept] = e
			kept++
			continue
		}
		if len(batch) == g.o.MaxBatch || len(batch) > 0 && bytes+e.size > g.o.MaxBatchBytes {
			kept += copy(g.queue[kept:], g.queue[first+i:])
			break
		}
		batch, bytes = append(batch, e), bytes+e.size
	}
	clear(g.queue[kept:])
	g.queue = g.queue[:kept]
	g.bytes -= bytes
	if key != nil && len(g.queue) > 0 {
		g.arrived.Signal() // what has another key needn't wait for this batch
	}
	return batch
}

// cutAhead takes the oldest entries, as far as they make one batch.
func (g *Group[T, R]) cutAhead() []*entry[T, R] {
	n, bytes := 0, 0
	for n < min(len(g.queue), g.o.MaxBatch) && (n == 0 || bytes+g.queue[n].size <= g.o.MaxBatchBytes) {
		bytes += g.queue[n].size
		n++
	}
	batch := slices.Clone(g.queue[:n])
	g.queue = slices.Delete(g.queue, 0, n)
	g.bytes -= bytes
	return batch
}

// manyGaps is how many gaps are remembered before those that are over are forgotten.
const manyGaps = 64

// beginGap notes when the next batch of key may start.
func (g *Group[T, R]) beginGap(key any) {
	if g.o.Gap <= 0 {
		return
	}
	now := g.o.Now()
	if key == nil {
		g.next = now.Add(g.o.Gap)
		return
	}
	if len(g.keyed) >= manyGaps {
		maps.DeleteFunc(g.keyed, func(_ any, at time.Time) bool { return !at.After(now) })
	}
	g.keyed[key] = now.Add(g.o.Gap)
}

// commit flushes batch and answers its callers, halving it where one item may
// have failed the others.
func (g *Group[T, R]) commit(batch []*entry[T, R]) {
	values, err := g.try(batch)
	if err != nil && len(batch) > 1 && g.o.Isolate(err) {
		half := len(batch) / 2
		g.commit(batch[:half])
		g.commit(batch[half:])
		return
	}
	for i, e := range batch {
		if err != nil {
			e.result <- outcome[R]{err: err}
			continue
		}
		e.result <- outcome[R]{value: values[i]}
	}
}

// try is one call of Flush, with a panic turned into an error so that no caller
// waits for ever.
func (g *Group[T, R]) try(batch []*entry[T, R]) ([]R, error) {
	ctx, cancel := context.WithTimeout(g.ctx, g.o.FlushTimeout)
	defer cancel()
	ctx, span := traced(ctx, batch)
	defer span.End()
	items := make([]T, len(batch))
	for i, e := range batch {
		items[i] = e.item
	}
	var values []R
	var err error
	func() {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("groupcommit: flush panicked: %v\n%s", v, debug.Stack())
			}
		}()
		values, err = g.flush(ctx, items)
	}()
	if err == nil && len(values) != len(items) {
		err = fmt.Errorf("groupcommit: flush returned %d results for %d items", len(values), len(items))
	}
	return values, err
}

// traced puts a batch into the trace of the first caller that has one; the span has
// links to the traces of the others.
func traced[T, R any](ctx context.Context, batch []*entry[T, R]) (context.Context, trace.Span) {
	var first trace.Span
	var others []trace.Link
	for _, e := range batch {
		switch c := e.span.SpanContext(); {
		case !c.IsSampled():
		case first == nil:
			first = e.span
		default:
			others = append(others, trace.Link{SpanContext: c})
		}
	}
	if first == nil {
		return ctx, trace.SpanFromContext(ctx) // none
	}
	return first.TracerProvider().Tracer("waypost").Start(trace.ContextWithSpan(ctx, first), "commit together", trace.WithLinks(others...))
}
