package model

import (
	"fmt"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// body is what the three typed bodies share: a value and what was wrong with it.
// Its fields are unexported so that Huma neither sets defaults over values that
// a client sent nor validates by rules of its own.
type body[T any] struct {
	value    T
	present  map[string]bool
	problems []*huma.ErrorDetail
}

func (b *body[T]) decode(v variant, data []byte) error {
	s, err := shapeOf(reflect.TypeFor[T]())
	if err != nil {
		return err
	}
	var c check
	var value T
	present := c.object(s, v, data, reflect.ValueOf(&value).Elem())
	if b.problems = c.problems; len(b.problems) == 0 {
		b.value, b.present = value, present
	}
	return nil
}

// Resolve implements huma.ResolverWithPath: it returns one *huma.ErrorDetail for
// each problem, located below prefix.
func (b *body[T]) Resolve(_ huma.Context, prefix *huma.PathBuffer) []error {
	var errs []error
	for _, p := range b.problems {
		location := prefix.String()
		if p.Location != "" {
			location += "." + p.Location
		}
		errs = append(errs, &huma.ErrorDetail{Location: location, Message: p.Message})
	}
	return errs
}

// Value returns what the body says, defaults filled in; the zero T when the body
// had a problem, which Huma answers before any handler runs.
func (b *body[T]) Value() T { return b.value }

// Has reports whether the body carries the field of that name in JSON. It panics
// for a name that T does not have.
func (b *body[T]) Has(name string) bool {
	s, err := shapeOf(reflect.TypeFor[T]())
	if err != nil || s.byName[name] == nil {
		panic(fmt.Sprintf("model %T has no field %q", b.value, name))
	}
	return b.present[name]
}

// Create is the body of a request that makes a T: described as CreateT.
type Create[T any] struct{ body[T] }

// UnmarshalJSON implements json.Unmarshaler. Problems of the body are kept for
// Resolve; the error is for a T that is no model.
func (c *Create[T]) UnmarshalJSON(data []byte) error { return c.decode(create, data) }

// Schema implements huma.SchemaProvider.
func (*Create[T]) Schema(r huma.Registry) *huma.Schema {
	return reference(r, reflect.TypeFor[T](), "Create", "")
}

// Update is the body of a request that changes a T, in full or in part: described
// as UpdateT. Absent fields stay as they are.
type Update[T any] struct{ body[T] }

// UnmarshalJSON implements json.Unmarshaler, as for Create.
func (u *Update[T]) UnmarshalJSON(data []byte) error { return u.decode(update, data) }

// Schema implements huma.SchemaProvider.
func (*Update[T]) Schema(r huma.Registry) *huma.Schema {
	return reference(r, reflect.TypeFor[T](), "Update", "")
}

// Apply writes the fields that the body carries to dst; generated fields and
// absent ones stay.
func (u *Update[T]) Apply(dst *T) {
	s, err := shapeOf(reflect.TypeFor[T]())
	if err != nil {
		panic(err)
	}
	from, to := reflect.ValueOf(&u.value).Elem(), reflect.ValueOf(dst).Elem()
	for _, f := range s.fields {
		if u.present[f.name] && !f.generated {
			to.FieldByIndex(f.index).Set(from.FieldByIndex(f.index))
		}
	}
}

// Request is the body of a request that is no resource, such as a sign-in:
// described as TRequest and held to the rules of Create.
type Request[T any] struct{ body[T] }

// UnmarshalJSON implements json.Unmarshaler, as for Create.
func (q *Request[T]) UnmarshalJSON(data []byte) error { return q.decode(create, data) }

// Schema implements huma.SchemaProvider.
func (*Request[T]) Schema(r huma.Registry) *huma.Schema {
	return reference(r, reflect.TypeFor[T](), "", "Request")
}
