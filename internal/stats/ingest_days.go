package stats

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/site"
)

// saltLife is how long after its end a day keeps the salt of its visitors.
const saltLife = 48 * time.Hour

// saltSize is in bytes.
const saltSize = 32

// ErrForgotten says that a day is too old to have a salt of its own and that the
// site's import secret, from which one is derived, was destroyed.
var ErrForgotten = fault.New(fault.Gone, "import_forgotten",
	"This site's import secret was destroyed, so traffic of days that ended more than 48 hours ago can no longer be added.")

// ImportSecrets gives the secret from which the salts of a site's old days are
// derived; nil once it was destroyed.
type ImportSecrets interface {
	ImportSecret(ctx context.Context, siteID uuid.UUID) ([]byte, error)
}

// saltedDay is a day of a site's calendar with the salt of its visitors.
type saltedDay struct {
	calendarDay
	salt []byte
}

func (d *saltedDay) holds(t time.Time) bool { return !t.Before(d.start) && t.Before(d.end) }

// dayBook finds the site day of an instant and makes its row. A day gets a random
// salt, stored until saltLife after its end. A day first seen later than that
// gets one derived from the site's import secret, so that whatever is added to
// it still later meets the same visitors.
type dayBook struct {
	db      *db.DB
	queries *dbsqlc.Queries
	secrets ImportSecrets
	now     func() time.Time
	random  io.Reader

	mu     sync.Mutex
	recent map[uuid.UUID][]saltedDay // with stored salts, until these expire
	months map[time.Time]bool        // that events surely have a partition for
}

// find returns the day of each instant. It returns ErrForgotten.
func (b *dayBook) find(ctx context.Context, s site.Site, instants []time.Time) ([]*saltedDay, error) {
	if err := b.ensureMonths(ctx, instants); err != nil {
		return nil, err
	}
	found := make([]*saltedDay, len(instants))
	if known := b.remembered(s.ID); match(found, instants, known) {
		return found, nil
	}
	days, err := b.load(ctx, s, instants)
	if err != nil {
		return nil, err
	}
	if !match(found, instants, days) {
		return nil, fmt.Errorf("stats: the calendar of site %s leaves out some of %v to %v", s.ID, slices.MinFunc(instants, time.Time.Compare), slices.MaxFunc(instants, time.Time.Compare))
	}
	return found, nil
}

// match points found at the days of the instants and reports whether all have one.
func match(found []*saltedDay, instants []time.Time, days []saltedDay) bool {
	var last *saltedDay
	for i, t := range instants {
		if last == nil || !last.holds(t) {
			at, exact := slices.BinarySearchFunc(days, t, func(d saltedDay, t time.Time) int { return d.start.Compare(t) })
			if !exact {
				at--
			}
			if at < 0 || !days[at].holds(t) {
				return false
			}
			last = &days[at]
		}
		found[i] = last
	}
	return true
}

// load reads the days of instants from the database and makes those missing.
func (b *dayBook) load(ctx context.Context, s site.Site, instants []time.Time) ([]saltedDay, error) {
	const margin = 2 // days between the dates of UTC and of any zone, rounded up
	first := dateOf(slices.MinFunc(instants, time.Time.Compare).UTC()).AddDate(0, 0, -margin)
	last := dateOf(slices.MaxFunc(instants, time.Time.Compare).UTC()).AddDate(0, 0, margin)
	stored, err := b.list(ctx, s, first, last)
	if err != nil {
		return nil, err
	}
	missing := missingDays(calendar{zone: s.Zone, zones: s.Zones}, stored, instants)
	if len(missing) > 0 {
		if err := b.insert(ctx, s, missing); err != nil {
			return nil, err
		}
		if stored, err = b.list(ctx, s, first, last); err != nil {
			return nil, err
		}
	}
	return b.salted(ctx, s, stored, instants)
}

// missingDays returns, in order, the days of instants that are not stored.
func missingDays(c calendar, stored []saltedDay, instants []time.Time) []calendarDay {
	c.stored = make([]calendarDay, len(stored))
	for i, d := range stored {
		c.stored[i] = d.calendarDay
	}
	var missing []calendarDay
	for _, t := range instants {
		at, exact := slices.BinarySearchFunc(missing, t, func(d calendarDay, t time.Time) int { return d.start.Compare(t) })
		if exact || at > 0 && t.Before(missing[at-1].end) {
			continue
		}
		day := c.dayOf(t)
		if _, known := c.find(day); !known {
			missing = slices.Insert(missing, at, calendarDay{day: day, start: c.start(day), end: c.start(day.AddDate(0, 0, 1))})
		}
	}
	return missing
}

