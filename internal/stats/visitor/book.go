// Package visitor gives visits the day of the site on which they happened and, with a
// salt of that day, the number of whoever made them. It makes, seals and destroys these
// salts and the secrets that those of imported days are derived from.
package visitor

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/seal"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/hit"
	"github.com/waypost/waypost/internal/stats/session"
)

// SaltLife is how long after its end a day keeps the salt of its visitors.
const SaltLife = 48 * time.Hour

// saltSize is in bytes.
const saltSize = 32

// saltedDay is a day of a site's calendar with the salt of its visitors.
type saltedDay struct {
	calendar.Day
	salt    []byte
	trimmed bool // its raw data is gone or going: nothing is added
}

func (d *saltedDay) holds(t time.Time) bool { return !t.Before(d.Start) && t.Before(d.End) }

// Book finds the site day of an instant and makes its row, with a random salt that
// is stored, sealed, until saltLife after the day's end. The visitors of imported lines
// get their numbers from another salt, which is derived from an import secret: so parts
// of a day join, whenever they are imported, and none of them joins those who were
// counted while it went on.
type Book struct {
	db      *db.DB
	queries *dbsqlc.Queries
	keys    *seal.Keyring
	secrets importSecrets
	logger  *slog.Logger
	now     func() time.Time
	random  io.Reader

	mu     sync.Mutex
	recent map[uuid.UUID][]saltedDay // with stored salts, until these expire
	months map[time.Time]bool        // that events surely have a partition for
}

// Options configure newDayBook.
type Options struct {
	DB *db.DB
	// Keys seals salts and import secrets; nil where neither is needed. seal.New makes it for SealPurpose.
	Keys *seal.Keyring
	// Logger is told of salts that no key opens; nil for nobody.
	Logger *slog.Logger
	Now    func() time.Time
	Random io.Reader
}

// NewBook makes a book in which nothing is remembered.
func NewBook(o Options) *Book {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	queries := dbsqlc.New()
	return &Book{
		db: o.DB, queries: queries, keys: o.Keys, logger: o.Logger, now: o.Now, random: o.Random,
		secrets: importSecrets{db: o.DB, queries: queries, keys: o.Keys, now: o.Now, random: o.Random},
		recent:  make(map[uuid.UUID][]saltedDay), months: make(map[time.Time]bool),
	}
}

// find returns the day of each instant, of what happens now.
func (b *Book) find(ctx context.Context, s site.Site, instants []time.Time) ([]*saltedDay, error) {
	found := make([]*saltedDay, len(instants))
	if !match(found, instants, b.remembered(s.ID)) {
		days, err := b.load(ctx, s, instants)
		if err != nil {
			return nil, err
		}
		if days, err = b.salted(ctx, s, days, instants); err != nil {
			return nil, err
		}
		if !match(found, instants, days) || slices.ContainsFunc(found, func(d *saltedDay) bool { return d.salt == nil }) {
			return nil, fmt.Errorf("stats: the calendar of site %s leaves out some of %v to %v", s.ID, slices.MinFunc(instants, time.Time.Compare), slices.MaxFunc(instants, time.Time.Compare))
		}
	}
	return found, b.ensureMonths(ctx, instants)
}

// findImported is find for imported lines. A day is nil when raw data of it is gone. It
// returns ErrForgotten.
func (b *Book) findImported(ctx context.Context, s site.Site, instants []time.Time, newVisitors bool) ([]*saltedDay, error) {
	days, err := b.load(ctx, s, instants)
	if err != nil {
		return nil, err
	}
	found := make([]*saltedDay, len(instants))
	var months, kept []time.Time
	for i, t := range instants {
		if match(found[i:i+1], instants[i:i+1], days) && !found[i].trimmed {
			kept = append(kept, t)
			if month := calendar.MonthOf(found[i].Date); !slices.ContainsFunc(months, month.Equal) {
				months = append(months, month)
			}
			continue
		}
		found[i] = nil
	}
	if len(kept) < len(instants) {
		if err := b.checkGone(ctx, s, instants, found); err != nil {
			return nil, err
		}
	}
	secrets, err := b.secrets.of(ctx, s.ID, months, newVisitors)
	if err != nil {
		return nil, err
	}
	for _, d := range found {
		if d != nil && d.salt == nil {
			d.salt = DerivedSalt(secrets[calendar.MonthOf(d.Date)], d.Date)
		}
	}
	return found, b.ensureMonths(ctx, kept)
}

// checkGone returns an error unless every instant without a day is from before the
// site's raw data.
func (b *Book) checkGone(ctx context.Context, s site.Site, instants []time.Time, found []*saltedDay) error {
	kept, err := b.queries.FindSiteRetention(ctx, b.db.Direct(), s.ID)
	if err != nil {
		return db.Translate(err)
	}
	for i, t := range instants {
		// A day that begins before is gone with its beginning.
		if found[i] == nil && t.After(kept.RawFrom.Add(48*time.Hour)) {
			return fmt.Errorf("stats: the calendar of site %s leaves out %v", s.ID, t)
		}
	}
	return nil
}

