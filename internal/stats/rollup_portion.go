package stats

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/session"
)

// countKey names a list of counts of a day.
type countKey struct {
	dimension Dimension
	part      int64
}

// portion is what visitors add to the rollups of their day, or the difference of
// two such.
type portion struct {
	first, last time.Time // of the events; zero without any
	traffic     Traffic
	sessions    SessionTotals
	hours       map[int64]Traffic // by the microsecond of the Unix epoch at which the hour starts
	counts      map[countKey][]labelCount
	orders      map[Dimension]storedOrder // of an open day with many labels: see rollup_order.go
}

func newPortion() portion {
	return portion{hours: make(map[int64]Traffic), counts: make(map[countKey][]labelCount), orders: make(map[Dimension]storedOrder)}
}

// add puts q, times sign, to p. The counts are no longer in order.
func (p *portion) add(q portion, sign int64) {
	if sign > 0 && !q.first.IsZero() {
		if p.first.IsZero() || q.first.Before(p.first) {
			p.first = q.first
		}
		p.last = calendar.Later(p.last, q.last)
	}
	p.traffic = p.traffic.plus(q.traffic, sign)
	p.sessions = p.sessions.plus(q.sessions, sign)
	for start, t := range q.hours {
		p.hours[start] = p.hours[start].plus(t, sign)
	}
	for key, counts := range q.counts {
		for _, c := range counts {
			p.counts[key] = append(p.counts[key], labelCount{label: c.label, visitors: sign * c.visitors, pageviews: sign * c.pageviews})
		}
	}
}

func (t Traffic) plus(u Traffic, sign int64) Traffic {
	return Traffic{Pageviews: t.Pageviews + sign*u.Pageviews, Visitors: t.Visitors + sign*u.Visitors}
}

func (s SessionTotals) plus(u SessionTotals, sign int64) SessionTotals {
	return SessionTotals{Sessions: s.Sessions + sign*u.Sessions, Bounces: s.Bounces + sign*u.Bounces, Micros: s.Micros + sign*u.Micros}
}

// rawKey names a label before it has an id.
type rawKey struct {
	dimension Dimension
	event     string // the event's name, of dimension prop
	label     labelText
}

// rawPortion is a visitor's portion before its labels have ids.
type rawPortion struct {
	portion                  // without counts
	views   map[rawKey]int64 // pageviews, or the count of an event or a property
	visits  []rawVisit
}

// newRawPortion counts what a visitor did on a day, whose hours start at hours.
func newRawPortion(visits []rawVisit, hours []time.Time) *rawPortion {
	r := &rawPortion{portion: portion{hours: make(map[int64]Traffic)}, views: make(map[rawKey]int64), visits: visits}
	for _, v := range visits {
		r.addSession(v.Session)
		for _, e := range v.events {
			r.addEvent(e, hours)
		}
	}
	return r
}

func (r *rawPortion) addSession(s session.Session) {
	r.sessions.Sessions++
	if s.Pageviews == 1 && s.Events == 0 {
		r.sessions.Bounces++
	}
	r.sessions.Micros += s.Last.Sub(s.Started).Microseconds()
	for _, d := range dimensionTable {
		switch {
		case d.of != ofSessions || !d.ranked:
		case d.perSession:
			r.addLabel(d.name, d.session(s), 1)
		default:
			r.addLabel(d.name, d.session(s), int64(s.Pageviews))
		}
	}
}

func (r *rawPortion) addLabel(d Dimension, label string, views int64) {
	if label != "" {
		r.views[rawKey{dimension: d, label: labelText{label: label}}] += views
	}
}

func (r *rawPortion) addEvent(e rawEvent, hours []time.Time) {
	if r.first.IsZero() || e.at.Before(r.first) {
		r.first = e.at
	}
	r.last = calendar.Later(r.last, e.at)
	r.traffic.Visitors = 1
	start := hourOf(e.at, hours)
	hour := r.hours[start]
	hour.Visitors = 1
	if e.Name == nil {
		r.traffic.Pageviews++
		hour.Pageviews++
		r.addLabel(ByPage, e.Path, 1)
	} else {
		r.views[rawKey{dimension: byEvent, label: labelText{label: *e.Name}}]++
		for key, value := range e.props {
			r.views[rawKey{dimension: byProp, event: *e.Name, label: labelText{label: key, value: value}}]++
		}
	}
	r.hours[start] = hour
}

