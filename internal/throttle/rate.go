package throttle

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/identity"
)

// rateWindow is what rates are counted over, from the first use on.
const rateWindow = time.Minute

// sharesPerWindow is in how many shares an instance fetches what a subject may use
// up: so often it writes a count, in a window, at most.
const sharesPerWindow = 60

// maxLeases bounds the subjects that a Rates remembers.
const maxLeases = 10_000

// Rates limits how often something may be used in a minute, however often that is:
// by all instances together, and with no more than a write a second for each subject.
// An instance takes a share of what is left in the minute, a sixtieth of the whole, and
// comes back when the share is used up. What it took and doesn't use is lost to the
// others, so with n instances a subject may be refused after all but n-1 sixtieths. It
// is never allowed more than the whole, except at the end of one minute and the
// beginning of the next. The minutes are those of the instances' clocks.
type Rates struct {
	counts *Service
	name   string

	mu     sync.Mutex
	leases map[string]*lease
}

// lease is what an instance took for a subject. Who holds turn may read and change it.
type lease struct {
	turn  chan struct{}
	left  int
	rest  int       // what nobody had taken of the minute when this was
	until time.Time // the end of the minute that it is of
	spent bool      // the subject's minute is used up
}

// NewRates makes rates that are counted under a name of their own.
func (s *Service) NewRates(name string) *Rates {
	return &Rates{counts: s, name: name, leases: map[string]*lease{}}
}

// Take uses a subject once, which may be used perMinute times in a minute. It returns
// ErrLimited with the time until the next minute. What is left is as far as this instance
// knows; another may have used some of it.
func (r *Rates) Take(ctx context.Context, subject string, perMinute int) (identity.Rate, error) {
	l := r.lease(subject)
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return identity.Rate{}, context.Cause(ctx)
	}
	now := r.counts.now()
	if !now.Before(l.until) {
		l.left, l.rest, l.spent = 0, 0, false
	}
	if l.left == 0 && !l.spent {
		if err := r.fetch(ctx, subject, perMinute, l, now); err != nil {
			return identity.Rate{}, err
		}
	}
	state := identity.Rate{PerMinute: perMinute, Reset: l.until.Sub(now)}
	if l.left == 0 {
		return state, limited(l.until.Sub(now))
	}
	l.left--
	state.Left = l.left + l.rest
	return state, nil
}

// lease returns that of a subject. What others took is lost when there are too many.
func (r *Rates) lease(subject string) *lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.leases[subject]
	if l == nil {
		if len(r.leases) >= maxLeases {
			clear(r.leases)
		}
		l = &lease{turn: make(chan struct{}, 1)}
		r.leases[subject] = l
	}
	return l
}

// fetch takes another share of what is left. A crash of the database may forget it: that
// allows a little more, and spares each share the wait for the disk.
func (r *Rates) fetch(ctx context.Context, subject string, perMinute int, l *lease, now time.Time) error {
	s := r.counts
	var got lease
	err := s.db.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local synchronous_commit = off"); err != nil {
			return err
		}
		row, err := s.queries.LockThrottle(ctx, tx, r.name, subject, now)
		if err != nil {
			return err
		}
		k := Key{Limit: Limit{Name: r.name, Max: perMinute, Window: rateWindow}, Subject: subject}
		next := k.next(row, now)
		before := int(next.Count) - 1
		share := min(max(perMinute/sharesPerWindow, 1), perMinute-before)
		got = lease{left: max(share, 0), rest: max(perMinute-before-share, 0), until: next.ForgetAt, spent: share <= 0}
		if share <= 0 {
			return nil
		}
		next.Count = int32(before + share)
		return s.queries.SetThrottle(ctx, tx, next)
	})
	if err == nil {
		l.left, l.rest, l.until, l.spent = got.left, got.rest, got.until, got.spent
	}
	return err
}
