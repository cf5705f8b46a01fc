// Package session stores events and keeps the sessions that they make up exact: a
// visitor's events with no long gap between them, whatever the order in which they
// arrive and however many processes write.
package session

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/calendar"
)

// Store writes batches of events and keeps the sessions exact, whatever
// the order in which events arrive and however many processes write. All that
// concerns a visitor's day happens under the lock of its row in session_heads;
// batches take these locks in key order, so they never wait for each other in a
// circle. Ids of events are drawn under the lock, so those of one visitor count
// in order of arrival.
type Store struct {
	queries *dbsqlc.Queries
	ids     *ids
	// gap is the longest time between two events of one session.
	gap time.Duration
}

// NewStore makes a store for sessions whose events are at most gap apart.
func NewStore(queries *dbsqlc.Queries, gap time.Duration) Store {
	return Store{queries: queries, ids: new(ids), gap: gap}
}

// Write stores batch in tx, a db.InIndexTx: what another batch committed while
// this one waited for a lock must be visible. Where tables are sharded, the batch
// is of one site (ErrSeveralSites), and Write returns a receipt.
func (s Store) Write(ctx context.Context, tx pgx.Tx, batch []Event) (Receipt, error) {
	if len(batch) == 0 {
		return Receipt{}, nil
	}
	t, err := s.tablesOf(tx, batch)
	if err != nil {
		return Receipt{}, err
	}
	if err := shareDays(ctx, tx, t, batch, true); err != nil {
		return Receipt{}, err
	}
	w := writer{Store: s, tables: t, tx: tx, batch: batch, of: make([]int64, len(batch)), folded: foldBatch(batch, s.gap)}
	if err := w.assign(ctx); err != nil {
		return Receipt{}, err
	}
	return w.store(ctx, &w)
}

// tables are the statements that depend on how the tables are laid out: unsharded, as one
// PostgreSQL has them, or those of one site's shard.
type tables interface {
	// lockDays keeps days from being sealed until tx ends, and returns those that are there.
	lockDays(ctx context.Context, tx pgx.Tx, sites []uuid.UUID, days []time.Time) ([]dbsqlc.ShareSiteDaysRow, error)
	markDirty(ctx context.Context, tx pgx.Tx, sites []uuid.UUID, days []time.Time) error
	// touchHeads runs the statement of that name.
	touchHeads(ctx context.Context, tx pgx.Tx, k keys, sessions []int64, lasts []time.Time, continued []int64, firsts []time.Time) (pgx.Rows, error)
	// listSessions returns those of visitor days whose heads tx has locked.
	listSessions(ctx context.Context, tx pgx.Tx, k keys) ([]Stored, error)
	// store writes what w decided, in one round trip where it can.
	store(ctx context.Context, w *writer) (Receipt, error)
}

func (s Store) tablesOf(tx pgx.Tx, batch []Event) (tables, error) {
	if db.Sharded(tx) {
		return newShard(s, batch)
	}
	return unsharded{s}, nil
}

// shareDays keeps the batch's days from being sealed until tx ends, and marks
// those dirty that are, if somebody will write. These locks come before all others of tx.
func shareDays(ctx context.Context, tx pgx.Tx, t tables, batch []Event, writes bool) error {
	var sites []uuid.UUID
	var days []time.Time
	seen := make(map[Visitor]bool) // of visitor 0
	for _, e := range batch {
		if key := (Visitor{Site: e.Key.Site, Day: e.Key.Day}); !seen[key] {
			seen[key] = true
			sites, days = append(sites, key.Site), append(days, key.Day)
		}
	}
	rows, err := t.lockDays(ctx, tx, sites, days)
	if err != nil {
		return err
	}
	if len(rows) < len(seen) {
		return site.ErrNoSite // erased since the day was looked up
	}
	if slices.ContainsFunc(rows, func(r dbsqlc.ShareSiteDaysRow) bool { return r.Trimmed }) {
		return ErrTrimmed
	}
	if writes && slices.ContainsFunc(rows, func(r dbsqlc.ShareSiteDaysRow) bool { return r.State == calendar.StateSealed }) {
		return t.markDirty(ctx, tx, sites, days)
	}
	return nil
}

// ErrTrimmed says that raw data of one of the days went since the day was looked up.
var ErrTrimmed = errors.New("stats: raw data of the day is gone")

