package stats

import (
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/stats/columns"
	"github.com/waypost/waypost/internal/stats/session"
)

// Dimension is a property of pageviews or sessions by which traffic is broken down.
type Dimension string

// The dimensions. A page is of each pageview, all others are of whole sessions.
const (
	ByPage        Dimension = "page"
	ByEntry       Dimension = "entry" // first page; pageviews are the number of sessions
	ByExit        Dimension = "exit"  // last page; likewise
	BySource      Dimension = "source"
	ByUTMSource   Dimension = "utm_source"
	ByUTMMedium   Dimension = "utm_medium"
	ByUTMCampaign Dimension = "utm_campaign"
	ByUTMTerm     Dimension = "utm_term"
	ByUTMContent  Dimension = "utm_content"
	ByCountry     Dimension = "country"
	ByDevice      Dimension = "device"
	ByBrowser     Dimension = "browser"
	ByOS          Dimension = "os"
)

// Dimensions of events that have no rollups of their own kind.
const (
	byEvent    Dimension = "event" // names of custom events; pageviews are the count
	byProp     Dimension = "prop"  // of the event whose name's label id is the part
	byHostname Dimension = "hostname"
)

// Filter names what an answer can be restricted to. A page's path and host, a custom
// event's name and its properties ("prop:" and the key) are of single events; all others
// are of sessions.
type Filter string

// The filters.
const (
	FilterPath        Filter = "path"
	FilterHostname    Filter = "hostname"
	FilterEvent       Filter = "event"
	FilterEntry       Filter = "entry"
	FilterExit        Filter = "exit"
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

// eventRow is an event as it is read.
type eventRow = dbsqlc.ListSessionEventsRow

// scope says what has a dimension's label.
type scope int

const (
	ofEvents   scope = iota // each pageview and custom event
	ofSessions              // sessions, whole
)

// dimension is one row of the table from which all that is said of dimensions is derived:
// what sessions and events are broken down by and filtered by, what rollups and columns are
// made of. A dimension more of sessions is a constant and a row here, a property of
// session.Origin with its column in a migration, the place that reads it of a hit, and
// `waypost stats rebuild`.
type dimension struct {
	name   Dimension
	filter Filter // the name it is filtered by
	of     scope
	// column is that of sessions, of sessions alone.
	column string
	// session returns what a session has of it, empty when it has nothing; of sessions alone.
	session func(session.Session) string
	// event returns what an event has of it; of events alone.
	event func(eventRow) string
	// perSession counts sessions in the place of their pageviews.
	perSession bool
	// ranked dimensions are broken down by, and have rollups with a cap of labels.
	ranked bool
}

// dimensionTable has those of sessions first; columns are stored by name.
var dimensionTable = []dimension{
	{name: ByEntry, filter: FilterEntry, of: ofSessions, column: "entry_path", session: func(s session.Session) string { return ifViews(s, s.EntryPath) }, perSession: true, ranked: true},
	{name: ByExit, filter: FilterExit, of: ofSessions, column: "exit_path", session: func(s session.Session) string { return ifViews(s, s.ExitPath) }, perSession: true, ranked: true},
	{name: BySource, filter: FilterSource, of: ofSessions, column: "source", session: func(s session.Session) string { return s.Origin.Source }, ranked: true},
	{name: ByUTMSource, filter: FilterUTMSource, of: ofSessions, column: "utm_source", session: func(s session.Session) string { return s.Origin.UTMSource }, ranked: true},
	{name: ByUTMMedium, filter: FilterUTMMedium, of: ofSessions, column: "utm_medium", session: func(s session.Session) string { return s.Origin.UTMMedium }, ranked: true},
	{name: ByUTMCampaign, filter: FilterUTMCampaign, of: ofSessions, column: "utm_campaign", session: func(s session.Session) string { return s.Origin.UTMCampaign }, ranked: true},
	{name: ByUTMTerm, filter: FilterUTMTerm, of: ofSessions, column: "utm_term", session: func(s session.Session) string { return s.Origin.UTMTerm }, ranked: true},
	{name: ByUTMContent, filter: FilterUTMContent, of: ofSessions, column: "utm_content", session: func(s session.Session) string { return s.Origin.UTMContent }, ranked: true},
	{name: ByCountry, filter: FilterCountry, of: ofSessions, column: "country", session: func(s session.Session) string { return s.Origin.Country }, ranked: true},
	{name: ByDevice, filter: FilterDevice, of: ofSessions, column: "device", session: func(s session.Session) string { return s.Origin.Device }, ranked: true},
	{name: ByBrowser, filter: FilterBrowser, of: ofSessions, column: "browser", session: func(s session.Session) string { return s.Origin.Browser }, ranked: true},
	{name: ByOS, filter: FilterOS, of: ofSessions, column: "os", session: func(s session.Session) string { return s.Origin.OS }, ranked: true},
	// The first of events: see columns.Schema.
	{name: byEvent, filter: FilterEvent, of: ofEvents, event: func(e eventRow) string { return orEmpty(e.Name) }},
	{name: ByPage, filter: FilterPath, of: ofEvents, event: func(e eventRow) string { return e.Path }, ranked: true},
	{name: byHostname, filter: FilterHostname, of: ofEvents, event: func(e eventRow) string { return orEmpty(e.Hostname) }},
}

func ifViews(s session.Session, label string) string {
	if s.Pageviews == 0 {
		return ""
	}
	return label
}

// dimensionOf returns the row of a dimension, which must have one.
func dimensionOf(name Dimension) dimension {
	for _, d := range dimensionTable {
		if d.name == name {
			return d
		}
	}
	panic("stats: no dimension " + string(name))
}

// columnOf is where schema has a dimension's column.
func columnOf(name Dimension) int {
	for i, d := range dimensionTable {
		if d.name == name {
			return i
		}
	}
	panic("stats: no column of " + string(name))
}

// schema is that of the stored columns.
func schema() columns.Schema {
	var s columns.Schema
	for _, d := range dimensionTable {
		if d.of == ofSessions {
			s.Sessions = append(s.Sessions, string(d.name))
		} else {
			s.Events = append(s.Events, string(d.name))
		}
	}
	return s
}

// rankedDimensions are those with a cap of labels.
func rankedDimensions() []Dimension {
	var out []Dimension
	for _, d := range dimensionTable {
		if d.ranked {
			out = append(out, d.name)
		}
	}
	return out
}
