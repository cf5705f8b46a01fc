package stats

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// filteredReader answers from the events and sessions that filters leave. There
// are no rollups for that: it costs as much as there are events.
type filteredReader struct {
	tx       pgx.Tx
	siteID   uuid.UUID
	labelCap int
	filters  Filters
}

// spanSQL begins every query: $1 is the site, $2 and $3 are the spans' bounds.
// #EVENTS# and #SESSIONS# are what counts inside a span.
const spanSQL = `
with span as (
    select row_number() over () as ordinal, b.starts_at, b.ends_at
    from unnest($2::timestamptz[], $3::timestamptz[]) b (starts_at, ends_at)
)
`

var filteredSQL = map[string]string{
	"traffic": spanSQL + `
select span.ordinal, t.pageviews, t.visitors
from span cross join lateral (
    select count(*) filter (where e.name is null) as pageviews, count(distinct e.visitor) as visitors from #EVENTS#
) t order by 1`,
	"sessions": spanSQL + `
select span.ordinal, t.sessions, t.bounces, t.micros
from span cross join lateral (
    select count(*) as sessions, count(*) filter (where s.pageviews = 1 and s.events = 0) as bounces,
           coalesce(sum(extract(epoch from s.last_at - s.started_at) * 1000000), 0)::bigint as micros
    from #SESSIONS#
) t order by 1`,
	"page": rankSQL(`select e.path collate "C" as label, e.visitor, count(*) as pageviews from #EVENTS# and e.name is null and e.path <> '' group by 1, 2`,
		"sum(pageviews) desc, sum(visitors) desc"),
	"label": rankSQL(`select #LABEL# collate "C" as label, s.visitor, sum(#VIEWS#) as pageviews from #SESSIONS# and #LABEL# <> '' group by 1, 2`,
		"sum(visitors) desc, sum(pageviews) desc"),
	"events": spanSQL + `
select t.name, sum(t.count)::bigint, sum(t.visitors)::bigint
from span cross join lateral (
    select e.name collate "C" as name, count(*) as count, count(distinct e.visitor) as visitors
    from #EVENTS# and e.name is not null group by 1
) t group by 1 order by 2 desc, 1 limit $4`,
	"props": spanSQL + `
select p.key collate "C", p.value collate "C", count(*)
from span cross join lateral (select e.props from #EVENTS# and e.name = $5::text) t
cross join lateral jsonb_each_text(t.props) p (key, value)
group by 1, 2 order by 3 desc, 1, 2 limit $4`,
}

// rankSQL ranks the labels of perVisitor, which has one row per label and
// visitor of a span: of each span the first $5 labels by order keep their name,
// the rest, and any label that is literally (other), become one row.
func rankSQL(perVisitor, order string) string {
	const perLabel = `count(*) over (partition by v.label) as visitors, sum(v.pageviews) over (partition by v.label) as pageviews`
	withinSpan := strings.NewReplacer("sum(pageviews)", "l.pageviews", "sum(visitors)", "l.visitors").Replace(order)
	return spanSQL + `
select label, sum(visitors)::bigint, sum(pageviews)::bigint
from span cross join lateral (
    select case when r.rank > $5::int or r.label = '(other)' then '(other)' else r.label end as label,
           count(distinct r.visitor) as visitors, sum(r.own) as pageviews
    from (
        select l.label, l.visitor, l.own, dense_rank() over (order by l.label = '(other)', ` + withinSpan + `, l.label) as rank
        from (select v.label, v.visitor, v.pageviews as own, ` + perLabel + ` from (` + perVisitor + `) v) l
    ) r group by 1
) of_span
group by label
order by label = '(other)', ` + order + `, label
limit $4`
}

// sql completes a query; args follow the three of spanSQL.
func (r filteredReader) sql(name string, spans []DaySpan, args ...any) (string, []any) {
	starts, ends := bounds(spans)
	c := conditionsOf(r.filters, append([]any{r.siteID, starts, ends}, args...)...)
	return strings.NewReplacer(
		"#EVENTS#", "events e where e.site_id = $1 and e.occurred_at >= span.starts_at and e.occurred_at < span.ends_at"+c.events,
		"#SESSIONS#", "sessions s where s.site_id = $1 and s.started_at >= span.starts_at and s.started_at < span.ends_at"+c.sessions,
	).Replace(filteredSQL[name]), c.args
}

// Traffic implements Reader.
func (r filteredReader) Traffic(ctx context.Context, spans []DaySpan) ([]Traffic, error) {
	out := make([]Traffic, len(spans))
	query, args := r.sql("traffic", spans)
	var ordinal int
	var t Traffic
	return out, r.each(ctx, query, args, []any{&ordinal, &t.Pageviews, &t.Visitors}, func() { out[ordinal-1] = t })
}

// Sessions implements Reader.
func (r filteredReader) Sessions(ctx context.Context, spans []DaySpan) ([]SessionTotals, error) {
	out := make([]SessionTotals, len(spans))
	query, args := r.sql("sessions", spans)
	var ordinal int
	var t SessionTotals
	return out, r.each(ctx, query, args, []any{&ordinal, &t.Sessions, &t.Bounces, &t.Micros}, func() { out[ordinal-1] = t })
}

// labelColumns are where a session has its labels.
var labelColumns = map[Dimension]string{
	ByEntry: "s.entry_path", ByExit: "s.exit_path", BySource: "s.source", ByUTMSource: "s.utm_source", ByUTMMedium: "s.utm_medium",
	ByUTMCampaign: "s.utm_campaign", ByUTMTerm: "s.utm_term", ByUTMContent: "s.utm_content",
	ByCountry: "s.country", ByDevice: "s.device", ByBrowser: "s.browser", ByOS: "s.os",
}

// Breakdowns implements Reader.
func (r filteredReader) Breakdowns(ctx context.Context, spans []DaySpan, dimensions []Dimension, limit int) (map[Dimension][]Row, error) {
	out := make(map[Dimension][]Row, len(dimensions))
	for _, d := range dimensions {
		name := "label"
		if d == ByPage {
			name = "page"
		}
		query, args := r.sql(name, spans, limit, r.labelCap)
		views := "s.pageviews"
		if d == ByEntry || d == ByExit {
			views = "1"
		}
		query = strings.NewReplacer("#LABEL#", labelColumns[d], "#VIEWS#", views).Replace(query)
		var row Row
		rows := []Row{}
		if err := r.each(ctx, query, args, []any{&row.Label, &row.Visitors, &row.Pageviews}, func() { rows = append(rows, row) }); err != nil {
			return nil, err
		}
		out[d] = rows
	}
	return out, nil
}

// CustomEvents implements Reader.
func (r filteredReader) CustomEvents(ctx context.Context, spans []DaySpan, limit int) ([]EventCount, error) {
	out := []EventCount{}
	query, args := r.sql("events", spans, limit)
	var e EventCount
	err := r.each(ctx, query, args, []any{&e.Name, &e.Count, &e.Visitors}, func() { out = append(out, e) })
	return out, err
}

// Props implements Reader.
func (r filteredReader) Props(ctx context.Context, spans []DaySpan, name string, limit int) ([]PropCount, error) {
	out := []PropCount{}
	query, args := r.sql("props", spans, limit, name)
	var p PropCount
	err := r.each(ctx, query, args, []any{&p.Key, &p.Value, &p.Count}, func() { out = append(out, p) })
	return out, err
}

// each runs query and calls f for every row scanned into dest.
func (r filteredReader) each(ctx context.Context, query string, args, dest []any, f func()) error {
	rows, err := r.tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, dest, func() error {
		f()
		return nil
	})
	return err
}
