-- The write side of site statistics. Rows come as arrays of equal length.

-- name: ShareCalendar :exec
-- ShareCalendar is for who makes site days: nobody then ends raw data before they are there.
select pg_advisory_xact_lock_shared(hashtext('site_days'));

-- name: HoldCalendar :exec
-- HoldCalendar waits for who makes site days.
select pg_advisory_xact_lock(hashtext('site_days'));

-- name: InsertSiteDays :exec
-- InsertSiteDays makes the days that are missing, but none whose raw data would be gone;
-- an empty box is for a day whose salt is over.
insert into site_days (site_id, day, starts_at, ends_at, salt_key, salt_box)
select @site_id, d.day, d.starts_at, d.ends_at, nullif(d.salt_key, ''), nullif(d.salt_box, ''::bytea)
from (
    select unnest(@days::date[]) as day, unnest(@starts::timestamptz[]) as starts_at, unnest(@ends::timestamptz[]) as ends_at,
           unnest(@salt_keys::text[]) as salt_key, unnest(@salt_boxes::bytea[]) as salt_box
) d
where not exists (select from site_retention r where r.site_id = @site_id and d.starts_at < r.raw_from)
order by d.day
on conflict (site_id, day) do nothing;

-- name: ListSiteDaySalts :many
select day, starts_at, ends_at, trimmed, salt, salt_key, salt_box
from site_days
where site_id = @site_id and day between @first_day and @last_day
order by day;

-- name: ReplaceSiteDaySalt :exec
-- ReplaceSiteDaySalt gives a day a salt in place of the one that it has, or of none.
update site_days set salt_key = @salt_key, salt_box = @salt_box, salt = null
where site_id = @site_id and day = @day and salt is not distinct from @former_salt and salt_box is not distinct from @former_box;

-- name: ClearSiteDaySalts :execrows
update site_days set salt = null, salt_key = null, salt_box = null
where (salt is not null or salt_box is not null) and ends_at < @ended_before;

-- name: ListSaltsToSeal :many
-- ListSaltsToSeal returns salts that are plain, or sealed under another key.
select site_id, day, salt, salt_key, salt_box from site_days
where salt is not null or salt_box is not null and salt_key <> @key_id
order by site_id, day
limit @max_rows;

-- name: EnsureEventsMonth :exec
select ensure_events_month(@instant);

-- name: NextSessionIDs :many
select nextval('sessions_id_seq')::bigint from generate_series(1, @count::int);

-- name: UpdateSessionHeads :exec
update session_heads h set session_id = n.session_id, last_at = n.last_at, stale = true, edition = h.edition + 1
from (
    select unnest(@site_ids::uuid[]) as site_id, unnest(@days::date[]) as day, unnest(@visitors::bigint[]) as visitor,
           unnest(@session_ids::bigint[]) as session_id, unnest(@last_ats::timestamptz[]) as last_at
) n
where h.site_id = n.site_id and h.day = n.day and h.visitor = n.visitor;

-- name: ExtendSessions :exec
-- ExtendSessions adds to sessions what happened after everything that they hold.
-- The visitor is compared too: without statistics, PostgreSQL may look a session up
-- in the visitors' index.
update sessions s set
    last_at = n.last_at, pageviews = s.pageviews + n.pageviews, events = s.events + n.events,
    entry_at = case when s.pageviews = 0 and n.pageviews > 0 then n.entry_at else s.entry_at end,
    entry_path = case when s.pageviews = 0 and n.pageviews > 0 then n.entry_path else s.entry_path end,
    exit_at = case when n.pageviews > 0 then n.exit_at else s.exit_at end,
    exit_path = case when n.pageviews > 0 then n.exit_path else s.exit_path end
from (
    select unnest(@site_ids::uuid[]) as site_id, unnest(@days::date[]) as day, unnest(@ids::bigint[]) as id,
           unnest(@visitors::bigint[]) as visitor,
           unnest(@last_ats::timestamptz[]) as last_at, unnest(@pageviews::int[]) as pageviews, unnest(@events::int[]) as events,
           unnest(@entry_ats::timestamptz[]) as entry_at, unnest(@entry_paths::text[]) as entry_path,
           unnest(@exit_ats::timestamptz[]) as exit_at, unnest(@exit_paths::text[]) as exit_path
) n
where s.site_id = n.site_id and s.day = n.day and s.id = n.id and s.visitor = n.visitor;

