-- What is written otherwise where the tables of the statistics are sharded by site (Citus):
-- each statement names its one site as a scalar, so that one shard carries it out. An
-- insert of many rows starts from a row that its transaction keeps, since Citus would
-- draw rows of no table through the coordinator; and no shard has a sequence.

-- name: ShareShardDays :many
-- ShareShardDays is ShareSiteDays.
select site_id, day, state, trimmed from site_days
where site_id = @site_id and day = any (@days::date[])
order by day
for key share;

-- name: MarkShardDaysDirty :exec
-- MarkShardDaysDirty is MarkSiteDaysDirty; sharded tables have no trigger that unpacks.
update site_days d set state = 'dirty', packed = false
from (
    select x.day from site_days x
    where x.site_id = @site_id and x.day = any (@days::date[]) and x.state = 'sealed' and not x.trimmed
    order by x.day
    for no key update
) late
where d.site_id = @site_id and d.day = late.day;

-- name: InsertShardDay :exec
-- InsertShardDay is InsertSiteDays for one day, and not for the retention to be asked.
insert into site_days (site_id, day, starts_at, ends_at, salt_key, salt_box)
values (@site_id, @day, @starts_at, @ends_at, nullif(@salt_key::text, ''), nullif(@salt_box::bytea, ''::bytea))
on conflict (site_id, day) do nothing;

-- name: DrawEventIDs :many
select nextval('events_id_seq')::bigint from generate_series(1, @count::int);

-- name: UpdateShardHeads :exec
-- UpdateShardHeads is UpdateSessionHeads. It names the keys twice, for the planner of a
-- worker, which has no statistics of a fresh site.
update session_heads h set session_id = n.session_id, last_at = n.last_at, stale = true, edition = h.edition + 1
from (
    select unnest(@days::date[]) as day, unnest(@visitors::bigint[]) as visitor,
           unnest(@session_ids::bigint[]) as session_id, unnest(@last_ats::timestamptz[]) as last_at
) n
where h.site_id = @site_id and h.day = n.day and h.visitor = n.visitor
  and h.day = any (@days::date[]) and h.visitor = any (@visitors::bigint[]);

-- name: ExtendShardSessions :exec
-- ExtendShardSessions is ExtendSessions, with the keys named twice as above.
update sessions s set
    last_at = n.last_at, pageviews = s.pageviews + n.pageviews, events = s.events + n.events,
    entry_at = case when s.pageviews = 0 and n.pageviews > 0 then n.entry_at else s.entry_at end,
    entry_path = case when s.pageviews = 0 and n.pageviews > 0 then n.entry_path else s.entry_path end,
    exit_at = case when n.pageviews > 0 then n.exit_at else s.exit_at end,
    exit_path = case when n.pageviews > 0 then n.exit_path else s.exit_path end
from (
    select unnest(@days::date[]) as day, unnest(@ids::bigint[]) as id, unnest(@visitors::bigint[]) as visitor,
           unnest(@last_ats::timestamptz[]) as last_at, unnest(@pageviews::int[]) as pageviews, unnest(@events::int[]) as events,
           unnest(@entry_ats::timestamptz[]) as entry_at, unnest(@entry_paths::text[]) as entry_path,
           unnest(@exit_ats::timestamptz[]) as exit_at, unnest(@exit_paths::text[]) as exit_path
) n
where s.site_id = @site_id and s.day = n.day and s.id = n.id and s.visitor = n.visitor
  and s.day = any (@days::date[]) and s.id = any (@ids::bigint[]);

-- name: DeleteShardSessions :exec
delete from sessions where site_id = @site_id and day = any (@days::date[]) and id = any (@ids::bigint[]);

-- name: InsertShardEvents :exec
-- InsertShardEvents is InsertEvents for a transaction that shares the site's day held_day.
insert into events (site_id, occurred_at, id, day, visitor, session_id, path, hostname, name, props, import_run, origin)
select d.site_id, n.occurred_at, n.id, n.day, n.visitor, n.session_id, n.path, nullif(n.hostname, ''), nullif(n.name, ''), nullif(n.props, '')::jsonb,
       nullif(n.import_run, 0), nullif(n.origin, '')::jsonb
from site_days d
cross join (
    select unnest(@occurred_ats::timestamptz[]) as occurred_at, unnest(@ids::bigint[]) as id,
           unnest(@days::date[]) as day, unnest(@visitors::bigint[]) as visitor,
           unnest(@session_ids::bigint[]) as session_id, unnest(@paths::text[]) as path,
           unnest(@hostnames::text[]) as hostname, unnest(@names::text[]) as name, unnest(@props::text[]) as props,
           unnest(@import_runs::bigint[]) as import_run, unnest(@origins::text[]) as origin
) n
where d.site_id = @site_id and d.day = @held_day;

-- name: ShardEventExists :one
select exists (select 1 from events where site_id = @site_id and occurred_at = @occurred_at and id = @id);

-- name: ClaimShardReportedEvents :many
-- ClaimShardReportedEvents is ClaimReportedEvents for a transaction that shares the site's
-- day held_day.
insert into reported_events (site_id, event_digest, added_by, claimed_on)
select h.site_id, d.digest, nullif(@import_run::bigint, 0), @claimed_on::date
from site_days h
cross join (select unnest(@digests::bytea[]) as digest) d
where h.site_id = @site_id and h.day = @held_day
order by d.digest
on conflict (site_id, event_digest) do nothing
returning event_digest;

-- name: AddShardDrop :exec
insert into site_drops (site_id, day, reason, count) values (@site_id, @day, @reason, @count)
on conflict (site_id, day, reason) do update set count = site_drops.count + excluded.count;

-- name: TouchShardImportedLines :exec
-- TouchShardImportedLines is TouchImportedLines, with the lines named twice as above.
update imported_lines l set run = @run
from (select unnest(@lines::bytea[]) as line_sha256, unnest(@ordinals::int[]) as ordinal) seen
where l.site_id = @site_id and l.line_sha256 = seen.line_sha256 and l.ordinal = seen.ordinal
  and l.line_sha256 = any (@lines::bytea[]);

-- name: InsertShardImportedLines :exec
-- InsertShardImportedLines is InsertImportedLines for who holds the site's import.
insert into imported_lines (site_id, line_sha256, ordinal, run, added_by, line_on)
select i.site_id, n.line_sha256, n.ordinal, i.run, i.run, n.line_on
from site_imports i
cross join (select unnest(@lines::bytea[]) as line_sha256, unnest(@ordinals::int[]) as ordinal, unnest(@dates::date[]) as line_on) n
where i.site_id = @site_id and i.run = @run
order by n.line_sha256, n.ordinal;

-- name: ListSitesToVisit :many
-- ListSitesToVisit returns the sites that are asked one by one while a server of a cluster
-- is away.
select id from sites order by id;

-- name: ListShardDaysToFold :many
-- ListShardDaysToFold is ListDaysToFold for one site.
select h.site_id, h.day
from session_heads h
join site_days d on d.site_id = h.site_id and d.day = h.day
where h.site_id = @site_id and d.site_id = @site_id and h.stale and d.state = 'open' and d.ends_at >= @ended_after
group by h.site_id, h.day, d.ends_at
having count(*) >= case when d.ends_at < @now then 1 else @least::int end
order by d.ends_at desc
limit @max_rows;

-- name: ClearShardDaySalts :execrows
-- ClearShardDaySalts is ClearSiteDaySalts for one site.
update site_days set salt = null, salt_key = null, salt_box = null
where site_id = @site_id and (salt is not null or salt_box is not null) and ends_at < @ended_before;
