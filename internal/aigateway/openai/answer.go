package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Errors of what an upstream answers. None quotes it.
var (
	// ErrMalformed says that an answer is none of this API's.
	ErrMalformed = errors.New("openai: malformed answer")
	// ErrReported says that an answer is the upstream's report of an error.
	ErrReported = errors.New("openai: the upstream reports an error")
)

// MaxTokens is the largest number of tokens that is believed of one call.
const MaxTokens = 100_000_000

// Stated is what an upstream says was used; -1 for what it doesn't say.
type Stated struct{ Input, Output int64 }

// Nothing is what it says that says nothing.
func Nothing() Stated { return Stated{-1, -1} }

// Merge is s with what later says.
func (s Stated) Merge(later Stated) Stated {
	if later.Input >= 0 {
		s.Input = later.Input
	}
	if later.Output >= 0 {
		s.Output = later.Output
	}
	return s
}

// usage reads the member of that name.
func usage(v jsontext.Value) Stated {
	var u struct {
		Prompt     *int64 `json:"prompt_tokens"`
		Completion *int64 `json:"completion_tokens"`
	}
	out := Nothing()
	if json.Unmarshal(v, &u) != nil {
		return out
	}
	if u.Prompt != nil && *u.Prompt >= 0 && *u.Prompt <= MaxTokens {
		out.Input = *u.Prompt
	}
	if u.Completion != nil && *u.Completion >= 0 && *u.Completion <= MaxTokens {
		out.Output = *u.Completion
	}
	return out
}

// Contents is what was found in an answer or in a chunk of one.
type Contents struct {
	Stated Stated
	// Usage says that there is a member usage that is not null.
	Usage bool
	// Choices says that there are choices, Text how many bytes of text they have.
	Choices bool
	Text    int64
}

// Scanner reads answers. The zero value is ready; one reads one after the other.
type Scanner struct {
	buf bytes.Buffer
	d   jsontext.Decoder
	// The chunk that was read last is before, a piece of text, and after: most chunks of a
	// stream differ in nothing else. Both are nil where that can't be said.
	before, after []byte
	seen          Contents // what is in it without that text
}

// Scan reads an answer, or a chunk of a stream, which is as it was sent otherwise. It
// returns ErrMalformed or ErrReported.
func (s *Scanner) Scan(data []byte) (Contents, error) {
	if text, alike := s.alike(data); alike {
		c := s.seen
		c.Text += int64(len(text))
		return c, nil
	}
	c, err := s.read(data)
	s.remember(data, c, err)
	return c, err
}

// alike returns the text of a chunk that differs from the last one in that alone.
func (s *Scanner) alike(data []byte) ([]byte, bool) {
	if s.before == nil || len(data) < len(s.before)+len(s.after) || !bytes.HasPrefix(data, s.before) || !bytes.HasSuffix(data, s.after) {
		return nil, false
	}
	text := data[len(s.before) : len(data)-len(s.after)]
	return text, isPlain(text)
}

// isPlain reports whether a text is a JSON string's inside, without escapes.
func isPlain(text []byte) bool {
	for _, b := range text {
		if b < ' ' || b == '"' || b == '\\' {
			return false
		}
	}
	return utf8.Valid(text)
}

var contentMember = []byte(`"content":"`)

// remember keeps what the next chunk may have in common with this one. What the marker
// begins is a member's value, since a quotation mark within a string has a backslash
// before it.
func (s *Scanner) remember(data []byte, c Contents, err error) {
	s.before, s.after = s.before[:0], s.after[:0]
	i := bytes.Index(data, contentMember)
	if err == nil && i >= 0 && c.Choices && !c.Usage {
		i += len(contentMember)
		if n := bytes.IndexByte(data[i:], '"'); n >= 0 && isPlain(data[i:i+n]) {
			s.before, s.after = append(s.before, data[:i]...), append(s.after, data[i+n:]...)
			s.seen = c
			s.seen.Text -= int64(n)
			return
		}
	}
	s.before, s.after = nil, nil
}

