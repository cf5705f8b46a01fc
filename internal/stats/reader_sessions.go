package stats

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/stats/calendar"
)

// rankSessionLabels returns labels of the sessions that start inside the spans, for several
// dimensions. Of each span and dimension the first $4 labels keep their name; the rest, and
// any label that is literally (other), become one row.
//
// It is no query of sqlc, because it has the columns of dimensionTable.
var rankSessionLabels = strings.NewReplacer("/* label */", labelOfDimension(), "/* count */", countOfDimension()).Replace(`select ranked.dimension::text as dimension, ranked.label::text as label,
       ranked.visitors::bigint as visitors, ranked.pageviews::bigint as pageviews, ranked.total
from (
    select d.dimension, of_span.label, sum(of_span.visitors) as visitors, sum(of_span.pageviews) as pageviews,
           row_number() over (
               partition by d.dimension
               order by of_span.label = '(other)', sum(of_span.visitors) desc, sum(of_span.pageviews) desc, of_span.label
           ) as rank,
           count(*) over (partition by d.dimension) as total
    from (select unnest($1::text[]) as dimension) d
    cross join (select unnest($2::timestamptz[]) as starts_at, unnest($3::timestamptz[]) as ends_at) span
    cross join lateral (
        select case when r.rank > $4::int or r.label = '(other)' then '(other)' else r.label end as label,
               count(distinct r.visitor) as visitors,
               sum(r.pageviews) as pageviews
        from (
            select t.label, t.visitor, t.pageviews, dense_rank() over (
                       order by t.label = '(other)', t.label_visitors desc, t.label_pageviews desc, t.label
                   ) as rank
            from (
                select v.label, v.visitor, v.pageviews,
                       count(*) over (partition by v.label) as label_visitors,
                       sum(v.pageviews) over (partition by v.label) as label_pageviews
                from (
                    select l.label, l.visitor, sum(l.pageviews) as pageviews
                    from (
                        select /* label */ collate "C" as label,
                               s.visitor,
                               /* count */ as pageviews
                        from sessions s
                        where s.site_id = $5 and s.started_at >= span.starts_at and s.started_at < span.ends_at
                    ) l
                    where l.label <> ''
                    group by l.label, l.visitor
                ) v
            ) t
        ) r
        group by 1
    ) of_span
    group by d.dimension, of_span.label
) ranked
where ranked.rank <= $6::int
order by ranked.dimension, ranked.rank`)

// labelOfDimension is the label that a session s has of d.dimension, in SQL.
func labelOfDimension() string {
	var when strings.Builder
	for _, d := range dimensionTable {
		if d.of == ofSessions {
			fmt.Fprintf(&when, " when '%s' then s.%s", d.name, d.column)
		}
	}
	return "case d.dimension" + when.String() + " end"
}

// countOfDimension is what a session s counts as in d.dimension, in SQL.
func countOfDimension() string {
	var names []string
	for _, d := range dimensionTable {
		if d.perSession {
			names = append(names, "'"+string(d.name)+"'")
		}
	}
	return "case when d.dimension in (" + strings.Join(names, ", ") + ") then 1 else s.pageviews end"
}

// sessionLabels adds to out the first rows of dimensions of sessions.
func (r eventReader) sessionLabels(ctx context.Context, spans []calendar.Span, dimensions []string, limit int, out map[Dimension]List[Row]) error {
	starts, ends := bounds(spans)
	rows, err := r.tx.Query(ctx, rankSessionLabels, dimensions, starts, ends, int32(r.labelCap), r.siteID, int32(limit))
	if err != nil {
		return err
	}
	var name string
	var row Row
	var total int64
	_, err = pgx.ForEachRow(rows, []any{&name, &row.Label, &row.Visitors, &row.Pageviews, &total}, func() error {
		d := Dimension(name)
		out[d] = List[Row]{append(out[d].Rows, row), total}
		return nil
	})
	return err
}
