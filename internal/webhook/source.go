package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/where"
)

// condition is what one filter demands of a row called x: ~ stands for its name.
type condition struct {
	of   string // the filter
	sql  string
	args []any
}

// on adds the condition for a row of another name.
func (c condition) on(to *where.Clause, name string) {
	to.Add(strings.ReplaceAll(c.sql, "~", name), c.args...)
}

// maxErrorFilter is how many characters of an error its index has.
const maxErrorFilter = 200

// conditions are what f demands of an event, one by one. Those of time are ofTime.
func (f Filter) conditions() []condition {
	var list []condition
	add := func(given bool, of, sql string, args ...any) {
		if given {
			list = append(list, condition{of, sql, args})
		}
	}
	add(f.Provider != "", "provider", "~.provider = ?", f.Provider)
	add(f.EventType != "", "type", "~.event_type = ?", f.EventType)
	add(f.ExternalID != "", "external", "~.external_id = ? and ~.external_id <> ''", f.ExternalID)
	switch f.Status { // spelled out, so that the index of a status is seen to have it
	case "":
	case Pending, Failed, Processed:
		add(true, "status", "~.status = '"+string(f.Status)+"'")
	default:
		add(true, "status", "~.status = ?", string(f.Status))
	}
	add(f.Error != "", "error", "~.handler_error <> '' and lower(left(~.handler_error, 200)) like lower(?) || '%'", where.Literal(f.Error))
	add(f.Unhandled, "unhandled", "~.status = 'processed' and ~.attempts = 0")
	add(f.Repeated, "repeated", "exists (select from webhook_repeats r where r.created_at = ~.created_at and r.id = ~.id)")
	add(f.Target != "", "target", "exists (select from webhook_forwards t where t.event_id = ~.id and t.target = ?)", f.Target)
	add(!f.From.IsZero(), ofTime, "~.created_at >= ?", f.From)
	add(!f.To.IsZero(), ofTime, "~.created_at < ?", f.To)
	return list
}

const ofTime = "time"

// source is where the events of a page can be looked for: an index that has the conditions
// of some filters, or a small table.
type source struct {
	from string // rows with id, created_at and provider
	// own are the filters that it answers by itself, besides time. first are those by
	// which it is ordered before the provider; most have none.
	own, first []string
	// always is a condition of all its rows, "" for none.
	always string
	// isEvent says that its rows are events, with all columns.
	isEvent bool
	// inOrder says that it has each provider's events in the order of time.
	inOrder bool
}

const events = "webhook_events"

// sources are where the events that match f can be looked for. The first is the best where
// all have many.
func (f Filter) sources() []source {
	var list []source
	add := func(given bool, s source) {
		if given {
			list = append(list, s)
		}
	}
	add(f.ExternalID != "", source{from: events, own: []string{"external", "provider"}, isEvent: true})
	add(f.Status == Failed || f.Status == Pending, source{from: events, own: []string{"status", "provider", "type"}, always: "~.status = '" + string(f.Status) + "'", isEvent: true, inOrder: true})
	add(f.Error != "" && f.Status == "", source{from: events, own: []string{"provider", "type"}, always: "~.handler_error <> ''", isEvent: true, inOrder: true})
	add(f.Error != "", source{from: events, own: []string{"error", "provider", "type", "status"}, isEvent: true})
	add(f.Repeated, source{from: "webhook_repeats", own: []string{"repeated", "provider", "type"}, inOrder: true})
	add(f.Target != "", source{from: "(select t.event_id as id, t.created_at, t.provider, t.target from webhook_forwards t)", own: []string{"target", "provider"}, inOrder: true})
	add(f.EventType != "", source{from: events, own: []string{"type", "provider"}, first: []string{"type"}, isEvent: true, inOrder: true})
	add(f.Unhandled, source{from: events, own: []string{"unhandled", "provider", "type"}, always: "~.status = 'processed' and ~.attempts = 0", isEvent: true, inOrder: true})
	add(len(list) == 0, source{from: events, own: []string{"provider"}, isEvent: true, inOrder: true})
	return list
}

