package columns

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Wanted says which parts of blocks a question needs.
type Wanted struct {
	Labels               []bool // by column
	Micros, Times, Props bool
}

// Parts are the names of what is wanted, in an order in which Decode takes them: that of
// the sessions, which every block has, then those that are named first, then the others.
func (s Schema) Parts(w Wanted, first []string) []string {
	parts := append([]string{partSessions}, first...)
	for _, p := range []struct {
		name   string
		wanted bool
	}{{partMicros, w.Micros}, {partTimes, w.Times}, {PartProps, w.Props}} {
		if p.wanted && !slices.Contains(first, p.name) {
			parts = append(parts, p.name)
		}
	}
	for i, wanted := range w.Labels {
		if wanted && !slices.Contains(first, s.Name(i)) {
			parts = append(parts, s.Name(i))
		}
	}
	return parts
}

// Decode reads a part of a block that Encode wrote into b; the parts of a block come in
// the order of Parts. know gives the id of a text that is stored itself.
func (s Schema) Decode(b *Block, name string, part []byte, know func(Text) int64) error {
	r := reader{b: part}
	switch name {
	case partSessions:
		b.readSessions(&r)
	case partMicros:
		b.Micros = r.numbers(b.Micros, len(b.New), false)
	case partTimes:
		b.readTimes(&r)
	default:
		var err error
		if b.dict, r.b, err = Dict(b.dict[:0], part, know); err != nil {
			return err
		}
		return s.DecodeCodes(b, name, b.dict, r.b)
	}
	if r.failed {
		return ErrDamaged
	}
	return nil
}

// DecodeCodes is Decode for a part of which Dict has returned the dictionary, which is
// copied, and the codes.
func (s Schema) DecodeCodes(b *Block, name string, dict []int64, codes []byte) error {
	r := reader{b: codes}
	if name == PartProps {
		b.Props.Dict = append(b.Props.Dict[:0], dict...)
		b.Props.read(&r)
	}
	for i := range b.Labels {
		if s.Name(i) != name {
			continue
		}
		n := len(b.New)
		if i >= len(s.Sessions) {
			n = b.events
		}
		b.Labels[i].Dict = append(b.Labels[i].Dict[:0], dict...)
		b.Labels[i].read(&r, n)
	}
	if r.failed {
		return ErrDamaged
	}
	return nil
}

// Complete fills in the columns that are wanted and were not stored: nothing has a text.
func (s Schema) Complete(b *Block, w Wanted) {
	for i, wanted := range w.Labels {
		c := &b.Labels[i]
		if !wanted || len(c.Dict) > 0 {
			continue
		}
		n := len(b.New)
		if i >= len(s.Sessions) {
			n = b.events
		}
		c.Dict = append(c.Dict, 0)
		c.fill(n, 0)
	}
}

func (c *Column) fill(n int, code uint32) {
	if cap(c.Codes) < n {
		c.Codes = make([]uint32, n)
	}
	c.Codes = c.Codes[:n]
	for i := range c.Codes {
		c.Codes[i] = code
	}
}

// maxEvents is more than any block has.
const maxEvents = 1 << 26

func (b *Block) readSessions(r *reader) {
	n := len(r.b) / 2
	b.New, b.Views, b.Customs = slices.Grow(b.New, n), slices.Grow(b.Views, n), slices.Grow(b.Customs, n)
	isNew, views, customs, i, events := b.New[:n], b.Views[:n], b.Customs[:n], 0, 0
	for part := r.b; len(part) > 1; i++ {
		v, c := uint64(part[0]), uint64(part[1])
		if v|c < 0x80 {
			part = part[2:]
		} else {
			r.b = part
			v, c = r.next(), r.next()
			part = r.b
			if r.failed || v > maxEvents || c > maxEvents {
				r.failed = true
				return
			}
		}
		isNew[i], views[i], customs[i] = v&1 == 1, uint32(v>>1), uint32(c)
		if events += int(v>>1 + c); events > maxEvents {
			r.failed = true
			return
		}
		r.b = part
	}
	r.failed = r.failed || len(r.b) > 0
	b.New, b.Views, b.Customs, b.events = isNew[:i], views[:i], customs[:i], events
}

func (b *Block) readTimes(r *reader) {
	for i := range b.New {
		at := int64(r.next())
		b.Starts = append(b.Starts, at)
		for range b.Views[i] + b.Customs[i] {
			at += int64(r.next())
			b.At = append(b.At, at)
			if r.failed {
				return
			}
		}
	}
}

func (c *Column) read(r *reader, n int) {
	width := int(r.one())
	if width == 0 {
		code := uint32(r.next())
		if r.failed || int(code) >= len(c.Dict) {
			r.failed = true
			return
		}
		c.fill(n, code)
		return
	}
	if len(r.b) != n*width {
		r.failed = true
		return
	}
	if cap(c.Codes) < n {
		c.Codes = make([]uint32, n)
	}
	c.Codes = c.Codes[:n]
	largest := uint32(0)
	switch width {
	case 1:
		largest = widen(c.Codes, r.b)
	case 2:
		largest = widenPairs(c.Codes, r.b)
	case 4:
		for i := range c.Codes {
			code := binary.LittleEndian.Uint32(r.b[4*i:])
			c.Codes[i] = code
			largest = max(largest, code)
		}
	default:
		r.failed = true
	}
	r.failed = r.failed || int(largest) >= len(c.Dict)
}