func (s *Scanner) read(data []byte) (Contents, error) {
	c := Contents{Stated: Nothing()}
	s.buf.Reset()
	s.buf.Write(data)
	s.d.Reset(&s.buf, jsontext.AllowDuplicateNames(true)) // an upstream's, which nobody reads twice
	if s.d.PeekKind() != jsontext.KindBeginObject {
		return c, ErrMalformed
	}
	if _, err := s.d.ReadToken(); err != nil {
		return c, ErrMalformed
	}
	failed := false
	for s.d.PeekKind() == jsontext.KindString {
		name, err := s.d.ReadValue()
		if err != nil {
			return c, ErrMalformed
		}
		switch string(name) {
		case `"choices"`:
			if s.d.PeekKind() != jsontext.KindBeginArray || !s.choices(&c) {
				return c, ErrMalformed
			}
			continue
		case `"usage"`:
			v, err := s.d.ReadValue()
			if err != nil {
				return c, ErrMalformed
			}
			if v.Kind() == jsontext.KindBeginObject {
				c.Usage, c.Stated = true, usage(v)
			}
			continue
		case `"error"`:
			failed = s.d.PeekKind() != jsontext.KindNull
		}
		if err := s.d.SkipValue(); err != nil {
			return c, ErrMalformed
		}
	}
	if _, err := s.d.ReadToken(); err != nil {
		return c, ErrMalformed
	}
	if _, err := s.d.ReadToken(); !errors.Is(err, io.EOF) {
		return c, ErrMalformed
	}
	if failed {
		return c, ErrReported
	}
	return c, nil
}

// choices counts the text of strings that are the answer: content, what was refused,
// thoughts, and what tools are called with.
func (s *Scanner) choices(c *Contents) bool {
	depth, counts, name := 0, false, false
	for {
		kind := s.d.PeekKind()
		if kind == jsontext.KindInvalid {
			return false
		}
		switch kind {
		case jsontext.KindBeginObject, jsontext.KindBeginArray:
			if depth == 1 {
				c.Choices = true
			}
			depth++
			if _, err := s.d.ReadToken(); err != nil {
				return false
			}
		case jsontext.KindEndObject, jsontext.KindEndArray:
			depth--
			if _, err := s.d.ReadToken(); err != nil {
				return false
			}
			if depth == 0 {
				return true
			}
		default:
			in, n := s.d.StackIndex(s.d.StackDepth())
			name = in == jsontext.KindBeginObject && n%2 == 0
			v, err := s.d.ReadValue()
			if err != nil {
				return false
			}
			switch {
			case name:
				counts = isText(v)
			case counts && kind == jsontext.KindString:
				c.Text += length(v[1 : len(v)-1])
			}
		}
	}
}

// isText reports whether a member, quoted, has text of the answer.
func isText(name jsontext.Value) bool {
	switch string(name) {
	case `"content"`, `"text"`, `"refusal"`, `"reasoning"`, `"reasoning_content"`, `"arguments"`, `"name"`:
		return true
	}
	return false
}

// WithoutUsage is a chunk without its member usage.
func WithoutUsage(data []byte) ([]byte, error) {
	r := &Request{}
	d := jsontext.NewDecoder(bytes.NewBuffer(data))
	if _, err := d.ReadToken(); err != nil {
		return nil, ErrMalformed
	}
	for d.PeekKind() == jsontext.KindString {
		name, err := d.ReadToken()
		if err != nil {
			return nil, ErrMalformed
		}
		m := Member{Name: name.String()}
		v, err := d.ReadValue()
		if err != nil {
			return nil, ErrMalformed
		}
		if m.Name != "usage" {
			m.Value = v.Clone()
			r.Members = append(r.Members, m)
		}
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range r.Members {
		if i > 0 {
			b.WriteByte(',')
		}
		quoted, _ := jsontext.AppendQuote(nil, m.Name)
		b.Write(quoted)
		b.WriteByte(':')
		b.Write(m.Value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// TextTokens is how many tokens a text of so many bytes probably has; one at least.
func TextTokens(n int64) int64 { return max((n+bytesPerToken-1)/bytesPerToken, 1) }
