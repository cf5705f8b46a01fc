package pages

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/internal/dbview"
	"github.com/waypost/waypost/internal/fault"
)

// Database looks into the database.
type Database interface {
	Tables(ctx context.Context) ([]dbview.Table, error)
	Structure(ctx context.Context, table string) (dbview.Structure, error)
	Rows(ctx context.Context, table string, sel dbview.Selection) (dbview.Rows, error)
	Activity(ctx context.Context) (dbview.Activity, error)
	State(ctx context.Context) (dbview.State, error)
	Query(ctx context.Context, q dbview.Question) (dbview.Answer, error)
}

// DatabasePages are the pages of the database. None is live: every view is in the audit
// log.
func DatabasePages(s Database) Section {
	p := databasePages{s}
	return Section{Label: "Database", Screens: []Screen{
		{Path: "/database", Title: "Database", View: "listed", Read: p.tables},
		{Path: "/database/console", Title: "Console", View: "console", Read: p.console, Acts: []Act{{Name: "query", Operation: queryDatabase, Do: p.query}}},
		{Path: "/database/activity", Title: "Activity", View: "activity", Read: p.activity},
		{Path: "/database/tables/{table}", View: "listed", Read: p.rows},
		{Path: "/database/tables/{table}/structure", View: "structure", Read: p.structure},
	}}
}

// What the audit log calls the uses of these pages.
const (
	viewDatabase  = "view-database"
	queryDatabase = "query-database"
)

type databasePages struct{ s Database }

var databaseTabs = tabs{{"Tables", DeskPath + "/database"}, {"Console", DeskPath + "/database/console"}, {"Activity", DeskPath + "/database/activity"}}

func (p databasePages) tables(r *http.Request) (any, error) {
	list, err := p.s.Tables(doing(r.Context(), viewDatabase))
	if err != nil {
		return nil, err
	}
	t := Table{
		Caption: "Tables, by name", Empty: Empty{Title: "No tables"},
		Columns: []Column{{Label: "Table"}, {Label: "Rows, about", Number: true}, {Label: "Size", Number: true}, {Label: "Indexes", Number: true}, {Label: "Columns"}},
	}
	for _, table := range list {
		name := any(Link{Text: table.Name, Href: tablePath(table.Name)})
		columns := strconv.Itoa(table.Columns)
		switch {
		case table.Shown == 0:
			name, columns = table.Name, columns+", all hidden"
		case table.Shown < table.Columns:
			columns += ", " + strconv.Itoa(table.Columns-table.Shown) + " hidden"
		}
		row := Row{Cells: []any{name, nil, Size(table.TableBytes), Size(table.IndexBytes), columns}}
		if table.Rows != nil {
			row.Cells[1] = *table.Rows
		}
		t.Rows = append(t.Rows, row)
	}
	return listed{Tabs: databaseTabs.at("Tables"), Table: t}, nil
}

func tablePath(name string) string { return DeskPath + "/database/tables/" + url.PathEscape(name) }

// tableTabs are the pages of one table.
func tableTabs(name, current string) []tab {
	return []tab{{Label: "All tables", Href: DeskPath + "/database"}, {Label: "Rows", Href: tablePath(name), Current: current == "Rows"}, {Label: "Structure", Href: tablePath(name) + "/structure", Current: current == "Structure"}}
}

// tableIn is the table in a path.
func tableIn(r *http.Request) string {
	name, err := url.PathUnescape(chi.URLParam(r, "table"))
	if err != nil {
		return ""
	}
	return name
}

// rowsPage is rows of a table.
type rowsPage struct {
	listed
	name string
}

// PageTitle is the table's name.
func (p rowsPage) PageTitle() string { return p.name }

type rowsPosition struct {
	Offset int `json:"o"`
}

func (p databasePages) rows(r *http.Request) (any, error) {
	var at rowsPosition
	if err := continued(r, &at); err != nil {
		return nil, err
	}
	name, q := tableIn(r), r.URL.Query()
	sel := dbview.Selection{Column: q.Get("column"), Operator: dbview.Operator(q.Get("operator")), Value: q.Get("value"), Sort: q.Get("sort"), Offset: at.Offset, Limit: pageRows}
	if sel.Operator == "" {
		sel.Operator = dbview.Equal
	}
	page := rowsPage{name: name, listed: listed{Tabs: tableTabs(name, "Rows")}}
	found, err := p.s.Rows(doing(r.Context(), viewDatabase), name, sel)
	if fault.KindOf(err) == fault.Invalid {
		page.Filter = rowsFilter(r, []string{sel.Column})
		return page, err
	}
	if err != nil {
		return nil, err
	}
	t := Table{Caption: "Rows of " + name, Empty: Empty{Title: "No rows", Detail: "The table is empty, or nothing in it matches."}}
	var names []string
	for _, c := range found.Columns {
		t.Columns = append(t.Columns, rowsColumn(r, c, found))
		names = append(names, c.Name)
	}
	for _, values := range found.Values {
		t.Rows = append(t.Rows, rowsRow(values, found.Columns, &t))
	}
	if q.Has("cursor") {
		t.First = with(r, "cursor", "")
	}
	if found.More {
		t.Next = with(r, "cursor", cursor(rowsPosition{at.Offset + pageRows}))
	}
	page.Table, page.Filter = t, rowsFilter(r, names)
	if sel.Sort != "" {
		page.Filter.Kept = []Option{{"sort", sel.Sort}}
	}
	return page, nil
}

