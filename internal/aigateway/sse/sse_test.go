package sse_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/aigateway/sse"
)

type event struct{ Name, Data string }

func all(r io.Reader) ([]event, error) {
	var list []event
	s := sse.NewReader(r)
	for {
		e, err := s.Next()
		if err != nil {
			return list, err
		}
		list = append(list, event{e.Name, string(e.Data)})
	}
}

func TestEventsAreReadAsTheyAreSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   string
		want []event
		err  error
	}{
		"empty":                  {"", nil, io.EOF},
		"one":                    {"data: a\n\n", []event{{"", "a"}}, io.EOF},
		"no space":               {"data:a\n\n", []event{{"", "a"}}, io.EOF},
		"two spaces":             {"data:  a\n\n", []event{{"", " a"}}, io.EOF},
		"carriage returns":       {"data: a\r\n\r\ndata: b\r\r", []event{{"", "a"}, {"", "b"}}, io.EOF},
		"named":                  {"event: ping\ndata: {}\n\n", []event{{"ping", "{}"}}, io.EOF},
		"several lines":          {"data: a\ndata\ndata: b\n\n", []event{{"", "a\n\nb"}}, io.EOF},
		"comments":               {": keep-alive\n\ndata: a\n:x\nid: 1\nretry: 3\n\n", []event{{"", "a"}}, io.EOF},
		"without data":           {"event: x\n\ndata: a\n\n", []event{{"", "a"}}, io.EOF},
		"byte order mark":        {"\xef\xbb\xbfdata: a\n\n", []event{{"", "a"}}, io.EOF},
		"cut in a line":          {"data: a\n\ndata: b", []event{{"", "a"}}, io.ErrUnexpectedEOF},
		"cut before the end":     {"data: a\n\ndata: b\n", []event{{"", "a"}}, io.ErrUnexpectedEOF},
		"larger than the buffer": {"data: " + strings.Repeat("x", 20_000) + "\n\n", []event{{"", strings.Repeat("x", 20_000)}}, io.EOF},
		"too large":              {"data: " + strings.Repeat("x", sse.MaxEvent+1) + "\n\n", nil, sse.ErrTooLarge},
		"too large in all":       {strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 5) + "\n", nil, sse.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range []io.Reader{strings.NewReader(c.in), iotest.HalfReader(strings.NewReader(c.in)), iotest.DataErrReader(strings.NewReader(c.in))} {
				got, err := all(r)
				if diff := cmp.Diff(c.want, got); diff != "" || !errors.Is(err, c.err) {
					t.Errorf("%v\n%s", err, diff)
				}
			}
			if len(c.in) < 1000 {
				if got, err := all(iotest.OneByteReader(strings.NewReader(c.in))); !cmp.Equal(got, c.want) || !errors.Is(err, c.err) {
					t.Errorf("byte by byte: %v, %v", got, err)
				}
			}
		})
	}
}

func TestMoreSaysThatNextWillNotWait(t *testing.T) {
	t.Parallel()
	from, to := io.Pipe()
	s := sse.NewReader(from)
	go func() { _, _ = to.Write([]byte("data: a\n\ndata: b\n\ndata: c\n")) }()
	for i, more := range []bool{true, false} {
		if _, err := s.Next(); err != nil || s.More() != more {
			t.Errorf("event %d: %v, more: %t", i, err, s.More())
		}
	}
}

// FuzzReader: however the bytes are cut, the events are the same, and writing them again
// gives the same events.
func FuzzReader(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "event: x\r\ndata: a\r\rdata:b\n\n", ": c\n\ndata", "\xef\xbb\xbfdata\n\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		whole, err := all(strings.NewReader(in))
		pieces, err2 := all(iotest.OneByteReader(strings.NewReader(in)))
		if !cmp.Equal(whole, pieces) || !errors.Is(err2, err) {
			t.Fatalf("at once %q, %v; byte by byte %q, %v", whole, err, pieces, err2)
		}
		var out strings.Builder
		for _, e := range whole {
			if e.Name != "" {
				out.WriteString("event: " + e.Name + "\n")
			}
			for line := range strings.SplitSeq(e.Data, "\n") {
				out.WriteString("data: " + line + "\n")
			}
			out.WriteString("\n")
		}
		if again, err := all(strings.NewReader(out.String())); !cmp.Equal(again, whole) || !errors.Is(err, io.EOF) {
			t.Fatalf("%q became %q, %v", whole, again, err)
		}
	})
}
