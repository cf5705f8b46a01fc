// Package page is what lists have in common: they come in pages, in an order that is
// asked for, and continue where the page before ended.
package page

import (
	"time"

	"github.com/waypost/waypost/db/where"
	"github.com/waypost/waypost/internal/text"
)

// Request is what every list can be asked for.
type Request struct {
	// Query is what is looked for; empty for everything.
	Query string
	// Sort is one of the list's orders; empty for NewestFirst.
	Sort string
	// After is where the previous page ended; nil for the first page.
	After *Position
	// Limit is the number of rows wanted at most.
	Limit int
	// Count also counts all rows that match, whatever the page.
	Count bool
}

// NewestFirst is the order of lists that ask for none.
const NewestFirst = "-created_at"

// Position is a row's place in an order.
type Position struct {
	Sort string `json:"s"`
	// Value is what the order is by: a text, or a time as RFC 3339 has it.
	Value string `json:"v"`
	ID    int64  `json:"i"`
}

// Page is one page of a list.
type Page[T any] struct {
	Rows  []T
	Limit int // as it was asked for
	// Next is the position of the last row; nil on the last page.
	Next *Position
	// Total is how many rows match; nil unless it was asked for.
	Total *int64
}

// Column is what a list can be sorted by. It has an index, with the id behind it.
type Column struct {
	Sort string // the order's name
	Name string // in SQL
	Time bool   // a timestamptz, and otherwise a text
}

// Columns are all that a list can be sorted by.
type Columns []Column

// Order is how the rows of a list are sorted: by a column, and where that is equal by id.
type Order struct {
	Column
	Down bool
}

// Order returns the order of a name, where a leading minus reverses it. problem is a
// sentence for clients, "" if there is such an order.
func (c Columns) Order(name string) (o Order, problem string) {
	if name == "" {
		name = NewestFirst
	}
	names := ""
	for _, column := range c {
		if name == column.Sort || name == "-"+column.Sort {
			return Order{column, name[0] == '-'}, ""
		}
		names += ", " + column.Sort + ", -" + column.Sort
	}
	return Order{}, "Must be one of " + names[2:] + "."
}

// name is what the order is asked for by.
func (o Order) name() string {
	if o.Down {
		return "-" + o.Sort
	}
	return o.Sort
}

// By is an ORDER BY clause, with a space in front, for rows of that alias.
func (o Order) By(row string) string {
	if o.Down {
		return " order by " + row + "." + o.Name + " desc, " + row + ".id desc"
	}
	return " order by " + row + "." + o.Name + ", " + row + ".id"
}

// After adds the condition that skips what earlier pages held of rows with that alias. It
// returns a sentence for clients about a position that is none in this order, "" otherwise.
func (o Order) After(c *where.Clause, row string, p *Position) string {
	if p == nil {
		return ""
	}
	var value any = p.Value
	if o.Time {
		at, err := time.Parse(time.RFC3339Nano, p.Value)
		if err != nil || at.Year() < 1 || at.Year() > 9999 {
			return noPosition
		}
		value = at
	}
	if p.Sort != o.name() || !text.Storable(p.Value) {
		return noPosition
	}
	than := " > "
	if o.Down {
		than = " < "
	}
	c.Add("("+row+"."+o.Name+", "+row+".id)"+than+"(?, ?)", value, p.ID)
	return ""
}

const noPosition = "This is not a cursor of this list in this order; leave it out to start anew."

// Value selects the Value of a Position from a row with that alias, as text.
func (o Order) Value(row string) string {
	if o.Time {
		return `to_char(` + row + `.` + o.Name + ` at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
	}
	return row + "." + o.Name
}

// Time is the Value of a time.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00") }

// At is the position of a row with that id and Value.
func (o Order) At(value string, id int64) *Position {
	return &Position{Sort: o.name(), Value: value, ID: id}
}
