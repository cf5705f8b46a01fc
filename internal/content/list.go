package content

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/db/where"
	"github.com/waypost/waypost/internal/content/words"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/text"
)

// pageBytes is about how much text one page has, so that a list of books costs no more
// memory than one of notes. A row that is larger has a page of its own.
const pageBytes = 4 << 20

// table is what lists need to know of a resource's table.
type table struct {
	name string
	// words is the table of its rows' words; "" for a table that is not searched.
	words string
	// timed says that the table of words has created_at as well, with an index.
	timed bool
	// size is SQL for about how many bytes a row p has.
	size string
	// orders are what lists are sorted by.
	orders page.Columns
}

// byTimeAndTitle are the orders of what has a title.
var byTimeAndTitle = page.Columns{{Sort: "created_at", Name: "created_at", Time: true}, {Sort: "title", Name: "title"}}

// condition is a part of a WHERE clause, in which rows are p.
type condition struct {
	sql  string
	args []any
}

// selection is what a list is of.
type selection struct {
	page.Request
	// ordered are conditions that indexes of the table's orders begin with.
	ordered []condition
	// others are other conditions. They may have an index of their own.
	others []condition
	query  words.Query
}

// list finds one page of a table and has read fetch its rows by their ids, in any order.
// It returns a validation fault whose details are keyed by q, sort or cursor.
func list[T any](ctx context.Context, s *Service, t table, sel selection, read func([]int64) ([]T, error), id func(T) int64) (page.Page[T], error) {
	if !text.Storable(sel.Query) {
		return page.Page[T]{}, fault.Validation(map[string]string{"q": "Must be text without U+0000."})
	}
	sel.query = words.Parse(sel.Query)
	o, problem := t.orders.Order(sel.Sort)
	if problem != "" {
		return page.Page[T]{}, fault.Validation(map[string]string{"sort": problem})
	}
	if problem := o.After(where.New(), "p", sel.After); problem != "" {
		return page.Page[T]{}, fault.Validation(map[string]string{"cursor": problem})
	}
	out := page.Page[T]{Limit: sel.Limit}
	if sel.Count {
		out.Total = new(int64)
		if err := s.count(ctx, t, sel, out.Total); err != nil {
			return page.Page[T]{}, db.Translate(err)
		}
	}
	rows, err := s.find(ctx, t, sel, o)
	if err != nil {
		return page.Page[T]{}, db.Translate(err)
	}
	rows, more := fit(rows, sel.Limit)
	if more {
		last := rows[len(rows)-1]
		out.Next = o.At(last.value, last.id)
	}
	out.Rows, err = inOrder(rows, read, id)
	return out, db.Translate(err)
}

func (s *Service) count(ctx context.Context, t table, sel selection, total *int64) error {
	c, from := where.New(), t.name+" p"
	add(c, sel.ordered)
	add(c, sel.others)
	if len(sel.query) > 0 {
		from += " join " + t.words + " w on w.id = p.id"
		c.Add("w.words @@ ?::tsquery", sel.query.String())
	}
	return s.o.DB.Direct().QueryRow(ctx, "select count(*) from "+from+c.SQL(), c.Args()...).Scan(total)
}

// find returns what the page holds and, if there is more, one row of that.
func (s *Service) find(ctx context.Context, t table, sel selection, o page.Order) ([]found, error) {
	if len(sel.query) > 0 {
		return s.search(ctx, t, sel, o)
	}
	c := where.New()
	add(c, sel.ordered)
	add(c, sel.others)
	_ = o.After(c, "p", sel.After) // list has looked at it
	return s.collect(ctx, t, o, "select p.id, p."+o.Name+" from "+t.name+" p"+c.SQL()+o.By("p")+" limit "+strconv.Itoa(sel.Limit+1), c)
}

func add(c *where.Clause, conditions []condition) {
	for _, one := range conditions {
		c.Add(one.sql, one.args...)
	}
}

// found is a row that a list has, before it is read.
type found struct {
	id    int64
	value string // of the column that the order is by
	size  int64
}

// collect runs a statement that selects the id and the order's column of rows. Their
// sizes are looked up here, so that no row is asked for its own that the page lacks.
func (s *Service) collect(ctx context.Context, t table, o page.Order, sql string, c *where.Clause) ([]found, error) {
	sql = "select f.id, " + o.Value("f") + ", (select " + t.size + " from " + t.name + " p where p.id = f.id) from (" + sql + ") f" + o.By("f")
	rows, err := s.o.DB.Direct().Query(ctx, sql, c.Args()...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (found, error) {
		var f found
		err := row.Scan(&f.id, &f.value, &f.size)
		return f, err
	})
}

// fit cuts what was found to a page, and says whether that left something.
func fit(rows []found, limit int) ([]found, bool) {
	var size int64
	for i, r := range rows {
		if size += r.size; i == limit || i > 0 && size > pageBytes {
			return rows[:i], true
		}
	}
	return rows, false
}

// inOrder reads rows and puts them into the order in which they were found. One that was
// deleted meanwhile is left out.
func inOrder[T any](rows []found, read func([]int64) ([]T, error), id func(T) int64) ([]T, error) {
	if len(rows) == 0 {
		return []T{}, nil
	}
	ids := make([]int64, len(rows))
	for i, r := range rows {
		ids[i] = r.id
	}
	unordered, err := read(ids)
	if err != nil {
		return nil, err
	}
	byID := make(map[int64]T, len(unordered))
	for _, row := range unordered {
		byID[id(row)] = row
	}
	ordered := make([]T, 0, len(rows))
	for _, i := range ids {
		if row, ok := byID[i]; ok {
			ordered = append(ordered, row)
		}
	}
	return ordered, nil
}
