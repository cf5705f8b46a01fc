package pages

import (
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/internal/fault"
)

// Table is a list of things, as it is shown. Its cells are texts, numbers, times and
// what is named below.
type Table struct {
	// Caption says what is listed, for who can't see the page.
	Caption string
	Columns []Column
	Rows    []Row
	// Empty is shown in place of no rows: what this is, and what to do.
	Empty Empty
	// Next and First lead to the following rows and back to the first, "" for nowhere.
	Next, First string
	// Total is how many there are, nil where nobody counted.
	Total *int64
}

// HasButtons reports whether something can be done with a row.
func (t Table) HasButtons() bool {
	return slices.ContainsFunc(t.Rows, func(r Row) bool { return len(r.Buttons) > 0 })
}

// RowIDs names the rows that lead somewhere or can be acted on, "" for others. A page
// that renews itself tells by it which row is which: whoever is about to follow a link
// is not to find another there because a row came above it.
func (t Table) RowIDs() []string {
	ids, taken := make([]string, len(t.Rows)), map[string]bool{}
	for i, r := range t.Rows {
		about := fnv.New64a()
		_, _ = io.WriteString(about, t.Caption)
		known := false
		for _, c := range r.Cells {
			if l, ok := c.(Link); ok {
				_, _ = io.WriteString(about, "\x00"+l.Href)
				known = true
			}
		}
		for _, b := range r.Buttons {
			for _, name := range slices.Sorted(maps.Keys(b.Values)) {
				_, _ = io.WriteString(about, "\x00"+b.Values[name])
				known = true
			}
		}
		if id := fmt.Sprintf("row-%x", about.Sum64()); known && !taken[id] {
			ids[i], taken[id] = id, true
		}
	}
	return ids
}

// Column is a column's head.
type Column struct {
	Label string
	// Sort is where the same list is in this column's order, "" if that can't be had.
	Sort string
	// Sorted is "ascending" or "descending" where the list has this order.
	Sorted string
	// Number aligns its cells to the right.
	Number bool
	// Wide lets its cells wrap; others don't.
	Wide bool
}

// Row is one thing.
type Row struct {
	Cells []any
	// Buttons are what can be done with it.
	Buttons []Button
}

// Empty is a list without rows.
type Empty struct {
	Title, Detail string
	// Label and Href lead to where it is filled, "" for nowhere.
	Label, Href string
}

// Link is a cell that leads somewhere.
type Link struct {
	Text, Href string
	// Detail stands below, in a quieter voice.
	Detail string
}

// Named is a cell with a name, and what stands below it in a quieter voice.
type Named struct{ Text, Detail string }

// Badge is a state in a word. Tone is good, bad, wait or quiet.
type Badge struct{ Text, Tone string }

// Code is a cell in letters of equal width.
type Code string

// Size is a number of bytes.
type Size int64

// Picture is a small image below DeskPath, and what there is to be said of it to who
// can't see it.
type Picture struct{ Src, Text string }

// Button posts a form.
type Button struct {
	Label, Action string
	// Asks says that Action asks first, so that it is a link.
	Asks bool
	// Values are sent along.
	Values map[string]string
	Danger bool
}

// pageRows is how many rows a list shows.
const pageRows = 25

var errCursor = fault.New(fault.Invalid, fault.CodeValidation, "This address is not one of this list. Begin at its first page.")

// continued reads where the list goes on into position, which stays as it is for the
// first page.
func continued(r *http.Request, position any) error {
	if !page.Decode(r.URL.Query().Get("cursor"), position) {
		return errCursor
	}
	return nil
}

// rows fills t with up to pageRows of list, which has one more where the list goes on
// after position of its last row.
func rows[T any](t *Table, r *http.Request, list []T, row func(T) Row, position func(T) any) {
	if r.URL.Query().Has("cursor") {
		t.First = with(r, "cursor", "")
	}
	if len(list) > pageRows {
		list = list[:pageRows]
		t.Next = with(r, "cursor", page.Encode(position(list[pageRows-1])))
	}
	for _, v := range list {
		t.Rows = append(t.Rows, row(v))
	}
}

// with returns the address of r's page with a parameter changed, "" removing it. Its
// place in the list and what was said once are left out.
func with(r *http.Request, name, value string) string {
	q := r.URL.Query()
	q.Del("cursor")
	q.Del("said")
	if value == "" {
		q.Del(name)
	} else {
		q.Set(name, value)
	}
	return address(r.URL.Path, q)
}

// before is the position in a list whose numbers fall.
type before struct {
	Before int64 `json:"b"`
}

// cursor is where a list goes on.
func cursor(position any) string { return page.Encode(position) }

func address(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// sortable is a column whose order the list can have; name is what the list calls it,
// "-" before it turns it round. standing is the order that the list has.
func sortable(r *http.Request, label, name, standing string) Column {
	c := Column{Label: label, Sort: with(r, "sort", name)}
	switch standing {
	case name:
		c.Sorted, c.Sort = "ascending", with(r, "sort", "-"+name)
	case "-" + name:
		c.Sorted = "descending"
	}
	return c
}

// ago says how long before now t was, or how long after, as people say it.
func ago(now, t time.Time) string {
	d, form := now.Sub(t), func(s string) string { return s + " ago" }
	if d < 0 {
		d, form = -d, func(s string) string { return "in " + s }
	}
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return form(strconv.Itoa(int(d/time.Second)) + " s")
	case d < time.Hour:
		return form(strconv.Itoa(int(d/time.Minute)) + " min")
	case d < 48*time.Hour:
		return form(strconv.Itoa(int(d/time.Hour)) + " h")
	}
	return form(strconv.Itoa(int(d/(24*time.Hour))) + " days")
}
