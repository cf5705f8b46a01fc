package model

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// schemaPrefix is where OpenAPI keeps schemas.
const schemaPrefix = "#/components/schemas/"

// Is reports whether t is a struct with model tags.
func Is(t reflect.Type) bool {
	if t == nil || t.Kind() != reflect.Struct {
		return false
	}
	return slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool {
		_, ok := f.Tag.Lookup(tagName)
		return ok
	})
}

// Names are the schemas of one model.
type Names struct{ Full, Create, Update string }

// Describe puts the three schemas of model t into r and returns their names. It
// fails for a struct whose tags contradict themselves and for a name that
// another type holds already. Describing a model again changes nothing.
func Describe(r huma.Registry, t reflect.Type) (Names, error) {
	s, err := shapeOf(t)
	if err != nil {
		return Names{}, err
	}
	name, err := typeName(r, t)
	if err != nil {
		return Names{}, err
	}
	n := Names{Full: name, Create: "Create" + name, Update: "Update" + name}
	r.Map()[n.Full] = s.schema(full)
	if err := put(r, n.Create, s.schema(create)); err != nil {
		return Names{}, err
	}
	return n, put(r, n.Update, s.schema(update))
}

// typeName is what r calls t; the schema that Huma makes by its own rules in
// passing is replaced by the caller.
func typeName(r huma.Registry, t reflect.Type) (string, error) {
	ref := r.Schema(t, true, t.Name()).Ref
	name, ok := strings.CutPrefix(ref, schemaPrefix)
	if !ok {
		return "", fmt.Errorf("model %s: the registry gave it no name under %s", t, schemaPrefix)
	}
	return name, nil
}

func put(r huma.Registry, name string, s *huma.Schema) error {
	if other := r.TypeFromRef(schemaPrefix + name); other != nil {
		return fmt.Errorf("schema %s of a model is also the name of type %s", name, other)
	}
	r.Map()[name] = s
	return nil
}

// reference describes a body. The reference stands where Huma writes it out but
// does not follow it: the body validates itself, once, with better words.
func reference(r huma.Registry, t reflect.Type, prefix, suffix string) *huma.Schema {
	name, err := typeName(r, t)
	if err == nil && suffix != "" {
		var s *shape
		if s, err = shapeOf(t); err == nil {
			err = put(r, name+suffix, s.schema(create))
		}
	} else if err == nil {
		_, err = Describe(r, t)
	}
	if err != nil {
		panic(err) // at registration, where Huma panics as well
	}
	return &huma.Schema{Extensions: map[string]any{"$ref": schemaPrefix + prefix + name + suffix}}
}

func (s *shape) schema(v variant) *huma.Schema {
	out := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Properties: map[string]*huma.Schema{}}
	example := map[string]any{}
	for _, f := range s.fields {
		if f.generated && v == create {
			continue
		}
		out.Properties[f.name] = f.schema(v)
		if (v == full && !f.omitted) || (v == create && f.required) {
			out.Required = append(out.Required, f.name)
		}
		if f.example != nil && !f.alternative && (v == full || !f.generated) {
			example[f.name] = f.example
		}
	}
	if v == create && s.least > 0 {
		out.MinProperties = &s.least
	}
	if len(example) > 0 {
		out.Examples = []any{maps.Clone(example)}
	}
	return out
}

func (f *field) schema(v variant) *huma.Schema {
	out := f.rules.schema(v)
	out.Description = f.doc
	if f.unique {
		out.Description = strings.TrimSpace(f.doc + " Unique.")
	}
	out.ReadOnly = f.generated
	if f.example != nil {
		out.Examples = []any{f.example}
	}
	if f.initial != nil && v != update {
		out.Default = f.fallback
	}
	return out
}

func (r *rules) schema(v variant) *huma.Schema {
	out := &huma.Schema{Nullable: r.nullable}
	switch r.kind {
	case kindString:
		out.Type = huma.TypeString
		out.MinLength, out.MaxLength = whole(r.min), whole(r.max)
		switch {
		case r.oneOf != nil:
			for _, v := range r.oneOf {
				out.Enum = append(out.Enum, v)
			}
			if r.nullable {
				out.Enum = append(out.Enum, nil)
			}
		case r.email:
			out.Format, out.Pattern = "email", emailForm
		case r.uuid:
			out.Format = "uuid"
		case (r.line || r.host) && v == full: // what was stored before there was the rule may break it
			out.Pattern = noNUL
		case r.host:
			out.Pattern = hostForm
		case r.line && r.nonblank:
			out.Pattern = namedOf(r.least())
		case r.line:
			out.Pattern = lineForm
		case r.nonblank:
			out.Pattern = nonblankForm
		default:
			out.Pattern = noNUL
		}
	case kindBool:
		out.Type = huma.TypeBoolean
	case kindInteger:
		out.Type, out.Format = huma.TypeInteger, "int64"
		out.Minimum, out.Maximum = r.min, r.max
	case kindNumber:
		out.Type, out.Format = huma.TypeNumber, "double"
		out.Minimum, out.Maximum = r.min, r.max
	case kindTime:
		out.Type, out.Format, out.Pattern = huma.TypeString, "date-time", fourDigitYear
	case kindArray:
		out.Type, out.Items = huma.TypeArray, r.item.schema(v)
		out.MinItems, out.MaxItems = whole(r.min), whole(r.max)
	}
	return out
}

func whole(n *float64) *int {
	if n == nil {
		return nil
	}
	i := int(*n)
	return &i
}