// widen copies codes of one byte each and returns the largest. It looks at four at a
// time, each of which has a maximum of its own, so that none waits for another.
func widen(to []uint32, from []byte) uint32 {
	var a, b, c, d uint32
	to = to[:len(from)]
	for len(from) >= 4 && len(to) >= 4 {
		w, x, y, z := uint32(from[0]), uint32(from[1]), uint32(from[2]), uint32(from[3])
		to[0], to[1], to[2], to[3] = w, x, y, z
		a, b, c, d = max(a, w), max(b, x), max(c, y), max(d, z)
		to, from = to[4:], from[4:]
	}
	for i, code := range from {
		to[i] = uint32(code)
		a = max(a, uint32(code))
	}
	return max(a, b, c, d)
}

// widenPairs is widen for codes of two bytes, the low one first.
func widenPairs(to []uint32, from []byte) uint32 {
	var a, b uint32
	for len(from) >= 4 && len(to) >= 2 {
		both := binary.LittleEndian.Uint32(from)
		low, high := both&0xffff, both>>16
		to[0], to[1] = low, high
		a, b = max(a, low), max(b, high)
		to, from = to[2:], from[4:]
	}
	if len(to) > 0 && len(from) > 1 {
		to[0] = uint32(binary.LittleEndian.Uint16(from))
		a = max(a, to[0])
	}
	return max(a, b)
}

// Dict appends the dictionary of a column of texts, or of properties, and returns it with
// the rest of the part.
func Dict(to []int64, part []byte, know func(Text) int64) (dict []int64, codes []byte, err error) {
	r := reader{b: part}
	if dict = r.dict(to, know); r.failed {
		return nil, nil, ErrDamaged
	}
	return dict, r.b, nil
}

func (p *Props) read(r *reader) {
	at := 0
	for len(r.b) > 0 && !r.failed {
		at += int(r.next())
		for n := r.next(); n > 0 && !r.failed; n-- {
			code := r.next()
			if code >= uint64(len(p.Dict)) {
				r.failed = true
				return
			}
			p.Codes = append(p.Codes, uint32(code))
		}
		p.At, p.Ends = append(p.At, at), append(p.Ends, len(p.Codes))
	}
}

// reader reads numbers one after another; failed stays once it is set.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) next() uint64 {
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := uint64(r.b[0])
		r.b = r.b[1:]
		return v
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > 1<<62 {
		r.b, r.failed = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// numbers appends n of them; those that end with a 0, if untilZero.
func (r *reader) numbers(to []int64, n int, untilZero bool) []int64 {
	first := len(to)
	to = slices.Grow(to, n)[:first+n]
	out, b := to[first:], r.b
	for i := range out {
		if len(b) < 8 {
			r.b = b
			out[i] = int64(r.next())
			b = r.b
		} else {
			// A number ends with its first byte below 0x80. All of its bytes are looked at at
			// once, since how long numbers are can't be foretold.
			x := binary.LittleEndian.Uint64(b)
			ends := ^x & 0x8080808080808080
			if ends == 0 {
				r.b = b
				out[i] = int64(r.next())
				b = r.b
				continue
			}
			b = b[(bits.TrailingZeros64(ends)+1)/8:]
			x &= ends ^ (ends - 1) // up to the bit that ends it, which is 0
			x = x&0x007f007f007f007f | x>>1&0x3f803f803f803f80
			x = x&0x00003fff00003fff | x>>2&0x0fffc0000fffc000
			out[i] = int64(x&0x0fffffff | x>>4&0xfffffff0000000)
		}
		if r.failed || untilZero && out[i] == 0 {
			r.b = b
			return to[:first+i+1]
		}
	}
	r.b = b
	return to
}

func (r *reader) one() byte {
	if len(r.b) == 0 {
		r.failed = true
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) text() string {
	n := r.next()
	if n > uint64(len(r.b)) {
		r.b, r.failed = nil, true
		return ""
	}
	out := string(r.b[:n])
	r.b = r.b[n:]
	return out
}

func (r *reader) dict(dict []int64, know func(Text) int64) []int64 {
	n := r.next()
	if n == 0 || n > uint64(len(r.b))+1 {
		r.failed = true
		return dict
	}
	dict = append(dict, 0)
	for end := len(dict) + int(n) - 1; len(dict) < end && !r.failed; {
		dict = r.numbers(dict, end-len(dict), true)
		if last := len(dict) - 1; dict[last] == 0 && !r.failed {
			dict[last] = know(Text{Label: r.text(), Value: r.text()})
		}
	}
	return dict
}
