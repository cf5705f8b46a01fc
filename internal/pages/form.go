package pages

import (
	"net/http"
	"time"

	"github.com/waypost/waypost/internal/fault"
)

// Filter is a form that narrows a list. It is sent by GET, so that a narrowed list has
// an address.
type Filter struct {
	Fields []Field
	// Clear is where nothing is narrowed, "" while nothing is.
	Clear string
	// Kept are sent along.
	Kept []Option
}

// Field is one input.
type Field struct {
	Name, Label string
	// ID tells it from a field of the same name in another form of the page; "" for Name.
	ID string
	// Kind is an input's type, "select", "textarea" or "checks"; "" is text.
	Kind  string
	Value string
	// Values are those of checks.
	Values      []string
	Placeholder string
	Hint        string
	Options     []Option
	Required    bool
	// Problem is what is wrong with its value.
	Problem string
}

// Option is one choice of a select, or of checks.
type Option struct{ Value, Label string }

// forms implements formed, for pages with a filter.
func (f Filter) forms() []Form { return []Form{{Fields: f.Fields}} }

// filterOf takes the fields' values from the address.
func filterOf(r *http.Request, fields ...Field) Filter {
	f := Filter{Fields: fields}
	for i := range f.Fields {
		f.Fields[i].Value = r.URL.Query().Get(f.Fields[i].Name)
		if f.Fields[i].Value != "" {
			f.Clear = r.URL.Path
		}
	}
	return f
}

// keep sends a parameter of the address along, such as the order.
func (f *Filter) keep(r *http.Request, name string) {
	if value := r.URL.Query().Get(name); value != "" {
		f.Kept = append(f.Kept, Option{name, value})
	}
}

// between reads the times from and to, which may be missing. It returns a validation
// fault.
func between(get func(string) string) (from, to time.Time, err error) {
	details := map[string]string{}
	for name, at := range map[string]*time.Time{"from": &from, "to": &to} {
		if get(name) == "" {
			continue
		}
		if *at, err = time.Parse("2006-01-02T15:04", get(name)); err != nil {
			details[name] = "Must be a day and a time in UTC, such as 2026-01-02T15:04."
		}
	}
	if len(details) > 0 {
		return from, to, fault.Validation(details)
	}
	return from, to, nil
}

// choice is a select with a first option that narrows nothing.
func choice(name, label string, values ...string) Field {
	f := Field{Name: name, Label: label, Kind: "select", Options: []Option{{"", "Any"}}}
	for _, v := range values {
		f.Options = append(f.Options, Option{v, v})
	}
	return f
}

// Diff is what changed in a row.
type Diff []Changed

// Changed is one member's value before and after; nil where it had none.
type Changed struct {
	Field    string
	Old, New *string
}