// rowsFilter is the filter of a table with those columns.
func rowsFilter(r *http.Request, names []string) Filter {
	columns := Field{Name: "column", Label: "Column", Kind: "select", Options: []Option{{"", "Any"}}}
	for _, name := range names {
		columns.Options = append(columns.Options, Option{name, name})
	}
	operators := Field{Name: "operator", Label: "Condition", Kind: "select"}
	for _, o := range dbview.Operators() {
		operators.Options = append(operators.Options, Option{string(o), string(o)})
	}
	return filterOf(r, columns, operators, Field{Name: "value", Label: "Value"})
}

func rowsColumn(r *http.Request, c dbview.Column, found dbview.Rows) Column {
	column := sortable(r, c.Name, c.Name, found.Sort)
	column.Number = slices.Contains([]string{"smallint", "integer", "bigint", "numeric", "real", "double precision"}, c.Type)
	return column
}

// wideFrom is the length from which a value may wrap.
const wideFrom = 48

// rowsRow is a row, whose long values widen their columns of t.
func rowsRow(values []*string, columns []dbview.Column, t *Table) Row {
	var row Row
	for i, v := range values {
		cell := valueCell(v)
		if v != nil && columns[i].ToTable != "" {
			cell = Link{Text: *v, Href: tablePath(columns[i].ToTable) + "?" + query("column", columns[i].ToColumn) + "&" + query("value", *v)}
		}
		t.Columns[i].Wide = t.Columns[i].Wide || v != nil && len(*v) > wideFrom
		row.Cells = append(row.Cells, cell)
	}
	return row
}

// valueCell shows a value of the database. An empty text is no null.
func valueCell(v *string) any {
	switch {
	case v == nil:
		return nil
	case *v == "":
		return Code("''")
	}
	return *v
}

// structurePage is what a table is made of.
type structurePage struct {
	Tabs                          []tab
	Facts                         []Fact
	Columns, Indexes, Constraints Table
	name                          string
}

// PageTitle is the table's name.
func (p structurePage) PageTitle() string { return p.name }

func (p databasePages) structure(r *http.Request) (any, error) {
	name := tableIn(r)
	s, err := p.s.Structure(doing(r.Context(), viewDatabase), name)
	if err != nil {
		return nil, err
	}
	page := structurePage{
		name: name, Tabs: tableTabs(name, "Structure"),
		Facts:       []Fact{{"Size", Size(s.Table.TableBytes)}, {"Indexes", Size(s.Table.IndexBytes)}, {"Rows, about", nil}},
		Columns:     Table{Caption: "Columns", Columns: []Column{{Label: "Column"}, {Label: "Type"}, {Label: "Default"}, {Label: "Shown"}, {Label: "About", Wide: true}}},
		Indexes:     Table{Caption: "Indexes", Columns: []Column{{Label: "Index"}, {Label: "Definition", Wide: true}, {Label: "Size", Number: true}, {Label: "Uses", Number: true}}, Empty: Empty{Title: "No indexes"}},
		Constraints: Table{Caption: "Constraints", Columns: []Column{{Label: "Constraint"}, {Label: "Definition", Wide: true}}, Empty: Empty{Title: "No constraints"}},
	}
	if s.Table.Rows != nil {
		page.Facts[2].Value = *s.Table.Rows
	}
	if s.Table.Partitions > 0 {
		page.Facts = append(page.Facts, Fact{"Partitions", int64(s.Table.Partitions)})
	}
	for _, c := range s.Columns {
		kind := c.Type
		if c.Required {
			kind += ", not null"
		}
		shown := Badge{"shown", "good"}
		if !c.Shown {
			shown = Badge{"hidden", "quiet"}
		}
		about := []string{c.Comment}
		if c.ToTable != "" {
			about = append(about, "refers to "+c.ToTable+"."+c.ToColumn)
		}
		page.Columns.Rows = append(page.Columns.Rows, Row{Cells: []any{c.Name, kind, Code(c.Default), shown, strings.TrimSpace(strings.Join(about, " "))}})
	}
	for _, i := range s.Indexes {
		page.Indexes.Rows = append(page.Indexes.Rows, Row{Cells: []any{i.Name, Code(i.Definition), Size(i.Bytes), i.Scans}})
	}
	for _, c := range s.Constraints {
		page.Constraints.Rows = append(page.Constraints.Rows, Row{Cells: []any{c.Name, Code(c.Definition)}})
	}
	return page, nil
}

// activityPage is what goes on.
type activityPage struct {
	Tabs            []tab
	Backends, Locks Table
}

