package imports

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/stats/accesslog"
)

// sampleLines is how many lines that are not blank are looked at before anything is
// stored.
const sampleLines = 100

// CodeImportFormat is the code of a file whose lines are not in the format asked for.
const CodeImportFormat = "import_format"

// countedReader counts the bytes of a file.
type countedReader struct {
	r io.Reader
	n atomic.Int64
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// unpacked returns what is in a file: of one that is compressed with gzip (RFC 1952) its
// contents, of any number of members. Other compressions are a fault of kind Invalid.
func unpacked(r io.Reader) (content io.Reader, packed bool, err error) {
	b := bufio.NewReader(r)
	head, _ := b.Peek(6) // a shorter file is none of these
	for magic, name := range map[string]string{"BZh": "bzip2", "PK\x03\x04": "zip", "\x28\xb5\x2f\xfd": "zstd", "\xfd7zXZ\x00": "xz"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return nil, false, fault.New(fault.Invalid, CodeImportFormat,
				"The file is compressed with "+name+". Unpack it first, or pipe it in: gzip is the only compression that is read.")
		}
	}
	if !bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		return b, false, nil
	}
	content, err = gzip.NewReader(b)
	if err != nil {
		return nil, true, fmt.Errorf("stats: import: %w", err)
	}
	return content, true, nil
}

// reads reports whether a line is in format f. A line of a combined log is none of a
// common one: there are agents in it that would not be told from people.
func reads(line []byte, f Format) bool {
	if f == NDJSON {
		return json.Valid(line) && bytes.HasPrefix(bytes.TrimSpace(line), []byte("{"))
	}
	_, combined := accesslog.Parse(string(line), accesslog.Combined)
	if f == Combined {
		return combined == nil
	}
	_, common := accesslog.Parse(string(line), accesslog.Common)
	return common == nil && combined != nil
}

// sample reads ahead, and returns an error unless one of the first lines is in format f,
// or there is none. The lines come again from next.
func (l *lineReader) sample(f Format) error {
	var seen [][]byte
	var ahead []readLine
	defer func() { l.ahead = ahead }()
	for len(seen) < sampleLines {
		line, size, tooLong, err := l.next()
		line = bytes.Clone(line)
		ahead = append(ahead, readLine{line, size, tooLong, err})
		switch {
		case err == nil && !tooLong && len(bytes.TrimSpace(line)) == 0:
			continue
		case err == nil && reads(line, f):
			return nil
		case err == nil:
			seen = append(seen, line)
			continue
		}
		// The end, or what next will return again.
		if len(seen) == 0 || !errors.Is(err, io.EOF) {
			return nil
		}
		break
	}
	if len(seen) == 0 {
		return nil
	}
	return wrongFormat(seen, f)
}

// wrongFormat says which format the lines have.
func wrongFormat(lines [][]byte, f Format) error {
	for _, other := range []Format{Combined, Common, NDJSON} {
		for _, line := range lines {
			if other != f && reads(line, other) {
				return fault.New(fault.Invalid, CodeImportFormat,
					fmt.Sprintf("This is no file of format %s: it looks like %s. Nothing was imported; try --format %s.", f, other, other))
			}
		}
	}
	return fault.New(fault.Invalid, CodeImportFormat,
		fmt.Sprintf("None of the first %d lines is of format %s, nor of another one that can be read (combined, common, ndjson). Nothing was imported.", len(lines), f))
}
