package session

import (
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/db/dbsqlc"
)

// save notes a whole session to be written, with its events of the batch.
func (w *writer) save(key Visitor, s Session, members []int) {
	w.give(members, s.ID)
	w.saves.add(key, s)
}

// extend notes what a segment adds to the end of a stored session.
func (w *writer) extend(key Visitor, id int64, s segment) {
	w.give(s.members, id)
	p := &w.extends
	p.SiteIds, p.Days, p.Visitors = append(p.SiteIds, key.Site), append(p.Days, key.Day), append(p.Visitors, key.Number)
	p.Ids = append(p.Ids, id)
	p.LastAts = append(p.LastAts, s.Last)
	p.Pageviews, p.Events = append(p.Pageviews, s.Pageviews), append(p.Events, s.Events)
	p.EntryAts, p.EntryPaths = append(p.EntryAts, s.entryAt), append(p.EntryPaths, s.EntryPath)
	p.ExitAts, p.ExitPaths = append(p.ExitAts, s.exitAt), append(p.ExitPaths, s.ExitPath)
}

// head notes a visitor's newest session.
func (w *writer) head(key Visitor, newest Session) {
	p := &w.heads
	p.SiteIds, p.Days, p.Visitors = append(p.SiteIds, key.Site), append(p.Days, key.Day), append(p.Visitors, key.Number)
	p.SessionIds, p.LastAts = append(p.SessionIds, newest.ID), append(p.LastAts, newest.Last)
}

// origins returns, for each imported event that begins a session within the batch, what
// that session has of it.
func (w *writer) origins() [][]byte {
	out := make([][]byte, len(w.batch))
	for _, segments := range w.folded {
		for _, s := range segments {
			if first := s.members[0]; w.batch[first].ImportRun != 0 {
				out[first] = w.batch[first].Origin.pack()
			}
		}
	}
	for i, e := range w.batch {
		if e.PackedOrigin != nil {
			out[i] = e.PackedOrigin
		}
	}
	return out
}

// rows are the batch's events.
func (w *writer) rows() []dbsqlc.CopyEventsParams {
	rows := make([]dbsqlc.CopyEventsParams, len(w.batch))
	origins := w.origins()
	for i, e := range w.batch {
		rows[i] = dbsqlc.CopyEventsParams{
			SiteID: e.Key.Site, OccurredAt: e.At, Day: e.Key.Day, Visitor: e.Key.Number, SessionID: w.of[i], Path: e.Path, Props: e.Props,
		}
		if e.Name != "" {
			rows[i].Name = &e.Name
		}
		if e.Hostname != "" {
			rows[i].Hostname = &e.Hostname
		}
		if rows[i].Origin = origins[i]; e.ImportRun != 0 {
			rows[i].ImportRun = &e.ImportRun
		}
	}
	return rows
}

// columns are the same as one array for each column.
func (w *writer) columns() dbsqlc.InsertEventsParams {
	n := len(w.batch)
	p := dbsqlc.InsertEventsParams{
		SiteIds: make([]uuid.UUID, n), OccurredAts: make([]time.Time, n), Days: make([]time.Time, n), Visitors: make([]int64, n),
		SessionIds: w.of, Paths: make([]string, n), Hostnames: make([]string, n), Names: make([]string, n), Props: make([]string, n),
		ImportRuns: make([]int64, n), Origins: make([]string, n),
	}
	origins := w.origins()
	for i, e := range w.batch {
		p.SiteIds[i], p.OccurredAts[i], p.Days[i], p.Visitors[i] = e.Key.Site, e.At, e.Key.Day, e.Key.Number
		p.Paths[i], p.Hostnames[i], p.Names[i], p.Props[i] = e.Path, e.Hostname, e.Name, string(e.Props)
		p.ImportRuns[i], p.Origins[i] = e.ImportRun, string(origins[i])
	}
	return p
}

func instant(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
