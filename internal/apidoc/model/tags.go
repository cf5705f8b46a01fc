package model

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

const tagName = "model"

// maxSafeInteger is the largest whole number that every JSON reader keeps exactly
// (RFC 8259, section 6).
const maxSafeInteger = 1<<53 - 1

const maxEmailLength = 254 // RFC 5321, section 4.5.3.1.3, less the angle brackets

type kind uint8

const (
	kindString kind = iota + 1
	kindBool
	kindInteger
	kindNumber
	kindTime
	kindArray
)

// rules are what a value must keep to.
type rules struct {
	kind     kind
	nullable bool
	min, max *float64 // characters, value or items, by kind
	oneOf    []string
	email    bool
	nonblank bool
	line     bool
	uuid     bool
	host     bool
	item     *rules // of kindArray
}

type field struct {
	rules
	name      string // in JSON
	index     []int  // for reflect.Value.FieldByIndex
	generated bool
	required  bool
	omitted   bool // may be absent from a response
	unique    bool
	// alternative fields are sent instead of another one.
	alternative bool
	initial     json.RawMessage // the default; nil without one
	fallback    any             // initial as a value, for the schema
	doc         string
	example     any // nil without one
}

// shape is a model read from its tags.
type shape struct {
	typ    reflect.Type
	fields []*field
	// least is how many fields a body that creates must carry.
	least  int
	byName map[string]*field
}

// shapes memoises shapeOf, whose result depends on the type alone.
var shapes sync.Map // reflect.Type to *shape

func shapeOf(t reflect.Type) (*shape, error) {
	if s, ok := shapes.Load(t); ok {
		return s.(*shape), nil
	}
	s, err := readShape(t)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", t, err)
	}
	shapes.Store(t, s)
	return s, nil
}

func readShape(t reflect.Type) (*shape, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("a model is a struct, not a %s", t.Kind())
	}
	s := &shape{typ: t, byName: map[string]*field{}}
	for _, sf := range reflect.VisibleFields(t) {
		if sf.Name == "_" {
			if err := s.readOwn(sf.Tag.Get(tagName)); err != nil {
				return nil, err
			}
			continue
		}
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if sf.Anonymous && name == "" && sf.Type.Kind() == reflect.Struct {
			continue // its fields are visible themselves
		}
		if !sf.IsExported() || (name == "-" && options == "") {
			continue
		}
		if name == "" {
			name = sf.Name
		}
		if s.byName[name] != nil {
			return nil, fmt.Errorf("two fields are named %q in JSON", name)
		}
		f, err := readField(sf, name)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", sf.Name, err)
		}
		f.omitted = strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		s.fields = append(s.fields, f)
		s.byName[name] = f
	}
	return s, nil
}

// readOwn reads the rules of the model itself, which are those of its field _.
func (s *shape) readOwn(tag string) error {
	for rule := range strings.SplitSeq(tag, ",") {
		key, value, _ := strings.Cut(rule, "=")
		n, err := strconv.Atoi(value)
		if key != "min" || err != nil || n < 1 {
			return fmt.Errorf("rule %q is not one of a whole model", rule)
		}
		s.least = n
	}
	return nil
}

func readField(sf reflect.StructField, name string) (*field, error) {
	r, err := rulesOfType(sf.Type)
	if err != nil {
		return nil, err
	}
	f := &field{rules: *r, name: name, index: sf.Index, doc: sf.Tag.Get("doc")}
	var initial *string
	target := &f.rules
	for _, rule := range strings.Split(sf.Tag.Get(tagName), ",") {
		key, value, _ := strings.Cut(rule, "=")
		switch key {
		case "":
		case "primary", "auto", "readonly":
			f.generated = true
		case "required":
			f.required = true
		case "alternative":
			f.alternative = true
		case "unique":
			f.unique = true
		case "default":
			initial = &value
		case "dive":
			if target = f.item; target == nil {
				return nil, fmt.Errorf("rule dive is for arrays")
			}
		default:
			if err := target.read(key, value); err != nil {
				return nil, err
			}
		}
	}
	if f.required && initial != nil {
		return nil, fmt.Errorf("required and default exclude each other")
	}
	if initial != nil {
		if f.initial, err = f.literal(*initial); err != nil {
			return nil, fmt.Errorf("default: %w", err)
		}
		if err := json.Unmarshal(f.initial, &f.fallback); err != nil {
			return nil, fmt.Errorf("default: %w", err)
		}
	}
	return f, f.readExample(sf.Tag)
}