-- name: DeleteSessions :exec
delete from sessions s
using (
    select unnest(@site_ids::uuid[]) as site_id, unnest(@days::date[]) as day, unnest(@ids::bigint[]) as id
) gone
where s.site_id = gone.site_id and s.day = gone.day and s.id = gone.id;

-- name: MoveEvents :exec
-- MoveEvents gives the events of one session, which are between two instants
-- inclusive, to another.
update events set session_id = @to_session
where site_id = @site_id and day = @day and session_id = @from_session
  and occurred_at between @first_at and @last_at;

-- name: CopyEvents :copyfrom
-- CopyEvents leaves the ids to the sequence, so that they count in the order of rows.
insert into events (site_id, occurred_at, day, visitor, session_id, path, hostname, name, props, import_run, origin)
values (@site_id, @occurred_at, @day, @visitor, @session_id, @path, @hostname, @name, @props, @import_run, @origin);

-- name: InsertEvents :exec
-- InsertEvents is CopyEvents for few rows: slower for each, without COPY's round
-- trips. An empty hostname, name, props or origin, and import 0, stand for none.
insert into events (site_id, occurred_at, day, visitor, session_id, path, hostname, name, props, import_run, origin)
select n.site_id, n.occurred_at, n.day, n.visitor, n.session_id, n.path, nullif(n.hostname, ''), nullif(n.name, ''), nullif(n.props, '')::jsonb,
       nullif(n.import_run, 0), nullif(n.origin, '')::jsonb
from (
    select unnest(@site_ids::uuid[]) as site_id, unnest(@occurred_ats::timestamptz[]) as occurred_at,
           unnest(@days::date[]) as day, unnest(@visitors::bigint[]) as visitor,
           unnest(@session_ids::bigint[]) as session_id, unnest(@paths::text[]) as path,
           unnest(@hostnames::text[]) as hostname, unnest(@names::text[]) as name, unnest(@props::text[]) as props,
           unnest(@import_runs::bigint[]) as import_run, unnest(@origins::text[]) as origin
) n;

-- name: BeginSiteImport :one
insert into site_imports (site_id, run) values (@site_id, 1)
on conflict (site_id) do update set run = site_imports.run + 1
returning run;

-- name: LockSiteImport :one
-- LockSiteImport returns no row when a newer import has taken over. The lanes of one
-- import share the lock; a newer one waits for them.
select run from site_imports where site_id = @site_id and run = @run
for share;

-- name: ListImportedLines :many
-- ListImportedLines looks each line up by itself ("offset 0" keeps PostgreSQL from
-- turning that around): planned while the table is small, it would otherwise read
-- all of a site's lines for every batch.
select k.line::bytea as line_sha256, l.ordinal, l.run
from (select distinct unnest(@lines::bytea[]) as line) k
cross join lateral (
    select i.ordinal, i.run from imported_lines i where i.site_id = @site_id and i.line_sha256 = k.line offset 0
) l
order by 1, 2;

-- name: TouchImportedLines :exec
update imported_lines l set run = @run
from (select unnest(@lines::bytea[]) as line_sha256, unnest(@ordinals::int[]) as ordinal) seen
where l.site_id = @site_id and l.line_sha256 = seen.line_sha256 and l.ordinal = seen.ordinal;

-- name: InsertImportedLines :exec
-- InsertImportedLines goes in the index's order, so that neighbours share its pages.
insert into imported_lines (site_id, line_sha256, ordinal, run, added_by, line_on)
select @site_id, n.line_sha256, n.ordinal, @run, @run, n.line_on
from (select unnest(@lines::bytea[]) as line_sha256, unnest(@ordinals::int[]) as ordinal, unnest(@dates::date[]) as line_on) n
order by n.line_sha256, n.ordinal;