// match points found at the days of the instants and reports whether all have one.
func match(found []*saltedDay, instants []time.Time, days []saltedDay) bool {
	var last *saltedDay
	for i, t := range instants {
		if last == nil || !last.holds(t) {
			at, exact := slices.BinarySearchFunc(days, t, func(d saltedDay, t time.Time) int { return d.Start.Compare(t) })
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
func (b *Book) load(ctx context.Context, s site.Site, instants []time.Time) ([]saltedDay, error) {
	const margin = 2 // days between the dates of UTC and of any zone, rounded up
	first := calendar.DateOf(slices.MinFunc(instants, time.Time.Compare).UTC()).AddDate(0, 0, -margin)
	last := calendar.DateOf(slices.MaxFunc(instants, time.Time.Compare).UTC()).AddDate(0, 0, margin)
	stored, err := b.list(ctx, s, first, last)
	if err != nil {
		return nil, err
	}
	missing := missingDays(calendar.ZonesOf(s), stored, instants)
	if len(missing) > 0 {
		if err := b.insert(ctx, s, missing); err != nil {
			return nil, err
		}
		if stored, err = b.list(ctx, s, first, last); err != nil {
			return nil, err
		}
	}
	return stored, nil
}

// missingDays returns, in order, the days of instants that are not stored.
func missingDays(zones calendar.Zones, stored []saltedDay, instants []time.Time) []calendar.Day {
	known := make([]calendar.Day, len(stored))
	for i, d := range stored {
		known[i] = d.Day
	}
	c := calendar.New(zones, known...)
	var missing []calendar.Day
	for _, t := range instants {
		at, exact := slices.BinarySearchFunc(missing, t, func(d calendar.Day, t time.Time) int { return d.Start.Compare(t) })
		if exact || at > 0 && t.Before(missing[at-1].End) {
			continue
		}
		day := c.DayOf(t)
		if !c.Known(day) {
			missing = slices.Insert(missing, at, calendar.Day{Date: day, Start: c.Start(day), End: c.Start(day.AddDate(0, 0, 1))})
		}
	}
	return missing
}

func (b *Book) list(ctx context.Context, s site.Site, first, last time.Time) ([]saltedDay, error) {
	rows, err := b.queries.ListSiteDaySalts(ctx, b.db.Direct(), s.ID, first, last)
	if err != nil {
		return nil, db.Translate(err)
	}
	days := make([]saltedDay, len(rows))
	for i, r := range rows {
		days[i] = saltedDay{Day: calendar.Day{Date: r.Day.UTC(), Start: r.StartsAt.UTC(), End: r.EndsAt.UTC()}, trimmed: r.Trimmed}
	}
	return days, nil
}

// insert makes days in a transaction of its own: a salt may be used only once it
// is durable, whatever becomes of the events. Days whose raw data would be gone are not
// made.
func (b *Book) insert(ctx context.Context, s site.Site, days []calendar.Day) error {
	p := dbsqlc.InsertSiteDaysParams{SiteID: s.ID}
	now := b.now()
	for _, d := range days {
		sealed := seal.Sealed{Box: []byte{}} // its salt is over
		if !expired(d, now) {
			var err error
			if sealed, err = b.newSalt(s.ID, d.Date); err != nil {
				return err
			}
		}
		p.Days, p.SaltKeys, p.SaltBoxes = append(p.Days, d.Date), append(p.SaltKeys, sealed.KeyID), append(p.SaltBoxes, sealed.Box)
		p.Starts, p.Ends = append(p.Starts, d.Start), append(p.Ends, d.End)
	}
	return b.db.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		if err := b.queries.ShareCalendar(ctx, tx); err != nil {
			return err
		}
		if db.Sharded(tx) {
			return b.insertIntoShard(ctx, tx, p)
		}
		return b.queries.InsertSiteDays(ctx, tx, p)
	})
}

// insertIntoShard is InsertSiteDays where tables are sharded.
func (b *Book) insertIntoShard(ctx context.Context, tx pgx.Tx, days dbsqlc.InsertSiteDaysParams) error {
	kept, err := b.queries.FindSiteRetention(ctx, tx, days.SiteID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	var p db.Pipeline
	for i, day := range days.Days {
		if err == nil && days.Starts[i].Before(kept.RawFrom) {
			continue
		}
		err := b.queries.InsertShardDay(ctx, &p, dbsqlc.InsertShardDayParams{
			SiteID: days.SiteID, Day: day, StartsAt: days.Starts[i], EndsAt: days.Ends[i], SaltKey: days.SaltKeys[i], SaltBox: days.SaltBoxes[i],
		})
		if err != nil {
			return err
		}
	}
	return p.Send(ctx, tx)
}

func (b *Book) remembered(siteID uuid.UUID) []saltedDay {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	days := b.recent[siteID]
	for _, d := range days {
		if expired(d.Day, now) {
			delete(b.recent, siteID)
			return nil
		}
	}
	return days
}

// Salts is how many salts are in memory.
func (b *Book) Salts() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, days := range b.recent {
		n += len(days)
	}
	return n
}

// DestroySalts erases what outlived saltLife, here and in the database, and
// returns how many days had one there. Sites whose server of a cluster is away keep those
// in the database until it is back; the error tells of them.
func (b *Book) DestroySalts(ctx context.Context) (int, error) {
	now := b.now()
	b.mu.Lock()
	for id, days := range b.recent {
		if slices.ContainsFunc(days, func(d saltedDay) bool { return expired(d.Day, now) }) {
			delete(b.recent, id)
		}
	}
	b.mu.Unlock()
	n, err := b.clearSalts(ctx, func(ctx context.Context, tx pgx.Tx) (int64, error) {
		return b.queries.ClearSiteDaySalts(ctx, tx, now.Add(-SaltLife))
	})
	if !b.db.IsPartlyAway(err) {
		return n, err
	}
	total := 0
	err = EachSite(ctx, b.db, b.queries, func(id uuid.UUID) error {
		n, err := b.clearSalts(ctx, func(ctx context.Context, tx pgx.Tx) (int64, error) {
			return b.queries.ClearShardDaySalts(ctx, tx, id, now.Add(-SaltLife))
		})
		total += n
		return err
	})
	return total, err
}

// clearSalts runs a statement of salts in a transaction, and returns how many days it found.
func (b *Book) clearSalts(ctx context.Context, statement func(ctx context.Context, tx pgx.Tx) (int64, error)) (int, error) {
	var n int64
	err := b.db.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		n, err = statement(ctx, tx)
		return err
	})
	return int(n), err
}