func (f *field) readExample(tag reflect.StructTag) error {
	text, ok := tag.Lookup("example")
	if !ok {
		if !f.generated {
			return fmt.Errorf("an example tag is missing")
		}
		return nil
	}
	raw, err := f.literal(text)
	if err != nil {
		return fmt.Errorf("example: %w", err)
	}
	return json.Unmarshal(raw, &f.example)
}

// literal turns a tag's text into JSON and holds it to the rules.
func (r *rules) literal(text string) (json.RawMessage, error) {
	raw := json.RawMessage(text)
	switch {
	case r.kind == kindString || r.kind == kindTime:
		raw, _ = json.Marshal(text)
	case r.kind == kindArray && !strings.HasPrefix(text, "["):
		items := []json.RawMessage{}
		for part := range strings.SplitSeq(text, ",") {
			item, err := r.item.literal(strings.TrimSpace(part))
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		raw, _ = json.Marshal(items)
	}
	if !json.Valid(raw) {
		return nil, fmt.Errorf("%q is not the JSON of this field's type", text)
	}
	var c check
	if c.value(r, "value", raw, reflect.Value{}); len(c.problems) > 0 {
		return nil, fmt.Errorf("%q: %s", text, c.problems[0].Message)
	}
	return raw, nil
}

func (r *rules) read(key, value string) error {
	switch {
	case key == "min" || key == "max":
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || r.kind == kindBool || r.kind == kindTime {
			return fmt.Errorf("rule %s=%s does not fit the field", key, value)
		}
		if (r.kind == kindInteger || r.kind == kindNumber) && (n < *r.min || n > *r.max) {
			return fmt.Errorf("rule %s=%s is outside the type's own range", key, value)
		}
		if key == "min" {
			r.min = &n
		} else {
			r.max = &n
		}
	case key == "oneof" && r.kind == kindString && value != "":
		r.oneOf = strings.Fields(value)
	case key == "nonblank" && r.kind == kindString:
		r.nonblank = true
	case key == "line" && r.kind == kindString:
		r.line = true
	case key == "uuid" && r.kind == kindString:
		r.uuid = true
	case key == "host" && r.kind == kindString:
		r.host = true
	case key == "email" && r.kind == kindString:
		r.email = true
		if limit := float64(maxEmailLength); r.max == nil {
			r.max = &limit
		}
	default:
		return fmt.Errorf("rule %q is unknown or does not fit the field", key)
	}
	return nil
}

var timeType = reflect.TypeFor[time.Time]()

func rulesOfType(t reflect.Type) (*rules, error) {
	r := &rules{}
	if t.Kind() == reflect.Pointer {
		r.nullable, t = true, t.Elem()
	}
	switch k := t.Kind(); {
	case t == timeType:
		r.kind = kindTime
	case k == reflect.String:
		r.kind = kindString
	case k == reflect.Bool:
		r.kind = kindBool
	case k >= reflect.Int && k <= reflect.Int64:
		r.kind = kindInteger
		limit := math.Min(math.Ldexp(1, t.Bits()-1)-1, maxSafeInteger)
		low := math.Max(-math.Ldexp(1, t.Bits()-1), -maxSafeInteger)
		r.min, r.max = &low, &limit
	case k >= reflect.Uint && k <= reflect.Uint64:
		r.kind = kindInteger
		limit, low := math.Min(math.Ldexp(1, t.Bits())-1, maxSafeInteger), 0.0
		r.min, r.max = &low, &limit
	case k == reflect.Float64:
		r.kind = kindNumber
		limit, low := math.MaxFloat64, -math.MaxFloat64
		r.min, r.max = &low, &limit
	case k == reflect.Slice && !r.nullable:
		item, err := rulesOfType(t.Elem())
		if err != nil || item.nullable || item.kind == kindArray {
			return nil, fmt.Errorf("an array of %s is not supported", t.Elem())
		}
		r.kind, r.item = kindArray, item
	default:
		return nil, fmt.Errorf("type %s is not supported", t)
	}
	return r, nil
}

// least is min, 0 without one.
func (r *rules) least() int {
	if r.min == nil {
		return 0
	}
	return int(*r.min)
}
