// Package throttle limits how often something may happen, for all instances of
// the service together: the counts are in PostgreSQL.
//
// A caller asks Check before costly work, Count after what is limited happened
// (a failed sign-in), and Pass after what makes it good (a right password). Count
// and Pass decide under the row's lock, so that of attempts made at once no more
// get through than the limit allows, however many passed Check together.
package throttle

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// ErrLimited says that a limit is reached; RetryAfter says until when.
var ErrLimited = fault.New(fault.RateLimited, fault.CodeRateLimited, "Too many attempts. Try again later.")

// Limit is a rule. With Window it allows Max in that time, counted from the first;
// without, it allows Max in a row and then blocks: for Block first, twice as long
// after each further one, and never longer than MaxBlock, so that whoever is
// blocked by somebody else's attempts is not blocked for good.
type Limit struct {
	Name     string
	Max      int
	Window   time.Duration
	Block    time.Duration
	MaxBlock time.Duration
}

// forgetStreak is how long a streak is remembered after its last count.
const forgetStreak = 24 * time.Hour

// Key is a limit for one subject: a client's address, an account. What a subject
// may not show in the database its caller hashes.
type Key struct {
	Limit   Limit
	Subject string
}

// Options configure New. DB is mandatory.
type Options struct {
	DB *db.DB
	// Now is the clock; nil for the system's.
	Now func() time.Time
}

// Service counts.
type Service struct {
	db      *db.DB
	now     func() time.Time
	queries dbsqlc.Queries
}

// New makes the service.
func New(o Options) (*Service, error) {
	if o.DB == nil {
		return nil, errors.New("throttle: Options.DB is missing")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{db: o.DB, now: o.Now}, nil
}

// Check returns ErrLimited when any of keys is at its limit. It counts nothing.
func (s *Service) Check(ctx context.Context, keys ...Key) error {
	if len(keys) == 0 {
		return nil
	}
	limits := make(map[[2]string]Limit, len(keys))
	names, subjects := make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		names[i], subjects[i] = k.Limit.Name, k.Subject
		limits[[2]string{k.Limit.Name, k.Subject}] = k.Limit
	}
	now := s.now()
	rows, err := s.queries.FindThrottles(ctx, s.db.Direct(), names, subjects)
	if err != nil {
		return db.Translate(err)
	}
	var longest time.Duration
	for _, row := range rows {
		longest = max(longest, limits[[2]string{row.Name, row.Subject}].remaining(row, now))
	}
	return limited(longest)
}

// Count counts one for each of keys. It returns ErrLimited, and counts nothing, when
// one of them was at its limit already: what is refused must not use up a wider limit
// that others share. The one that reaches a limit is still allowed.
func (s *Service) Count(ctx context.Context, keys ...Key) error {
	if len(keys) == 0 {
		return nil
	}
	return s.db.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		return s.CountTx(ctx, tx, keys...)
	})
}

// CountTx is Count in a transaction of the caller's: what is counted is undone
// with it. It locks the keys until then.
func (s *Service) CountTx(ctx context.Context, tx pgx.Tx, keys ...Key) error {
	now, keys := s.now(), inOrder(keys)
	rows := make([]dbsqlc.Throttle, len(keys))
	var longest time.Duration
	for i, k := range keys {
		var err error
		if rows[i], err = s.queries.LockThrottle(ctx, tx, k.Limit.Name, k.Subject, now); err != nil {
			return err
		}
		longest = max(longest, k.Limit.remaining(rows[i], now))
	}
	if longest > 0 {
		return limited(longest)
	}
	for i, k := range keys {
		if err := s.queries.SetThrottle(ctx, tx, k.next(rows[i], now)); err != nil {
			return err
		}
	}
	return nil
}

// Pass forgets what was counted for keys, unless one is at its limit now, which
// it returns as ErrLimited: whatever would have passed came too late.
func (s *Service) Pass(ctx context.Context, tx pgx.Tx, keys ...Key) error {
	now := s.now()
	var longest time.Duration
	for _, k := range inOrder(keys) {
		row, err := s.queries.ClaimThrottle(ctx, tx, k.Limit.Name, k.Subject)
		if errors.Is(err, pgx.ErrNoRows) {
			continue
		}
		if err != nil {
			return err
		}
		if left := k.Limit.remaining(row, now); left > 0 {
			longest = max(longest, left)
			continue
		}
		if err := s.queries.ForgiveThrottle(ctx, tx, k.Limit.Name, k.Subject); err != nil {
			return err
		}
	}
	return limited(longest)
}

// Forgive forgets what was counted for keys, blocks included.
func (s *Service) Forgive(ctx context.Context, tx pgx.Tx, keys ...Key) error {
	for _, k := range inOrder(keys) {
		if err := s.queries.ForgiveThrottle(ctx, tx, k.Limit.Name, k.Subject); err != nil {
			return err
		}
	}
	return nil
}

// ForgiveAll forgives every subject of a limit that begins with prefix, whose last
// byte is less than 0xff.
func (s *Service) ForgiveAll(ctx context.Context, tx pgx.Tx, l Limit, prefix string) error {
	last := len(prefix) - 1
	return s.queries.ForgiveThrottles(ctx, tx, l.Name, prefix, prefix[:last]+string(rune(prefix[last]+1)))
}

// Sweep deletes counts that mean nothing any more and returns how many.
func (s *Service) Sweep(ctx context.Context) (int, error) {
	var n int64
	err := s.db.InTx(ctx, identity.Step(ctx, "throttles"), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		n, err = s.queries.SweepThrottles(ctx, tx, s.now())
		return err
	})
	return int(n), err
}

// remaining is how long row is still at the limit; 0 or less when it is not.
func (l Limit) remaining(row dbsqlc.Throttle, now time.Time) time.Duration {
	switch {
	case l.Window > 0 && row.Count >= int32(l.Max):
		return row.ForgetAt.Sub(now)
	case l.Window == 0 && row.BlockedUntil != nil:
		return row.BlockedUntil.Sub(now)
	}
	return 0
}

// next is row after one more.
func (k Key) next(row dbsqlc.Throttle, now time.Time) dbsqlc.SetThrottleParams {
	p := dbsqlc.SetThrottleParams{Name: k.Limit.Name, Subject: k.Subject, Count: row.Count + 1, ForgetAt: row.ForgetAt}
	if !now.Before(row.ForgetAt) {
		p.Count, p.ForgetAt = 1, now.Add(k.Limit.Window)
	}
	if k.Limit.Window > 0 {
		return p
	}
	p.ForgetAt = now.Add(forgetStreak)
	if over := int(p.Count) - k.Limit.Max; over >= 0 {
		p.BlockedUntil = new(now.Add(k.Limit.block(over)))
	}
	return p
}

// block is the length of the block after that many blocks before it.
func (l Limit) block(before int) time.Duration {
	d := l.Block
	for range before {
		if d *= 2; d >= l.MaxBlock {
			return l.MaxBlock
		}
	}
	return min(d, l.MaxBlock)
}

func limited(left time.Duration) error {
	if left <= 0 {
		return nil
	}
	return ErrLimited.After(left)
}

// inOrder sorts keys, so that two callers never wait for each other in a circle.
func inOrder(keys []Key) []Key {
	return slices.SortedFunc(slices.Values(keys), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Limit.Name, b.Limit.Name), cmp.Compare(a.Subject, b.Subject))
	})
}