// youngMonth is how long ago a month has begun that no retention drops.
const youngMonth = 32 * 24 * time.Hour

// ensureMonths makes the partitions of events that instants need, each in a
// transaction of its own, because a new one is locked until it is committed. Their days
// are there already, which keeps others from dropping the partitions.
func (b *Book) ensureMonths(ctx context.Context, instants []time.Time) error {
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
		if b.now().Sub(month) > youngMonth {
			continue // it may be dropped some day
		}
		b.mu.Lock()
		b.months[month] = true
		b.mu.Unlock()
	}
	return nil
}

func expired(d calendar.Day, now time.Time) bool { return d.End.Before(now.Add(-SaltLife)) }

// DerivedSalt is HMAC-SHA256(secret, "salt" || date).
func DerivedSalt(secret []byte, day time.Time) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("salt" + day.Format(time.DateOnly)))
	return mac.Sum(nil)
}

// Place gives visits of what happens now their site days and visitors. Addresses and user
// agents end here.
func (b *Book) Place(ctx context.Context, s site.Site, visits []hit.Visit) ([]session.Event, error) {
	if len(visits) == 0 {
		return nil, nil
	}
	days, err := b.find(ctx, s, instantsOf(visits))
	if err != nil {
		return nil, err
	}
	events := make([]session.Event, len(visits))
	for i, v := range visits {
		events[i] = eventOf(s, days[i], v)
	}
	return events, nil
}

// PlaceImported is place for imported lines. It leaves out the visits of days whose raw
// data is gone, and returns as well the places of the others. It returns ErrForgotten for
// months whose secret was destroyed, unless their visitors may be new ones.
func (b *Book) PlaceImported(ctx context.Context, s site.Site, visits []hit.Visit, newVisitors bool) ([]session.Event, []int, error) {
	days, err := b.findImported(ctx, s, instantsOf(visits), newVisitors)
	if err != nil {
		return nil, nil, err
	}
	events, places := make([]session.Event, 0, len(days)), make([]int, 0, len(days))
	for i, day := range days {
		if day != nil {
			events, places = append(events, eventOf(s, day, visits[i])), append(places, i)
		}
	}
	return events, places, nil
}

func instantsOf(visits []hit.Visit) []time.Time {
	instants := make([]time.Time, len(visits))
	for i, v := range visits {
		instants[i] = v.At
	}
	return instants
}

func eventOf(s site.Site, day *saltedDay, v hit.Visit) session.Event {
	return session.Event{
		Key: session.Visitor{Site: s.ID, Day: day.Date, Number: Number(day.salt, v.From, v.UserAgent)},
		At:  v.At, Path: v.Path, Hostname: v.Hostname, Name: v.Name, Props: v.Props, Origin: v.Origin,
	}
}

// Number is the first 64 bits of HMAC-SHA256(salt, from || 0 || user
// agent). Of a million visitors of a day, two share one with probability 3e-8.
func Number(salt []byte, from, userAgent string) int64 {
	mac := hmac.New(sha256.New, salt)
	mac.Write([]byte(from))
	mac.Write([]byte{0})
	mac.Write([]byte(userAgent))
	return int64(binary.BigEndian.Uint64(mac.Sum(nil)))
}
