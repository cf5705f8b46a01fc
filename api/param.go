package api

import (
	"errors"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/fault"
)

// optional is a query parameter whose absence differs from its zero value, which
// Huma's own parameters can't tell.
type optional[T any] struct {
	value T
	set   bool
}

// Schema implements huma.SchemaProvider.
func (*optional[T]) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeFor[T]())
}

// Receiver implements huma.ParamWrapper.
func (o *optional[T]) Receiver() reflect.Value { return reflect.ValueOf(&o.value).Elem() }

// OnParamSet implements huma.ParamReactor.
func (o *optional[T]) OnParamSet(isSet bool, _ any) { o.set = isSet }

// uuidText is an id that is a UUID. The description says so and Huma does not judge by it:
// what is no UUID is nobody's id, and gets the same 404 as any other.
type uuidText string

// Schema implements huma.SchemaProvider.
func (uuidText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Extensions: map[string]any{"format": "uuid"}}
}

// within puts the part of the request before the field names of a service's
// validation fault: services know fields, not requests.
func within(part string, err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Code != fault.CodeValidation {
		return err
	}
	details := make(map[string]string, len(f.Details))
	for field, sentence := range f.Details {
		if !strings.HasPrefix(field, part+".") { // what a handler said itself has it
			field = part + "." + field
		}
		details[field] = sentence
	}
	return f.With(details)
}
