package telemetry

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// packedVersion begins what pack returns. A reader leaves out what has another one: a
// newer program may write it while an older one still reads.
const packedVersion = 1

var errPacked = errors.New("telemetry: a minute's counts are damaged")

// errOtherVersion says that counts were packed by another version of the program.
var errOtherVersion = errors.New("telemetry: a minute's counts are of another version")

// maxName bounds the methods and routes that unpack reads, in bytes.
const maxName = 1024

// pack writes counts as they are stored: the version, the number of routes, and for
// each its method and route, the answers by class, the number of buckets that are not
// empty, and for each of those how many it lies behind the last and its count. All
// numbers are unsigned varints. A minute of a busy service takes some 2 KiB.
func pack(counts []RouteCounts) []byte {
	b := binary.AppendUvarint([]byte{packedVersion}, uint64(len(counts)))
	for _, c := range counts {
		for _, s := range []string{c.Method, c.Route} {
			b = binary.AppendUvarint(b, uint64(len(s)))
			b = append(b, s...)
		}
		for _, n := range c.Classes {
			b = binary.AppendUvarint(b, n)
		}
		filled := 0
		for _, n := range c.Durations {
			if n > 0 {
				filled++
			}
		}
		b = binary.AppendUvarint(b, uint64(filled))
		last := 0
		for i, n := range c.Durations {
			if n > 0 {
				b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(i-last)), n)
				last = i
			}
		}
	}
	return b
}

// packedRoute is what pack wrote of one route. It is a reader's until the next is read.
type packedRoute struct {
	// name are the bytes of method and route with their lengths, the same in each
	// minute.
	name          []byte
	method, route []byte
	classes       [6]uint64
	filled        []filledBucket
}

// filledBucket is a bucket that is not empty.
type filledBucket struct {
	index int
	count uint64
}

// requests is the number of requests.
func (p *packedRoute) requests() uint64 {
	var n uint64
	for _, b := range p.filled {
		n += b.count
	}
	return n
}

// unpack calls each with every route that pack wrote. It returns errOtherVersion, or an
// error about what is no pack's.
func unpack(b []byte, each func(*packedRoute)) error {
	if len(b) == 0 {
		return errPacked
	}
	if b[0] != packedVersion {
		return fmt.Errorf("%w: %d", errOtherVersion, b[0])
	}
	r := packedReader{rest: b[1:]}
	var p packedRoute
	for n := r.number(); n > 0 && r.err == nil; n-- {
		begin := r.rest
		p.method, p.route = r.name(), r.name()
		p.name = begin[:len(begin)-len(r.rest)]
		for i := range p.classes {
			p.classes[i] = r.number()
		}
		p.filled = p.filled[:0]
		at := uint64(0)
		for filled := r.number(); filled > 0 && r.err == nil; filled-- {
			if at += r.number(); at >= uint64(bucketCount) {
				return errPacked
			}
			p.filled = append(p.filled, filledBucket{int(at), r.number()})
		}
		if r.err == nil {
			each(&p)
		}
	}
	if r.err == nil && len(r.rest) > 0 {
		return errPacked
	}
	return r.err
}

// packedReader reads until the first error.
type packedReader struct {
	rest []byte
	err  error
}

func (r *packedReader) number() uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.err = errPacked
		return 0
	}
	r.rest = r.rest[n:]
	// Sums over many minutes stay far from overflowing.
	if v > 1<<48 {
		r.err = errPacked
		return 0
	}
	return v
}

func (r *packedReader) name() []byte {
	n := r.number()
	if r.err != nil || n > maxName || n > uint64(len(r.rest)) {
		r.err = errPacked
		return nil
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}
