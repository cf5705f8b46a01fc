// Package sse reads server-sent events (WHATWG HTML, section 9.2), as services of
// language models send them.
package sse

import (
	"bytes"
	"errors"
	"io"
)

// MaxEvent is the largest event, in bytes.
const MaxEvent = 4 << 20

// firstBuffer is how many bytes a reader begins with: many events, where they come faster
// than they are read.
const firstBuffer = 16 << 10

// ErrTooLarge says that an event is larger than MaxEvent.
var ErrTooLarge = errors.New("sse: an event is too large")

// Event is one with data.
type Event struct {
	// Name is its field event, "" for none.
	Name string
	// Data are its fields data, joined by line feeds. They are valid until the next call
	// of Next.
	Data []byte
}

// Reader reads a stream's events.
type Reader struct {
	from  io.Reader
	buf   []byte
	begin int // of what was not read yet
	end   int
	err   error // of from
	bom   bool  // whether the stream's beginning was looked at
	data  []byte
}

// NewReader reads from r.
func NewReader(r io.Reader) *Reader { return &Reader{from: r, buf: make([]byte, firstBuffer)} }

// Next returns the next event that has data. It returns io.EOF at the end of the stream,
// io.ErrUnexpectedEOF if that is in the middle of an event, ErrTooLarge, and errors of
// reading.
func (r *Reader) Next() (Event, error) {
	var e Event
	r.data = r.data[:0]
	hasData, inside := false, false
	for {
		line, err := r.line()
		if err != nil {
			if errors.Is(err, io.EOF) && (inside || len(line) > 0) {
				err = io.ErrUnexpectedEOF
			}
			return Event{}, err
		}
		if len(line) == 0 {
			if hasData {
				e.Data = r.data
				return e, nil
			}
			e, inside = Event{}, false
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			if hasData {
				r.data = append(r.data, '\n')
			}
			if len(r.data)+len(value) > MaxEvent {
				return Event{}, ErrTooLarge
			}
			r.data = append(r.data, value...)
			hasData, inside = true, true
		case "event":
			e.Name, inside = string(value), true
		}
	}
}

// More reports whether a whole event lies ready, so that Next would not wait.
func (r *Reader) More() bool {
	ready := r.buf[r.begin:r.end]
	return bytes.Contains(ready, []byte("\n\n")) || bytes.Contains(ready, []byte("\n\r\n"))
}

// line returns the next line without its end: CR, LF or both. It is valid until the next
// call. At the end of the stream it returns what came after the last line, and the error.
func (r *Reader) line() ([]byte, error) {
	searched := 0
	for {
		rest := r.buf[r.begin:r.end]
		if i := lineEnd(rest[searched:]); i >= 0 {
			i += searched
			// A CR at the end of what came may be half of a line's end.
			if rest[i] == '\n' || i+1 < len(rest) || r.err != nil {
				return r.take(rest, i), nil
			}
			searched = i
		} else {
			searched = len(rest)
		}
		if r.err != nil {
			r.begin = r.end
			return rest, r.err
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// lineEnd is where the first CR or LF is, -1 where there is none.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// take takes a line of i bytes, and its end.
func (r *Reader) take(rest []byte, i int) []byte {
	n := i + 1
	if rest[i] == '\r' && n < len(rest) && rest[n] == '\n' {
		n++
	}
	r.begin += n
	line := rest[:i]
	if !r.bom {
		r.bom = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return line
}

// fill reads more, once. Its error is that the event is too large; that of reading is
// kept until what came before it was read.
func (r *Reader) fill() error {
	if r.begin > 0 {
		copy(r.buf, r.buf[r.begin:r.end])
		r.end -= r.begin
		r.begin = 0
	}
	if r.end == len(r.buf) {
		if len(r.buf) >= MaxEvent {
			return ErrTooLarge
		}
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	n, err := r.from.Read(r.buf[r.end:])
	r.end += n
	if err != nil {
		r.err = err
	}
	return nil
}