// has is how a source's rows meet the condition of a filter that it answers.
func (s source) has(c condition) condition {
	switch {
	case c.of == "repeated" && !s.isEvent:
		c.sql = "true" // all of them
	case c.of == "target" && !s.isEvent:
		c.sql = "~.target = ?"
	}
	return c
}

// split are the conditions that the source answers itself, and the others.
func (s source) split(all []condition) (own, rest []condition) {
	if s.always != "" {
		own = append(own, condition{sql: s.always})
	}
	for _, c := range all {
		if c.of == ofTime || slices.Contains(s.own, c.of) {
			own = append(own, s.has(c))
		} else {
			rest = append(rest, c)
		}
	}
	return own, rest
}

// and is the clause of conditions on a row of that name, from " where" on.
func and(args *where.Clause, name string, of ...[]condition) string {
	c := args.Beside()
	for _, one := range slices.Concat(of...) {
		one.on(c, name)
	}
	return c.SQL()
}

const (
	// few is how many events are found and sorted rather than looked for from the newest
	// on; otherwise a page without any could walk through all events. With so few there is
	// no better source.
	few = 1000
	// many is up to where sources are counted, to find the one that has the fewest, and how
	// many of their entries are looked at for that.
	many = 4000
	// manyUnordered is many for a source without the order of time, which is good for few.
	manyUnordered = 1500
)

// ordered is how a page is ordered, by a row of that name.
func ordered(name string) string {
	return " order by " + name + ".created_at desc, " + name + ".id desc"
}

// page returns the statement of a page of what matches f, and its arguments: newest first,
// from behind after, where it isn't nil.
func (f Filter) page(ctx context.Context, from querier, after *Position, limit int) (string, *where.Clause, error) {
	all := f.conditions()
	if after != nil {
		all = append(all, condition{ofTime, "(~.created_at, ~.id) < (?, ?)", []any{after.CreatedAt, after.ID}})
	}
	list := f.sources()
	counts, err := f.count(ctx, from, list, all)
	if err != nil {
		return "", nil, err
	}
	best := 0
	for i, n := range counts {
		if n < counts[best] {
			best = i
		}
	}
	args := where.New(MaxInlineBody)
	return list[best].page(args, all, f.Provider == "", counts[best] < few, limit), args, nil
}

// count counts what each source has of what it answers, up to many, from the last on until
// one has the fewest. A single one that has the order needs no counting, unless most of what
// it has may not match. One without the order is good for few only.
func (f Filter) count(ctx context.Context, from querier, list []source, all []condition) ([]int64, error) {
	counts := slices.Repeat([]int64{many}, len(list))
	if _, rest := list[0].split(all); len(list) == 1 && list[0].inOrder && (len(rest) == 0 || list[0].always == "" && len(list[0].own) == 1) {
		return counts, nil
	}
	for i, s := range slices.Backward(list) {
		args := where.New()
		limit := many
		if !s.inOrder {
			limit = manyUnordered
		}
		rows, err := from.Query(ctx, s.counting(args, all, limit), args.Fresh()...)
		if err != nil {
			return nil, err
		}
		n, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
		if err != nil {
			return nil, err
		}
		if n < int64(limit) {
			counts[i] = n
		}
		if counts[i] < few {
			break
		}
	}
	return counts, nil
}

// counting is the statement that counts what the source has of what it answers, up to limit.
// What its entries are not ordered by, a type or, without a provider, the time, may be rare
// among them: of these so many are looked at, and what is behind them may be any number.
func (s source) counting(args *where.Clause, all []condition, limit int) string {
	own, _ := s.split(all)
	oneProvider := slices.ContainsFunc(own, func(c condition) bool { return c.of == "provider" })
	columns := "x.id, x.created_at"
	var leads, among []condition
	for _, c := range own {
		switch {
		case c.of == "type" && !slices.Contains(s.first, "type"):
			columns += ", x.event_type"
			among = append(among, c)
		case c.of == ofTime && !oneProvider:
			among = append(among, c)
		default:
			leads = append(leads, c)
		}
	}
	if len(among) == 0 {
		return fmt.Sprintf("select count(*) from (select from %s x%s limit %d) n", s.from, and(args, "x", leads), limit)
	}
	return fmt.Sprintf("select case when l.looked = %[1]d then %[1]d else l.n end from (select count(*) as looked, count(*) filter (%[2]s) as n from (select %[3]s from %[4]s x%[5]s limit %[1]d) e) l",
		limit, and(args, "e", among), columns, s.from, and(args, "x", leads))
}

