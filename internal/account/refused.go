package account

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/throttle"
)

// refusal is what the audit log notes of a sign-in that failed.
type refusal struct {
	Event  string `json:"event"`
	Reason string `json:"reason"`
}

// Why a sign-in failed.
const (
	wrongPassword = "password"
	wrongCode     = "second_factor"
	tooMany       = "throttled"
)

// countRefusal counts a failure for keys, and for each list of also that is not at its
// limit, and notes it. It does so in one transaction, so that the failure of an address
// that nobody has (userID 0), of which nothing is written, costs as much. It returns
// what throttle.Service.Count returns for keys; what that refuses is noted like other
// attempts that are throttled.
func (s *core) countRefusal(ctx context.Context, userID int64, reason string, keys []throttle.Key, also ...[]throttle.Key) error {
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		if err := s.limits.CountTx(ctx, tx, keys...); err != nil {
			return err
		}
		for _, list := range also {
			if err := s.limits.CountTx(ctx, tx, list...); err != nil && !errors.Is(err, throttle.ErrLimited) {
				return err
			}
		}
		return noteRefusal(ctx, tx, userID, reason)
	})
	if errors.Is(err, throttle.ErrLimited) {
		err = errors.Join(err, s.noteThrottled(ctx, userID))
	}
	return err
}

// noteThrottled notes an attempt that was refused unread, one of an address, or of an
// IPv6 /48, a minute: with a /64 each, one attacker could note without end.
// Attempts on accounts that don't exist are counted apart, so that they hide no other.
func (s *core) noteThrottled(ctx context.Context, userID int64) error {
	address := identity.FromContext(ctx).Address
	if !address.IsValid() || !s.throttled.first(who{network: prefixOf(address, siteBits), known: userID != 0}, s.o.Now()) {
		return nil
	}
	return s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		return noteRefusal(ctx, tx, userID, tooMany)
	})
}

// noteRefusal takes the same statements whether there is an account or not.
func noteRefusal(ctx context.Context, tx pgx.Tx, userID int64, reason string) error {
	inner, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	if err := audit.Note(ctx, inner, "users", strconv.FormatInt(userID, 10), refusal{Event: "sign_in_refused", Reason: reason}); err != nil {
		return err
	}
	if userID == 0 {
		return inner.Rollback(ctx)
	}
	return inner.Commit(ctx)
}

// who is whose attempts are noted once.
type who struct {
	network netip.Prefix
	known   bool  // on an account that exists
	token   int64 // the API token that was sent, 0 for none
}

// oncePerMinute remembers, within bounds, whose attempts were noted this minute.
type oncePerMinute struct {
	mu     sync.Mutex
	minute time.Time
	noted  map[who]struct{}
}

// mostNoted bounds what one process notes in a minute.
const mostNoted = 10_000

// first reports whether w was not noted yet in the minute of now.
func (o *oncePerMinute) first(w who, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if minute := now.Truncate(time.Minute); !minute.Equal(o.minute) {
		o.minute, o.noted = minute, map[who]struct{}{}
	}
	if _, found := o.noted[w]; found || len(o.noted) >= mostNoted {
		return false
	}
	o.noted[w] = struct{}{}
	return true
}
