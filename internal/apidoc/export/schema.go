package export

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// schema is what examples are made from.
type schema struct {
	Ref        string `json:"$ref"`
	Type       types
	Format     string
	Pattern    string
	Const      json.RawMessage
	Default    json.RawMessage
	Example    json.RawMessage
	Examples   []json.RawMessage
	Enum       []json.RawMessage
	Properties map[string]*schema
	Required   []string
	Items      *schema
	AllOf      []*schema
	OneOf      []*schema
	AnyOf      []*schema
	ReadOnly   bool
	WriteOnly  bool
	Minimum    *json.Number
	Maximum    *json.Number
	MinLength  int
	MaxLength  *int
	MinItems   int
}

// maxItems and maxText keep examples readable, whatever a schema asks for.
const (
	maxItems = 10
	maxText  = 1000
)

// UnmarshalJSON also reads the schemas true and false (JSON Schema 2020-12,
// section 4.3.2).
func (s *schema) UnmarshalJSON(raw []byte) error {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '{' {
		*s = schema{}
		return nil
	}
	type plain schema
	return json.Unmarshal(raw, (*plain)(s))
}

// types is one type or several, without "null" unless it is the only one.
type types []string

func (t *types) UnmarshalJSON(raw []byte) error {
	var list []string
	var one string
	if json.Unmarshal(raw, &one) == nil {
		list = []string{one}
	} else if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	if len(list) > 1 {
		list = slices.DeleteFunc(list, func(s string) bool { return s == "null" })
	}
	*t = list
	return nil
}

// sampler makes example values of schemas.
type sampler struct {
	schemas  map[string]*schema
	request  bool            // for a request, where read-only members have no place
	entering map[string]bool // references that are being followed
}

func (d *description) sampler(request bool) sampler {
	return sampler{schemas: d.Components.Schemas, request: request, entering: map[string]bool{}}
}

// sample returns an example, and whether there is one that the schema is known
// to allow.
func (s sampler) sample(x *schema) (any, bool) {
	if x == nil {
		return nil, false
	}
	if name, ok := strings.CutPrefix(x.Ref, "#/components/schemas/"); ok {
		if s.entering[name] {
			return nil, false
		}
		s.entering[name] = true
		defer delete(s.entering, name)
		return s.sample(s.schemas[name])
	}
	if v, ok := x.stated(); ok {
		return v, true
	}
	if choices := slices.Concat(x.OneOf, x.AnyOf); len(choices) > 0 {
		for _, choice := range choices {
			if v, ok := s.sample(choice); ok && v != nil {
				return v, true
			}
		}
		return nil, false
	}
	if len(x.AllOf) > 0 || len(x.Properties) > 0 || slices.Contains(x.Type, "object") {
		return s.object(x)
	}
	if slices.Contains(x.Type, "array") {
		item, ok := s.sample(x.Items)
		if !ok {
			return []any{}, x.MinItems == 0
		}
		return slices.Repeat([]any{item}, min(max(1, x.MinItems), maxItems)), x.MinItems <= maxItems
	}
	return x.scalar()
}

// stated returns a value that the schema itself names.
func (x *schema) stated() (any, bool) {
	for _, raw := range slices.Concat([]json.RawMessage{x.Example}, x.Examples, []json.RawMessage{x.Const, x.Default}, x.Enum) {
		if len(raw) > 0 {
			return decode(raw), true
		}
	}
	return nil, false
}

func (s sampler) object(x *schema) (any, bool) {
	out := map[string]any{}
	for _, part := range x.AllOf {
		if v, ok := s.sample(part); ok {
			members, _ := v.(map[string]any)
			maps.Copy(out, members)
		}
	}
	complete := true
	for _, name := range slices.Sorted(maps.Keys(x.Properties)) {
		p := x.Properties[name]
		if p == nil || s.request && p.ReadOnly || !s.request && p.WriteOnly {
			continue
		}
		v, ok := s.sample(p)
		if ok {
			out[name] = v
		} else if slices.Contains(x.Required, name) {
			complete = false
		}
	}
	return out, complete
}

// formats have an example for every string format that needs a shape.
var formats = map[string]string{
	"date-time": "2026-01-02T15:04:05Z",
	"date":      "2026-01-02",
	"time":      "15:04:05Z",
	"email":     "ada@example.com",
	"hostname":  "example.com",
	"ipv4":      "192.0.2.1",
	"ipv6":      "2001:db8::1",
	"uri":       "https://example.com/",
	"url":       "https://example.com/",
	"uuid":      "01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10",
}

func (x *schema) scalar() (any, bool) {
	kind := ""
	if len(x.Type) > 0 {
		kind = x.Type[0]
	}
	switch kind {
	case "boolean":
		return true, true
	case "integer", "number":
		return x.number(), true
	case "string":
		if text, ok := formats[x.Format]; ok {
			return text, true
		}
		text := "text"
		text += strings.Repeat("x", max(0, min(x.MinLength, maxText)-len(text)))
		if x.MaxLength != nil {
			text = text[:max(0, min(len(text), *x.MaxLength))]
		}
		return text, x.Pattern == "" && x.MinLength <= maxText
	case "null":
		return nil, true
	}
	return map[string]any{}, true // anything goes
}

// number is 1, or the bound that keeps it from being that.
func (x *schema) number() json.Number {
	beyond := func(bound *json.Number, sign float64) bool {
		if bound == nil {
			return false
		}
		n, err := bound.Float64()
		return err == nil && (n-1)*sign > 0
	}
	switch {
	case beyond(x.Minimum, 1):
		return *x.Minimum
	case beyond(x.Maximum, -1):
		return *x.Maximum
	}
	return "1"
}
