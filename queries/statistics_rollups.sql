-- Rollups: what the reader takes instead of events, and its upkeep. Writes happen
-- under the lock of the site's row in rollup_sites.

-- name: ListRollupDays :many
-- ListRollupDays returns the calendar's stored days around a window, with their
-- rollups where there are any, and whether visitors of an open day are yet to be
-- folded into them.
select d.day, d.starts_at, d.ends_at, d.state, d.packed, d.trimmed, r.first_at, r.last_at,
       coalesce(r.pageviews, 0)::bigint as pageviews, coalesce(r.visitors, 0)::bigint as visitors,
       coalesce(r.sessions, 0)::bigint as sessions, coalesce(r.bounces, 0)::bigint as bounces,
       coalesce(r.duration_us, 0)::bigint as duration_us,
       (d.state = 'open' and exists (
           select 1 from session_heads h where h.site_id = @site_id and h.day = d.day and h.stale
       ))::boolean as stale
from site_days d
left join rollup_days r on r.site_id = d.site_id and r.day = d.day
where d.site_id = @site_id and d.day between @first_day and @last_day
order by d.day;

-- name: ListRollupHours :many
select day, starts_at, pageviews, visitors
from rollup_hours
where site_id = @site_id and day between @first_day and @last_day;

-- name: ListRollupBlocks :many
select level, first_day
from rollup_blocks
where site_id = @site_id and first_day between @first_day and @last_day;

-- name: ListRollupLabels :many
select id, label, value from rollup_labels where site_id = @site_id and id = any (@ids::bigint[]);

-- name: FindRollupLabels :many
select id, digest, open_day from rollup_labels where site_id = @site_id and digest = any (@digests::bytea[]);

-- name: ListStaleVisitors :many
select visitor from session_heads
where site_id = @site_id and day = @day and stale
limit @max_rows;

-- name: ListSessionEvents :many
-- ListSessionEvents returns the events of some sessions of a day, in no order.
select visitor, session_id, occurred_at, id, path, hostname, name, props
from events
where site_id = @site_id and day = @day and session_id = any (@sessions::bigint[])
  and occurred_at >= @starts_at and occurred_at < @ends_at;

-- name: ListDayVisitors :many
select distinct visitor from sessions
where site_id = @site_id and day = @day and visitor > @after
order by visitor
limit @max_rows;

-- name: ListVisitorPortions :many
select visitor, portion from rollup_visitors
where site_id = @site_id and day = @day and visitor = any (@visitors::bigint[]);

-- name: ListDayProps :many
-- ListDayProps counts the properties of some custom events of a stretch of a day, with the
-- caps of CountEventProps for each of them.
select r.name::text as name, r.key::text as key, r.value::text as value, sum(r.count)::bigint as count
from (
    select k.name, case when k.key_rank > @key_cap::int then '(other)' else k.key end as key,
           case when k.key_rank > @key_cap::int or k.value_rank > @value_cap::int then '(other)' else k.value end as value, k.count
    from (
        select c.name, c.key, c.value, c.count, dense_rank() over (partition by c.name order by c.key_count desc, c.key) as key_rank,
               row_number() over (partition by c.name, c.key order by c.count desc, c.value) as value_rank
        from (
            select e.name, p.key collate "C" as key, p.value collate "C" as value, count(*) as count,
                   sum(count(*)) over (partition by e.name, p.key collate "C") as key_count
            from events e
            cross join lateral jsonb_each_text(e.props) p (key, value)
            where e.site_id = @site_id and e.occurred_at >= @starts_at and e.occurred_at < @ends_at and e.name = any (@names::text[])
            group by 1, 2, 3
        ) c
    ) k
) r
group by r.name, r.key, r.value;

-- name: FindDayExtent :one
select min(occurred_at)::timestamptz as first_at, max(occurred_at)::timestamptz as last_at
from events
where site_id = @site_id and occurred_at >= @starts_at and occurred_at < @ends_at
having count(*) > 0;

-- name: LockRollupSite :one
-- LockRollupSite returns how often the lock was taken.
insert into rollup_sites (site_id, generation) values (@site_id, 1)
on conflict (site_id) do update set generation = rollup_sites.generation + 1
returning generation;

-- name: FindRollupGeneration :one
-- FindRollupGeneration returns how often the lock was taken so far.
select coalesce(max(generation), 0)::bigint from rollup_sites where site_id = @site_id;

-- name: FindLastRollupLabel :one
-- FindLastRollupLabel is for who has the lock.
select last_label from rollup_sites where site_id = @site_id;

-- name: SetLastRollupLabel :exec
update rollup_sites set last_label = @last_label where site_id = @site_id;

-- name: InsertRollupLabels :exec
insert into rollup_labels (site_id, id, digest, label, value, open_day)
select @site_id, n.id, n.digest, n.label, n.value, sqlc.narg('open_day')
from (
    select unnest(@ids::bigint[]) as id, unnest(@digests::bytea[]) as digest,
           unnest(@labels::text[]) as label, unnest(@values::text[]) as value
) n;

