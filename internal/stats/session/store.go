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
// this one waited for a lock must be visible.
func (s Store) Write(ctx context.Context, tx pgx.Tx, batch []Event) error {
	if len(batch) == 0 {
		return nil
	}
	if err := s.shareDays(ctx, tx, batch); err != nil {
		return err
	}
	w := writer{Store: s, tx: tx, batch: batch, of: make([]int64, len(batch)), folded: foldBatch(batch, s.gap)}
	if err := w.assign(ctx); err != nil {
		return err
	}
	return w.flush(ctx)
}

// shareDays keeps the batch's days from being sealed until tx ends, and marks
// those dirty that are. These locks come before all others of tx.
func (s Store) shareDays(ctx context.Context, tx pgx.Tx, batch []Event) error {
	var sites []uuid.UUID
	var days []time.Time
	seen := make(map[Visitor]bool) // of visitor 0
	for _, e := range batch {
		if key := (Visitor{Site: e.Key.Site, Day: e.Key.Day}); !seen[key] {
			seen[key] = true
			sites, days = append(sites, key.Site), append(days, key.Day)
		}
	}
	rows, err := s.queries.ShareSiteDays(ctx, tx, sites, days)
	if err != nil {
		return err
	}
	if len(rows) < len(seen) {
		return site.ErrNoSite // erased since the day was looked up
	}
	if slices.ContainsFunc(rows, func(r dbsqlc.ShareSiteDaysRow) bool { return r.Trimmed }) {
		return ErrTrimmed
	}
	if slices.ContainsFunc(rows, func(r dbsqlc.ShareSiteDaysRow) bool { return r.State == calendar.StateSealed }) {
		return s.queries.MarkSiteDaysDirty(ctx, tx, sites, days)
	}
	return nil
}

// ErrTrimmed says that raw data of one of the days went since the day was looked up.
var ErrTrimmed = errors.New("stats: raw data of the day is gone")

// copyFrom is the number of events from which COPY takes less time than INSERT.
const copyFrom = 256

// writer is the work on one batch.
type writer struct {
	Store
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
	rows, err := list(ctx, w.tx, listOfVisitors, k.sites, k.days, k.visitors)
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

// flush writes what assign decided, in one round trip.
func (w *writer) flush(ctx context.Context) error {
	var p db.Pipeline
	if len(w.saves.ids) > 0 {
		if _, err := p.Exec(ctx, saveSessions, w.saves.arguments()...); err != nil {
			return err
		}
	}
	if len(w.extends.Ids) > 0 {
		if err := w.queries.ExtendSessions(ctx, &p, w.extends); err != nil {
			return err
		}
	}
	if len(w.heads.Visitors) > 0 {
		if err := w.queries.UpdateSessionHeads(ctx, &p, w.heads); err != nil {
			return err
		}
	}
	if err := w.absorb(ctx, &p); err != nil {
		return err
	}
	if len(w.batch) < copyFrom {
		if err := w.queries.InsertEvents(ctx, &p, w.columns()); err != nil {
			return err
		}
		return p.Send(ctx, w.tx)
	}
	if err := p.Send(ctx, w.tx); err != nil {
		return err
	}
	_, err := w.queries.CopyEvents(ctx, w.tx, w.rows())
	return err
}

// absorb removes sessions that became part of another and hands their events over.
func (w *writer) absorb(ctx context.Context, p *db.Pipeline) error {
	var sites []uuid.UUID
	var days []time.Time
	var ids []int64
	for _, a := range w.absorbed {
		err := w.queries.MoveEvents(ctx, p, dbsqlc.MoveEventsParams{
			SiteID: a.key.Site, Day: a.key.Day, FromSession: a.from.ID, ToSession: a.to, FirstAt: a.from.Started, LastAt: a.from.Last,
		})
		if err != nil {
			return err
		}
		sites, days, ids = append(sites, a.key.Site), append(days, a.key.Day), append(ids, a.from.ID)
	}
	if len(ids) == 0 {
		return nil
	}
	return w.queries.DeleteSessions(ctx, p, sites, days, ids)
}
