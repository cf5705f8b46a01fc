package stats

import (
	"strings"

	"github.com/waypost/waypost/db/where"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/text"
)

// Filter names what an answer can be restricted to. A page's path and a custom
// event's name are of single events; all others are of sessions.
type Filter string

// The filters.
const (
	FilterPath        Filter = "path"
	FilterEvent       Filter = "event"
	FilterSource      Filter = "source"
	FilterCountry     Filter = "country"
	FilterDevice      Filter = "device"
	FilterBrowser     Filter = "browser"
	FilterOS          Filter = "os"
	FilterUTMSource   Filter = "utm_source"
	FilterUTMMedium   Filter = "utm_medium"
	FilterUTMCampaign Filter = "utm_campaign"
	FilterUTMTerm     Filter = "utm_term"
	FilterUTMContent  Filter = "utm_content"
)

// AllFilters lists them in the order of their description.
func AllFilters() []Filter {
	return []Filter{
		FilterPath, FilterSource, FilterCountry, FilterDevice, FilterBrowser, FilterOS,
		FilterUTMSource, FilterUTMMedium, FilterUTMCampaign, FilterUTMTerm, FilterUTMContent, FilterEvent,
	}
}

// columns of the tables aliased e (events) and s (sessions).
var (
	eventColumns   = map[Filter]string{FilterPath: "e.path", FilterEvent: "e.name"}
	sessionColumns = map[Filter]string{
		FilterSource: "s.source", FilterCountry: "s.country", FilterDevice: "s.device", FilterBrowser: "s.browser", FilterOS: "s.os",
		FilterUTMSource: "s.utm_source", FilterUTMMedium: "s.utm_medium", FilterUTMCampaign: "s.utm_campaign",
		FilterUTMTerm: "s.utm_term", FilterUTMContent: "s.utm_content",
	}
)

// Filters restrict an answer to events and sessions of which each field matches
// one of its patterns, in which * stands for any text, also none.
//
// Counted are the events that match path and event and whose session matches the
// rest; and of the sessions that match the rest, whole, those in which such an
// event happened.
type Filters map[Filter][]string

// Limits of a filter.
const (
	maxPattern  = 2048 // bytes
	maxPatterns = 20
)

// check returns a fault of kind Invalid whose details name the filters.
func (f Filters) check() error {
	details := map[string]string{}
	for name, patterns := range f {
		field := "filter[" + string(name) + "]"
		if eventColumns[name] == "" && sessionColumns[name] == "" {
			details[field] = "There is no such filter."
			continue
		}
		if len(patterns) > maxPatterns {
			details[field] = "At most 20 values."
		}
		for _, p := range patterns {
			if p == "" || len(p) > maxPattern || !text.Storable(p) {
				details[field] = "From 1 to 2,048 bytes of UTF-8, without U+0000; leave it out for no filter."
			}
		}
	}
	if len(details) > 0 {
		return fault.Validation(details)
	}
	return nil
}

// conditions are filters as SQL: what an event e and a session s must meet, each
// beginning with " and", or empty.
type conditions struct {
	events, sessions string
	args             []any
}

// conditionsOf numbers its arguments from after args on.
func conditionsOf(f Filters, args ...any) conditions {
	ofEvents := where.New(args...)
	ofSessions := ofEvents.Beside()
	for _, name := range AllFilters() {
		patterns := f[name]
		if len(patterns) == 0 {
			continue
		}
		likes := make([]string, len(patterns))
		for i, p := range patterns {
			likes[i] = likePattern(p)
		}
		to, column := ofSessions, sessionColumns[name]
		if column == "" {
			to, column = ofEvents, eventColumns[name]
		}
		to.Add(column+" like any (?::text[])", likes)
	}
	c := conditions{events: ofEvents.And(), sessions: ofSessions.And(), args: ofEvents.Args()}
	if filter := ofSessions.And(); filter != "" {
		c.events += " and exists (select from sessions s where s.site_id = e.site_id and s.day = e.day and s.id = e.session_id" + filter + ")"
	}
	if filter := ofEvents.And(); filter != "" {
		c.sessions += " and exists (select from events e where e.site_id = s.site_id and e.day = s.day and e.session_id = s.id" +
			" and e.occurred_at between s.started_at and s.last_at" + filter + ")"
	}
	return c
}

// likePattern turns * into SQL's %, and everything else into itself.
func likePattern(p string) string { return strings.ReplaceAll(where.Literal(p), "*", "%") }
