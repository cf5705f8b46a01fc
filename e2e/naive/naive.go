// Package naive counts a site's traffic in memory, the straightforward way: every
// question walks over all hits. It imports the standard library only and shares
// no code with the product, so that the tests can hold the product's numbers
// against it. What it can't know without a library, namely what a user agent is,
// the caller tells it by a function.
package naive

import (
	"sort"
	"time"
)

// Hit is one pageview or custom event.
type Hit struct {
	At      time.Time
	Visitor string // whatever tells visitors apart; a new one every day
	Path    string
	Name    string // of a custom event; empty for a pageview
	Props   map[string]string
	// Labels maps source, utm_source, ..., country, device, browser, os to what the
	// hit says of each.
	Labels map[string]string
	day    string // the date on the site's clocks
}

// Rules are the definitions that can be varied, to show that a product which
// varies from them is found out.
type Rules struct {
	Zone *time.Location
	// Moves are later changes of zone, oldest first, each at a midnight of the zone
	// before; the day that begins there ends at the new zone's next midnight.
	Moves    []Move
	Gap      time.Duration // the longest between two events of a session; 0 means 30 minutes
	LabelCap int           // labels per day and dimension; 0 means 10,000
	// Names of events per day, keys of a name, values of a key; 0 means 1,000, 30 and 200.
	NameCap, KeyCap, ValueCap int
}

// Move is a change of zone.
type Move struct {
	At   time.Time
	Zone *time.Location
}

// Session is a visitor's hits of one day without a longer gap, in time order.
type session struct {
	hits []Hit
}

// Site is all of a site's traffic.
type Site struct {
	rules    Rules
	hits     []Hit
	sessions []session
}

// New sorts hits into sessions. Hits of one instant keep their order.
func New(rules Rules, hits []Hit) *Site {
	if rules.Gap == 0 {
		rules.Gap = 30 * time.Minute
	}
	if rules.LabelCap == 0 {
		rules.LabelCap = 10_000
	}
	for _, c := range []struct {
		of    *int
		value int
	}{{&rules.NameCap, 1000}, {&rules.KeyCap, 30}, {&rules.ValueCap, 200}} {
		if *c.of == 0 {
			*c.of = c.value
		}
	}
	s := &Site{rules: rules, hits: append([]Hit(nil), hits...)}
	for i := range s.hits {
		s.hits[i].day = s.date(s.hits[i].At)
	}
	sort.SliceStable(s.hits, func(i, j int) bool { return s.hits[i].At.Before(s.hits[j].At) })
	open := map[string]int{} // day and visitor to the index of their latest session
	for _, h := range s.hits {
		who := h.day + " " + h.Visitor
		i, known := open[who]
		if known && h.At.Sub(s.sessions[i].last().At) <= rules.Gap {
			s.sessions[i].hits = append(s.sessions[i].hits, h)
			continue
		}
		open[who] = len(s.sessions)
		s.sessions = append(s.sessions, session{hits: []Hit{h}})
	}
	return s
}

// date is what the site's clocks show, which don't go back when the zone changes.
func (s *Site) date(t time.Time) string {
	zone, first := s.rules.Zone, ""
	for _, m := range s.rules.Moves {
		if !t.Before(m.At) {
			first, zone = m.At.In(zone).Format(date), m.Zone
		}
	}
	return max(first, t.In(zone).Format(date))
}

// zoneAt is the zone whose hours count at t: that of the beginning of t's day.
func (s *Site) zoneAt(t time.Time) *time.Location {
	zone := s.rules.Zone
	for _, m := range s.rules.Moves {
		if !t.Before(m.At) {
			zone = m.Zone
		}
	}
	return zone
}

func (s session) first() Hit { return s.hits[0] }
func (s session) last() Hit  { return s.hits[len(s.hits)-1] }

func (s session) pageviews() []Hit {
	var views []Hit
	for _, h := range s.hits {
		if h.Name == "" {
			views = append(views, h)
		}
	}
	return views
}

// Window is a range as a client writes it: each end a date (2006-01-02, the whole
// day on the site's clocks) or a timestamp (RFC 3339; the end is exclusive).
type Window struct {
	From, To string
}

const date = "2006-01-02"

func isDate(s string) bool { return len(s) == len(date) }

func instant(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic("naive: " + err.Error())
	}
	return t
}

// holds compares dates as text and instants as time, so it needs no day's bounds.
func (s *Site) holds(w Window, t time.Time) bool {
	afterStart := isDate(w.From) && s.date(t) >= w.From || !isDate(w.From) && !t.Before(instant(w.From))
	beforeEnd := isDate(w.To) && s.date(t) <= w.To || !isDate(w.To) && t.Before(instant(w.To))
	return afterStart && beforeEnd
}

// Previous returns the window of equal length that ends where w begins: as many
// dates, or, with a timestamp at either end, the same duration.
func (s *Site) Previous(w Window) Window {
	if isDate(w.From) && isDate(w.To) {
		from, _ := time.Parse(date, w.From)
		to, _ := time.Parse(date, w.To)
		days := int(to.Sub(from).Hours()/24) + 1
		return Window{From: from.AddDate(0, 0, -days).Format(date), To: from.AddDate(0, 0, -1).Format(date)}
	}
	from, to := s.edges(w)
	return Window{From: from.Add(from.Sub(to)).Format(time.RFC3339Nano), To: from.Format(time.RFC3339Nano)}
}

func (s *Site) hitsIn(w Window) []Hit {
	var in []Hit
	for _, h := range s.hits {
		if s.holds(w, h.At) {
			in = append(in, h)
		}
	}
	return in
}

func (s *Site) sessionsIn(w Window) []session {
	var in []session
	for _, one := range s.sessions {
		if s.holds(w, one.first().At) {
			in = append(in, one)
		}
	}
	return in
}

// visitorDays counts the distinct visitors of each day and adds the days up.
func visitorDays(hits []Hit) int64 {
	seen := map[string]bool{}
	for _, h := range hits {
		seen[h.day+" "+h.Visitor] = true
	}
	return int64(len(seen))
}