func (b *dayBook) list(ctx context.Context, s site.Site, first, last time.Time) ([]saltedDay, error) {
	rows, err := b.queries.ListSiteDaySalts(ctx, b.db.Direct(), s.ID, first, last)
	if err != nil {
		return nil, db.Translate(err)
	}
	days := make([]saltedDay, len(rows))
	for i, r := range rows {
		days[i] = saltedDay{calendarDay: calendarDay{day: r.Day.UTC(), start: r.StartsAt.UTC(), end: r.EndsAt.UTC()}, salt: r.Salt}
	}
	return days, nil
}

// insert makes days in a transaction of its own: a salt may be used only once it
// is durable, whatever becomes of the events.
func (b *dayBook) insert(ctx context.Context, s site.Site, days []calendarDay) error {
	p := dbsqlc.InsertSiteDaysParams{SiteID: s.ID}
	now := b.now()
	for _, d := range days {
		salt := []byte{} // derived
		if !expired(d, now) {
			salt = make([]byte, saltSize)
			if _, err := io.ReadFull(b.random, salt); err != nil {
				return fmt.Errorf("stats: randomness: %w", err)
			}
		}
		p.Days, p.Salts = append(p.Days, d.day), append(p.Salts, salt)
		p.Starts, p.Ends = append(p.Starts, d.start), append(p.Ends, d.end)
	}
	return b.db.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		return b.queries.InsertSiteDays(ctx, tx, p)
	})
}

// salted gives the days that instants need their salts, derived ones where the
// stored ones expired, and remembers the others.
func (b *dayBook) salted(ctx context.Context, s site.Site, days []saltedDay, instants []time.Time) ([]saltedDay, error) {
	now := b.now()
	found := make([]*saltedDay, len(instants))
	match(found, instants, days)
	needed := make(map[*saltedDay]bool)
	for _, d := range found {
		if d != nil {
			needed[d] = true
		}
	}
	var secret []byte
	var recent []saltedDay
	for i := range days {
		d := &days[i]
		switch {
		case d.salt != nil && !expired(d.calendarDay, now):
			recent = append(recent, *d)
			continue
		case !needed[d]:
			continue
		case secret == nil:
			var err error
			if secret, err = b.secrets.ImportSecret(ctx, s.ID); err != nil {
				return nil, err
			}
			if secret == nil {
				return nil, ErrForgotten
			}
		}
		d.salt = derivedSalt(secret, d.day)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(recent) > 0 {
		b.recent[s.ID] = recent
	}
	return days, nil
}

func (b *dayBook) remembered(siteID uuid.UUID) []saltedDay {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	days := b.recent[siteID]
	for _, d := range days {
		if expired(d.calendarDay, now) {
			delete(b.recent, siteID)
			return nil
		}
	}
	return days
}

// destroySalts erases what outlived saltLife, here and in the database, and
// returns how many days had one there.
func (b *dayBook) destroySalts(ctx context.Context) (int, error) {
	now := b.now()
	b.mu.Lock()
	for id, days := range b.recent {
		if slices.ContainsFunc(days, func(d saltedDay) bool { return expired(d.calendarDay, now) }) {
			delete(b.recent, id)
		}
	}
	b.mu.Unlock()
	var n int64
	err := b.db.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		n, err = b.queries.ClearSiteDaySalts(ctx, tx, now.Add(-saltLife))
		return err
	})
	return int(n), err
}

// ensureMonths makes the partitions of events that instants need, each in a
// transaction of its own, because a new one is locked until it is committed.
func (b *dayBook) ensureMonths(ctx context.Context, instants []time.Time) error {
	var last time.Time
	for _, t := range instants {
		month := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
		if month.Equal(last) {
			continue
		}
		last = month
		b.mu.Lock()
		known := b.months[month]
		b.mu.Unlock()
		if known {
			continue
		}
		err := b.db.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
			return b.queries.EnsureEventsMonth(ctx, tx, month)
		})
		if err != nil {
			return err
		}
		b.mu.Lock()
		b.months[month] = true
		b.mu.Unlock()
	}
	return nil
}

func expired(d calendarDay, now time.Time) bool { return d.end.Before(now.Add(-saltLife)) }

// derivedSalt is HMAC-SHA256(secret, "salt" || date).
func derivedSalt(secret []byte, day time.Time) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("salt" + day.Format(time.DateOnly)))
	return mac.Sum(nil)
}

// visitorNumber is the first 64 bits of HMAC-SHA256(salt, from || 0 || user
// agent). Of a million visitors of a day, two share one with probability 3e-8.
func visitorNumber(salt []byte, from, userAgent string) int64 {
	mac := hmac.New(sha256.New, salt)
	mac.Write([]byte(from))
	mac.Write([]byte{0})
	mac.Write([]byte(userAgent))
	return int64(binary.BigEndian.Uint64(mac.Sum(nil)))
}
