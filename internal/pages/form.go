package pages

import "net/http"

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
	// Kind is an input's type, "select" or "textarea"; "" is text.
	Kind        string
	Value       string
	Placeholder string
	Hint        string
	Options     []Option
	Required    bool
}

// Option is one choice of a select.
type Option struct{ Value, Label string }

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
