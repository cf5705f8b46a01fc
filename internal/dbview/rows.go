package dbview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waypost/waypost/db/where"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/text"
)

// Operator compares a column with a value.
type Operator string

// The operators.
const (
	Equal    Operator = "is"
	Unequal  Operator = "is not"
	Less     Operator = "is less than"
	Greater  Operator = "is greater than"
	Contains Operator = "contains"
	Empty    Operator = "is null"
	Present  Operator = "is not null"
)

// Operators are all of them, in the order of a form.
func Operators() []Operator {
	return []Operator{Equal, Unequal, Contains, Less, Greater, Empty, Present}
}

// Selection says which rows of a table are wanted, in which order.
type Selection struct {
	// Column is compared with Value; "" for every row.
	Column   string
	Operator Operator
	Value    string
	// Sort is a column, "-" before it turns the order round; "" for the newest by
	// primary key first.
	Sort string
	// Offset is how many rows are passed over, up to 10,000.
	Offset, Limit int
}

// Rows are rows of a table.
type Rows struct {
	// Columns are those that are shown.
	Columns []Column
	// Values are texts as PostgreSQL writes them, nil for null, shortened to 500
	// characters.
	Values [][]*string
	// Sort is the order that they have.
	Sort string
	// More says that others follow.
	More bool
}

// maxOffset is how far a list can be leafed through; the database reads all that it
// passes over.
const maxOffset = 10_000

// Rows reads rows. It returns ErrTable, a validation fault, and ErrExpensive.
func (s *Service) Rows(ctx context.Context, table string, sel Selection) (Rows, error) {
	if !isName(table) {
		return Rows{}, ErrTable
	}
	if err := sel.validate(); err != nil {
		return Rows{}, err
	}
	what := map[string]any{"what": "database view", "page": "rows", "table": table}
	for name, value := range map[string]string{"column": sel.Column, "operator": string(sel.Operator), "value": sel.Value, "sort": sel.Sort} {
		if value != "" {
			what[name] = value
		}
	}
	if sel.Offset > 0 {
		what["offset"] = sel.Offset
	}
	var found Rows
	err := s.look(ctx, what, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := findTable(ctx, tx, table); err != nil {
			return err
		}
		all, err := columnsOf(ctx, tx, table)
		if err != nil {
			return err
		}
		found.Columns = slices.DeleteFunc(all, func(c Column) bool { return !c.Shown })
		sql, args, err := sel.statement(table, &found)
		if err != nil {
			return err
		}
		found.Values, err = readRows(ctx, tx, sql, args, len(found.Columns))
		return err
	})
	if err != nil {
		return Rows{}, fmt.Errorf("dbview: rows: %w", unreadable(err))
	}
	if found.More = len(found.Values) > sel.Limit; found.More {
		found.Values = found.Values[:sel.Limit]
	}
	return found, nil
}

func (sel Selection) validate() error {
	details := map[string]string{}
	if sel.Column != "" && !slices.Contains(Operators(), sel.Operator) {
		details["operator"] = "Choose one of the list."
	}
	for name, column := range map[string]string{"column": sel.Column, "sort": strings.TrimPrefix(sel.Sort, "-")} {
		if !isName(column) {
			details[name] = "There is no such column, or it is hidden."
		}
	}
	if !text.Storable(sel.Value) || !text.Within(sel.Value, 0, 1000) {
		details["value"] = "Give at most 1,000 characters, without U+0000."
	}
	if sel.Offset < 0 || sel.Offset > maxOffset {
		details["offset"] = "A table can be leafed through for 10,000 rows. Filter or sort it to get at others."
	}
	if len(details) > 0 {
		return fault.Validation(details)
	}
	return nil
}

// statement reads the rows. Every name in it is one of found.Columns, and every value
// an argument.
func (sel Selection) statement(table string, found *Rows) (string, []any, error) {
	names := make([]string, len(found.Columns))
	for i, c := range found.Columns {
		names[i] = "left(" + quote(c.Name) + "::text, 500)"
	}
	args := []any{sel.Limit + 1, sel.Offset}
	var condition string
	if sel.Column != "" {
		c, ok := find(found.Columns, sel.Column)
		if !ok {
			return "", nil, fault.Validation(map[string]string{"column": "There is no such column, or it is hidden."})
		}
		condition = " where " + sel.Operator.of(c)
		switch sel.Operator {
		case Empty, Present:
		case Contains:
			args = append(args, where.Containing(sel.Value))
		default:
			args = append(args, sel.Value)
		}
	}
	order, err := sel.order(found)
	if err != nil {
		return "", nil, err
	}
	return "select " + strings.Join(names, ", ") + " from " + quote(table) + condition + order + " limit $1::int offset $2::int", args, nil
}

// order ends with the primary key, so that pages don't overlap.
func (sel Selection) order(found *Rows) (string, error) {
	var keys []string
	ordered := slices.Clone(found.Columns)
	slices.SortStableFunc(ordered, func(a, b Column) int { return a.Key - b.Key })
	direction := " desc"
	if found.Sort = sel.Sort; sel.Sort != "" {
		name, back := strings.CutPrefix(sel.Sort, "-")
		if !back {
			direction = ""
		}
		if _, ok := find(found.Columns, name); !ok {
			return "", fault.Validation(map[string]string{"sort": "There is no such column, or it is hidden."})
		}
		keys = append(keys, quote(name)+direction)
	}
	for _, c := range ordered {
		if c.Key == 0 {
			continue
		}
		if key := quote(c.Name) + direction; !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
		if found.Sort == "" {
			found.Sort = "-" + c.Name
		}
	}
	if len(keys) == 0 {
		return "", nil
	}
	return " order by " + strings.Join(keys, ", "), nil
}

// of compares a column with the argument $3.
func (o Operator) of(c Column) string {
	name := quote(c.Name)
	symbols := map[Operator]string{Equal: "=", Unequal: "is distinct from", Less: "<", Greater: ">"}
	switch o {
	case Empty, Present:
		return name + " " + string(o)
	case Contains:
		return name + "::text ilike $3::text"
	}
	return name + " " + symbols[o] + " $3::text::" + c.Type
}

func find(list []Column, name string) (Column, bool) {
	i := slices.IndexFunc(list, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return Column{}, false
	}
	return list[i], true
}

// isName reports whether s could be a name in the database, or is empty.
func isName(s string) bool { return len(s) <= maxName && text.Storable(s) }

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// readRows reads rows of n texts. The statement is not kept for later ones.
func readRows(ctx context.Context, tx pgx.Tx, sql string, args []any, n int) ([][]*string, error) {
	rows, err := tx.Query(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]*string, error) {
		values := make([]*string, n)
		into := make([]any, n)
		for i := range values {
			into[i] = &values[i]
		}
		return values, row.Scan(into...)
	})
}

// unreadable makes a validation fault of what PostgreSQL says about a value that is
// none of the column's type, or a comparison that the type doesn't know.
func unreadable(err error) error {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	if ok && (strings.HasPrefix(pe.Code, "22") || pe.Code == "42883" || pe.Code == "42846") {
		return fault.Validation(map[string]string{"value": "The column can't be compared with this: " + pe.Message + "."}).Because(err)
	}
	return err
}
