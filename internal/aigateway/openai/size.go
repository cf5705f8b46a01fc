package openai

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Size is how large a prompt is.
type Size struct {
	Text   int64 // bytes of text
	Parts  int64 // messages and other things that cost a little each
	Images int64
	Media  int64 // bytes of other media in base64
	IDs    int64 // tokens that were sent as numbers
}

const (
	// perPart is what a message costs beside its text, in tokens.
	perPart = 8
	// What an image costs: mostly, and at most (OpenAI's small models count large images
	// so that they cost the same as with the large models).
	likelyImage, worstImage = 1_500, 40_000
	// bytesPerToken are those of most texts.
	bytesPerToken = 4
	// mediaPerToken are the bytes in base64 of a token: those of a document with much text
	// in little space, more than those of sound.
	mediaPerToken = 4
)

// Worst is the most tokens that the prompt can have: a token is a byte of text at least.
func (s Size) Worst() int64 {
	return s.Text + s.IDs + s.Parts*perPart + s.Images*worstImage + s.Media/mediaPerToken
}

// Likely is how many it probably has.
func (s Size) Likely() int64 {
	return (s.Text+bytesPerToken-1)/bytesPerToken + s.IDs + s.Parts*perPart/2 + s.Images*likelyImage + s.Media/mediaPerToken
}

// add counts a member of a request.
func (s *Size) add(m Member) {
	d := jsontext.NewDecoder(bytes.NewBuffer(m.Value))
	s.walk(d, m.Name, 0, m.Name == input)
}

// walk counts the next value, which is under that name. It was read before, so there are
// no errors. ids says that numbers are tokens.
func (s *Size) walk(d *jsontext.Decoder, name string, depth int, ids bool) {
	switch d.PeekKind() {
	case jsontext.KindBeginObject:
		if _, err := d.ReadToken(); err != nil {
			return
		}
		if depth == 1 {
			s.Parts++
		}
		for d.PeekKind() == jsontext.KindString {
			t, err := d.ReadToken()
			if err != nil {
				return
			}
			inner := t.String()
			s.Text += int64(len(inner))
			s.walk(d, inner, depth+1, ids)
		}
		_, _ = d.ReadToken()
	case jsontext.KindBeginArray:
		if _, err := d.ReadToken(); err != nil {
			return
		}
		for d.PeekKind() != jsontext.KindEndArray && d.PeekKind() != jsontext.KindInvalid {
			s.walk(d, name, depth+1, ids)
		}
		_, _ = d.ReadToken()
	default:
		v, err := d.ReadValue()
		if err != nil {
			return
		}
		s.scalar(v, name, ids)
	}
}

func (s *Size) scalar(v jsontext.Value, name string, ids bool) {
	if v.Kind() != jsontext.KindString {
		if ids {
			s.IDs++
		} else {
			s.Text += int64(len(v))
		}
		return
	}
	text := v[1 : len(v)-1]
	switch {
	case strings.HasSuffix(name, "url") && (bytes.HasPrefix(text, []byte("data:image/")) || bytes.HasPrefix(text, []byte("http"))):
		s.Images++
	case bytes.HasPrefix(text, []byte("data:")) && len(text) > 256, name == "data", name == "file_data":
		s.Media += int64(len(text))
	default:
		s.Text += length(text)
	}
}

// length is how many bytes of UTF-8 a string of JSON is, or a few more.
func length(text []byte) int64 {
	n := int64(len(text))
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i+1 < len(text); {
		skip := 2
		if text[i+1] == 'u' && i+6 <= len(text) {
			skip = 6
			n -= 3
		} else {
			n--
		}
		next := bytes.IndexByte(text[i+skip:], '\\')
		if next < 0 {
			break
		}
		i += skip + next
	}
	return n
}
