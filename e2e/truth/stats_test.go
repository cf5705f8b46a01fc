package truth_test

import (
	"maps"
	"net/url"
	"testing"

	"github.com/waypost/waypost/e2e/outside"
)

// someQuestions is what a report can't be without.
func someQuestions(_ *testing.T, _ *world, r *request) { r.query.Set("questions", "pages,realtime") }

// ofTwoRows asks for the first of two rows, as who reads by a key, of that key's site.
func ofTwoRows(query url.Values) func(*testing.T, *world, func(request) outside.Answer) {
	return func(t *testing.T, w *world, call func(request) outside.Answer) {
		w.makeTraffic(t, w.siteID)
		call(request{name: "the first of two rows", caller: callerReader, query: firstOfTwo(query)})
		call(request{name: "of visits that are gone", caller: callerReader, query: ofGoneVisits(query)})
	}
}

// ofTwoNamedRows does so as an ADMIN, who names the site.
func ofTwoNamedRows(query url.Values) func(*testing.T, *world, func(request) outside.Answer) {
	return func(t *testing.T, w *world, call func(request) outside.Answer) {
		ids := w.makeSite(t)
		w.makeTraffic(t, ids["id"])
		call(request{name: "the first of two rows", caller: callerAdmin, params: ids, query: firstOfTwo(query)})
		call(request{name: "of visits that are gone", caller: callerAdmin, params: ids, query: ofGoneVisits(query)})
	}
}

func firstOfTwo(query url.Values) url.Values {
	q := url.Values{"from": {"2026-01-02"}, "to": {"2026-01-02"}, "limit": {"1"}}
	maps.Copy(q, query)
	return q
}

// ofGoneVisits asks for what only the single visits of a day could tell, which are deleted.
func ofGoneVisits(query url.Values) url.Values {
	q := url.Values{"from": {"2019-01-02"}, "to": {"2019-01-02"}, "filter[path]": {"/1"}}
	maps.Copy(q, query)
	return q
}

// makeTraffic writes two visits of one day that differ in everything, and a day whose visits are
// gone, once for each site.
func (w *world) makeTraffic(t *testing.T, siteID string) {
	t.Helper()
	if w.traffic[siteID] {
		return
	}
	if w.traffic == nil {
		w.traffic = map[string]bool{}
	}
	w.traffic[siteID] = true
	w.behind(t, `select ensure_events_month('2026-01-02T00:00:00Z')`)
	w.behind(t, `
insert into site_days (site_id, day, starts_at, ends_at, state, trimmed)
values ($1, '2019-01-02', '2019-01-02T00:00:00Z', '2019-01-03T00:00:00Z', 'sealed', true)`, siteID)
	w.behind(t, `
with day as (
    insert into site_days (site_id, day, starts_at, ends_at, state)
    values ($1, '2026-01-02', '2026-01-02T00:00:00Z', '2026-01-03T00:00:00Z', 'dirty') returning site_id, day
), visit as (
    insert into sessions (site_id, day, id, visitor, started_at, last_at, pageviews, events, entry_at, entry_path, exit_at, exit_path,
        source, utm_source, country, device, browser, os)
    select site_id, day, n, n, '2026-01-02T10:00:00Z', '2026-01-02T10:00:01Z', 1, 1, '2026-01-02T10:00:00Z', '/' || n, '2026-01-02T10:00:00Z', '/' || n,
        'source-' || n, 'utm-' || n, chr(64 + n) || 'X', 'device-' || n, 'browser-' || n, 'os-' || n
    from day, generate_series(1, 2) n returning site_id, day, id
)
insert into events (site_id, occurred_at, day, visitor, session_id, path, name)
select site_id, '2026-01-02T10:00:00Z'::timestamptz + each.after, day, id, id, '/' || id, each.name || id
from visit, (values ('0 s'::interval, null), ('1 s', 'event-')) each (after, name)`, siteID)
}
