package webhook

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/waypost/waypost/internal/groupcommit"
	"github.com/waypost/waypost/internal/identity"
)

const (
	// pollGap is how often an instance looks for what others stored, or what is due again.
	pollGap = time.Second
	// claimRows bounds one claim. ClaimWebhookForwards knows it.
	claimRows = 128
	// leaseBeyond is how much longer than an attempt may take its lease holds. Together they
	// are less than a minute: nothing has to be renewed, and what a dead process had in
	// flight goes again within a minute.
	leaseBeyond = 15 * time.Second
	// quick is the length of attempts below which a lane claims ahead, so that a claim
	// serves several rounds of its places.
	quick = 50 * time.Millisecond
	ahead = 4
	// overlap is how much before the first of the latest claim the next begins to look, for
	// what was stored meanwhile with an earlier time.
	overlap = time.Second
	// unrecordedMost is how many outcomes of a lane may wait to be recorded for each place.
	unrecordedMost = 8
	// breakerFailures is how many attempts in a row fail before a target's breaker opens.
	breakerFailures = 10
	// largeForwards bounds the bytes of large bodies that are in memory to be forwarded, but
	// for one of each target.
	largeForwards = 32 << 20
)

// forwarding makes the attempts at the targets that this instance has. Each target has a
// lane of its own places, so that one that hangs takes up nothing but these; no transaction
// is open during an attempt.
type forwarding struct {
	c        *core
	outcomes *groupcommit.Group[sent, bool]
	large    *semaphore.Weighted // bytes
	most     int64               // of large

	woken chan struct{} // holds one
	quit  chan struct{}
	loop  sync.WaitGroup
	posts sync.WaitGroup

	mu      sync.Mutex
	lanes   []*lane
	byName  map[targetKey]*lane
	first   int  // the lane that the next claim begins with
	passed  bool // a lane that had room was not asked for by the latest claim
	started bool
	stopped bool
}

// lane is one target's share of an instance.
type lane struct {
	*poster
	key targetKey
	hot bool // something may be due
	// since is what the next claim looks from: entries of what was claimed stay before it in
	// the index until a vacuum, and are many where many are forwarded. The zero time, from
	// each poll, is from the beginning.
	since      time.Time
	busy       int // attempts that are on
	unrecorded int // outcomes on their way to the database
	queue      []*parcel
	large      chan struct{} // has an entry while the lane has a large body in memory of its own
	took       time.Duration // an attempt's, averaged
	pace       pace
	meter      meter
}

// meter counts what happened in each of the last seconds.
type meter struct {
	counts [60]int
	at     int64 // the second that was counted last
}

// add counts n at now.
func (m *meter) add(n int, now time.Time) {
	second := now.Unix()
	for s := max(m.at+1, second-int64(len(m.counts))+1); s <= second; s++ {
		m.counts[s%int64(len(m.counts))] = 0
	}
	m.at = max(m.at, second)
	m.counts[second%int64(len(m.counts))] += n
}

// perSecond is the mean over a minute.
func (m *meter) perSecond(now time.Time) float64 {
	m.add(0, now)
	sum := 0
	for _, n := range m.counts {
		sum += n
	}
	return float64(sum) / float64(len(m.counts))
}

// rate is how many events a second this instance forwards to a target.
func (f *forwarding) rate(key targetKey) float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.byName[key]
	if l == nil {
		return 0
	}
	return l.meter.perSecond(f.c.o.Now())
}

func newForwarding(c *core) *forwarding {
	f := &forwarding{c: c, woken: make(chan struct{}, 1), quit: make(chan struct{}), byName: map[targetKey]*lane{}, most: largeForwards}
	providers, names := c.o.Registry.sortedTargets()
	for i, provider := range providers {
		key := targetKey{provider, names[i]}
		p := c.o.Registry.targets[key]
		l := &lane{poster: p, key: key, hot: true, large: make(chan struct{}, 1), took: quick, pace: pace{rate: p.target.Rate}}
		f.lanes, f.byName[key] = append(f.lanes, l), l
		if r, err := c.o.Registry.Provider(provider); err == nil {
			f.most = max(f.most, r.BodyLimit)
		}
	}
	f.large = semaphore.NewWeighted(f.most)
	f.outcomes = groupcommit.New(groupcommit.Options[sent]{Gap: batchGap, FlushTimeout: c.o.StoreTimeout}, c.store.recordForwards)
	return f
}

// start begins to make attempts, once.
func (f *forwarding) start() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.started || f.stopped || len(f.lanes) == 0 {
		return
	}
	f.started = true
	f.loop.Go(f.run)
}

// stop claims no more, gives back what is not begun, and waits for the attempts that are
// on, at most until ctx ends: their leases then run out.
func (f *forwarding) stop(ctx context.Context) error {
	f.mu.Lock()
	if !f.stopped {
		f.stopped = true
		close(f.quit)
	}
	f.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		f.loop.Wait()
		f.giveBack(ctx)
		f.posts.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	return f.outcomes.Close(ctx)
}

