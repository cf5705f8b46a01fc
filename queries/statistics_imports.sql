-- Imports, the secrets that their visitors' numbers are made from, and their undoing.

-- name: ListImportSecrets :many
-- ListImportSecrets returns the secrets of some months, and the one for many months.
select month, key_id, box, used_on, until from site_import_secrets
where site_id = @site_id and (month = any (@months::date[]) or until is not null);

-- name: InsertImportSecret :exec
insert into site_import_secrets (site_id, month, key_id, box, used_on)
values (@site_id, @month, @key_id, @box, @used_on)
on conflict (site_id, month) do nothing;

-- name: RenewImportSecret :exec
-- RenewImportSecret gives a month whose secret was destroyed another.
update site_import_secrets set key_id = @key_id, box = @box, used_on = @used_on
where site_id = @site_id and month = @month and box is null;

-- name: TouchImportSecrets :exec
with used as (
    select month from site_import_secrets
    where site_id = @site_id and month = any (@months::date[]) and used_on < @used_on
    order by month
    for no key update
)
update site_import_secrets s set used_on = @used_on
from used
where s.site_id = @site_id and s.month = used.month;

-- name: DestroyImportSecrets :execrows
-- DestroyImportSecrets destroys what nobody used since then.
update site_import_secrets set key_id = null, box = null
where box is not null and used_on < @used_before;

-- name: ForgetImportSecrets :exec
update site_import_secrets set key_id = null, box = null where site_id = @site_id;

-- name: ForgetPlainImportSecret :one
update sites set import_secret = null where id = @id and deleted_at is null
returning id;

-- name: ListPlainImportSecrets :many
select id, import_secret from sites where import_secret is not null order by id limit @max_rows;

-- name: TakePlainImportSecret :execrows
update sites set import_secret = null where id = @id and import_secret is not null;

-- name: SealPlainImportSecret :exec
-- SealPlainImportSecret keeps the one secret that a site had before for the months up to
-- until, if it ever imported anything.
insert into site_import_secrets (site_id, month, key_id, box, used_on, until)
select l.site_id, '0001-01-01'::date, @key_id, @box::bytea, @used_on, @until
from imported_lines l
where l.site_id = @site_id
limit 1
on conflict (site_id, month) do nothing;

-- name: ListImportSecretsToSeal :many
-- ListImportSecretsToSeal returns those that are sealed under another key.
select site_id, month, key_id, box from site_import_secrets
where box is not null and key_id <> @key_id
order by site_id, month
limit @max_rows;

-- name: ResealImportSecret :exec
update site_import_secrets set key_id = @key_id, box = @box
where site_id = @site_id and month = @month and box = @former_box;

-- name: InsertImport :exec
insert into imports (site_id, run, id, format, name, state, began_at)
values (@site_id, @run, @id, @format, @name, 'running', @began_at);

-- name: AddToImport :exec
update imports set lines = lines + @lines, imported = imported + @imported,
    first_at = least(first_at, @first_at), last_at = greatest(last_at, @last_at)
where site_id = @site_id and run = @run;

-- name: EndImport :exec
update imports set state = @state, ended_at = @ended_at, lines = greatest(lines, @lines)
where site_id = @site_id and run = @run and state = @former_state;

-- name: InterruptImports :exec
-- InterruptImports is for who takes a site over.
update imports set state = 'interrupted' where site_id = @site_id and state = 'running';

-- name: ListImports :many
-- ListImports returns those behind a position, newest first; the nil UUID asks for all sites'.
select * from imports
where (@site_id::uuid = '00000000-0000-0000-0000-000000000000' or site_id = @site_id) and (began_at, id) < (@before_at::timestamptz, @before_id::uuid)
order by began_at desc, id desc
limit @max_rows;

-- name: FindImport :one
select * from imports where id = @id;

-- name: ClaimImportUndo :one
-- ClaimImportUndo begins the undoing of an import, or goes on with it.
update imports set state = 'undoing' where site_id = @site_id and run = @run and state <> 'undone'
returning *;

-- name: ListDaysBetween :many
-- ListDaysBetween returns the days that have a part between two instants inclusive.
select day, starts_at, ends_at, trimmed from site_days
where site_id = @site_id and ends_at > @first_at and starts_at <= @last_at
order by day;

-- name: ListImportedVisitors :many
-- ListImportedVisitors returns visitors of a day who have events of an import.
select distinct visitor from events
where site_id = @site_id and occurred_at >= @starts_at and occurred_at < @ends_at and import_run = @import_run
limit @max_rows;

-- name: LockVisitors :exec
-- LockVisitors locks visitors of a day, in key order.
select from session_heads
where site_id = @site_id and day = @day and visitor = any (@visitors::bigint[])
order by visitor
for update;

-- name: ListVisitorEvents :many
-- ListVisitorEvents returns what visitors of a day did, in order.
select visitor, occurred_at, session_id, path, hostname, name, props, coalesce(import_run, 0)::bigint as import_run, origin from events
where site_id = @site_id and occurred_at >= @starts_at and occurred_at < @ends_at and day = @day and visitor = any (@visitors::bigint[])
order by visitor, occurred_at, id;

-- name: DeleteVisitorEvents :exec
delete from events
where site_id = @site_id and occurred_at >= @starts_at and occurred_at < @ends_at and day = @day and visitor = any (@visitors::bigint[]);

-- name: DeleteVisitorSessions :exec
delete from sessions where site_id = @site_id and day = @day and visitor = any (@visitors::bigint[]);

-- name: DeleteVisitorHeads :exec
delete from session_heads where site_id = @site_id and day = @day and visitor = any (@visitors::bigint[]);

-- name: MarkSiteDayDirty :exec
-- MarkSiteDayDirty has a day read from its events until it is sealed anew.
update site_days set state = 'dirty', packed = false where site_id = @site_id and day = @day and state <> 'dirty' and not trimmed;

-- name: DeleteImportLines :exec
-- DeleteImportLines makes lines of an import unknown, of those in a slice of hashes.
delete from imported_lines
where site_id = @site_id and line_sha256 >= @first_hash::bytea and line_sha256 < @end_hash::bytea and added_by = @import_run::bigint;

-- name: DeleteImportEventIDs :exec
-- DeleteImportEventIDs makes ids of an import's events unknown, of those in a slice.
delete from reported_events
where site_id = @site_id and event_digest >= @first_digest::bytea and event_digest < @end_digest::bytea and added_by = @import_run::bigint;
