package db

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Areas are the pools among which one process divides its connections, so that no
// part of the service takes those of another: what floods one area, or is slow in
// it, waits there.
type Areas struct {
	// Requests is for what has no area of its own: accounts, content,
	// administration, statistics that rollups answer.
	Requests *DB
	// Deliveries stores webhooks and the outcomes of their handlers.
	Deliveries *DB
	// Collection stores hits. Lookups finds whose they are over the same connections,
	// and waits no longer for one than a request may: hits that look up are as many as
	// there are, those who store them are few.
	Collection, Lookups *DB
	// Questions is for statistics that read events one by one. A question whose
	// context ends is cancelled in the database too.
	Questions *DB
	// Background is for jobs. River takes one connection out of it for good, to listen.
	Background *DB
	// Readiness asks whether the database answers. What it asks ends with the context in
	// the database too, so that its only connection is free for the next.
	Readiness *DB
	// Alive says to other processes that this one is alive.
	Alive *DB
	// Audit gives entries of the audit log their places.
	Audit *DB
	// Committed gets a value after a transaction of Requests, Deliveries or Background
	// that may have written to the audit log; nil for Undivided pools.
	Committed <-chan struct{}
}

// areaWait is the longest that a request waits for a connection.
const areaWait = time.Second

// Undivided makes d the pool of all areas, for a command or a test.
func Undivided(d *DB) Areas {
	return Areas{Requests: d, Deliveries: d, Collection: d, Lookups: d, Questions: d, Background: d, Readiness: d, Alive: d, Audit: d}
}

// share says how many connections an area has: least, and its part of the rest by
// weight. Those apart are none of its pool's.
type share struct {
	name                 string
	least, weight, apart int32
	options              func(*Options)
	pool                 func(*Areas) **DB
}

// shares is how connections are divided. Deliveries need a second one to record an
// outcome while a handler has its transaction, jobs two beside River's, which listens and
// which the pool forgets.
var shares = []share{
	{"requests", 2, 7, 0, func(o *Options) { o.MaxWait = areaWait }, func(a *Areas) **DB { return &a.Requests }},
	{"deliveries", 2, 8, 0, func(*Options) {}, func(a *Areas) **DB { return &a.Deliveries }},
	{"collection", 1, 4, 0, func(*Options) {}, func(a *Areas) **DB { return &a.Collection }},
	{"questions", 1, 2, 0, func(o *Options) { o.MaxWait, o.CancelQueries = areaWait, true }, func(a *Areas) **DB { return &a.Questions }},
	{"background", 3, 5, 1, straight, func(a *Areas) **DB { return &a.Background }},
	{"readiness", 1, 0, 0, func(o *Options) { o.MaxWait, o.CancelQueries = areaWait, true }, func(a *Areas) **DB { return &a.Readiness }},
	{"alive", 1, 0, 0, func(*Options) {}, func(a *Areas) **DB { return &a.Alive }},
	{"audit", 1, 0, 0, func(*Options) {}, func(a *Areas) **DB { return &a.Audit }},
}

// straight leads past a pooler where there is a way.
func straight(o *Options) {
	if o.DirectURL != "" {
		o.URL, o.Pooled = o.DirectURL, false
	}
}

// LeastConns is the smallest number of connections that can be divided into areas.
func LeastConns() int32 {
	var n int32
	for _, s := range shares {
		n += s.least
	}
	return n
}

// divide gives each of shares its number of the n connections: one after the other
// goes to the area that has the least of its part.
func divide(n int32) ([]int32, error) {
	if n < LeastConns() {
		return nil, fmt.Errorf("db: %d connections are too few: the areas of the service need %d or more", n, LeastConns())
	}
	parts := make([]int32, len(shares))
	for i, s := range shares {
		parts[i] = s.least
		n -= s.least
	}
	for ; n > 0; n-- {
		poorest := 0
		for i, s := range shares {
			if parts[i]*shares[poorest].weight < parts[poorest]*s.weight {
				poorest = i
			}
		}
		parts[poorest]++
	}
	return parts, nil
}

// OpenAreas opens the pools of all areas, whose connections together are at most
// o.MaxConns, with one connection in each, which is kept. MaxWait is each area's own.
func OpenAreas(ctx context.Context, o Options) (Areas, error) {
	parts, err := divide(o.MaxConns)
	if err != nil {
		return Areas{}, err
	}
	committed := make(chan struct{}, 1)
	a := Areas{Committed: committed}
	for i, s := range shares {
		of := o
		of.MaxConns, of.MinConns = parts[i]-s.apart, 1
		s.options(&of)
		d, err := prepare(ctx, of)
		if err != nil {
			a.Close()
			return Areas{}, err
		}
		*s.pool(&a) = d
	}
	a.Lookups = a.Collection.within(areaWait)
	for _, d := range []*DB{a.Requests, a.Deliveries, a.Background} {
		d.onCommit = func() {
			select {
			case committed <- struct{}{}:
			default: // who looks next sees this commit too
			}
		}
	}
	if err := a.prove(ctx); err != nil {
		go a.Close() // it waits for attempts to connect, which don't end with ctx
		return Areas{}, err
	}
	return a, nil
}

// prove makes a connection in each area: the first request of one would else wait for
// it, and on a busy machine in vain.
func (a *Areas) prove(ctx context.Context) error {
	type proof struct {
		warnings []string
		err      error
	}
	proofs := make(chan proof, len(shares))
	for _, s := range shares {
		go func() {
			warnings, err := (*s.pool(a)).prove(ctx)
			proofs <- proof{warnings, err}
		}()
	}
	var all proof
	for range shares {
		p := <-proofs
		all.warnings, all.err = append(all.warnings, p.warnings...), cmp.Or(all.err, p.err)
	}
	if all.err == nil {
		warn(ctx, a.Requests.logger, all.warnings)
	}
	return all.err
}

// Close closes all pools that were opened.
func (a *Areas) Close() {
	for _, s := range shares {
		if d := *s.pool(a); d != nil {
			d.Close()
		}
	}
}

// All returns the pools by the names of their areas.
func (a *Areas) All() map[string]*DB {
	all := make(map[string]*DB, len(shares))
	for _, s := range shares {
		all[s.name] = *s.pool(a)
	}
	return all
}
