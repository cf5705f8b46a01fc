package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/text"
)

// maxProblems bounds the answer to a hostile body.
const maxProblems = 50

// variant says which fields a body may and must carry.
type variant uint8

const (
	full variant = iota
	create
	update
)

// check gathers what is wrong with a body.
type check struct {
	problems []*huma.ErrorDetail
}

func (c *check) report(path, format string, args ...any) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, &huma.ErrorDetail{Location: path, Message: fmt.Sprintf(format, args...)})
	}
}

// object reads body, valid JSON, into target and returns the names that it
// carries. Fields that the server owns are checked, not stored.
func (c *check) object(s *shape, v variant, body []byte, target reflect.Value) map[string]bool {
	seen := map[string]bool{}
	dec := json.NewDecoder(bytes.NewReader(body))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		c.report("", "Must be a JSON object.")
		return seen
	}
	for dec.More() {
		name, raw, err := member(dec)
		if err != nil {
			c.report("", "Must be a JSON object.")
			return seen
		}
		f := s.byName[name]
		switch {
		case f == nil:
			c.report(clip(name), "Is not a field of this request; names are case-sensitive.")
			continue
		case f.generated && v == create:
			c.report(name, "Is set by the server; leave it out.")
			continue
		case seen[name]:
			c.report(name, "Appears more than once.")
			continue
		}
		seen[name] = true
		if f.generated {
			c.value(&f.rules, name, raw, reflect.Value{})
		} else {
			c.value(&f.rules, name, raw, target.FieldByIndex(f.index))
		}
	}
	if v == create {
		if len(seen) < s.least {
			c.report("", "Must have at least %s.", count(float64(s.least), "field"))
		}
		c.complete(s, seen, target)
	}
	return seen
}

// complete demands required fields and fills in defaults.
func (c *check) complete(s *shape, seen map[string]bool, target reflect.Value) {
	for _, f := range s.fields {
		switch {
		case seen[f.name] || f.generated:
		case f.required:
			c.report(f.name, "Is required.")
		case f.initial != nil:
			c.value(&f.rules, f.name, f.initial, target.FieldByIndex(f.index))
		case f.kind == kindArray:
			list := target.FieldByIndex(f.index)
			list.Set(reflect.MakeSlice(list.Type(), 0, 0))
		}
	}
}

func member(dec *json.Decoder) (string, json.RawMessage, error) {
	key, err := dec.Token()
	if err != nil {
		return "", nil, err
	}
	var raw json.RawMessage
	err = dec.Decode(&raw)
	name, _ := key.(string)
	return name, raw, err
}

// value holds raw to r and stores it in target, unless that is the zero Value.
func (c *check) value(r *rules, path string, raw json.RawMessage, target reflect.Value) {
	if string(raw) == "null" {
		if !r.nullable {
			c.report(path, "Must not be null.")
		}
		return
	}
	if r.nullable && target.IsValid() {
		target.Set(reflect.New(target.Type().Elem()))
		target = target.Elem()
	}
	switch r.kind {
	case kindString:
		c.text(r, path, raw, target)
	case kindBool:
		c.boolean(path, raw, target)
	case kindInteger, kindNumber:
		c.number(r, path, raw, target)
	case kindTime:
		c.time(path, raw, target)
	case kindArray:
		c.array(r, path, raw, target)
	}
}

func (c *check) text(r *rules, path string, raw json.RawMessage, target reflect.Value) {
	value, ok := c.unquote(path, raw)
	if !ok {
		return
	}
	n := float64(utf8.RuneCountInString(value))
	inside := n
	if r.line && r.nonblank { // what it is kept without doesn't count
		inside = max(float64(utf8.RuneCountInString(text.Trim(value))), min(n, 1))
	}
	switch {
	case r.oneOf != nil && !slices.Contains(r.oneOf, value):
		c.report(path, "Must be one of %s.", strings.Join(r.oneOf, ", "))
	case r.min != nil && inside < *r.min:
		c.report(path, "Must have at least %s.", count(*r.min, "character"))
	case r.max != nil && n > *r.max:
		c.report(path, "Must have at most %s.", count(*r.max, "character"))
	case r.line && !text.IsLine(value):
		c.report(path, text.LineRule)
	case r.nonblank && text.Blank(value):
		c.report(path, "Must have a character that is not white space.")
	case r.uuid && !uuidPattern.MatchString(value):
		c.report(path, "Must be a UUID.")
	case r.host && !hostPattern.MatchString(value):
		c.report(path, "Must be a host name such as example.com, without scheme, port or path.")
	case r.email && !isEmail(value):
		c.report(path, "Must be an e-mail address.")
	case target.IsValid():
		target.SetString(value)
	}
}

func (c *check) boolean(path string, raw json.RawMessage, target reflect.Value) {
	switch s := string(raw); {
	case s != "true" && s != "false":
		c.report(path, "Must be true or false.")
	case target.IsValid():
		target.SetBool(s == "true")
	}
}

func (c *check) array(r *rules, path string, raw json.RawMessage, target reflect.Value) {
	var items []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &items) != nil {
		c.report(path, "Must be an array.")
		return
	}
	n := float64(len(items))
	switch {
	case r.min != nil && n < *r.min:
		c.report(path, "Must have at least %s.", count(*r.min, "item"))
		return
	case r.max != nil && n > *r.max:
		c.report(path, "Must have at most %s.", count(*r.max, "item"))
		return
	}
	var list reflect.Value
	if target.IsValid() {
		list = reflect.MakeSlice(target.Type(), len(items), len(items))
		target.Set(list)
	}
	for i, item := range items {
		var slot reflect.Value
		if list.IsValid() {
			slot = list.Index(i)
		}
		c.value(r.item, path+"["+strconv.Itoa(i)+"]", item, slot)
	}
}

func count(n float64, unit string) string {
	s := strconv.FormatFloat(n, 'f', -1, 64) + " " + unit
	if n != 1 {
		s += "s"
	}
	return s
}

// clip keeps a client's own name from blowing up the answer.
func clip(name string) string {
	const limit = 64
	if utf8.RuneCountInString(name) <= limit {
		return name
	}
	return string([]rune(name)[:limit]) + "…"
}
