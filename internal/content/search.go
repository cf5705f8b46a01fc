package content

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/db/where"
)

// How a search finds its page depends on how common its words are. Rows with a common
// word come soon when the table is walked in the list's order, and are far too many to be
// sorted. Rows with a rare word are few, and the index of words has them. PostgreSQL's
// planner can't be left to choose: it knows nothing of words that occur together or not
// at all, and takes a beginning, such as "w", to be rare. So a search tries a short walk
// first, and if that is not enough, counts in the same rows how common each word is.
const (
	// sampleRows is how many rows the first walk looks at.
	sampleRows = 1000
	// maxWalk is how many rows the second walk looks at, at most.
	maxWalk = 1 << 16
)

// What looking things up costs, measured in microseconds; only how they compare matters.
const (
	costWalked = 1.6 // a row that is walked, whose words are looked up
	costDirect = 0.3 // a row of the table of words that is walked
	costEntry  = 0.1 // an entry of the index of words
	costRow    = 6   // a row that the index has
)

// search returns the same as find, for a query with words.
func (s *Service) search(ctx context.Context, t table, sel selection, o page.Order) ([]found, error) {
	rows, err := s.walk(ctx, t, sel, o, s.sampleRows)
	if err != nil || len(rows) > sel.Limit {
		return rows, err
	}
	e, err := s.estimate(ctx, t, sel, o)
	if err != nil || e.walked < int64(s.sampleRows) { // then that were all rows
		return rows, err
	}
	chosen, cost := e.index()
	if distance := float64(sel.Limit+1) / e.together(); distance*t.costWalked(sel, o) < cost {
		// Three times as far as it takes, and in powers of two, so that statements repeat.
		n := int(math.Exp2(math.Ceil(math.Log2(3 * distance))))
		rows, err := s.walk(ctx, t, sel, o, min(n, maxWalk))
		if err != nil || len(rows) > sel.Limit {
			return rows, err
		}
	}
	return s.byIndex(ctx, t, sel, o, chosen)
}

// direct says that the table of words alone is walked: it has all that the order needs.
func (t table) direct(sel selection, o page.Order) bool {
	return t.timed && o.Name == "created_at" && len(sel.ordered) == 0
}

func (t table) costWalked(sel selection, o page.Order) float64 {
	if t.direct(sel, o) {
		return costDirect
	}
	return costWalked
}

// inOrder is the first n rows of the selection in its order, whatever their words are,
// with their ids, the order's column and the words.
func (t table) inOrder(c *where.Clause, sel selection, o page.Order, n int) string {
	add(c, sel.ordered)
	_ = o.After(c, "p", sel.After) // list has looked at it
	end := c.SQL() + o.By("p") + " limit " + strconv.Itoa(n)
	if t.direct(sel, o) {
		return "(select p.id, p.created_at, p.words from " + t.words + " p" + end + ") o"
	}
	// The words are looked up row by row, whatever the planner thinks of that.
	return "(select p.id, p." + o.Name + ", (select w.words from " + t.words + " w where w.id = p.id) as words from (select p.id, p." + o.Name +
		" from " + t.name + " p" + end + ") p offset 0) o"
}

// has is the condition that a row o has what the tsquery asks for. It is looked up row by
// row, whatever the planner thinks of that.
func (t table) has(c *where.Clause, query string) string {
	return "coalesce((select w.words @@ " + c.Arg(query) + "::tsquery from " + t.words + " w where w.id = o.id), false)"
}

// meets is the condition that a row o meets others.
func (t table) meets(c *where.Clause, others []condition) string {
	own := c.Beside()
	add(own, others)
	return "exists (select from " + t.name + " p where p.id = o.id" + own.And() + ")"
}

// walk looks at the first n rows in the order and returns those that match, up to one
// more than the page holds.
func (s *Service) walk(ctx context.Context, t table, sel selection, o page.Order, n int) ([]found, error) {
	c := where.New()
	sql := "select o.id, o." + o.Name + " from " + t.inOrder(c, sel, o, n) + " where coalesce(o.words @@ " + c.Arg(sel.query.String()) + "::tsquery, false)"
	if len(sel.others) > 0 {
		sql += " and " + t.meets(c, sel.others)
	}
	return s.collect(ctx, t, o, sql+o.By("o")+" limit "+strconv.Itoa(sel.Limit+1), c)
}

