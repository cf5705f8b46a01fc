package stats

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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
	q *dbsqlc.Queries
	// gap is the longest time between two events of one session.
	gap time.Duration
}

// write stores batch in tx, which is READ COMMITTED: what another batch
// committed while this one waited for a lock must be visible.
func (s sessionStore) write(ctx context.Context, tx pgx.Tx, batch []event) error {
	if len(batch) == 0 {
		return nil
	}
	// A plan made while a table was small would go on scanning it when it is large.
	if _, err := tx.Exec(ctx, "set local plan_cache_mode = force_custom_plan"); err != nil {
		return err
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
	rows, err := s.q.ShareSiteDays(ctx, tx, sites, days)
	if err != nil {
		return err
	}
	if len(rows) < len(seen) {
		return site.ErrNoSite // erased since the day was looked up
	}
	if slices.ContainsFunc(rows, func(r dbsqlc.ShareSiteDaysRow) bool { return r.State == stateSealed }) {
		return s.q.MarkSiteDaysDirty(ctx, tx, sites, days)
	}
	return nil
}

type siteDate struct {
	site uuid.UUID
	day  time.Time
}

// sessionWriter is the work on one batch.
type sessionWriter struct {
	sessionStore
	tx     pgx.Tx
	batch  []event
	of     []int64 // the session of each event
	folded map[visitorDay][]segment
	ids    []int64 // numbers for new sessions, not yet given

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
	var err error
	if w.ids, err = w.q.NextSessionIDs(ctx, w.tx, int32(segments)); err != nil {
		return err
	}
	if err := w.insertHeads(ctx); err != nil {
		return err
	}
	if len(w.folded) == 0 {
		return nil
	}
	heads, err := w.lockHeads(ctx)
	if err != nil {
		return err
	}
	var back keys // visitors with an event from before their newest session's end
	for _, h := range heads {
		key := visitorDay{site: h.SiteID, day: h.Day.UTC(), visitor: h.Visitor}
		if w.folded[key][0].started.Before(h.LastAt) {
			back.add(key)
			continue
		}
		w.follow(key, session{id: h.SessionID, summary: summary{last: h.LastAt}})
	}
	return w.merge(ctx, back)
}

// insertHeads makes the rows of visitors that nobody has seen that day. All of
// their sessions are new, and done with.
func (w *sessionWriter) insertHeads(ctx context.Context) error {
	var k keys
	var p dbsqlc.InsertSessionHeadsParams
	first := make(map[visitorDay][]int64, len(w.folded)) // the numbers that a visitor gets if new
	for key, segments := range w.folded {
		first[key], w.ids = w.ids[:len(segments)], w.ids[len(segments):]
		newest := len(segments) - 1
		k.add(key)
		p.SessionIds, p.LastAts = append(p.SessionIds, first[key][newest]), append(p.LastAts, segments[newest].last)
	}
	p.SiteIds, p.Days, p.Visitors = k.sites, k.days, k.visitors
	inserted, err := w.q.InsertSessionHeads(ctx, w.tx, p)
	if err != nil {
		return err
	}
	for _, row := range inserted {
		key := visitorDay{site: row.SiteID, day: row.Day.UTC(), visitor: row.Visitor}
		for i, s := range w.folded[key] {
			w.save(key, session{id: first[key][i], summary: s.summary}, s.members)
		}
		delete(w.folded, key)
		delete(first, key)
	}
	for _, unused := range first {
		w.ids = append(w.ids, unused...)
	}
	return nil
}

func (w *sessionWriter) lockHeads(ctx context.Context) ([]dbsqlc.SessionHead, error) {
	var k keys
	for key := range w.folded {
		k.add(key)
	}
	return w.q.LockSessionHeads(ctx, w.tx, k.sites, k.days, k.visitors)
}

// follow is the common case: everything happened after the newest session's
// last event, so only the first segment can belong to that session.
func (w *sessionWriter) follow(key visitorDay, newest session) {
	for _, s := range w.folded[key] {
		if s.started.Sub(newest.last) <= w.gap {
			w.extend(key, newest.id, s)
			newest.last = s.last
			continue
		}
		newest = session{id: w.newID(), summary: s.summary}
		w.save(key, newest, s.members)
	}
	w.head(key, newest)
}

// merge handles late events: it reads the visitors' sessions and puts the
// segments among them.
func (w *sessionWriter) merge(ctx context.Context, k keys) error {
	if len(k.sites) == 0 {
		return nil
	}
	rows, err := w.q.ListVisitorSessions(ctx, w.tx, k.sites, k.days, k.visitors)
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
	id := w.ids[0]
	w.ids = w.ids[1:]
	return id
}

func (w *sessionWriter) give(members []int, id int64) {
	for _, i := range members {
		w.of[i] = id
	}
}

// flush writes what assign decided.
func (w *sessionWriter) flush(ctx context.Context) error {
	if len(w.saves.Ids) > 0 {
		if err := w.q.SaveSessions(ctx, w.tx, w.saves); err != nil {
			return err
		}
	}
	if len(w.extends.Ids) > 0 {
		if err := w.q.ExtendSessions(ctx, w.tx, w.extends); err != nil {
			return err
		}
	}
	if len(w.heads.Visitors) > 0 {
		if err := w.q.UpdateSessionHeads(ctx, w.tx, w.heads); err != nil {
			return err
		}
	}
	if err := w.absorb(ctx); err != nil {
		return err
	}
	rows := make([]dbsqlc.CopyEventsParams, len(w.batch))
	for i, e := range w.batch {
		rows[i] = dbsqlc.CopyEventsParams{
			SiteID: e.key.site, OccurredAt: e.at, Day: e.key.day, Visitor: e.key.visitor, SessionID: w.of[i], Path: e.path, Props: e.props,
		}
		if e.name != "" {
			rows[i].Name = &e.name
		}
	}
	_, err := w.q.CopyEvents(ctx, w.tx, rows)
	return err
}

// absorb removes sessions that became part of another and hands their events over.
func (w *sessionWriter) absorb(ctx context.Context) error {
	var sites []uuid.UUID
	var days []time.Time
	var ids []int64
	for _, a := range w.absorbed {
		err := w.q.MoveEvents(ctx, w.tx, dbsqlc.MoveEventsParams{
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
	return w.q.DeleteSessions(ctx, w.tx, sites, days, ids)
}