-- name: SetLabelsOpenDay :exec
update rollup_labels set open_day = sqlc.narg('open_day') where site_id = @site_id and id = any (@ids::bigint[]);

-- name: DeleteOpenLabels :execrows
-- DeleteOpenLabels removes labels that came with days that are all sealed, and that nothing
-- sealed has: those of before a day, up to which all are. For who holds the site.
delete from rollup_labels l using (
    select x.id from rollup_labels x where x.site_id = @site_id and x.open_day < @before order by x.open_day, x.id limit @max_rows
) gone
where l.site_id = @site_id and l.id = gone.id;

-- name: HoldRollupSite :one
-- HoldRollupSite takes the lock as LockRollupSite does, for who changes nothing that a fold
-- has read.
select last_label from rollup_sites where site_id = @site_id for update;

-- name: FindUnsealedDays :one
-- FindUnsealedDays returns the first and the last day that isn't sealed; without any the
-- first is infinitely late, and the last as early as can be.
select coalesce(min(day), '9999-12-31')::date as first_day, coalesce(max(day), '0001-01-01')::date as last_day
from site_days
where site_id = @site_id and state <> 'sealed';

-- name: ListSealedDays :many
select day, sealed_at, packed from site_days where site_id = @site_id and state = 'sealed';

-- name: ListSitesToTrimLabels :many
-- ListSitesToTrimLabels returns the sites whose labels were not looked through since then,
-- those that wait longest first.
select site_id from rollup_sites
where labels_trimmed_at is null or labels_trimmed_at < @before
order by labels_trimmed_at nulls first, site_id
limit @max_rows;

-- name: SetLabelsTrimmed :exec
update rollup_sites set labels_trimmed_at = @now where site_id = @site_id;

-- name: ListColumnParts :many
select distinct part from rollup_columns where site_id = @site_id;

-- name: ListKeptLabels :many
-- ListKeptLabels returns labels that are there for good, in order.
select id from rollup_labels
where site_id = @site_id and id > @after and id <= @last_id and open_day is null
order by id
limit @max_rows;

-- name: FindLabelOrder :many
-- FindLabelOrder returns a part of the order of an open day's labels, if there is one.
select counts from rollup_counts
where site_id = @site_id and dimension = @dimension and part = @part and level = 0 and first_day = @day;

-- name: LockSiteDay :one
-- LockSiteDay waits for all who write into the day.
select day, starts_at, ends_at, state, packed, trimmed from site_days
where site_id = @site_id and day = @day
for update;

-- name: ListDaysToRebuild :many
-- ListDaysToRebuild returns the days whose events are all there.
select day, state from site_days
where site_id = @site_id and not trimmed
order by day;

-- name: MarkDayStale :exec
-- MarkDayStale lets all visitors of an open day be folded anew.
update session_heads set stale = true
where site_id = @site_id and day = @day and not stale;

-- name: FindSiteDay :one
select day, starts_at, ends_at, state from site_days
where site_id = @site_id and day = @day;

-- name: ShareSiteDays :many
-- ShareSiteDays keeps days from being sealed until the transaction ends.
select d.site_id, d.day, d.state, d.trimmed
from (select unnest(@site_ids::uuid[]) as site_id, unnest(@days::date[]) as day) k
join site_days d using (site_id, day)
order by d.site_id, d.day
for key share of d;

-- name: MarkSiteDaysDirty :exec
-- MarkSiteDaysDirty waits only for others who do the same, never for those who
-- share a day, so that two who share it can't wait for each other.
with late as (
    select d.site_id, d.day
    from (select unnest(@site_ids::uuid[]) as site_id, unnest(@days::date[]) as day) k
    join site_days d using (site_id, day)
    where d.state = 'sealed' and not d.trimmed
    order by d.site_id, d.day
    for no key update of d
)
update site_days d set state = 'dirty', packed = false
from late
where d.site_id = late.site_id and d.day = late.day;

-- name: SetSiteDaySealed :exec
update site_days set state = 'sealed', packed = true, sealed_at = @now where site_id = @site_id and day = @day;

-- name: SetSiteDayPacked :exec
update site_days set packed = true where site_id = @site_id and day = @day and state = 'sealed' and not trimmed;

-- name: ListUnsealedDays :many
-- ListUnsealedDays returns the days that are to be sealed, the longest ended first.
select site_id, day from site_days
where state <> 'sealed' and ends_at < @ended_before
order by ends_at, site_id
limit @max_rows;

-- name: ListUnpackedDays :many
-- ListUnpackedDays returns days that were sealed without columns, the newest first.
select site_id, day from site_days
where state = 'sealed' and not packed and not trimmed
order by ends_at desc, site_id
limit @max_rows;

-- name: ListDaysToFold :many
-- ListDaysToFold returns open days with many stale visitors, and such as have
-- ended with any.
select h.site_id, h.day
from session_heads h
join site_days d on d.site_id = h.site_id and d.day = h.day
where h.stale and d.state = 'open' and d.ends_at >= @ended_after
group by h.site_id, h.day, d.ends_at
having count(*) >= case when d.ends_at < @now then 1 else @least::int end
order by d.ends_at desc, h.site_id
limit @max_rows;