// writer is the work on one batch.
type writer struct {
	Store
	tables
	tx     pgx.Tx
	batch  []Event
	of     []int64 // the session of each event
	folded map[Visitor][]segment
	free   []int64 // numbers for new sessions, not yet given

	saves    saves
	extends  dbsqlc.ExtendSessionsParams
	heads    dbsqlc.UpdateSessionHeadsParams
	absorbed []absorption
}

type absorption struct {
	key  Visitor
	from Session
	to   int64
}

// keys are visitor days as columns.
type keys struct {
	sites    []uuid.UUID
	days     []time.Time
	visitors []int64
}

func (k *keys) add(v Visitor) {
	k.sites, k.days, k.visitors = append(k.sites, v.Site), append(k.days, v.Day), append(k.visitors, v.Number)
}

// assign locks the visitors and decides which session each event belongs to.
func (w *writer) assign(ctx context.Context) error {
	segments := 0
	for _, of := range w.folded {
		segments += len(of)
	}
	ids, err := w.ids.take(ctx, w.queries, w.tx, segments)
	if err != nil {
		return err
	}
	defer func() { w.ids.giveBack(w.free) }()
	var back keys // visitors with an event from before their newest session's end
	heads, numbered, err := w.touch(ctx, ids)
	if err != nil {
		return err
	}
	for _, h := range heads {
		ids := numbered[h.key]
		switch {
		case h.isNew:
			w.begin(h.key, ids)
		case w.folded[h.key][0].Started.Before(h.formerAt):
			back.add(h.key)
			w.free = append(w.free, ids...)
		default:
			w.follow(h.key, Session{ID: h.formerSession, summary: summary{Last: h.formerAt}}, ids)
		}
	}
	return w.merge(ctx, back)
}

// begin is for a visitor that nobody has seen that day: all sessions are new.
func (w *writer) begin(key Visitor, ids []int64) {
	for i, s := range w.folded[key] {
		w.save(key, Session{ID: ids[i], summary: s.summary}, s.members)
	}
}

// follow is the common case: everything happened after the newest session's
// last event, so only the first segment can belong to that session.
func (w *writer) follow(key Visitor, newest Session, ids []int64) {
	for i, s := range w.folded[key] {
		if i == 0 && s.Started.Sub(newest.Last) <= w.gap {
			w.extend(key, newest.ID, s)
			w.free = append(w.free, ids[0])
			continue
		}
		w.save(key, Session{ID: ids[i], summary: s.summary}, s.members)
	}
}

// merge handles late events: it reads the visitors' sessions and puts the
// segments among them.
func (w *writer) merge(ctx context.Context, k keys) error {
	if len(k.sites) == 0 {
		return nil
	}
	rows, err := w.listSessions(ctx, w.tx, k)
	if err != nil {
		return err
	}
	stored := make(map[Visitor][]Session)
	for _, r := range rows {
		stored[r.Visitor] = append(stored[r.Visitor], r.Session)
	}
	for key, of := range stored {
		all := mergeSessions(of, w.folded[key], w.gap)
		for i := range all {
			m := &all[i]
			if !m.changed {
				continue
			}
			if m.ID == 0 {
				m.ID = w.newID()
			}
			w.save(key, m.Session, m.members)
			for _, gone := range m.absorbed {
				w.absorbed = append(w.absorbed, absorption{key: key, from: gone, to: m.ID})
			}
		}
		w.head(key, all[len(all)-1].Session)
	}
	return nil
}

func (w *writer) newID() int64 {
	id := w.free[0]
	w.free = w.free[1:]
	return id
}

func (w *writer) give(members []int, id int64) {
	for _, i := range members {
		w.of[i] = id
	}
}

// handOver queues that events of sessions that became part of another are that one's, and
// returns which sessions those were.
func (w *writer) handOver(ctx context.Context, p *db.Pipeline) (keys, []int64, error) {
	var gone keys
	var ids []int64
	for _, a := range w.absorbed {
		err := w.queries.MoveEvents(ctx, p, dbsqlc.MoveEventsParams{
			SiteID: a.key.Site, Day: a.key.Day, FromSession: a.from.ID, ToSession: a.to, FirstAt: a.from.Started, LastAt: a.from.Last,
		})
		if err != nil {
			return gone, nil, err
		}
		gone.add(a.key)
		ids = append(ids, a.from.ID)
	}
	return gone, ids, nil
}
