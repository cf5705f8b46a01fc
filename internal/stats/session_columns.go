package stats

import (
	"time"

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
	p.SiteIds, p.Days, p.Ids = append(p.SiteIds, key.site), append(p.Days, key.day), append(p.Ids, id)
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

func sessionOf(r dbsqlc.Session) session {
	return session{id: r.ID, summary: summary{
		started: r.StartedAt.UTC(), last: r.LastAt.UTC(), pageviews: r.Pageviews, events: r.Events,
		entryAt: instant(r.EntryAt), entryPath: text(r.EntryPath), exitAt: instant(r.ExitAt), exitPath: text(r.ExitPath),
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

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