// hourOf returns the start of the hour that holds t, as portion.hours has it.
func hourOf(t time.Time, hours []time.Time) int64 {
	i, exact := slices.BinarySearchFunc(hours, t, time.Time.Compare)
	if !exact {
		i--
	}
	return hours[max(i, 0)].UnixMicro()
}

// texts are all labels of r and of its visits, and the names of its events.
func (r *rawPortion) texts(into []labelText) []labelText {
	for key := range r.views {
		into = append(into, key.label)
	}
	for _, v := range r.visits {
		into = v.texts(into)
	}
	return into // a property's event is itself counted, by name
}

// resolve gives r's labels the ids that d knows.
func (r *rawPortion) resolve(d *dictionary) portion {
	p := r.portion
	p.counts = make(map[countKey][]labelCount)
	for key, views := range r.views {
		list, c := countKey{dimension: key.dimension}, labelCount{visitors: 1, pageviews: views}
		if key.dimension == byProp {
			list.part, c.visitors = d.ids[labelText{label: key.event}], 0
		}
		if c.label = d.ids[key.label]; hasCap(key.dimension) && key.label.label == other {
			c.label = otherID
		}
		p.counts[list] = append(p.counts[list], c)
	}
	return p
}

// hasCap reports whether labels beyond the cap, and any that reads (other), are
// one row.
func hasCap(d Dimension) bool { return d != byProp }

// siteDay is a day with what its rollups are made by.
type siteDay struct {
	calendar.Day
	zone *time.Location
}

// loadPortions counts some visitors' whole day anew, from sessions and events.
func loadPortions(ctx context.Context, queries *dbsqlc.Queries, tx pgx.Tx, siteID uuid.UUID, day siteDay, visitors []int64) (map[int64]*rawPortion, error) {
	visits, err := loadVisits(ctx, queries, tx, siteID, day, visitors)
	if err != nil {
		return nil, err
	}
	hours := day.Day.Hours(day.zone)
	of := make(map[int64]*rawPortion, len(visitors))
	for _, v := range visitors {
		of[v] = newRawPortion(visits[v], hours)
	}
	return of, nil
}

// pack writes what a visitor's portion adds, so that it can be taken out again.
func (p *portion) pack() ([]byte, error) {
	b := binary.AppendVarint(nil, p.traffic.Pageviews)
	for _, n := range []int64{p.traffic.Visitors, p.sessions.Sessions, p.sessions.Bounces, p.sessions.Micros, int64(len(p.hours))} {
		b = binary.AppendVarint(b, n)
	}
	for start, t := range p.hours {
		b = binary.AppendVarint(b, start)
		b = binary.AppendVarint(b, t.Pageviews)
		b = binary.AppendVarint(b, t.Visitors)
	}
	for key, counts := range p.counts {
		packed, err := packCounts(sortCounts(slices.Clone(counts)))
		if err != nil {
			return nil, err
		}
		b = binary.AppendUvarint(b, uint64(len(key.dimension)))
		b = append(b, key.dimension...)
		b = binary.AppendVarint(b, key.part)
		b = binary.AppendUvarint(b, uint64(len(packed)))
		b = append(b, packed...)
	}
	return b, nil
}

// unpackPortion reads what pack wrote; first and last are not kept.
func unpackPortion(b []byte) (portion, error) {
	p, r := newPortion(), varints{b: b}
	p.traffic = Traffic{Pageviews: r.next(), Visitors: r.next()}
	p.sessions = SessionTotals{Sessions: r.next(), Bounces: r.next(), Micros: r.next()}
	for n := r.next(); n > 0 && r.err == nil; n-- {
		start := r.next()
		p.hours[start] = Traffic{Pageviews: r.next(), Visitors: r.next()}
	}
	for len(r.b) > 0 && r.err == nil {
		key := countKey{dimension: Dimension(r.bytes())}
		key.part = r.next()
		counts, err := unpackCounts(r.bytes())
		if err != nil {
			return portion{}, err
		}
		p.counts[key] = counts
	}
	return p, r.err
}

// varints reads numbers one after another; err stays once it is set.
type varints struct {
	b   []byte
	err error
}

func (r *varints) next() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.b, r.err = nil, errPacked
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *varints) bytes() []byte {
	size, n := binary.Uvarint(r.b)
	if n <= 0 || size > uint64(len(r.b)-n) {
		r.b, r.err = nil, errPacked
		return nil
	}
	out := r.b[n : n+int(size)]
	r.b = r.b[n+int(size):]
	return out
}
