package stats

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/site"
)

// sessionStore writes batches of events and keeps the sessions exact, whatever
// the order in which events arrive and however many processes write. All that
// concerns a visitor's day happens under the lock of its row in session_heads;
// batches take these locks in key order, so they never wait for each other in a
// circle. Ids of events are drawn under the lock, so those of one visitor count
// in order of arrival.
type sessionStore struct {
	queries *dbsqlc.Queries
	ids     *sessionIDs
	// gap is the longest time between two events of one session.
	gap time.Duration
}

// write stores batch in tx, a db.InIndexTx: what another batch committed while
// this one waited for a lock must be visible.
func (s sessionStore) write(ctx context.Context, tx pgx.Tx, batch []event) error {
	if len(batch) == 0 {
		return nil
	}
	if err := s.shareDays(ctx, tx, batch); err != nil {
		return err
	}
	w := sessionWriter{sessionStore: s, tx: tx, batch: batch, of: make([]int64, len(batch)), folded: foldBatch(batch, s.gap)}
	if err := w.assign(ctx); err != nil {
		return err
	}
	return w.flush(ctx)
}

// shareDays keeps the batch's days from being sealed until tx ends, and marks
// those dirty that are. These locks come before all others of tx.
func (s sessionStore) shareDays(ctx context.Context, tx pgx.Tx, batch []event) error {
	var sites []uuid.UUID
	var days []time.Time
	seen := make(map[siteDate]bool)
	for _, e := range batch {
		if key := (siteDate{e.key.site, e.key.day}); !seen[key] {
			seen[key] = true
			sites, days = append(sites, key.site), append(days, key.day)
		}
	}
	rows, err := s.queries.ShareSiteDays(ctx, tx, sites, days)
	if err != nil {
		return err
	}
	if len(rows) < len(seen) {
		return site.ErrNoSite // erased since the day was looked up
	}
	if slices.ContainsFunc(rows, func(r dbsqlc.ShareSiteDaysRow) bool { return r.State == stateSealed }) {
		return s.queries.MarkSiteDaysDirty(ctx, tx, sites, days)
	}
	return nil
}

type siteDate struct {
	site uuid.UUID
	day  time.Time
}

// copyFrom is the number of events from which COPY takes less time than INSERT.
const copyFrom = 256

// sessionWriter is the work on one batch.
type sessionWriter struct {
	sessionStore
	tx     pgx.Tx
	batch  []event
	of     []int64 // the session of each event
	folded map[visitorDay][]segment
	free   []int64 // numbers for new sessions, not yet given

	saves    dbsqlc.SaveSessionsParams
	extends  dbsqlc.ExtendSessionsParams
	heads    dbsqlc.UpdateSessionHeadsParams
	absorbed []absorption
}

type absorption struct {
	key  visitorDay
	from session
	to   int64
}

// keys are visitor days as columns.
type keys struct {
	sites    []uuid.UUID
	days     []time.Time
	visitors []int64
}

func (k *keys) add(v visitorDay) {
	k.sites, k.days, k.visitors = append(k.sites, v.site), append(k.days, v.day), append(k.visitors, v.visitor)
}

// assign locks the visitors and decides which session each event belongs to.
func (w *sessionWriter) assign(ctx context.Context) error {
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
		case w.folded[h.key][0].started.Before(h.formerAt):
			back.add(h.key)
			w.free = append(w.free, ids...)
		default:
			w.follow(h.key, session{id: h.formerSession, summary: summary{last: h.formerAt}}, ids)
		}
	}
	return w.merge(ctx, back)
}

// begin is for a visitor that nobody has seen that day: all sessions are new.
func (w *sessionWriter) begin(key visitorDay, ids []int64) {
	for i, s := range w.folded[key] {
		w.save(key, session{id: ids[i], summary: s.summary}, s.members)
	}
}

// follow is the common case: everything happened after the newest session's
// last event, so only the first segment can belong to that session.
func (w *sessionWriter) follow(key visitorDay, newest session, ids []int64) {
	for i, s := range w.folded[key] {
		if i == 0 && s.started.Sub(newest.last) <= w.gap {
			w.extend(key, newest.id, s)
			w.free = append(w.free, ids[0])
			continue
		}
		w.save(key, session{id: ids[i], summary: s.summary}, s.members)
	}
}

// merge handles late events: it reads the visitors' sessions and puts the
// segments among them.
func (w *sessionWriter) merge(ctx context.Context, k keys) error {
	if len(k.sites) == 0 {
		return nil
	}
	rows, err := w.queries.ListVisitorSessions(ctx, w.tx, k.sites, k.days, k.visitors)
	if err != nil {
		return err
	}
	stored := make(map[visitorDay][]session)
	for _, r := range rows {
		key := visitorDay{site: r.SiteID, day: r.Day.UTC(), visitor: r.Visitor}
		stored[key] = append(stored[key], sessionOf(r))
	}
	for key, of := range stored {
		all := mergeSessions(of, w.folded[key], w.gap)
		for i := range all {
			m := &all[i]
			if !m.changed {
				continue
			}
			if m.id == 0 {
				m.id = w.newID()
			}
			w.save(key, m.session, m.members)
			for _, gone := range m.absorbed {
				w.absorbed = append(w.absorbed, absorption{key: key, from: gone, to: m.id})
			}
		}
		w.head(key, all[len(all)-1].session)
	}
	return nil
}

func (w *sessionWriter) newID() int64 {
	id := w.free[0]
	w.free = w.free[1:]
	return id
}

func (w *sessionWriter) give(members []int, id int64) {
	for _, i := range members {
		w.of[i] = id
	}
}

// flush writes what assign decided, in one round trip.
func (w *sessionWriter) flush(ctx context.Context) error {
	var p db.Pipeline
	if len(w.saves.Ids) > 0 {
		if err := w.queries.SaveSessions(ctx, &p, w.saves); err != nil {
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
func (w *sessionWriter) absorb(ctx context.Context, p *db.Pipeline) error {
	var sites []uuid.UUID
	var days []time.Time
	var ids []int64
	for _, a := range w.absorbed {
		err := w.queries.MoveEvents(ctx, p, dbsqlc.MoveEventsParams{
			SiteID: a.key.site, Day: a.key.day, FromSession: a.from.id, ToSession: a.to, FirstAt: a.from.started, LastAt: a.from.last,
		})
		if err != nil {
			return err
		}
		sites, days, ids = append(sites, a.key.site), append(days, a.key.day), append(ids, a.from.id)
	}
	if len(ids) == 0 {
		return nil
	}
	return w.queries.DeleteSessions(ctx, p, sites, days, ids)
}