// estimate is how common things are among the rows that the first walk looked at.
type estimate struct {
	walked int64
	all    int64   // rows of the table
	terms  []int64 // of those walked, how many have each word of the query
	others []int64 // and how many meet each other condition
	hits   int64   // and how many match in all
}

// estimate counts in the rows that the first walk looked at.
func (s *Service) estimate(ctx context.Context, t table, sel selection, o page.Order) (estimate, error) {
	c := where.New()
	from := t.inOrder(c, sel, o, s.sampleRows)
	var flags []string
	for i := range sel.query {
		flags = append(flags, "coalesce(o.words @@ "+c.Arg(sel.query.Term(i))+"::tsquery, false)")
	}
	for _, one := range sel.others {
		flags = append(flags, t.meets(c, []condition{one}))
	}
	counts := make([]string, len(flags))
	for i := range flags {
		counts[i] = "count(*) filter (where is_so[" + strconv.Itoa(i+1) + "])"
	}
	sql := "select count(*), (select greatest(reltuples, 0)::bigint from pg_class where oid = '" + t.words + "'::regclass), array[" + strings.Join(counts, ", ") +
		"], count(*) filter (where true = all (is_so)) from (select array[" + strings.Join(flags, ", ") + "] as is_so from " + from + " offset 0) counted"
	var e estimate
	var each []int64
	err := s.o.DB.Direct().QueryRow(ctx, sql, c.Args()...).Scan(&e.walked, &e.all, &each, &e.hits)
	if err != nil {
		return estimate{}, err
	}
	e.terms, e.others = each[:len(sel.query)], each[len(sel.query):]
	return e, nil
}

// share is which part of all rows n of those walked stand for; never 0.
func (e estimate) share(n int64) float64 { return (float64(n) + 0.5) / (float64(e.walked) + 1) }

// together is which part of all rows match. What is too rare to be among those walked
// is taken to come together by chance.
func (e estimate) together() float64 {
	chance := 1.0
	for _, n := range slices.Concat(e.terms, e.others) {
		chance *= e.share(n)
	}
	return max(chance, float64(e.hits)/float64(e.walked))
}

// choice is what to ask indexes for: words of the query by their places in it, or one of
// the other conditions.
type choice struct {
	terms []int
	other int // -1 for words
}

// index returns the choice that costs least, and its cost. The index of words has to read
// every entry of a common word, or of a common beginning, so it is asked for rare ones only.
func (e estimate) index() (choice, float64) {
	order := make([]int, len(e.terms))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(e.terms[a] - e.terms[b]) })
	best, least := choice{}, math.Inf(1)
	entries, rows := 0.0, float64(e.all)
	for n, term := range order {
		share := e.share(e.terms[term])
		entries += share * float64(e.all)
		rows *= share
		if cost := entries*costEntry + rows*costRow; cost < least {
			best, least = choice{terms: order[:n+1], other: -1}, cost
		}
	}
	for i, n := range e.others {
		if cost := e.share(n) * float64(e.all) * costRow; cost < least {
			best, least = choice{other: i}, cost
		}
	}
	return best, least
}

// byIndex asks an index for the rows that have what was chosen, and sorts those of them
// that match.
func (s *Service) byIndex(ctx context.Context, t table, sel selection, o page.Order, chosen choice) ([]found, error) {
	c := where.New()
	var candidates string
	if chosen.other >= 0 {
		own := c.Beside()
		add(own, sel.others[chosen.other:chosen.other+1])
		candidates = "select p.id from " + t.name + " p" + own.SQL()
	} else {
		terms := make([]string, len(chosen.terms))
		for i, term := range chosen.terms {
			terms[i] = sel.query.Term(term)
		}
		candidates = "select w.id from " + t.words + " w where w.words @@ " + c.Arg(strings.Join(terms, " & ")) + "::tsquery"
	}
	own := c.Beside()
	add(own, sel.ordered)
	add(own, sel.others)
	_ = o.After(own, "p", sel.After) // list has looked at it
	sql := "with o as materialized (" + candidates + ") select p.id, p." + o.Name + " from o join " + t.name + " p on p.id = o.id where " + t.has(c, sel.query.String()) + own.And()
	return s.collect(ctx, t, o, sql+o.By("p")+" limit "+strconv.Itoa(sel.Limit+1), c)
}