// wake says that something is due at targets.
func (f *forwarding) wake(targets []targetKey) {
	f.mu.Lock()
	for _, k := range targets {
		if l := f.byName[k]; l != nil {
			l.hot = true
		}
	}
	f.mu.Unlock()
	f.signal()
}

// wakeAll says that something may be due at any target.
func (f *forwarding) wakeAll() {
	f.heat()
	f.signal()
}

func (f *forwarding) signal() {
	select {
	case f.woken <- struct{}{}:
	default: // who looks next sees this too
	}
}

func (f *forwarding) run() {
	ctx := identity.NewContext(context.Background(), identity.System("webhooks.forward"))
	poll := time.NewTicker(pollGap)
	defer poll.Stop()
	announced := false
	for {
		if !announced { // what nobody has announced is not claimed
			announced = f.c.announceTargets(ctx) == nil
		}
		for {
			_, more, err := f.claim(ctx)
			if err != nil {
				f.c.o.Logger.WarnContext(ctx, "webhook forwards not claimed", "error", err)
			}
			if !more {
				break
			}
		}
		select {
		case <-f.woken:
		case <-poll.C:
			f.heat()
		case <-f.quit:
			return
		}
	}
}

// heat has every lane look for what is due, from the beginning.
func (f *forwarding) heat() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.lanes {
		l.hot, l.since = true, time.Time{}
	}
}

// claim takes what is due for the lanes that have room, and begins with it. It returns how
// many forwards those are, and whether there may be more at once: of these lanes, or of one
// that another claim has to ask for.
func (f *forwarding) claim(ctx context.Context) (int, bool, error) {
	list := f.wanted()
	if len(list) == 0 {
		return 0, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.c.o.StoreTimeout)
	defer cancel()
	parcels, err := f.c.store.claimForwards(ctx, identity.FromContext(ctx), list)
	if err != nil {
		f.heat()
		return 0, false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	got := make(map[targetKey]int, len(list))
	for _, p := range parcels {
		l := f.byName[p.target]
		l.queue = append(l.queue, p)
		if first := p.wasDue.Add(-overlap); got[p.target] == 0 || first.Before(l.since) {
			l.since = first
		}
		got[p.target]++
	}
	for _, w := range list {
		l := f.byName[w.target]
		l.pace.spend(got[w.target])
		l.hot = l.hot || got[w.target] == w.places
		f.begin(l)
	}
	return len(parcels), len(parcels) > 0 || f.passed, nil
}

// wanted is what the next claim asks for. It begins with another lane each time.
func (f *forwarding) wanted() []wanted {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return nil
	}
	var list []wanted
	left := claimRows
	f.first++
	f.passed = false
	for i := range f.lanes {
		l := f.lanes[(f.first+i)%len(f.lanes)]
		n := l.pace.allow(l.room(), f.c.o.Now())
		switch {
		case !l.hot || n <= 0:
			continue
		case left <= 0:
			f.passed = true
			continue
		}
		n = min(n, left)
		l.hot = false // unless somebody wakes it from here on
		left -= n
		list = append(list, wanted{target: l.key, places: n, lease: l.target.Timeout + leaseBeyond, since: l.since})
	}
	return list
}

// room is how many forwards a lane may claim. While its target is quick, these are more
// than can begin now; half of its share is worth a claim.
func (l *lane) room() int {
	places := l.target.Concurrency
	if l.took >= quick {
		return places - l.busy - len(l.queue)
	}
	if room := places*(1+ahead) - l.busy - len(l.queue); room > places*ahead/2 || len(l.queue) == 0 {
		return room
	}
	return 0
}

// begin starts attempts while there are places. The caller holds the lock.
func (f *forwarding) begin(l *lane) {
	for len(l.queue) > 0 && l.busy < l.target.Concurrency && l.unrecorded < unrecordedMost*l.target.Concurrency && !f.stopped {
		p := l.queue[0]
		l.queue = l.queue[1:]
		l.busy++
		f.posts.Go(func() { f.forward(l, p) })
	}
}

// posted gives an attempt's place to the next; recorded does the same once its outcome is
// durable.
func (f *forwarding) posted(l *lane, took time.Duration) {
	f.mu.Lock()
	l.busy--
	l.unrecorded++
	l.took = (7*l.took + took) / 8
	f.begin(l)
	f.mu.Unlock()
	f.signal()
}

func (f *forwarding) recorded(l *lane, forwarded int) {
	f.mu.Lock()
	l.unrecorded--
	l.meter.add(forwarded, f.c.o.Now())
	f.begin(l)
	f.mu.Unlock()
}

// giveBack returns what was claimed and not begun.
func (f *forwarding) giveBack(ctx context.Context) {
	f.mu.Lock()
	var rest []*parcel
	for _, l := range f.lanes {
		rest = append(rest, l.queue...)
		l.queue = nil
	}
	f.mu.Unlock()
	var returned sync.WaitGroup
	for _, p := range rest {
		returned.Go(func() { f.record(ctx, returnedUnbegun(p, f.c.o.Now())) })
	}
	returned.Wait()
}

func returnedUnbegun(p *parcel, now time.Time) sent {
	return sent{parcel: p, status: Pending, at: now, unspent: true, returned: true}
}
