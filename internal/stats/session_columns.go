package stats

import (
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/db/dbsqlc"
)

// save notes a whole session to be written, with its events of the batch.
func (w *sessionWriter) save(key visitorDay, s session, members []int) {
	w.give(members, s.id)
	p := &w.saves
	p.SiteIds, p.Days, p.Visitors = append(p.SiteIds, key.site), append(p.Days, key.day), append(p.Visitors, key.visitor)
	p.Ids = append(p.Ids, s.id)
	p.StartedAts, p.LastAts = append(p.StartedAts, s.started), append(p.LastAts, s.last)
	p.Pageviews, p.Events = append(p.Pageviews, s.pageviews), append(p.Events, s.events)
	p.EntryAts, p.EntryPaths = append(p.EntryAts, s.entryAt), append(p.EntryPaths, s.entryPath)
	p.ExitAts, p.ExitPaths = append(p.ExitAts, s.exitAt), append(p.ExitPaths, s.exitPath)
	p.Sources = append(p.Sources, s.origin.source)
	p.UtmSources, p.UtmMediums = append(p.UtmSources, s.origin.utmSource), append(p.UtmMediums, s.origin.utmMedium)
	p.UtmCampaigns, p.UtmTerms = append(p.UtmCampaigns, s.origin.utmCampaign), append(p.UtmTerms, s.origin.utmTerm)
	p.UtmContents = append(p.UtmContents, s.origin.utmContent)
	p.Countries, p.Devices = append(p.Countries, s.origin.country), append(p.Devices, s.origin.device)
	p.Browsers, p.Oses = append(p.Browsers, s.origin.browser), append(p.Oses, s.origin.os)
}

// extend notes what a segment adds to the end of a stored session.
func (w *sessionWriter) extend(key visitorDay, id int64, s segment) {
	w.give(s.members, id)
	p := &w.extends
	p.SiteIds, p.Days, p.Visitors = append(p.SiteIds, key.site), append(p.Days, key.day), append(p.Visitors, key.visitor)
	p.Ids = append(p.Ids, id)
	p.LastAts = append(p.LastAts, s.last)
	p.Pageviews, p.Events = append(p.Pageviews, s.pageviews), append(p.Events, s.events)
	p.EntryAts, p.EntryPaths = append(p.EntryAts, s.entryAt), append(p.EntryPaths, s.entryPath)
	p.ExitAts, p.ExitPaths = append(p.ExitAts, s.exitAt), append(p.ExitPaths, s.exitPath)
}

// head notes a visitor's newest session.
func (w *sessionWriter) head(key visitorDay, newest session) {
	p := &w.heads
	p.SiteIds, p.Days, p.Visitors = append(p.SiteIds, key.site), append(p.Days, key.day), append(p.Visitors, key.visitor)
	p.SessionIds, p.LastAts = append(p.SessionIds, newest.id), append(p.LastAts, newest.last)
}

// rows are the batch's events.
func (w *sessionWriter) rows() []dbsqlc.CopyEventsParams {
	rows := make([]dbsqlc.CopyEventsParams, len(w.batch))
	for i, e := range w.batch {
		rows[i] = dbsqlc.CopyEventsParams{
			SiteID: e.key.site, OccurredAt: e.at, Day: e.key.day, Visitor: e.key.visitor, SessionID: w.of[i], Path: e.path, Props: e.props,
		}
		if e.name != "" {
			rows[i].Name = &e.name
		}
	}
	return rows
}

// columns are the same as one array for each column.
func (w *sessionWriter) columns() dbsqlc.InsertEventsParams {
	n := len(w.batch)
	p := dbsqlc.InsertEventsParams{
		SiteIds: make([]uuid.UUID, n), OccurredAts: make([]time.Time, n), Days: make([]time.Time, n), Visitors: make([]int64, n),
		SessionIds: w.of, Paths: make([]string, n), Names: make([]string, n), Props: make([]string, n),
	}
	for i, e := range w.batch {
		p.SiteIds[i], p.OccurredAts[i], p.Days[i], p.Visitors[i] = e.key.site, e.at, e.key.day, e.key.visitor
		p.Paths[i], p.Names[i], p.Props[i] = e.path, e.name, string(e.props)
	}
	return p
}

func sessionOf(r dbsqlc.Session) session {
	return session{id: r.ID, summary: summary{
		started: r.StartedAt.UTC(), last: r.LastAt.UTC(), pageviews: r.Pageviews, events: r.Events,
		entryAt: instant(r.EntryAt), entryPath: orEmpty(r.EntryPath), exitAt: instant(r.ExitAt), exitPath: orEmpty(r.ExitPath),
		origin: origin{
			source: r.Source, utmSource: r.UtmSource, utmMedium: r.UtmMedium, utmCampaign: r.UtmCampaign,
			utmTerm: r.UtmTerm, utmContent: r.UtmContent, country: r.Country, device: r.Device, browser: r.Browser, os: r.Os,
		},
	}}
}

func instant(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
