package columns

import "encoding/binary"

// AppendVisitor writes a visitor's sessions, whose label ids are all of the site's
// dictionary.
func (s Schema) AppendVisitor(to []byte, sessions []Session) []byte {
	to = binary.AppendUvarint(to, uint64(len(s.Sessions)))
	to = binary.AppendUvarint(to, uint64(len(s.Events)))
	for _, one := range sessions {
		to = binary.AppendUvarint(to, uint64(one.At))
		to = binary.AppendUvarint(to, uint64(one.Micros))
		to = appendIDs(to, one.Labels)
		to = binary.AppendUvarint(to, uint64(len(one.Events)))
		before := one.At
		for _, e := range one.Events {
			to = binary.AppendUvarint(to, uint64(e.At-before))
			before = e.At
			to = appendIDs(to, e.Labels)
			to = binary.AppendUvarint(to, uint64(len(e.Props)))
			to = appendIDs(to, e.Props)
		}
	}
	return to
}

func appendIDs(to []byte, ids []int64) []byte {
	for _, id := range ids {
		to = binary.AppendUvarint(to, uint64(id))
	}
	return to
}

// Visitors reads what AppendVisitor wrote. What it returns holds until it is called again.
type Visitors struct {
	schema   Schema
	sessions []Session
	events   []Event
	ids      []int64
}

// NewVisitors makes a Visitors.
func NewVisitors(s Schema) *Visitors { return &Visitors{schema: s} }

// Read returns a visitor's sessions. A program with fewer columns wrote none of the others.
func (v *Visitors) Read(b []byte) ([]Session, error) {
	r := reader{b: b}
	ofSession, ofEvent := int(r.next()), int(r.next())
	if ofSession > len(v.schema.Sessions) || ofEvent > len(v.schema.Events) {
		return nil, ErrDamaged
	}
	v.sessions, v.events, v.ids = v.sessions[:0], v.events[:0], v.ids[:0]
	for len(r.b) > 0 && !r.failed {
		s := Session{At: int64(r.next()), Micros: int64(r.next()), Labels: v.read(&r, ofSession, len(v.schema.Sessions))}
		first, at := len(v.events), s.At
		for n := r.next(); n > 0 && !r.failed; n-- {
			at += int64(r.next())
			e := Event{At: at, Labels: v.read(&r, ofEvent, len(v.schema.Events))}
			props := int(min(r.next(), uint64(len(r.b))))
			e.Props = v.read(&r, props, props)
			v.events = append(v.events, e)
		}
		s.Events = v.events[first:]
		v.sessions = append(v.sessions, s)
	}
	if r.failed {
		return nil, ErrDamaged
	}
	return v.sessions, nil
}

func (v *Visitors) read(r *reader, n, of int) []int64 {
	first := len(v.ids)
	for i := range of {
		id := int64(0)
		if i < n {
			id = int64(r.next())
		}
		v.ids = append(v.ids, id)
	}
	return v.ids[first:]
}
