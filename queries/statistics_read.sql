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

-- name: RankPages :many
-- Pages viewed inside the spans: as RankSessionLabels, but pageviews first.
select of_span.label::text as label, sum(of_span.visitors)::bigint as visitors, sum(of_span.pageviews)::bigint as pageviews,
       count(*) over () as total
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
-- Custom events inside the spans, by name: of each span the first @name_cap names, and the
-- rest as RankSessionLabels.
select of_span.name::text as name, sum(of_span.count)::bigint as count, sum(of_span.visitors)::bigint as visitors, count(*) over () as total
from (select unnest(@starts::timestamptz[]) as starts_at, unnest(@ends::timestamptz[]) as ends_at) span
cross join lateral (
    select case when r.rank > @name_cap::int or r.name = '(other)' then '(other)' else r.name end as name,
           sum(r.own) as count, count(distinct r.visitor) as visitors
    from (
        select t.name, t.visitor, t.own, dense_rank() over (order by t.name = '(other)', t.name_count desc, t.name) as rank
        from (
            select v.name, v.visitor, v.own, sum(v.own) over (partition by v.name) as name_count
            from (
                select e.name collate "C" as name, e.visitor, count(*) as own
                from events e
                where e.site_id = @site_id and e.occurred_at >= span.starts_at and e.occurred_at < span.ends_at and e.name is not null
                group by 1, e.visitor
            ) v
        ) t
    ) r
    group by 1
) of_span
group by of_span.name
order by of_span.name = '(other)', sum(of_span.count) desc, of_span.name
limit @max_rows::int;

-- name: CountEventProps :many
-- Properties of one custom event inside the spans: of each span the first @key_cap keys,
-- and of each of these the first @value_cap values; the rest reads (other).
select r.key::text as key, r.value::text as value, sum(r.count)::bigint as count, count(*) over () as total
from (select unnest(@starts::timestamptz[]) as starts_at, unnest(@ends::timestamptz[]) as ends_at) span
cross join lateral (
    select case when k.key_rank > @key_cap::int then '(other)' else k.key end as key,
           case when k.key_rank > @key_cap::int or k.value_rank > @value_cap::int then '(other)' else k.value end as value, k.count
    from (
        select c.key, c.value, c.count, dense_rank() over (order by c.key_count desc, c.key) as key_rank,
               row_number() over (partition by c.key order by c.count desc, c.value) as value_rank
        from (
            select p.key collate "C" as key, p.value collate "C" as value, count(*) as count, sum(count(*)) over (partition by p.key collate "C") as key_count
            from events e
            cross join lateral jsonb_each_text(e.props) p (key, value)
            where e.site_id = @site_id and e.occurred_at >= span.starts_at and e.occurred_at < span.ends_at and e.name = @name::text
            group by 1, 2
        ) c
    ) k
) r
group by r.key, r.value
order by sum(r.count) desc, r.key, r.value
limit @max_rows::int;

-- name: FindFirstEvent :one
-- When the first event of a site happened that is known of: rollups outlive events, and
-- events come before rollups.
select min(f.at)::timestamptz as first_at
from (
    (select r.first_at as at from rollup_days r where r.site_id = @site_id order by r.day limit 1)
    union all
    (select e.occurred_at from events e where e.site_id = @site_id order by e.occurred_at limit 1)
) f
having count(*) > 0;