// page is the statement of a page of the source's events that meet all conditions. Few are
// found without an order, and sorted. Otherwise an index leads to each provider's newest.
func (s source) page(args *where.Clause, all []condition, everyProvider, isFew bool, limit int) string {
	own, rest := s.split(all)
	given, newest := "", ""
	switch {
	case isFew || !s.inOrder:
		newest = fmt.Sprintf("select m.id, m.created_at from (select x.id, x.created_at from %s x%s offset 0) m%s%s limit %d",
			s.from, and(args, "x", own), s.others(args, "m", rest), ordered("m"), limit)
	case !everyProvider || len(s.own) == 1:
		newest = s.walk(args, own, rest, "", limit)
	default:
		given = s.given(args, own)
		newest = "select n.id, n.created_at from given g cross join lateral (" + s.walk(args, own, rest, "g.provider", limit) + ") n" + haveAny(args, rest) + ordered("n") + fmt.Sprintf(" limit %d", limit)
	}
	return "with recursive " + given + "newest as (" + newest + ")" + recordColumns + " where e.id = any (array(select id from newest))" + ordered("e")
}

// haveAny is the clause of providers, called g, that have anything of the tables that a walk
// asks for each event: of another provider all events would be asked about in vain. The
// first entry from there on tells, which no plan but a step of the index is cheaper than.
func haveAny(args *where.Clause, rest []condition) string {
	c := args.Beside()
	c.Add("g.provider is not null")
	for _, one := range rest {
		switch one.of {
		case "repeated":
			c.Add("(select r.provider from webhook_repeats r where r.provider >= g.provider order by r.provider limit 1) = g.provider")
		case "target":
			c.Add("(select t.target from webhook_forwards t where t.provider = g.provider and t.target >= ? order by t.target limit 1) = ?", one.args[0], one.args[0])
		}
	}
	return c.SQL()
}

// walk is the statement of the newest events, of one provider where there is one. What the
// source doesn't answer is asked of each event by itself: offset 0 keeps the planner from
// joining, which would read all of the source.
func (s source) walk(args *where.Clause, own, rest []condition, provider string, limit int) string {
	own = slices.Clone(own)
	if provider != "" {
		own = append(own, condition{sql: "~.provider = " + provider})
	}
	asked := []condition{{sql: "~.id = x.id"}}
	for _, c := range rest {
		if c.of == "repeated" || c.of == "target" { // of a table of their own, by what each source has
			own = append(own, condition{sql: strings.TrimSuffix(c.sql, ")") + " offset 0)", args: c.args})
		} else {
			asked = append(asked, c)
		}
	}
	if len(asked) > 1 {
		own = append(own, condition{sql: "exists (select from " + events + " e" + and(args, "e", asked) + " offset 0)"})
	}
	return "select x.id, x.created_at from " + s.from + " x" + and(args, "x", own) + ordered("x") + fmt.Sprintf(" limit %d", limit)
}

// others joins the events of rows to what they must meet besides.
func (s source) others(args *where.Clause, name string, rest []condition) string {
	if len(rest) == 0 {
		return ""
	}
	return " join " + events + " e on e.id = " + name + ".id" + and(args, "e", rest)
}

// given finds the providers that a source has, one step of its index each, as the table
// of that name.
func (s source) given(args *where.Clause, own []condition) string {
	is := []condition{{sql: "true"}}
	if s.always != "" {
		is[0].sql = s.always
	}
	for _, c := range own {
		if slices.Contains(s.first, c.of) {
			is = append(is, c)
		}
	}
	clause := and(args, "x", is)
	return fmt.Sprintf(`given (provider) as (
    (select x.provider from %[1]s x%[2]s order by x.provider limit 1)
    union all
    select (select x.provider from %[1]s x%[2]s and x.provider > g.provider order by x.provider limit 1) from given g where g.provider is not null
), `, s.from, clause)
}