func (p databasePages) activity(r *http.Request) (any, error) {
	found, err := p.s.Activity(doing(r.Context(), viewDatabase))
	if err != nil {
		return nil, err
	}
	page := activityPage{
		Tabs: databaseTabs.at("Activity"),
		Backends: Table{Caption: "Connections, those that wait for a lock first", Empty: Empty{Title: "No other connections"}, Columns: []Column{
			{Label: "Process", Number: true}, {Label: "User"}, {Label: "Application"}, {Label: "State"}, {Label: "Since"}, {Label: "Transaction since"}, {Label: "Waits for"}, {Label: "Statement", Wide: true},
		}},
		Locks: Table{Caption: "Locks, those that are waited for first", Empty: Empty{Title: "No locks", Detail: "Nobody holds any at this moment."}, Columns: []Column{
			{Label: "On"}, {Label: "Mode"}, {Label: "State"}, {Label: "Count", Number: true}, {Label: "Processes", Wide: true},
		}},
	}
	for _, b := range found.Backends {
		state, waits := Badge{b.State, "quiet"}, b.WaitsFor
		if b.State == "active" {
			state.Tone = "good"
		}
		if len(b.BlockedBy) > 0 {
			state.Tone, waits = "bad", "a lock of "+numbers(b.BlockedBy)
		}
		row := Row{Cells: []any{strconv.Itoa(b.PID), b.User, b.Application, state, b.Since, b.Transaction, waits, Code(short(strings.Join(strings.Fields(b.Query), " "), 240))}}
		if b.State == "" {
			row.Cells[3] = nil
		}
		page.Backends.Rows = append(page.Backends.Rows, row)
	}
	for _, l := range found.Locks {
		state := Badge{"held", "quiet"}
		if !l.Granted {
			state = Badge{"waited for", "bad"}
		}
		page.Locks.Rows = append(page.Locks.Rows, Row{Cells: []any{l.On, l.Mode, state, l.Count, numbers(l.PIDs)}})
	}
	return page, nil
}

func numbers(list []int32) string {
	var texts []string
	for _, n := range list {
		texts = append(texts, strconv.Itoa(int(n)))
	}
	return strings.Join(texts, ", ")
}

func rowsIn(n int) string {
	if n == 1 {
		return "1 row in "
	}
	return grouped(int64(n)) + " rows in "
}

// consolePage is the console, with what came of a statement.
type consolePage struct {
	Tabs    []tab
	State   dbview.State
	Query   Field
	Problem string
	Answer  *Table
	About   string // the answer
	Plan    string // an explanation, line by line
}

func newConsolePage(sql string) consolePage {
	return consolePage{Tabs: databaseTabs.at("Console"), Query: Field{
		Name: "query", Label: "Statement", Kind: "textarea", Value: sql, Required: true,
		Hint: "One statement that returns rows. It may take 5 seconds and return 1,000 rows or 8 MiB, changes nothing, and its text is kept in the audit log.",
	}}
}

func (p databasePages) console(r *http.Request) (any, error) {
	state, err := p.s.State(r.Context())
	page := newConsolePage("")
	page.State = state
	return page, err
}

func (p databasePages) query(r *http.Request) (Outcome, error) {
	q := dbview.Question{SQL: r.PostForm.Get("query"), Explain: dbview.Explain(r.PostForm.Get("explain"))}
	page := newConsolePage(q.SQL)
	answer, err := p.s.Query(r.Context(), q)
	status := http.StatusOK
	if err != nil {
		f, ok := errors.AsType[*fault.Error](err)
		switch {
		case ok && f.Kind == fault.Invalid:
			status = http.StatusUnprocessableEntity
		case ok && f.Kind == fault.Conflict:
			status = http.StatusConflict
		default:
			return Outcome{}, err
		}
		page.Problem = f.Message
		for _, rule := range sorted(f.Details) {
			page.Problem += " " + rule
		}
		return Outcome{Show: &Shown{View: "console", Data: page, Status: status}}, nil
	}
	t := Table{Caption: "Rows", Empty: Empty{Title: "No rows"}}
	for _, c := range answer.Columns {
		t.Columns = append(t.Columns, Column{Label: c.Name, Number: c.Number})
	}
	for _, values := range answer.Values {
		var row Row
		for i, v := range values {
			row.Cells = append(row.Cells, valueCell(v))
			t.Columns[i].Wide = t.Columns[i].Wide || v != nil && len(*v) > wideFrom
		}
		t.Rows = append(t.Rows, row)
	}
	page.Answer, page.About = &t, rowsIn(len(answer.Values))+took(answer.Took)+". "+answer.Cut
	if q.Explain != dbview.Result { // a plan is one text, whose indentation means something
		var lines []string
		for _, values := range answer.Values {
			lines = append(lines, *values[0])
		}
		page.Answer, page.Plan = nil, strings.Join(lines, "\n")
	}
	return Outcome{Show: &Shown{View: "console", Data: page, Status: status}}, nil
}
