-- The read side of site statistics. A span is a site day or a piece of one, so
-- what is distinct inside a span may be summed over spans: a visitor's hash
-- lasts one site day. Spans come as two arrays of equal length, half-open.

-- name: CountTraffic :many
-- What happened inside each span; ordinal counts the spans from 1.
select span.ordinal::int as ordinal, t.pageviews, t.visitors
from (
    select generate_subscripts(@starts::timestamptz[], 1) as ordinal,
           unnest(@starts::timestamptz[]) as starts_at,
           unnest(@ends::timestamptz[]) as ends_at
) span
cross join lateral (
    select count(*) filter (where e.name is null) as pageviews,
           count(distinct e.visitor) as visitors
    from events e
    where e.site_id = @site_id and e.occurred_at >= span.starts_at and e.occurred_at < span.ends_at
) t
order by span.ordinal;

-- name: CountSessions :many
-- The sessions that start inside each span, whole.
select span.ordinal::int as ordinal, t.sessions, t.bounces, t.duration_us
from (
    select generate_subscripts(@starts::timestamptz[], 1) as ordinal,
           unnest(@starts::timestamptz[]) as starts_at,
           unnest(@ends::timestamptz[]) as ends_at
) span
cross join lateral (
    select count(*) as sessions,
           count(*) filter (where s.pageviews = 1 and s.events = 0) as bounces,
           coalesce(sum(extract(epoch from s.last_at - s.started_at) * 1000000), 0)::bigint as duration_us
    from sessions s
    where s.site_id = @site_id and s.started_at >= span.starts_at and s.started_at < span.ends_at
) t
order by span.ordinal;

-- name: RankSessionLabels :many
-- Labels of the sessions that start inside the spans, for several dimensions. Of
-- each span and dimension the first @label_cap labels keep their name; the rest,
-- and any label that is literally (other), become one row.
select ranked.dimension::text as dimension, ranked.label::text as label,
       ranked.visitors::bigint as visitors, ranked.pageviews::bigint as pageviews
from (
    select d.dimension, of_span.label, sum(of_span.visitors) as visitors, sum(of_span.pageviews) as pageviews,
           row_number() over (
               partition by d.dimension
               order by of_span.label = '(other)', sum(of_span.visitors) desc, sum(of_span.pageviews) desc, of_span.label
           ) as rank
    from (select unnest(@dimensions::text[]) as dimension) d
    cross join (select unnest(@starts::timestamptz[]) as starts_at, unnest(@ends::timestamptz[]) as ends_at) span
    cross join lateral (
        select case when r.rank > @label_cap::int or r.label = '(other)' then '(other)' else r.label end as label,
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
                        select case d.dimension
                                   when 'entry' then s.entry_path
                                   when 'exit' then s.exit_path
                                   when 'source' then s.source
                                   when 'utm_source' then s.utm_source
                                   when 'utm_medium' then s.utm_medium
                                   when 'utm_campaign' then s.utm_campaign
                                   when 'utm_term' then s.utm_term
                                   when 'utm_content' then s.utm_content
                                   when 'country' then s.country
                                   when 'device' then s.device
                                   when 'browser' then s.browser
                                   when 'os' then s.os
                               end collate "C" as label,
                               s.visitor,
                               case when d.dimension in ('entry', 'exit') then 1 else s.pageviews end as pageviews
                        from sessions s
                        where s.site_id = @site_id and s.started_at >= span.starts_at and s.started_at < span.ends_at
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
where ranked.rank <= @max_rows::int
order by ranked.dimension, ranked.rank;

-- name: RankPages :many
-- Pages viewed inside the spans: as RankSessionLabels, but pageviews first.
select of_span.label::text as label, sum(of_span.visitors)::bigint as visitors, sum(of_span.pageviews)::bigint as pageviews
from (select unnest(@starts::timestamptz[]) as starts_at, unnest(@ends::timestamptz[]) as ends_at) span
cross join lateral (
    select case when r.rank > @label_cap::int or r.label = '(other)' then '(other)' else r.label end as label,
           count(distinct r.visitor) as visitors,
           sum(r.pageviews) as pageviews
    from (
        select t.label, t.visitor, t.pageviews, dense_rank() over (
                   order by t.label = '(other)', t.label_pageviews desc, t.label_visitors desc, t.label
               ) as rank
        from (
            select v.label, v.visitor, v.pageviews,
                   count(*) over (partition by v.label) as label_visitors,
                   sum(v.pageviews) over (partition by v.label) as label_pageviews
            from (
                select e.path collate "C" as label, e.visitor, count(*) as pageviews
                from events e
                where e.site_id = @site_id and e.occurred_at >= span.starts_at and e.occurred_at < span.ends_at
                  and e.name is null and e.path <> ''
                group by 1, e.visitor
            ) v
        ) t
    ) r
    group by 1
) of_span
group by of_span.label
order by of_span.label = '(other)', sum(of_span.pageviews) desc, sum(of_span.visitors) desc, of_span.label
limit @max_rows::int;

-- name: CountCustomEvents :many
-- Custom events inside the spans, by name.
select of_span.name::text as name, sum(of_span.count)::bigint as count, sum(of_span.visitors)::bigint as visitors
from (select unnest(@starts::timestamptz[]) as starts_at, unnest(@ends::timestamptz[]) as ends_at) span
cross join lateral (
    select e.name collate "C" as name, count(*) as count, count(distinct e.visitor) as visitors
    from events e
    where e.site_id = @site_id and e.occurred_at >= span.starts_at and e.occurred_at < span.ends_at and e.name is not null
    group by e.name collate "C"
) of_span
group by of_span.name
order by sum(of_span.count) desc, of_span.name
limit @max_rows::int;

-- name: CountEventProps :many
-- Properties of one custom event inside the spans.
select p.key::text as key, p.value::text as value, count(*) as count
from (
    select unnest(@starts::timestamptz[]) as starts_at, unnest(@ends::timestamptz[]) as ends_at
) span
join events e on e.site_id = @site_id and e.occurred_at >= span.starts_at and e.occurred_at < span.ends_at
cross join lateral jsonb_each_text(e.props) p (key, value)
where e.name = @name::text
group by p.key, p.value
order by count(*) desc, p.key collate "C", p.value collate "C"
limit @max_rows::int;
