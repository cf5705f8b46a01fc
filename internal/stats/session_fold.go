package stats

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"
)

// defaultSessionGap is the longest time between two events of one session.
const defaultSessionGap = 30 * time.Minute

// event is what is stored of a visit, but for the session that it is given.
type event struct {
	key    visitorDay
	at     time.Time
	path   string
	name   string // empty for a pageview
	props  []byte
	origin origin
}

// visitorDay is a visitor: nobody outlives the site's day.
type visitorDay struct {
	site    uuid.UUID
	day     time.Time
	visitor int64
}

// summary is what a session keeps of its events.
type summary struct {
	started, last     time.Time
	pageviews, events int32 // events are the custom ones
	// Of the first and the last pageview; zero without any.
	entryAt, exitAt     time.Time
	entryPath, exitPath string
	origin              origin // of the first event
}

func summaryOf(e event) summary {
	s := summary{started: e.at, last: e.at, origin: e.origin}
	if e.name != "" {
		s.events = 1
		return s
	}
	s.pageviews, s.entryAt, s.exitAt, s.entryPath, s.exitPath = 1, e.at, e.at, e.path, e.path
	return s
}

// join adds what arrived later, whenever it happened. Of events of one instant
// the one that arrived first is first and the one that arrived last is last.
func (s summary) join(arrivedLater summary) summary {
	n := arrivedLater
	if n.started.Before(s.started) {
		s.started, s.origin = n.started, n.origin
	}
	if n.last.After(s.last) {
		s.last = n.last
	}
	if n.pageviews > 0 {
		if s.pageviews == 0 || n.entryAt.Before(s.entryAt) {
			s.entryAt, s.entryPath = n.entryAt, n.entryPath
		}
		if s.pageviews == 0 || !n.exitAt.Before(s.exitAt) {
			s.exitAt, s.exitPath = n.exitAt, n.exitPath
		}
	}
	s.pageviews += n.pageviews
	s.events += n.events
	return s
}

// segment is a run of one visitor's events in a batch, with no gap longer than a
// session's.
type segment struct {
	summary
	members []int // indices into the batch
}

// foldBatch gives the segments of each visitor in the batch, in order of time.
func foldBatch(batch []event, gap time.Duration) map[visitorDay][]segment {
	order := make([]int, len(batch))
	for i := range order {
		order[i] = i
	}
	// Stable: events of one instant stay in order of arrival.
	slices.SortStableFunc(order, func(a, b int) int { return batch[a].at.Compare(batch[b].at) })
	folded := make(map[visitorDay][]segment)
	for _, i := range order {
		e := batch[i]
		segments := folded[e.key]
		if n := len(segments); n > 0 && e.at.Sub(segments[n-1].last) <= gap {
			last := &segments[n-1]
			last.summary, last.members = last.join(summaryOf(e)), append(last.members, i)
			continue
		}
		folded[e.key] = append(segments, segment{summary: summaryOf(e), members: []int{i}})
	}
	return folded
}

// session is a stored session; id 0 is one that has yet to be numbered.
type session struct {
	id int64
	summary
}

// merged is a session as it is after a batch.
type merged struct {
	session
	changed  bool
	absorbed []session // stored ones that became part of it
	members  []int     // of the batch
}

// mergeSessions puts a visitor's segments among the stored sessions of that day.
// Both are in order of time. An event between two sessions may join them; the
// earlier one then stays.
func mergeSessions(stored []session, segments []segment, gap time.Duration) []merged {
	type part struct {
		summary
		arrival int
		stored  *session
		from    *segment
	}
	parts := make([]part, 0, len(stored)+len(segments))
	for i := range stored {
		parts = append(parts, part{summary: stored[i].summary, stored: &stored[i]})
	}
	for i := range segments {
		parts = append(parts, part{summary: segments[i].summary, arrival: 1, from: &segments[i]})
	}
	slices.SortStableFunc(parts, func(a, b part) int { return a.started.Compare(b.started) })

	var out []merged
	for len(parts) > 0 {
		end, n := parts[0].last, 1
		for ; n < len(parts) && parts[n].started.Sub(end) <= gap; n++ {
			if parts[n].last.After(end) {
				end = parts[n].last
			}
		}
		group := parts[:n]
		parts = parts[n:]
		// What is stored arrived before what is in the batch.
		slices.SortStableFunc(group, func(a, b part) int { return cmp.Compare(a.arrival, b.arrival) })
		m := merged{session: session{summary: group[0].summary}}
		for i, p := range group {
			if i > 0 {
				m.summary = m.join(p.summary)
			}
			switch {
			case p.from != nil:
				m.changed, m.members = true, append(m.members, p.from.members...)
			case m.id == 0:
				m.id = p.stored.id
			default:
				m.absorbed = append(m.absorbed, *p.stored)
			}
		}
		out = append(out, m)
	}
	return out
}
