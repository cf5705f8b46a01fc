package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

var (
	errTrailing = errors.New("there is something after the JSON value")
	errText     = errors.New("A string holds U+0000, a lone surrogate or bytes that are not UTF-8.") //lint:ignore ST1005 a client reads it as a sentence
)

// selfChecking is a body that reports its problems field by field.
type selfChecking interface{ checksItself() }

func (*body[T]) checksItself() {}

// Format is the JSON of an API whose bodies keep Waypost's rules: put it under
// "application/json" and "json" in huma.Config.Formats. Numbers of any size are
// valid JSON, so they reach validation (422) instead of failing to parse (400);
// a string that PostgreSQL or another reader cannot hold is refused in every
// body, also in those that are no model.
func Format() huma.Format {
	return huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: unmarshal}
}

func unmarshal(data []byte, v any) error {
	generic, ok := v.(*any)
	if !ok {
		if _, ok := v.(selfChecking); !ok && !validText(data) {
			return errText
		}
		return json.Unmarshal(data, v)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(generic); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errTrailing
	}
	return nil
}

// validText looks at every string of a JSON document, whose syntax is checked
// elsewhere: an unfinished one is no concern here.
func validText(data []byte) bool {
	if !utf8.Valid(data) {
		return false
	}
	for {
		start := bytes.IndexByte(data, '"')
		if start < 0 {
			return true
		}
		data = data[start:]
		end := closingQuote(data)
		if end < 0 {
			return true
		}
		if !validEscapes(data[:end+1]) {
			return false
		}
		data = data[end+1:]
	}
}

// closingQuote returns the index of the quote that ends the string at data[0],
// -1 when there is none.
func closingQuote(data []byte) int {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

func validEscapes(raw []byte) bool {
	return !hasLoneSurrogate(raw) && !bytes.Contains(bytes.ReplaceAll(raw, []byte(`\\`), nil), []byte(`\u0000`))
}