-- name: ListVisitorsToFold :many
select visitor, edition from session_heads
where site_id = @site_id and day = @day and stale and visitor > @after
order by visitor
limit @max_rows;

-- name: HoldVisitors :many
-- HoldVisitors locks those whom nobody is writing just now.
select visitor, edition from session_heads
where site_id = @site_id and day = @day and visitor = any (@visitors::bigint[])
for no key update skip locked;

-- name: ClearStaleVisitors :exec
update session_heads set stale = false
where site_id = @site_id and day = @day and visitor = any (@visitors::bigint[]);

-- name: ClearStaleDay :exec
update session_heads set stale = false
where site_id = @site_id and day = @day and stale;

-- name: SaveRollupDay :exec
insert into rollup_days (site_id, day, first_at, last_at, pageviews, visitors, sessions, bounces, duration_us)
values (@site_id, @day, @first_at, @last_at, @pageviews, @visitors, @sessions, @bounces, @duration_us)
on conflict (site_id, day) do update set
    first_at = excluded.first_at, last_at = excluded.last_at, pageviews = excluded.pageviews, visitors = excluded.visitors,
    sessions = excluded.sessions, bounces = excluded.bounces, duration_us = excluded.duration_us;

-- name: SaveRollupHours :exec
insert into rollup_hours (site_id, day, starts_at, pageviews, visitors)
select @site_id, @day, n.starts_at, n.pageviews, n.visitors
from (
    select unnest(@starts::timestamptz[]) as starts_at, unnest(@pageviews::bigint[]) as pageviews, unnest(@visitors::bigint[]) as visitors
) n
on conflict (site_id, day, starts_at) do update set pageviews = excluded.pageviews, visitors = excluded.visitors;

-- name: SaveRollupCounts :exec
insert into rollup_counts (site_id, dimension, part, level, first_day, counts)
select @site_id, n.dimension, n.part, @level, @first_day, n.counts
from (select unnest(@dimensions::text[]) as dimension, unnest(@parts::bigint[]) as part, unnest(@counts::bytea[]) as counts) n
on conflict (site_id, dimension, part, level, first_day) do update set counts = excluded.counts;

-- name: SaveVisitorPortions :exec
insert into rollup_visitors (site_id, day, visitor, portion, sessions)
select @site_id, @day, n.visitor, n.portion, n.sessions
from (select unnest(@visitors::bigint[]) as visitor, unnest(@portions::bytea[]) as portion, unnest(@sessions::bytea[]) as sessions) n
on conflict (site_id, day, visitor) do update set portion = excluded.portion, sessions = excluded.sessions;

-- name: SaveRollupColumns :exec
insert into rollup_columns (site_id, day, block, part, packed)
select @site_id, @day, @block, n.part, n.packed
from (select unnest(@parts::text[]) as part, unnest(@packed::bytea[]) as packed) n;

-- name: DeleteRollupColumns :exec
delete from rollup_columns where site_id = @site_id and day = @day;

-- name: FindMatchingLabels :many
-- FindMatchingLabels returns the labels, other than properties, that are like one of the patterns.
select id from rollup_labels where site_id = @site_id and value = '' and label like any (@patterns::text[])
limit @max_rows;

-- name: FindMatchingProps :many
-- FindMatchingProps returns a property's pairs whose value is like one of the patterns, and not empty.
select id from rollup_labels where site_id = @site_id and label = @key and value <> '' and value like any (@patterns::text[])
limit @max_rows;

-- name: ListBlockCounts :many
-- ListBlockCounts returns all dimensions of the rollups of one level in a stretch.
select dimension, part, first_day, counts
from rollup_counts
where site_id = @site_id and level = @level and first_day between @first_day and @last_day
order by dimension, part, first_day;

-- name: CountDaysNotSealed :one
select count(*) from site_days
where site_id = @site_id and day between @first_day and @last_day and state <> 'sealed';

-- name: ListDays :many
select day from site_days
where site_id = @site_id and day between @first_day and @last_day
order by day;

-- name: InsertRollupBlock :exec
insert into rollup_blocks (site_id, level, first_day) values (@site_id, @level, @first_day);

-- name: DeleteRollupBlocks :exec
-- DeleteRollupBlocks removes the blocks that begin on the given days, each of its level.
delete from rollup_blocks b
using (select unnest(@levels::smallint[]) as level, unnest(@first_days::date[]) as first_day) gone
where b.site_id = @site_id and b.level = gone.level and b.first_day = gone.first_day;

-- name: DeleteRollupCounts :exec
delete from rollup_counts c
using (select unnest(@levels::smallint[]) as level, unnest(@first_days::date[]) as first_day) gone
where c.site_id = @site_id and c.level = gone.level and c.first_day = gone.first_day;

-- name: DeleteRollupHours :exec
delete from rollup_hours where site_id = @site_id and day = @day;

-- name: DeleteRollupDay :exec
delete from rollup_days where site_id = @site_id and day = @day;

-- name: DeleteRollupVisitors :exec
delete from rollup_visitors where site_id = @site_id and day = @day;
