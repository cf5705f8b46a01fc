package session

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"
)

// DefaultGap is the longest time between two events of one session.
const DefaultGap = 30 * time.Minute

// Event is what is stored of a visit, but for the session that it is given.
type Event struct {
	Key          Visitor
	At           time.Time
	Path         string
	Hostname     string // empty where it isn't known
	Name         string // empty for a pageview
	Props        []byte
	Origin       Origin
	ImportRun    int64  // the import that it came with, or 0
	PackedOrigin []byte // origin as it is stored with the event, when that is so already
}

// Visitor is a visitor: nobody outlives the site's day.
type Visitor struct {
	Site   uuid.UUID
	Day    time.Time
	Number int64
}

// summary is what a session keeps of its events.
type summary struct {
	Started, Last     time.Time
	Pageviews, Events int32 // events are the custom ones
	// Of the first and the last pageview; zero without any.
	entryAt, exitAt     time.Time
	EntryPath, ExitPath string
	Origin              Origin // of the first event
}

func summaryOf(e Event) summary {
	s := summary{Started: e.At, Last: e.At, Origin: e.Origin}
	if e.Name != "" {
		s.Events = 1
		return s
	}
	s.Pageviews, s.entryAt, s.exitAt, s.EntryPath, s.ExitPath = 1, e.At, e.At, e.Path, e.Path
	return s
}

// join adds what arrived later, whenever it happened. Of events of one instant
// the one that arrived first is first and the one that arrived last is last.
func (s summary) join(arrivedLater summary) summary {
	n := arrivedLater
	if n.Started.Before(s.Started) {
		s.Started, s.Origin = n.Started, n.Origin
	}
	if n.Last.After(s.Last) {
		s.Last = n.Last
	}
	if n.Pageviews > 0 {
		if s.Pageviews == 0 || n.entryAt.Before(s.entryAt) {
			s.entryAt, s.EntryPath = n.entryAt, n.EntryPath
		}
		if s.Pageviews == 0 || !n.exitAt.Before(s.exitAt) {
			s.exitAt, s.ExitPath = n.exitAt, n.ExitPath
		}
	}
	s.Pageviews += n.Pageviews
	s.Events += n.Events
	return s
}

// segment is a run of one visitor's events in a batch, with no gap longer than a
// session's.
type segment struct {
	summary
	members []int // indices into the batch
}

// foldBatch gives the segments of each visitor in the batch, in order of time.
func foldBatch(batch []Event, gap time.Duration) map[Visitor][]segment {
	order := make([]int, len(batch))
	for i := range order {
		order[i] = i
	}
	// Stable: events of one instant stay in order of arrival.
	slices.SortStableFunc(order, func(a, b int) int { return batch[a].At.Compare(batch[b].At) })
	folded := make(map[Visitor][]segment)
	for _, i := range order {
		e := batch[i]
		segments := folded[e.Key]
		if n := len(segments); n > 0 && e.At.Sub(segments[n-1].Last) <= gap {
			last := &segments[n-1]
			last.summary, last.members = last.join(summaryOf(e)), append(last.members, i)
			continue
		}
		folded[e.Key] = append(segments, segment{summary: summaryOf(e), members: []int{i}})
	}
	return folded
}

// Session is a stored session; id 0 is one that has yet to be numbered.
type Session struct {
	ID int64
	summary
}

// merged is a session as it is after a batch.
type merged struct {
	Session
	changed  bool
	absorbed []Session // stored ones that became part of it
	members  []int     // of the batch
}

// mergeSessions puts a visitor's segments among the stored sessions of that day.
// Both are in order of time. An event between two sessions may join them; the
// earlier one then stays.
func mergeSessions(stored []Session, segments []segment, gap time.Duration) []merged {
	type part struct {
		summary
		arrival int
		stored  *Session
		from    *segment
	}
	parts := make([]part, 0, len(stored)+len(segments))
	for i := range stored {
		parts = append(parts, part{summary: stored[i].summary, stored: &stored[i]})
	}
	for i := range segments {
		parts = append(parts, part{summary: segments[i].summary, arrival: 1, from: &segments[i]})
	}
	slices.SortStableFunc(parts, func(a, b part) int { return a.Started.Compare(b.Started) })

	var out []merged
	for len(parts) > 0 {
		end, n := parts[0].Last, 1
		for ; n < len(parts) && parts[n].Started.Sub(end) <= gap; n++ {
			if parts[n].Last.After(end) {
				end = parts[n].Last
			}
		}
		group := parts[:n]
		parts = parts[n:]
		// What is stored arrived before what is in the batch.
		slices.SortStableFunc(group, func(a, b part) int { return cmp.Compare(a.arrival, b.arrival) })
		m := merged{Session: Session{summary: group[0].summary}}
		for i, p := range group {
			if i > 0 {
				m.summary = m.join(p.summary)
			}
			switch {
			case p.from != nil:
				m.changed, m.members = true, append(m.members, p.from.members...)
			case m.ID == 0:
				m.ID = p.stored.ID
			default:
				m.absorbed = append(m.absorbed, *p.stored)
			}
		}
		out = append(out, m)
	}
	return out
}
