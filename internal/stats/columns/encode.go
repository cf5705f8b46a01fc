package columns

import (
	"encoding/binary"
	"slices"
)

// The parts of a block that are no columns of texts. partSessions comes before all others.
const (
	partSessions = "_"       // per session: pageviews and whether the visitor is new, custom events
	partMicros   = "_micros" // per session
	partTimes    = "_times"  // per session its start, per event the distance to the one before
	// PartProps is that of properties.
	PartProps = "_props"
)

// Text is a label id's text, of a property its key and value.
type Text struct{ Label, Value string }

// Encode writes a block that holds everything, as its parts by name. text is that of a
// negative id, which is stored itself. A column without a text is left out.
func (s Schema) Encode(b *Block, text func(id int64) Text) map[string][]byte {
	parts := map[string][]byte{partSessions: b.appendSessions(nil), partMicros: b.appendMicros(nil), partTimes: b.appendTimes(nil)}
	for i, c := range b.Labels {
		if len(c.Dict) > 1 {
			parts[s.Name(i)] = c.append(nil, text)
		}
	}
	if len(b.Props.At) > 0 {
		parts[PartProps] = b.Props.append(nil, text)
	}
	return parts
}

func (b *Block) appendSessions(to []byte) []byte {
	for i, views := range b.Views {
		first := uint64(0)
		if b.New[i] {
			first = 1
		}
		to = binary.AppendUvarint(to, uint64(views)<<1|first)
		to = binary.AppendUvarint(to, uint64(b.Customs[i]))
	}
	return to
}

func (b *Block) appendMicros(to []byte) []byte {
	for _, m := range b.Micros {
		to = binary.AppendUvarint(to, uint64(m))
	}
	return to
}

func (b *Block) appendTimes(to []byte) []byte {
	e := 0
	for i, start := range b.Starts {
		to = binary.AppendUvarint(to, uint64(start))
		before := start
		for range b.Views[i] + b.Customs[i] {
			to = binary.AppendUvarint(to, uint64(b.At[e]-before))
			before = b.At[e]
			e++
		}
	}
	return to
}

// append writes the dictionary, and each code in as many bytes as the largest takes: 1,
// 2, 4, or none at all when all are the same.
func (c Column) append(to []byte, text func(int64) Text) []byte {
	to = appendDict(to, c.Dict, text)
	width := byte(4)
	switch n := len(c.Dict); {
	case !slices.ContainsFunc(c.Codes, func(code uint32) bool { return code != c.Codes[0] }):
		return binary.AppendUvarint(append(to, 0), uint64(c.Codes[0]))
	case n <= 1<<8:
		width = 1
	case n <= 1<<16:
		width = 2
	}
	to = append(to, width)
	for _, code := range c.Codes {
		switch width {
		case 1:
			to = append(to, byte(code))
		case 2:
			to = binary.LittleEndian.AppendUint16(to, uint16(code))
		default:
			to = binary.LittleEndian.AppendUint32(to, code)
		}
	}
	return to
}

func appendDict(to []byte, dict []int64, text func(int64) Text) []byte {
	to = binary.AppendUvarint(to, uint64(len(dict)))
	for _, id := range dict[1:] {
		if id > 0 {
			to = binary.AppendUvarint(to, uint64(id))
			continue
		}
		t := text(id)
		to = binary.AppendUvarint(to, 0)
		to = append(binary.AppendUvarint(to, uint64(len(t.Label))), t.Label...)
		to = append(binary.AppendUvarint(to, uint64(len(t.Value))), t.Value...)
	}
	return to
}

func (p Props) append(to []byte, text func(int64) Text) []byte {
	to = appendDict(to, p.Dict, text)
	before, from := 0, 0
	for i, at := range p.At {
		to = binary.AppendUvarint(to, uint64(at-before))
		to = binary.AppendUvarint(to, uint64(p.Ends[i]-from))
		for _, code := range p.Codes[from:p.Ends[i]] {
			to = binary.AppendUvarint(to, uint64(code))
		}
		before, from = at, p.Ends[i]
	}
	return to
}
