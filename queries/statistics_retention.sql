-- The end of raw data: statistics_life in the migrations, docs/statistics.md.

-- name: ListRetentions :many
-- ListRetentions returns for how long the raw data of each site stays, 0 for ever, where it
-- begins, and up to where it is deleted.
select s.id, coalesce(s.retention_months, @instance_months)::int as months, r.raw_from, r.cleared_to
from sites s
left join site_retention r on r.site_id = s.id
where s.deleted_at is null
order by s.id;

-- name: FindSiteRetention :one
select raw_from, cleared_to from site_retention where site_id = @site_id;

-- name: LockDaysToTrim :many
-- LockDaysToTrim waits for all who write into these days.
select day, starts_at, state, sealed_at from site_days
where site_id = @site_id and starts_at < @before and not trimmed
order by day
for update;

-- name: SaveRetention :exec
insert into site_retention (site_id, raw_from) values (@site_id, @raw_from)
on conflict (site_id) do update set raw_from = greatest(site_retention.raw_from, excluded.raw_from);

-- name: TrimSiteDays :execrows
update site_days set trimmed = true where site_id = @site_id and starts_at < @before and not trimmed;

-- name: FindFirstRawDay :one
-- FindFirstRawDay returns the first day after those that are trimmed.
select (max(day) + 1)::date from site_days where site_id = @site_id and trimmed having max(day) is not null;

-- name: ListEventsMonths :many
-- ListEventsMonths returns the months that events have a partition for.
select events_months()::date;

-- name: DropEventsMonth :one
select drop_events_month(@instant)::boolean;

-- name: TrimEvents :execrows
delete from events e using (
    select x.occurred_at, x.id from events x
    where x.site_id = @site_id and x.occurred_at < @before
    order by x.occurred_at, x.id
    limit @max_rows
) gone
where e.site_id = @site_id and e.occurred_at = gone.occurred_at and e.id = gone.id and e.occurred_at < @before;

-- name: TrimSessions :execrows
delete from sessions s using (
    select x.day, x.id from sessions x where x.site_id = @site_id and x.day < @before order by x.day, x.id limit @max_rows
) gone
where s.site_id = @site_id and s.day = gone.day and s.id = gone.id;

-- name: TrimRollupColumns :execrows
delete from rollup_columns c using (
    select x.day, x.block, x.part from rollup_columns x where x.site_id = @site_id and x.day < @before order by x.day, x.block, x.part limit @max_rows
) gone
where c.site_id = @site_id and c.day = gone.day and c.block = gone.block and c.part = gone.part;

-- name: TrimSessionHeads :execrows
delete from session_heads h using (
    select x.day, x.visitor from session_heads x where x.site_id = @site_id and x.day < @before order by x.day, x.visitor limit @max_rows
) gone
where h.site_id = @site_id and h.day = gone.day and h.visitor = gone.visitor;

-- name: TrimImportedLines :execrows
-- TrimImportedLines deletes lines from before a date, of those in a slice of hashes.
delete from imported_lines
where site_id = @site_id and line_sha256 >= @first_hash::bytea and line_sha256 < @end_hash::bytea and line_on < @before;

-- name: TrimEventIDs :execrows
-- TrimEventIDs deletes ids that arrived before a date, of those in a slice.
delete from reported_events
where site_id = @site_id and event_digest >= @first_digest::bytea and event_digest < @end_digest::bytea and claimed_on < @before;

-- name: TrimImports :exec
-- TrimImports forgets imports of which nothing is left to undo.
delete from imports where site_id = @site_id and state <> 'running' and coalesce(last_at, began_at) < @before;

-- name: TrimImportSecrets :exec
-- TrimImportSecrets forgets months before one, of which lines are too late, with the secrets
-- that they had.
delete from site_import_secrets where site_id = @site_id and coalesce(until, month) < @before::date;

-- name: SaveCleared :exec
update site_retention set cleared_to = @cleared_to where site_id = @site_id;
